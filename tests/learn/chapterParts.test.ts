/** scripts/book: what the parser of chapters and exercises finds, and what it refuses, on small texts. */
import { describe, expect, it } from "vitest";
import { broken, FormError, parseChapter } from "../../scripts/book/chapter.ts";
import { parseMicro } from "../../scripts/book/micro.ts";
import { parseExercises, solutionAsAnswer, withAnswer } from "../../scripts/book/exercises.ts";
import { comparable, run } from "../../scripts/book/program.ts";

const PATH = "learn/03-small.ts";
const CHAPTER = `/**
 * # 3 · Small things
 *
 * **What you will understand:** why small
 * things are small.
 *
 * More text, with a list:
 *
 * - one
 *
 *       y = 2·x
 */

const one = 1;

/** Doubles: a doc comment belongs to the code. */
const twice = (x: number): number => 2 * x;

/* ## Use it
 *
 * It is used now. */

// A comment of the code.
console.log(twice(one));
console.log("measured", 5);

/**
 * ## Break it
 *
 * Three times:
 *
 * \`\`\`diff
 * -const twice = (x: number): number => 2 * x;
 * +const twice = (x: number): number => 3 * x;
 *
 * -const one = 1;
 * +// Two now.
 * +const one = 2;
 * \`\`\`
 *
 * ## Simplifications so far
 *
 * - none
 *
 * ## In the library
 *
 * \`engine/tape.ts\`
 *
 * ## Exercises
 *
 * 1. One sentence.
 */
`;

const replaced = (from: string | RegExp, to: string): string => {
  const text = CHAPTER.replace(from, to);
  expect(text).not.toBe(CHAPTER);
  return text;
};

describe("a chapter", () => {
  it("has a title, a promise and sections of prose and code", () => {
    const { number, title, promise, sections } = parseChapter(CHAPTER, PATH);
    expect({ number, title, promise }).toEqual({
      number: 3,
      title: "Small things",
      promise: "why small\nthings are small.",
    });
    expect(sections.map(({ heading, firstLine, codeLine }) => [heading, firstLine, codeLine])).toEqual([
      ["Small things", 2, 14],
      ["Use it", 19, 23],
      ["Break it", 28, 0],
      ["Simplifications so far", 41, 0],
      ["In the library", 45, 0],
      ["Exercises", 49, 0],
    ]);
    expect(sections[0]!.prose).toMatch(/^\*\*What you will understand:\*\* why .*\n\n- one\n\n {6}y = 2·x$/s);
    expect(sections[0]!.code).toMatch(/^const one = 1;\n\n\/\*\* Doubles.*=> 2 \* x;$/s);
    expect(sections[1]!.prose).toBe("It is used now.");
    expect(sections[1]!.code.split("\n")).toHaveLength(3);
    expect(sections.at(-1)).toMatchObject({ prose: "1. One sentence.", code: "" });
  });

  it("begins a section at each heading, also without an empty line before the code", () => {
    const text = replaced("It is used now. */\n\n", "It is used now. */\n");
    const { heading, prose, codeLine } = parseChapter(text, PATH).sections[1]!;
    expect({ heading, prose, codeLine }).toEqual({ heading: "Use it", prose: "It is used now.", codeLine: 22 });
  });

  it("is broken by its diff, in all places", () => {
    const chapter = parseChapter(CHAPTER, PATH);
    expect(chapter.changes).toHaveLength(2);
    const expected = CHAPTER.replace("\nconst one = 1;", "\n// Two now.\nconst one = 2;").replace(
      "\nconst twice = (x: number): number => 2",
      "\nconst twice = (x: number): number => 3",
    );
    expect(broken(chapter)).toBe(expected);
  });

  it("may change the first and the last line, and keep lines between", () => {
    const text = replaced(
      / \* -const twice.*? \* ```\n/s,
      ' *  console.log(twice(one));\n * -console.log("measured", 5);\n * ```\n',
    );
    expect(broken(parseChapter(text, PATH))).not.toContain('\nconsole.log("measured"');
  });

  it.each<[string, string, RegExp]>([
    ["no comment at the start", `const zero = 0;\n${CHAPTER}`, /^learn\/03-small\.ts:1: a chapter must begin/],
    ["a title without a number", replaced("# 3 · Small", "# Small"), /:2: the title must read/],
    ["the number of another file", replaced("# 3", "# 4"), /:2: the title has number 4, the file 03/],
    ["no promise", replaced("What you will understand:", "Here:"), /:2: the text below the title/],
    ["prose without a heading", replaced("## Use it", "Use it"), /:19: prose must begin with "## Heading"/],
    ["a heading twice", replaced("## Use it", "## Small things"), /:19: the heading .* twice/],
    ["a section without text", replaced(" * - none\n *\n", ""), /:41: .*no text/],
    ["no Exercises", replaced("## Exercises", "## Tasks"), /the section "Exercises" is missing/],
    [
      "another order",
      replaced("## Use it", "## In the library").replace("*\n * ## In the library", "*\n * ## Use"),
      /order/,
    ],
    ["two diffs", replaced(" * ```\n", " * ```\n *\n * ```diff\n * -x\n * ```\n"), /one ```diff block, got 2/],
    ["no diff", replaced("```diff", "```text"), /one ```diff block, got 0/],
    ["a diff without a sign", replaced("-const one", "*const one"), /begins with -, \+ or a space/],
    ["a diff that only adds", replaced("-const one = 1;\n * ", ""), /does not say where/],
    ["a diff of no line", replaced("-const one = 1;", "-const one = 7;"), /one place .*"const one = 7;", found 0/],
    ["a diff of two lines", replaced("// A comment of the code.", "const one = 1;"), /found 2/],
    ["an open fence", replaced("= 2;\n * ```", "= 2;"), /not closed/],
    ["an open comment", `${CHAPTER}\n/* no end`, /this comment is not closed/],
    ["a long line", replaced("// A comment", `// ${"x".repeat(118)}`), /:23: .*at most 120 columns/],
  ])("is refused with %s", (_, text, message) => {
    expect(() => parseChapter(text, PATH)).toThrow(FormError);
    expect(() => parseChapter(text, PATH)).toThrow(message);
  });
});

