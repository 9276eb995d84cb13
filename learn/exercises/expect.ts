/** What the checks of the exercises say when an answer is not right: what was expected, and what came. */

/** @throws Error unless all numbers of `got` are within `tolerance` of those of `wanted` */
export function expectClose(
  got: number | ArrayLike<number>,
  wanted: number | ArrayLike<number>,
  what: string,
  tolerance = 1e-6,
): void {
  const listOf = (x: number | ArrayLike<number>): number[] => (typeof x === "number" ? [x] : Array.from(x));
  const [a, b] = [listOf(got), listOf(wanted)];
  const isClose = a.length === b.length && a.every((x, i) => Math.abs(x - b[i]!) <= tolerance);
  if (!isClose) throw new Error(`${what}: expected ${b.join(", ")}, got ${a.join(", ")}`);
}

/** @throws Error unless both are the same, compared as JSON */
export function expectEqual(got: unknown, wanted: unknown, what: string): void {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}
