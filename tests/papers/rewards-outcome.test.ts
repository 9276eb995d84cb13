/** Verifiers of outcomes: maths answers and patches. Test vectors of their sources, and any text as an answer. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { finalAnswer, mathsReward, normalizeMaths, sameMaths } from "../../papers/rewards/maths.ts";
import { patchSimilarity, similarity, splitPatch } from "../../papers/rewards/similarity.ts";

describe("maths", () => {
  it.each([
    [String.raw`\boxed{\frac{63}{400}}`, "63/400", 1],
    [String.raw`\boxed{\frac{63}{400}}`, String.raw`\frac{63}{400}`, 1],
    [String.raw`\boxed{\frac{64}{400}}`, String.raw`\frac{63}{400}`, 0],
    [String.raw`\boxed{3}`, "6", 0],
    [String.raw`first \boxed{5}, no, \boxed{6}`, "5", 0],
    [String.raw`first \boxed{5}, no, \boxed{6}`, "6", 1],
    [String.raw`\boxed{\sqrt{2}}`, String.raw`\sqrt2`, 1],
    ["we get 5 + 7\n#### 12", "#### 12", 1],
    ["The answer is 1,200.", "1200", 1],
    ["Answer: x = 0.50", ".5", 1],
    ["the answer is 5 or 6", "5", 0],
    ["5", "5", 0], // no final answer is marked
    [String.raw`\boxed{`, "5", 0],
    [String.raw`\boxed{}`, "5", 0],
    [String.raw`\boxed{5}`, "", NaN],
    // huggingface/Math-Verify#76: Markdown around the answer or its mark
    ["✅ Final Answer: **73**", "73", 1],
    ["**Answer:** 73", "73", 1],
    ["**Answer**: 73", "73", 1],
    ["The answer is **73**.", "73", 1],
    ["The answer is **7** or **3**", "73", 0],
    // EleutherAI/lm-evaluation-harness#2237: a colon behind "is"; Minerva's last sentence
    ["The answer is: 5", "5", 1],
    ["The answer is:\n5", "5", 1],
    ["Final Answer: The final answer is $5$. I hope it is correct.", "5", 1],
    ["The final answer is $5$. I hope it is 6.", "5", 0],
    // THUDM/slime#2150: \fbox{…}; the last box counts, whatever it is called
    [String.raw`\fbox{5}`, "5", 1],
    [String.raw`\fbox{5}, no, \boxed{6}`, "6", 1],
    [String.raw`\boxed{5}, no, \fbox{6}`, "6", 1],
    // escaped braces are signs: this one is never closed by a brace
    [String.raw`\boxed{\left\{ x \right.}`, String.raw`\{x.`, 1],
    [String.raw`\boxed{5\}`, "5", 0],
  ])("mathsReward(%j, %j) is %d", (text, solution, expected) => expect(mathsReward(text, solution)).toBe(expected));

  it.each([
    ["0.5", "1/2"],
    ["-3/4", String.raw`-\frac{3}{4}`],
    [String.raw`\dfrac12`, String.raw`\tfrac{1}{2}`],
    ["50\\%", "50"],
    ["$5.00", "5"],
    [String.raw`90^\circ`, "90"],
    [String.raw`12\text{ cm}`, "12"],
    [String.raw`\text{Blue}`, "blue"],
    [String.raw`\left( 1,\, 2 \right)`, "(1,2)"],
    ["x=7", "7"],
    ["1,000,000", "1000000"],
    ["+2", "2"],
    ["−5", "-5"],
    ["1{,}234", "1234"],
    [String.raw`5\text{ cm}^2`, "5"],
    [String.raw`5\text{ cm}^{3}`, "5"],
    [String.raw`\textbf{(A)}`, "(A)"],
    [String.raw`1\frac{1}{2}`, "1.5"],
    [String.raw`-2\tfrac14`, "-9/4"],
  ])("%j and %j are the same", (a, b) => {
    expect(sameMaths(a, b)).toBe(true);
    expect(sameMaths(b, a)).toBe(true);
  });

  it.each([
    ["1", "2"],
    ["1/0", "2/0"],
    ["1,2", "12"],
    ["(1,2)", "(2,1)"],
    ["x+1", "x+2"],
    ["", ""],
    ["1/2/3", "1/6"],
    [String.raw`1\frac{1}{2}`, String.raw`\frac{11}{2}`],
    [String.raw`1\frac{1}{0}`, "1"],
    [String.raw`-1\frac12`, "-0.5"],
    ["{,}", ","],
  ])("%j and %j differ", (a, b) => {
    expect(sameMaths(a, b)).toBe(false);
  });

  it("numbers are exact: no rounding, at any length; and any text may come", () => {
    expect(sameMaths("0.1", "0.10000000000000000001")).toBe(false);
    expect(sameMaths("9007199254740993", "9007199254740992")).toBe(false);
    expect(sameMaths("1/3", "0.3333333333333333")).toBe(false);
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1 }), fc.integer({ min: 1, max: 99 }), (a, b, k) => {
        expect(sameMaths(`${a}/${b}`, String.raw`\frac{${a}}{${b}}`)).toBe(true);
        expect(sameMaths(`${a}/${b}`, `${a + 1}/${b}`)).toBe(false);
        expect(sameMaths(`${a}`, `${BigInt(a) * BigInt(k)}/${k}`)).toBe(true);
      }),
    );
    fc.assert(
      fc.property(fc.string(), fc.string(), (text, solution) => {
        expect(["0", "1", "NaN"]).toContain(String(mathsReward(text, solution)));
        expect(typeof normalizeMaths(text)).toBe("string");
      }),
    );
  });

  it("finds the final answer", () => {
    expect(finalAnswer(String.raw`\boxed{\frac{1}{2}} is it`)).toBe(String.raw`\frac{1}{2}`);
    expect(finalAnswer("#### 1\n#### 42\nmore")).toBe("42");
    expect(finalAnswer("So the answer is 7\nthanks")).toBe("7");
    expect(finalAnswer("seven")).toBeUndefined();
  });
});

describe("similarity", () => {
  // Python: difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
  it.each([
    ["\naaac", "abaa\n\naba\naaba\nabab", 0.3333333333333333],
    ["bacbabcaaab\n\nc", "\nccbbbac\nc\ncaa\n", 0.4827586206896552],
    ["abbaabbbbba", "bba", 0.42857142857142855],
    ["bbbbbabbaabaabaabbbaabbb", "bbbbb", 0.3448275862068966],
    ["aaaaa", "b", 0],
    ["eeacg ", "fc ah ggggbh", 0.2222222222222222],
    ["adbdhcbfabac ", "fabd", 0.35294117647058826],
    ["ceffhbbhhhheb", "bfehc", 0.1111111111111111],
    ["b\nb\nca\n\n\nabbbab\nb\ncbbaa", "ab\nbbacbcbcc\nbac\n\nbba\nba", 0.425531914893617],
    ["abaabb", "aaab", 0.8],
    ["baab", "abbbabababa", 0.5333333333333333],
    ["cab\nabcabcbcb\nb", "a\n\nbbb\n\nc\nbccacac\n\na\ncca", 0.3076923076923077],
    ["tide", "diet", 0.25],
    ["diet", "tide", 0.5],
    ["private Thread currentThread;", "private volatile Thread currentThread;", 0.8656716417910447],
    ["", "a", 0],
    ["", "", 1],
  ])("as difflib: %j, %j", (a, b, expected) => expect(similarity(a, b)).toBeCloseTo(expected, 12));

  it("compares long texts line by line, as difflib on lists of lines", () => {
    const lines = (count: number, step: number): string =>
      Array.from({ length: count }, (_, i) => `line ${(i * step) % 50}`).join("\n");
    expect(similarity(lines(700, 7), lines(600, 11))).toBeCloseTo(0.027692307692307693, 12);
    expect(similarity("a".repeat(9_000), "a".repeat(9_000))).toBe(1);
    expect(similarity("a".repeat(7_990), "a".repeat(10))).toBeCloseTo(20 / 8_000, 12);
    expect(similarity("a".repeat(7_990), "a".repeat(11))).toBe(0); // compared by lines, which differ
    expect(similarity("\n".repeat(9_000), "\n".repeat(9_001))).toBe(0); // too many lines to compare
  });

  it("is in [0, 1], 1 for equal texts only", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.string({ maxLength: 40 }), (a, b) => {
        const value = similarity(a, b);
        expect(value).toBeGreaterThanOrEqual(0);
        expect(value === 1).toBe(a === b);
        expect(value).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe("patchSimilarity", () => {
  const patch = (path: string, from: string, to: string): string =>
    `diff --git a/${path} b/${path}\nindex 1..2 100644\n--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-${from}\n+${to}\n`;
  const wanted = patch("a.py", "x = 1", "x = 2");

  it("is the mean over the files of both patches", () => {
    expect(patchSimilarity(wanted, wanted)).toBe(1);
    const close = patchSimilarity(patch("a.py", "x = 1", "x = 3"), wanted);
    expect(close).toBeCloseTo(similarity("@@ -1 +1 @@\n-x = 1\n+x = 3", "@@ -1 +1 @@\n-x = 1\n+x = 2"), 12);
    expect(close).toBeCloseTo(48 / 50, 12);
    expect(patchSimilarity(wanted + patch("b.py", "1", "2"), wanted)).toBe(0.5);
    expect(patchSimilarity(patch("b.py", "x = 1", "x = 2"), wanted)).toBe(0);
    expect(patchSimilarity("x = 2", wanted)).toBe(-1);
    expect(patchSimilarity("--- a/a.py\n+++ b/a.py\n", wanted)).toBe(0); // no change is no way to look alike
    expect(patchSimilarity("--- a/a.py\n+++ b/a.py\n", "--- a/a.py\n+++ b/a.py\n")).toBe(0);
    expect(patchSimilarity(`${wanted}--- a/b.py\n+++ b/b.py\n`, wanted)).toBe(0.5); // nor is a needless one
    expect(patchSimilarity(wanted, "no patch")).toBeNaN();
  });

  it("knows new and deleted files, and what is no header", () => {
    expect(splitPatch("--- /dev/null\n+++ b/new.py\n+1\n--- a/old.py\t2024\n+++ /dev/null\n-1")).toEqual({
      "new.py": "+1",
      "old.py": "-1",
    });
    expect(splitPatch("--- a/x\n+++ b/x\n--- removed line\n+y")).toEqual({ x: "--- removed line\n+y" });
    expect(splitPatch("--- a/x\n+++ b/x\n-a\n+++ added line")).toEqual({ x: "-a\n+++ added line" });
    expect(splitPatch("a letter\n+++ b/y\n--- a/x\n+++ b/x\n+1")).toEqual({ x: "+1" });
    expect(splitPatch("--- a/x\n+++ b/x\n+1\n--- a/x\n+++ b/x\n+2")).toEqual({ x: "+1\n+2" }); // in two parts
  });

  it("any text is scored", () => {
    const line = fc.constantFrom(
      "--- a/x",
      "+++ b/x",
      "+++ /dev/null",
      "--- /dev/null",
      "+1",
      "-1",
      "@@",
      "",
      "diff x",
      "--- a/__proto__",
      "+++ b/__proto__",
    );
    fc.assert(
      fc.property(fc.array(line), fc.array(line), (a, b) => {
        const value = patchSimilarity(a.join("\n"), b.join("\n"));
        expect(Number.isNaN(value) || value === -1 || (value >= 0 && value <= 1)).toBe(true);
      }),
    );
  });
});