describe("chapter 0", () => {
  const micro = `/**
 * One text.
 */
// 1. Numbers. Its text
// goes on.
const one = 1;

// 2. Printing. Now.
if (import.meta.url === new URL("file:///x").href) console.log(one);
`;
  const end = CHAPTER.slice(CHAPTER.indexOf(" * ## Break it")).replace(/ \* -const twice.*?\n.*?\n \*\n/, "");
  const exercises = `/**\n * The end.\n *\n${end}`;
  const parse = (source: string, last: string): ReturnType<typeof parseMicro> =>
    parseMicro(source, "learn/00-small.ts", last, "learn/exercises/00-small.ts");

  it("has its text above its parts, and its last sections at the head of its exercises", () => {
    const chapter = parse(micro, exercises);
    expect(chapter.sections.map(({ heading, firstLine, codeLine }) => [heading, firstLine, codeLine])).toEqual([
      ["All of it, small", 1, 0],
      ["1 · Numbers", 4, 6],
      ["2 · Printing", 8, 9],
      ["Break it", 4, 0],
      ["Simplifications so far", 14, 0],
      ["In the library", 18, 0],
      ["Exercises", 22, 0],
    ]);
    expect(chapter.sections[1]).toMatchObject({ prose: "Its text\ngoes on.", code: "const one = 1;" });
    expect(chapter.sections[2]).toMatchObject({ code: "console.log(one);" });
    expect(broken(chapter)).toBe(chapter.source.replace("const one = 1;", "// Two now.\nconst one = 2;"));
  });

  it.each<[string, string, string, RegExp]>([
    ["no head", micro.slice(4), exercises, /^learn\/00-small\.ts:1: expected a comment at the head/],
    ["no parts", micro.replaceAll("//", "///"), exercises, /:4: expected parts that begin/],
    ["a part without text", micro.replace(" Now.", ""), exercises, /^learn\/00-small\.ts:8: .* has no text/],
    ["no end", micro, "/** The end. */\n", /^learn\/exercises\/00-small\.ts:1: expected a comment at the head/],
    ["no Break it", micro, exercises.replace("## Break it", "## Try"), /exercises\/.* "Break it" is missing/],
    ["a diff of no line", micro.replace("= 1", "= 7"), exercises, /exercises\/00-small\.ts:4: .*found 0/],
  ])("is refused with %s", (_, source, last, message) => {
    expect(() => parse(source, last)).toThrow(message);
  });
});

/** Not at the start of a line, where it would be an import of this file to tests/project/sources.ts. */
const IMPORT = "import";
const EXERCISES = `/** Two exercises. */
${IMPORT} { expectClose } from "./expect.ts";

/**
 * Twice
 *
 * Write a function that doubles.
 *
 * @difficulty 1
 * @hint Add it to itself.
 * @hint Or
 * multiply.
 */
export function exercise1(
  x: number,
): number {
  throw new Error(\`write me: \${x}\`);
}

export function check1(answer: typeof exercise1): void {
  expectClose(answer(2), 4, "twice 2");
}

export function solution1(x: number): number {
  return 2 * x;
}

export const wrong1 = [
  (x: number): number => x,
];

const SIZE = 3;

/** Thrice
 * Another task.
 * @difficulty 3
 * @hint One more. */
export const exercise2 = (x: number): number => x;
export const check2 = (answer: typeof exercise2): void =>
  expectClose(answer(2), SIZE * 2, "thrice");
/** The right one. */
export const solution2 = (x: number): number => 3 * x;
export const wrong2 = [(x: number): number => 2 * x];
`;

