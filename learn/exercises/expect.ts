/** Assertions of the exercises' checks. An error says what was expected and what came. */

/** @throws Error unless all numbers of `got` are within `tolerance` of those of `wanted` */
export function expectClose(
  got: number | ArrayLike<number>,
  wanted: number | ArrayLike<number>,
  what: string,
  tolerance = 1e-6,
): void {
  const listOf = (x: number | ArrayLike<number>): number[] => (typeof x === "number" ? [x] : Array.from(x));
  const [a, b] = [listOf(got), listOf(wanted)];
  if (a.length !== b.length) throw new Error(`${what}: expected ${b.join(", ")}, got ${a.join(", ")}`);
  if (a.every((x, i) => Math.abs(x - b[i]!) <= tolerance)) return;
  const worst = Math.max(...a.map((x, i) => Math.abs(x - b[i]!)));
  // As many digits as it takes to see the difference, and its size if it is small.
  const digits = Math.min(17, Math.max(6, 3 - Math.floor(Math.log10(worst / Math.max(...b.map(Math.abs))))) || 6);
  const show = (list: readonly number[]): string => list.map((x) => String(Number(x.toPrecision(digits)))).join(", ");
  const [wrongBy, allowed] = [worst, tolerance].map((x) => Number(x.toPrecision(2)));
  const by = digits > 6 ? `; wrong by up to ${wrongBy}, ${allowed} is allowed` : "";
  throw new Error(`${what}: expected ${show(b)}, got ${show(a)}${by}`);
}

/** @throws Error unless both are the same, compared as JSON */
export function expectEqual(got: unknown, wanted: unknown, what: string): void {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}
