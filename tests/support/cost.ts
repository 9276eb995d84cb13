/**
 * What text of a model may cost. Rewards and environments run in the trainer's own thread, where no time-out fires: a
 * pattern that backtracks over a hundred thousand letters is a run that hangs. So texts that have found such places
 * before are tried in growing sizes, on processor time.
 */
import { expect } from "vitest";

const repeat = (unit: string) => (n: number) => unit.repeat(Math.ceil(n / unit.length)).slice(0, n);
/** Texts of n letters: long runs of what patterns repeat, and openings that are never closed. */
export const HOSTILE: Readonly<Record<string, (n: number) => string>> = {
  letters: repeat("a"),
  blanks: (n) => `x${" ".repeat(n)}x`,
  "line ends": (n) => `x${"\n".repeat(n)}x`,
  "blanks and line ends": (n) => `x${repeat(" \n\t")(n)}x`,
  slashes: (n) => `${"/".repeat(n)}x`,
  digits: repeat("7"),
  "commas in numbers": repeat("1,234"),
  brackets: repeat("("),
  "brackets inside out": repeat("]["),
  braces: repeat("{"),
  quotes: repeat(`"'`),
  backslashes: (n) => `"${"\\".repeat(n)}`,
  fences: repeat("```js\n"),
  "a fence that is not closed": (n) => `\`\`\`${"a".repeat(n)}\``,
  tags: repeat("<think>"),
  "half tags": repeat("<"),
  "tool calls": (n) => `<tool_call>${" ".repeat(n)}x`,
  "tool calls in runs of blanks": (n) => `<tool_call>${repeat("a      ")(n)}`,
  boxes: repeat("\\boxed{"),
  texts: repeat("\\text{"),
  answers: repeat("the answer is "),
  minus: repeat("-"),
  operators: repeat("1+-*/"),
  dots: repeat("."),
  stars: repeat("*a"),
  words: repeat("ab ba "),
  "files of a patch": repeat("--- a/x\n+++ b/x\n"),
  surrogates: repeat("\ud800"),
  "combining letters": repeat("e\u0301"),
  capitals: repeat("İ"),
};

/** Some pages, and a book. */
const SIZES = [2_000, 64_000] as const;
/** Linear work takes milliseconds; what is quadratic takes more at the second size, what is cubic at the first. */
const LIMIT_MS = 1_000;

/** Runs `work` on a text of growing size; the first that takes too long fails, before a longer one hangs the tests. */
export async function expectBounded(
  what: string,
  work: (n: number) => unknown,
  sizes: readonly number[] = SIZES,
): Promise<void> {
  for (const n of sizes) {
    const before = process.cpuUsage();
    await work(n);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000, `ms of processor time for ${what}, ${n} letters`).toBeLessThan(LIMIT_MS);
  }
}
