/** Compares the output of a page's program with that of CI's run. */

/** "close": the same text, whose numbers differ by rounding. */
export type Likeness = "same" | "close" | "other";

/** Largest difference that counts as rounding, relative to the larger of two numbers. */
const ROUNDING = 1e-9;
const NUMBER = /-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g;

/**
 * Compares two outputs. Engines compute `Math.sin` and `Math.exp` each in its own way, so a last digit may differ
 * between Node and a browser. A line that depends on the clock is compared only up to the word "measured".
 */
export function compare(printed: string, expected: string): Likeness {
  const [a, b] = [comparable(printed), comparable(expected)];
  if (a === b) return "same";
  const [x, y] = [a.match(NUMBER) ?? [], b.match(NUMBER) ?? []];
  const isClose = (one: number, other: number): boolean =>
    Math.abs(one - other) <= ROUNDING * Math.max(Math.abs(one), Math.abs(other));
  const areClose = x.length === y.length && x.every((text, i) => isClose(Number(text), Number(y[i])));
  return areClose && a.replaceAll(NUMBER, "0") === b.replaceAll(NUMBER, "0") ? "close" : "other";
}

/** The worse of two. */
export function worse(a: Likeness, b: Likeness): Likeness {
  return a === "other" || b === "other" ? "other" : a === "close" || b === "close" ? "close" : "same";
}

function comparable(output: string): string {
  return output.trimEnd().split("\n").map(comparableLine).join("\n");
}

/** The part of a line that does not depend on the clock. */
export function comparableLine(line: string): string {
  return line.replace(/\bmeasured\b.*$/, "measured").trimEnd();
}