describe("exercises", () => {
  const path = "learn/exercises/03-small.ts";

  it("are found with their tasks and declarations", () => {
    const [one, two] = parseExercises(EXERCISES, path);
    expect(one).toMatchObject({ number: 1, title: "Twice", task: "Write a function that doubles.", firstLine: 14 });
    expect(one).toMatchObject({ difficulty: 1, hints: ["Add it to itself.", "Or\nmultiply."] });
    expect(two).toMatchObject({ difficulty: 3, hints: ["One more."] });
    expect(one!.start).toMatch(/^export function exercise1\(\n.*\n}$/s);
    expect(one!.wrong.split("\n")).toHaveLength(3);
    expect(two).toMatchObject({
      title: "Thrice",
      task: "Another task.",
      start: "export const exercise2 = (x: number): number => x;",
      solution: "export const solution2 = (x: number): number => 3 * x;",
    });
    expect(two!.check.split("\n")).toHaveLength(2);
    expect(one!.given).toBe("");
  });

  it("show the types that the start names, and keep a formula's indentation", () => {
    const types =
      "/** One pair. */\nexport interface Pair {\n  readonly a: number;\n}\nexport type Other = Pair[];\n\n";
    const text = EXERCISES.replace("  x: number,\n", "  x: Pair,\n")
      .replace("/**\n * Twice", `${types}/**\n * Twice`)
      .replace(" * Write a function that doubles.", " *     2·x\n *\n * is wanted.");
    const [one, two] = parseExercises(text, path);
    expect(one).toMatchObject({ task: "    2·x\n\nis wanted.", firstLine: 22 });
    expect(one!.given).toBe("/** One pair. */\ninterface Pair {\n  readonly a: number;\n}");
    expect(two!.given).toBe("");
  });

  it("judge an answer that takes the start's place", async () => {
    const [one, two] = parseExercises(EXERCISES, path);
    const judged = (number: number, answer: string): string =>
      `${withAnswer(EXERCISES, path, number, answer)}\ncheck${number}(exercise${number});\nconsole.log("accepted");\n`;
    for (const exercise of [one!, two!]) {
      const right = await run(judged(exercise.number, solutionAsAnswer(exercise)), path);
      expect(right).toEqual({ text: "accepted\n", failed: false });
      expect((await run(judged(exercise.number, exercise.start), path)).failed).toBe(true);
    }
    const wrong = await run(judged(1, "export const exercise1 = (x: number) => x + 1;"), path);
    expect(wrong).toEqual({ text: "Error: twice 2: expected 4, got 3\n", failed: true });
  });

  it.each<[string, string, string, RegExp]>([
    ["a missing solution", "function solution1", "function answer1", /expected one "export function solution1"/],
    ["a declaration twice", "const SIZE = 3;", "export const wrong1 = 3;", /wrong1", got 2/],
    ["no comment above", "/**\n * Twice", "/**\n * Twice\n */\nconst a = 1;\n/*", /no doc comment/],
    ["a title that is a sentence", " * Twice", ` * Twice${" the same".repeat(9)}`, /a line of its own, a short title/],
    ["no difficulty", " * @difficulty 1\n", "", /exercise1 needs "@difficulty", 1, 2 or 3/],
    ["a difficulty of 4", "@difficulty 3", "@difficulty 4", /exercise2 needs "@difficulty", 1, 2 or 3/],
    ["no hint", " * @hint One more. */", " */", /exercise2 needs a "@hint"/],
    ["one exercise", "const exercise2", "const other2", /expected exercise1, exercise2 and perhaps exercise3, got 1/],
    ["a comment without a task", " * Another task.\n", "", /must be a title and a task/],
  ])("are refused with %s", (_, from, to, message) => {
    const text = EXERCISES.replace(from, to);
    expect(text).not.toBe(EXERCISES);
    expect(() => parseExercises(text, path)).toThrow(message);
  });
});

describe("the output of a program", () => {
  it("is compared up to the word measured", () => {
    expect(comparable("a 1\nb measured 5 ms\n")).toBe(comparable("a 1\nb measured 6 ms\n"));
    expect(comparable("a 1 ms")).not.toBe(comparable("a 2 ms"));
  });

  it("ends with the error, if there is one, and keeps names that the library has as well", async () => {
    const text = `${IMPORT} { Tensor as Theirs } from "../index.ts";
class Tensor {}
console.log(new Tensor(), Theirs.name);
await Promise.resolve();
throw new RangeError("too small");\n`;
    expect(await run(text, PATH)).toEqual({ text: "Tensor {} Tensor\nRangeError: too small\n", failed: true });
  });

  it("is none if the program does not compile", async () => {
    await expect(run("const = 1;", PATH)).rejects.toThrow(/Expected identifier/);
  });
});
