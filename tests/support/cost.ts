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
  "lists that are not closed": repeat("["),
  "lists behind a list": (n) => `[1] ${repeat("[")(n)}`,
  "an object that is not closed": (n) => `{"${repeat('\\"')(n)}`,
  "objects of strings": repeat('{"a":"b"};'),
  "proposals with a line end": (n) => `${repeat("a for ")(n)}\n`,
  quotes: repeat(`"'`),
  backslashes: (n) => `"${"\\".repeat(n)}`,
  fences: repeat("```js\n"),
  "a fence that is not closed": (n) => `\`\`\`${"a".repeat(n)}\``,
  tags: repeat("<think>"),
  "half tags": repeat("<"),
  "tool calls": (n) => `<tool_call>${" ".repeat(n)}x`,
  "tool calls in runs of blanks": (n) => `<tool_call>${repeat("a      ")(n)}`,
  "tool calls in strings": repeat('<tool_call>{"a":"<tool_call>{'),
  "tool calls in a string": (n) => `<tool_call>{"${repeat('<tool_call>{"a')(n)}`,
  "tool calls between thoughts": repeat('<think></think>{"a":1}'),
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

/** Some pages; the quarter of a book, and the book. */
export const SIZES: readonly number[] = [2_000, 16_000, 64_000];
/** Linear work takes milliseconds; what is cubic takes more at the first size. */
const LIMIT_MS = 1_000;
/** How much longer a text of four times the length may take; it is 4 for linear work and 16 for quadratic. */
const MOST_GROWTH = 9;
/** Less than this is no measure of growth. */
const MEASURABLE_MS = 100;
/** Memory that one text may take beside what the process has. */
const LIMIT_BYTES = 2 ** 28;

async function cpuOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/**
 * Runs `work` on texts of growing size. The first that takes too much time or memory fails, before a longer one hangs
 * the tests; so does work that grows faster than the text. Memory is the process's highest, which never falls: what
 * stays below what others have taken before is not seen.
 */
export async function expectBounded(
  what: string,
  work: (n: number) => unknown,
  sizes: readonly number[] = SIZES,
): Promise<void> {
  const times = new Map<number, number>();
  for (const n of sizes) {
    const before = process.resourceUsage().maxRSS;
    const first = await cpuOf(() => work(n));
    // Once more: on a busy machine, or with a collection of garbage in it, one measurement was three times the next.
    const ms = first < LIMIT_MS ? first : Math.min(first, await cpuOf(() => work(n)));
    expect(ms, `ms of processor time for ${what}, ${n} letters`).toBeLessThan(LIMIT_MS);
    const bytes = 1024 * (process.resourceUsage().maxRSS - before);
    expect(bytes, `bytes of memory for ${what}, ${n} letters`).toBeLessThan(LIMIT_BYTES);
    times.set(n, ms);
    const quarter = times.get(n / 4);
    if (quarter === undefined || ms < MEASURABLE_MS || ms <= MOST_GROWTH * quarter) continue;
    // Once more: a collection of garbage may have fallen into it.
    const [small, large] = [await cpuOf(() => work(n / 4)), await cpuOf(() => work(n))];
    const growth = Math.min(ms, large) / Math.max(quarter, small);
    expect(growth, `growth of ${what} from ${n / 4} to ${n} letters`).toBeLessThanOrEqual(MOST_GROWTH);
  }
}
