/** Chapter 5's prose says what its cells and its ten seeds print. */
import { describe, expect, it } from "vitest";
import { readChapter } from "../../scripts/book/chapters.ts";
import { BASELINE_SEEDS } from "../../studies/baselineSeeds.ts";
import { readSource } from "../project/sources.ts";

const printed = readSource("learn/output/05-grpo.txt");
const brokenText = readSource("learn/output/05-grpo.broken.txt");
const prose = (section: string): string =>
  readChapter("05-grpo")
    .sections.find(({ heading }) => heading === section)!
    .prose.replaceAll(/\s+/g, " ");
const mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
/** The numbers of the line of an output that begins so. */
const row = (text: string, start: RegExp): number[] =>
  [
    ...text
      .split("\n")
      .find((line) => start.test(line))!
      .replace(start, "")
      .matchAll(/-?\d+(?:\.\d+)?/g),
  ].map(Number);

describe("ten seeds of chapter 5's training", () => {
  it("are in the prose as mean, least and greatest", () => {
    const said = prose("Training")
      .match(/\d+ % [^(]+\(\d+ to \d+\)/g)!
      .map((words) => words.match(/\d+/g)!.map(Number));
    expect(Object.keys(BASELINE_SEEDS)).toEqual(["none", "batch", "rloo", "grpo"]);
    expect(said).toEqual(
      Object.values(BASELINE_SEEDS).map((all) => [Math.round(mean(all)), Math.min(...all), Math.max(...all)]),
    );
  });

  it("have seed 0 as the cell trains it, and are printed below it", () => {
    for (const [name, all] of Object.entries(BASELINE_SEEDS)) {
      expect(all).toHaveLength(10);
      expect(row(printed, new RegExp(`^${name} +found, in %, by fifths of the run:`)).at(-1), name).toBe(all[0]);
      expect(row(printed, new RegExp(`^${name} +last fifth, seeds 0 to 9:`)), name).toEqual([
        ...all,
        Math.round(mean(all)),
      ]);
    }
  });
});

describe("chapter 5 says what it prints", () => {
  it("of GRPO's advantage by hand", () => {
    const [success, failure] = [0, 1]
      .map((r) => (r === 0 ? 1 : 0))
      .map((r) => {
        const [, sum] = new RegExp(`GRPO, A if R = ${r}: (.*)$`, "m").exec(printed)!;
        const [from, m, std, small, A] = sum!.match(/-?\d+(?:\.\d+)?/g)!.map(Number) as [
          number,
          number,
          number,
          number,
          number,
        ];
        expect([from, m, std, small]).toEqual([r, 0.25, 0.463, 0.0001]);
        expect((from - m) / (std + small)).toBeCloseTo(A, 2);
        return A;
      });
    expect(row(printed, /^grpo /).slice(0, 4)).toEqual([success, failure, success, failure]);
    expect(printed).toContain("mean 2 / 8 = 0.25, std √((2·0.75² + 6·0.25²) / 7) = 0.463");
    expect(Math.sqrt((2 * 0.75 ** 2 + 6 * 0.25 ** 2) / 7)).toBeCloseTo(0.463, 3);
  });

  it("of how hard groups pull, by std and without it", () => {
    const [centred, grpo] = [/^centred /, /^grpo /].map((start) => row(printed, start).slice(4)) as [
      number[],
      number[],
    ];
    const [k1, , k4] = grpo.map((pull, k) => (pull / centred[k]!).toFixed(1));
    expect(prose("Advantages")).toContain(`${k1} times as hard as \`centred\` with k = 1, ${k4} times with k = 4`);
  });

  it("of the clip: flat outside of its bounds, with slope 0 there", () => {
    const rho = row(printed, /^ρ /);
    expect(rho).toEqual(expect.arrayContaining([0.8, 1, 1.28]));
    const blocks = printed.split(/^(?=A = -?1: loss)/m).slice(1);
    for (const [k, A] of [1, -1].entries()) {
      const [losses, slopes] = [row(blocks[k]!, /^A = -?1: loss/), row(blocks[k]!, /^slope/)];
      rho.forEach((x, i) => {
        const clip = Math.min(1.28, Math.max(0.8, x));
        expect(losses[i], `A = ${A}, ρ = ${x}`).toBe(Number((-Math.min(x * A, clip * A)).toFixed(3)));
        expect(Math.abs(slopes[i]!), `A = ${A}, ρ = ${x}`).toBe((A > 0 ? x > 1.28 : x < 0.8) ? 0 : 1);
      });
    }
  });

  it("of V-trace: the library's, and GAE's targets if nothing is old", () => {
    const gae = row(printed, /^GAE: A \+ V/);
    const onPolicy = row(printed, /^π\/μ 1 1 1 1/);
    expect(onPolicy).toEqual([...gae, ...gae]);
    const old = row(printed, /^π\/μ ½ 1 2 1/);
    expect(old.slice(0, 4)).toEqual(old.slice(4));
    expect(old[0]).toBe((0.5 + 1) / 2);
  });

  it("of what Break it breaks", () => {
    const wrong = row(brokenText, /^batch /)[1]!;
    const [before, after] = [printed, brokenText].map((text) => row(text, /^grpo +found.*run:/).at(-1));
    const right = row(printed, /^batch /)[1]!;
    const batch = `it is ${wrong.toFixed(1)} instead of ${right.toFixed(2)}`;
    expect(prose("Break it")).toContain(`${batch}, and \`grpo\` ends at ${after} % instead of ${before} %`);
  });
});
