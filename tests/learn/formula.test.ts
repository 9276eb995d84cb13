/** Formulas of the chapters as MathML: the signs of the text, each in its place. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { chapterNames, exercisesOf, readChapter } from "../../scripts/book/chapters.ts";
import { parseExercises } from "../../scripts/book/exercises.ts";
import { formulaBlock } from "../../scripts/book/formula.ts";
import { chapterText } from "../../scripts/book/markdown.ts";

/** The rows of a block, without the frame that all have. */
const mathOf = (text: string): string => /<mtable>(.*)<\/mtable>/s.exec(formulaBlock(text))![1]!;
const cell = (text: string): string => /^<mtr><mtd>(.*)<\/mtd><\/mtr>$/.exec(mathOf(text))![1]!;

/** What is left of a formula if only its letters and numbers are read. */
const signs = (text: string): string => text.replaceAll(/[^\p{L}\p{N}−∂∇]/gu, "");
const read = (html: string): string =>
  html
    .replaceAll(/<[^>]*>|&nbsp;|&#x2061;/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&amp;", "&");

const blocks = chapterNames().flatMap((name) => {
  const path = exercisesOf(name);
  const texts = [
    ...readChapter(name).sections.map(({ prose }) => prose),
    ...parseExercises(readFileSync(path, "utf8"), path).map(({ task }) => task),
  ];
  return texts.flatMap((text) =>
    [...text.matchAll(/(?:^|\n\n)((?: {4}.*(?:\n|$))+)/g)].map(([, block]) =>
      block!.trimEnd().replaceAll(/^ {4}/gm, ""),
    ),
  );
});

it("the book has formulas, and each keeps all of its letters, numbers and signs", () => {
  expect(blocks.length).toBeGreaterThan(10);
  for (const block of blocks) {
    const html = formulaBlock(block);
    expect(signs(read(html).replaceAll("∑", "Σ")), block).toBe(signs(block));
    // Every element is closed, in order.
    const open: string[] = [];
    for (const [, end, tag] of html.matchAll(/<(\/?)(\w+)[^>]*>/g))
      if (end === "") open.push(tag!);
      else expect(open.pop(), block).toBe(tag);
    expect(open, block).toEqual([]);
  }
});

describe("a formula", () => {
  it("has what stands below and above where it belongs", () => {
    expect(cell("x_t")).toBe("<msub><mi>x</mi><mi>t</mi></msub>");
    expect(cell("x_<t")).toBe("<msub><mi>x</mi><mrow><mo>&lt;</mo><mi>t</mi></mrow></msub>");
    expect(cell("V_(t+1)")).toBe("<msub><mi>V</mi><mrow><mi>t</mi><mo>+</mo><mn>1</mn></mrow></msub>");
    expect(cell("π_start")).toBe("<msub><mi>π</mi><mtext>start</mtext></msub>");
    expect(cell("e^(a + 1)")).toBe("<msup><mi>e</mi><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow></msup>");
    expect(cell("Σ_x y")).toBe("<mrow><munder><mo>∑</mo><mi>x</mi></munder><mi>y</mi></mrow>");
  });

  it("divides the product before the stroke by what follows it", () => {
    expect(cell("a/b")).toBe("<mfrac><mi>a</mi><mi>b</mi></mfrac>");
    expect(cell("(a + b) / 2h")).toBe(
      "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mrow><mn>2</mn><mi>h</mi></mrow></mfrac>",
    );
    expect(cell("∂L/∂x_i")).toBe(
      "<mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo><msub><mi>x</mi><mi>i</mi></msub></mrow></mfrac>",
    );
    expect(cell("p + q·k/√D")).toBe(
      "<mrow><mi>p</mi><mo>+</mo><mfrac><mrow><mi>q</mi><mo>·</mo><mi>k</mi></mrow>" +
        "<msqrt><mi>D</mi></msqrt></mfrac></mrow>",
    );
    expect(cell("a / |O|")).toContain('<mo stretchy="false">|</mo><mi>O</mi>');
  });

  it("tells a sign from a difference, and a function from words", () => {
    expect(cell("−A")).toBe('<mrow><mo form="prefix">−</mo><mi>A</mi></mrow>');
    expect(cell("1 − A")).toBe("<mrow><mn>1</mn><mo>−</mo><mi>A</mi></mrow>");
    expect(cell("min(a, b)")).toMatch(/^<mrow><mi>min<\/mi>/);
    expect(cell("loss of a token = A")).toMatch(/<mtext>loss of a token(&nbsp;)?<\/mtext><mo>=<\/mo>/);
  });

  it("keeps lines aligned and remarks apart", () => {
    const two = mathOf("y = a\n  = b");
    expect(two.match(/<mtr>/g)).toHaveLength(2);
    expect(two).toContain("<mtr><mtd></mtd><mtd><mrow><mo>=</mo><mi>b</mi></mrow></mtd></mtr>");
    expect(mathOf("y = a        where it holds, a is 2")).toContain("<mtd><mtext>where it holds, a is 2</mtext></mtd>");
  });

  it("that is not closed is refused with its text", () => {
    expect(() => formulaBlock("f(x")).toThrow('a formula lacks ")": f(x');
    expect(() => formulaBlock("x_")).toThrow("a formula lacks what stands below: x_");
  });
});

it("letters of a text have their signs below and above; code and names stay", () => {
  const links = { ofFile: () => undefined, ofName: () => undefined };
  expect(chapterText("where x_<t and p_θ, not snake_case or `x_t`; 10^3", links)).toBe(
    "<p>where x<sub>&lt;t</sub> and p<sub>θ</sub>, not snake_case or <code>x_t</code>; 10<sup>3</sup></p>\n",
  );
  expect(chapterText("V_(t+1) and f(x)_i", links)).toBe("<p>V<sub>t+1</sub> and f(x)_i</p>\n");
  expect(chapterText("a < b", links)).toBe("<p>a &lt; b</p>\n");
});
