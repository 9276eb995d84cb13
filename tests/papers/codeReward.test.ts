/**
 * The pure part of the code reward: finding the program, comparing values, partial credit, options. No program runs
 * here.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type CodeGradeOptions,
  type CodeOutcome,
  type CodeRunner,
  type CodeValue,
  extractCode,
  gradeCode,
  sameValue,
} from "../../papers/rewards/code.ts";

const block = (program: string, language = "js"): string => `\`\`\`${language}\n${program}\n\`\`\``;

describe("extractCode", () => {
  it("takes the last block of JavaScript, or of no language", () => {
    expect(extractCode(`first\n${block("one")}\nthen\n${block("two", "JavaScript")}\ndone`)).toBe("two");
    expect(extractCode(`${block("one", "")}\n${block("x = 1", "python")}`)).toBe("one");
  });
  it("takes a text without any fence whole, and nothing of a text that was cut off in a block", () => {
    expect(extractCode("const solve = 1;")).toBe("const solve = 1;");
    expect(extractCode("Sure:\n```js\nconst solve = 1;")).toBeUndefined();
    expect(extractCode(block("print(1)", "python"))).toBeUndefined();
    expect(extractCode(block("  "))).toBeUndefined();
    expect(extractCode("")).toBeUndefined();
  });
  // CommonMark 0.31, §4.5: a block ends at a fence that is at least as long as the one that opened it; so a program
  // that has fences in it can be shown (huggingface/smolagents#1219).
  it("takes shorter fences inside a longer one for lines of the program", () => {
    const program = "const solve = () => `\n```\nx\n```\n`;";
    expect(extractCode(`\`\`\`\`js\n${program}\n\`\`\`\``)).toBe(program);
    expect(extractCode(`\`\`\`\`js\n${program}\n\`\`\`\`\`\n${block("print(1)", "python")}`)).toBe(program);
    expect(extractCode(`\`\`\`\`js\n${program}\n`)).toBeUndefined();
    // testomatio/explorbot#209, simonw/llm#1695: a block in another language before it
    expect(extractCode(`${block("<b>", "html")}\n${block("int x;", "c++")}\n${block("two")}`)).toBe("two");
  });
  it("takes as long as the text is, whatever stands in it", () => {
    const text = (n: number): string => "\x60\x60\x60" + "a".repeat(n) + "\x60";
    const seconds = (n: number): number => {
      const begin = performance.now();
      extractCode(text(n));
      extractCode(" ".repeat(n) + text(n));
      return (performance.now() - begin) / 1000;
    };
    // One regular expression for the line took 29 s for 100,000 letters.
    expect(seconds(1e6)).toBeLessThan(1);
    expect(extractCode(text(10))).toBe(text(10));
  });
  it("finds any program without fences that is put into a block", () => {
    const line = fc.string().filter((text) => !text.includes("`") && !text.includes("\n") && text.trim() !== "");
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1 }),
        (lines) => extractCode(`a\n${block(lines.join("\n"))}\nb`) === lines.join("\n"),
      ),
    );
  });
});

describe("sameValue", () => {
  const values = fc.letrec<{ value: CodeValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom<CodeValue>(null, undefined, true, NaN, Infinity, -0, 7n, ""),
      fc.double(),
      fc.string(),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fc.string(), tie("value"), { maxKeys: 3 }),
    ),
  })).value;
  it("is reflexive over copies and symmetric", () => {
    fc.assert(fc.property(values, (value) => sameValue(structuredClone(value), value)));
    fc.assert(fc.property(values, values, (a, b) => sameValue(a, b) === sameValue(b, a)));
  });
  it.each<[CodeValue, CodeValue, boolean]>([
    [0, -0, true],
    [NaN, NaN, true],
    [1, "1", false],
    [1, 1n, false],
    [null, undefined, false],
    [[], {}, false],
    [[1, 2], [1], false],
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
    [{ a: undefined }, { b: undefined }, false],
    [{ a: undefined }, {}, false],
    [{ length: 0 }, [], false],
    [0.1 + 0.2, 0.3, false],
  ])("of %o and %o is %s", (a, b, same) => {
    expect(sameValue(a, b)).toBe(same);
    expect(sameValue(b, a)).toBe(same);
  });
  it("allows numbers, and only numbers, the tolerance", () => {
    expect(sameValue([0.1 + 0.2], [0.3], 1e-9)).toBe(true);
    expect(sameValue(1_000_001, 1_000_000, 1e-5)).toBe(true);
    expect(sameValue(1.1, 1, 0.05)).toBe(false);
    expect(sameValue(1e300, Infinity, 1e-5)).toBe(false);
    expect(sameValue(NaN, 1, 1e9)).toBe(false);
    expect(sameValue("1", "2", 1e9)).toBe(false);
  });
});

describe("gradeCode", () => {
  const returning =
    (...outcomes: CodeOutcome[]): CodeRunner =>
    async () =>
      Promise.resolve(outcomes);
  const value = (v: CodeValue): CodeOutcome => ({ kind: "value", value: v });
  const tests = [
    { args: [1], expected: 1 },
    { args: [2], expected: 4, weight: 3 },
  ];
  it("gives the weighted share of the tests that pass", async () => {
    const threw: CodeOutcome = { kind: "threw", message: "no" };
    expect((await gradeCode("x", returning(value(1), value(4)), { tests })).reward).toBe(1);
    expect((await gradeCode("x", returning(value(1), threw), { tests })).reward).toBe(0.25);
    expect((await gradeCode("x", returning(threw, value(4)), { tests })).reward).toBe(0.75);
    expect((await gradeCode("x", returning(threw, value(4)), { tests })).passed).toEqual([false, true]);
    expect((await gradeCode("x", returning(threw, value(4)), { tests, credit: "all" })).reward).toBe(0);
    expect((await gradeCode("x", returning(value(1), value(4)), { tests, credit: "all" })).reward).toBe(1);
  });
  it("gives a failure nothing, also where undefined is expected", async () => {
    const pending: CodeOutcome = { kind: "pending", message: "" };
    const wanted = [{ args: [], expected: undefined }];
    expect((await gradeCode("x", returning(pending), { tests: wanted })).reward).toBe(0);
    expect((await gradeCode("x", returning(value(undefined)), { tests: wanted })).reward).toBe(1);
  });
  it("shows the runner the arguments, and never an expected value", async () => {
    let seen: unknown[] = [];
    const run: CodeRunner = async (...all) => {
      seen = all;
      return Promise.resolve([value(0), value(0)]);
    };
    await gradeCode(block("p"), run, { tests, entry: "f" });
    expect(seen).toEqual(["p", "f", [[1], [2]], undefined]);
  });
  it("runs nothing for a text without a program", async () => {
    const run: CodeRunner = async () => Promise.reject(new Error("ran"));
    expect(await gradeCode("", run, { tests })).toEqual({ reward: 0, passed: [false, false], outcomes: [] });
  });
  it("is in [0, 1], and 1 exactly when all pass, whatever the weights", async () => {
    const weighted = fc.array(fc.tuple(fc.boolean(), fc.double({ min: 1e-6, max: 1e6, noNaN: true })), {
      minLength: 1,
    });
    await fc.assert(
      fc.asyncProperty(weighted, async (rows) => {
        const all = rows.map(([, weight]) => ({ args: [], expected: true, weight }));
        const { reward } = await gradeCode("x", returning(...rows.map(([ok]) => value(ok))), { tests: all });
        expect(reward).toBeGreaterThanOrEqual(0);
        expect(reward === 1).toBe(rows.every(([ok]) => ok));
        expect(reward === 0).toBe(rows.every(([ok]) => !ok));
      }),
    );
  });
  it("does not take a runner's word for fewer calls", async () => {
    await expect(gradeCode("x", returning(value(1)), { tests })).rejects.toThrow("1 outcomes for 2 calls");
  });
  it.each<[string, object]>([
    ["gradeCode: expected at least one test, got none", { tests: [] }],
    ["gradeCode: tests must be a list of { args, expected }, got missing", {}],
    ["gradeCode: tests[0].args must be a list, got 3", { tests: [{ args: 3, expected: 1 }] }],
    ["gradeCode: tests[0] has no expected value", { tests: [{ args: [] }] }],
    ["gradeCode: tests[0]: unknown option 'expect'; did you mean 'expected'?", { tests: [{ args: [], expect: 1 }] }],
    ["gradeCode: tests[0].weight must be above 0, got 0", { tests: [{ args: [], expected: 1, weight: 0 }] }],
    ["gradeCode: tests[0] holds a value that is no JSON", { tests: [{ args: [new Date(0)], expected: 1 }] }],
    ['gradeCode: entry must be the name of a function, got "a;b"', { tests, entry: "a;b" }],
    ['gradeCode: credit must be "partial" or "all", got "some"', { tests, credit: "some" }],
    ["gradeCode: tolerance must be ≥ 0, got -1", { tests, tolerance: -1 }],
    ["gradeCode: unknown option 'test'; did you mean 'tests'?", { test: [] }],
  ])("refuses: %s", async (message, options) => {
    await expect(gradeCode("x", returning(), options as CodeGradeOptions)).rejects.toThrow(message);
  });
});
