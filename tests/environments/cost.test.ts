/** No action, however long and however written, costs an environment more than it should. */
import { describe, expect, it } from "vitest";
import { type EnvironmentSpec, ENVIRONMENTS } from "../../environments/index.ts";
import { riddles, taskWorld } from "../../environments/riddle/index.ts";
import { proposingTask, type Riddle } from "../../environments/riddle/riddle.ts";
import { COMMANDS } from "../../environments/terminal/commands.ts";
import { Rng } from "../../engine/random.ts";
import { FileSystem } from "../../environments/terminal/filesystem.ts";
import { MAX_LINE, runLine } from "../../environments/terminal/shell.ts";
import { expectBounded, HOSTILE, SIZES } from "../support/cost.ts";
import { tried } from "../support/tried.ts";

/** Worlds that have no name on the command line. */
const riddle: Riddle = { kind: "deduction", program: "x*2", inputs: [3], outputs: [6] };
const PROPOSALS = (["deduction", "abduction", "induction"] as const).map((kind): EnvironmentSpec => {
  const plan = [kind === "induction" ? "propose 1 2 3 4" : "propose x+1 for 2"];
  return { ...taskWorld(proposingTask(kind, [riddle], plan)), name: `riddle to be proposed, ${kind}` };
});

/** The first words of what is said in a world: by its expert, by chance, and all commands of the shell. */
async function verbsOf(spec: EnvironmentSpec): Promise<ReadonlySet<string>> {
  const [rng, verbs] = [new Rng(2), new Set([""])];
  const add = (action: string): void => void verbs.add(`${action.split(/\s/, 1)[0]} `);
  for (let seed = 0; seed < 3; seed++) {
    const env = spec.make();
    const task = await env.reset(seed);
    for (let i = 0; i < 20; i++) add(spec.random(rng, task));
    for (let done = false; !done;) {
      const action = spec.expert!(env);
      add(action);
      ({ done } = await env.step(action));
    }
  }
  if (spec.name === "terminal") for (const name of Object.keys(COMMANDS)) verbs.add(`${name} `);
  return verbs;
}

describe.each([...Object.values(ENVIRONMENTS), riddles, ...PROPOSALS])("$name", (spec) => {
  it("answers hostile actions of any length", { timeout: 120_000 }, async (context) => {
    const start = spec.make();
    await start.reset(1);
    // What the shell does with a line ends at its longest; one that is longer is refused.
    const sizes = spec.name === "terminal" ? [MAX_LINE - 20, 64_000] : SIZES;
    for (const verb of await verbsOf(spec)) {
      for (const [name, text] of Object.entries(HOSTILE)) {
        await expectBounded(
          `"${verb}" with ${name} in ${spec.name}`,
          async (n) => {
            const { observation } = await start.clone!().step(verb + text(n));
            expect(typeof observation).toBe("string");
          },
          sizes,
        );
        tried(context, { actions: sizes.length });
      }
    }
  });
});

describe("a line of the shell", () => {
  /** A tree of 960 nodes and a file of 16,384 lines. */
  const wide = (): FileSystem => {
    const fs = new FileSystem();
    for (let i = 0; i < 956; i++) fs.write(`f${i}`, "");
    fs.write("nl", "\n".repeat(16_384));
    return fs;
  };
  const ranges = Array.from({ length: 600 }, (_, i) => String.fromCodePoint(0x4e00 + 3 * i, 0x2d, 0x4e00 + 3 * i + 1));
  const bracket = (): FileSystem => {
    const fs = new FileSystem();
    fs.write("wide", "\u3042".repeat(32_000));
    return fs;
  };
  it.each<[string, () => FileSystem, string]>([
    ["a write for every line in a wide tree", wide, "grep '' nl > o1"],
    ["fourteen of them", wide, Array.from({ length: 14 }, (_, i) => `grep '' nl > o${i}`).join("; ")],
    ["a bracket of 600 ranges", bracket, `grep -c '[${ranges.join("")}]' wide`],
    ["three of them", bracket, `grep -c '[${ranges.slice(0, 550).join("")}]' wide wide wide`],
    ["thirty files", bracket, `grep -c '[${ranges.join("")}]' ${"wide ".repeat(30)}`],
    ["a repeated bracket", bracket, `grep -c '[${ranges.slice(0, 500).join("")}]*x' wide`],
  ])("%s", async (what, make, line) => {
    const fs = make();
    await expectBounded(what, () => expect(runLine(line, fs).code).toBeLessThan(256), [line.length]);
  });
});
