/** The figures of the book: each chapter has one, drawn from what its cells print and from nothing else. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { chapterNames, readChapter } from "../../scripts/book/chapters.ts";
import { FIGURES } from "../../site/book/figures/all.ts";
import { type Svg, svg, svgText } from "../../site/book/svg.ts";

const printed = (name: string): string => readFileSync(`learn/output/${name}.txt`, "utf8");
const brokenOf = (name: string): string => readFileSync(`learn/output/${name}.broken.txt`, "utf8");

/** The texts of a drawing. */
const wordsIn = ({ tag, children }: Svg): string[] =>
  children.flatMap((child) => (typeof child === "string" ? (tag === "text" ? [child] : []) : wordsIn(child)));

/** All coordinates of a drawing. */
const coordinates = ({ attributes, children }: Svg): number[] => [
  ...Object.entries(attributes).flatMap(([name, value]) =>
    /^(x|y|x1|x2|y1|y2|cx|cy|width|height|r)$/.test(name)
      ? [Number(value)]
      : name === "points"
        ? String(value).split(/[ ,]/).map(Number)
        : [],
  ),
  ...children.flatMap((child) => (typeof child === "string" ? [] : coordinates(child))),
];

it("every chapter has figures, beside sections that have code, with what is to be seen", () => {
  expect(Object.keys(FIGURES)).toEqual(chapterNames());
  for (const name of chapterNames()) {
    const headings = readChapter(name).sections.flatMap(({ heading, code }) => (code === "" ? [] : [heading]));
    expect(FIGURES[name]!.length, name).toBeGreaterThan(0);
    for (const { section, about } of FIGURES[name]!) {
      expect(headings, name).toContain(section);
      expect(about.length, `${name}: ${about}`).toBeLessThan(140);
      expect(about).toMatch(/[.)]$/);
    }
  }
});

describe.each(chapterNames())("%s", (name) => {
  const figures = FIGURES[name]!;
  // Where cells are run one by one, a figure gets its own; the whole output has it in it, too.
  it("draws what the checked output says, with places that are numbers", () => {
    for (const { section, draw } of figures) {
      const drawn = draw(printed(name), printed(name))!;
      expect(drawn, section).toBeDefined();
      expect(coordinates(drawn).every(Number.isFinite), section).toBe(true);
      expect(drawn.attributes["aria-label"]).toMatch(/\S \S/);
      expect(svgText(drawn)).toMatch(/^<svg viewBox="0 0 560 /);
    }
  });

  it("draws after Break it, or says that there is nothing to draw; the same for an error and for no output", () => {
    for (const { section, draw } of figures) {
      const drawn = draw(brokenOf(name), brokenOf(name));
      expect(drawn === undefined || coordinates(drawn).every(Number.isFinite), section).toBe(true);
      for (const text of ["", "\n", "Error: no\n", "NaN NaN NaN\n", "0 0 0 0 0\n".repeat(3), "a".repeat(5000)])
        expect(draw(text, text), `${section}: ${text.slice(0, 20)}`).toBeUndefined();
    }
  });

  it("draws other numbers otherwise", () => {
    for (const { section, draw } of figures) {
      const other = printed(name).replaceAll(/\d/g, (digit) => String((Number(digit) + 3) % 10));
      const drawn = draw(other, other);
      expect(drawn === undefined ? "" : svgText(drawn), section).not.toBe(svgText(draw(printed(name), printed(name))!));
    }
  });
});

describe("what is drawn", () => {
  const drawn = (name: string, section: string): Svg =>
    FIGURES[name]!.find((figure) => figure.section === section)!.draw(printed(name), printed(name))!;

  it("of the chain rule is each value, its slope, and the slope of each step", () => {
    const words = wordsIn(drawn("00-before", "Backwards"));
    expect(words).toEqual(expect.arrayContaining(["a = 2", "b = −3", "L = 16", "slope of L: −24", "slope of L: 16"]));
    expect(words.filter((word) => word.startsWith("·")).toSorted()).toEqual(["·1", "·1", "·2", "·8", "·−3"]);
  });

  it("of attention is each share that is not 0, none for the future", () => {
    const words = wordsIn(drawn("04-transformer", "What a head looks at"));
    const shares = printed("04-transformer")
      .split("\n")
      .filter((line) => /^[>a-z] {2,}/.test(line))
      .flatMap((line) => line.slice(1).trim().split(/ +/));
    expect(shares).toHaveLength(7 + 8 + 9 + 10 + 11 + 12);
    expect(words.filter((word) => /^\d+$/.test(word))).toEqual(shares.filter((share) => share !== "0"));
  });

  it("of the sick runs is the step at which each number leaves", () => {
    const words = wordsIn(drawn("08-sick-run", "Beside the healthy run, and the doctor"));
    const steps = [...printed("08-sick-run").matchAll(/leaves at step (\d+)/g)].map(([, step]) => step!);
    expect(words.filter((word) => /^\d+$/.test(word))).toEqual(steps);
  });
});

it("text in a drawing is text", () => {
  expect(svgText(svg("text", { x: 0.26, "aria-label": '"<' }, "a < b & c"))).toBe(
    '<text x="0.3" aria-label="&quot;&lt;">a &lt; b &amp; c</text>',
  );
});
