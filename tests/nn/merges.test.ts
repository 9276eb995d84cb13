/** The merges of a piece against their definition, for tables that no training would make, too. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Merge, Merges } from "../../nn/tokenizers/merges.ts";

/** The definition: the pair of the lowest rank, the leftmost of them, until there is none. */
function defined(merges: readonly Merge[], symbols: readonly number[]): number[] {
  const ids = [...symbols];
  for (;;) {
    const ranks = ids.slice(1).map((right, i) => merges.findIndex(([l, r]) => l === ids[i] && r === right));
    const lowest = Math.min(...ranks.filter((rank) => rank >= 0));
    if (lowest === Infinity) return ids;
    ids.splice(ranks.indexOf(lowest), 2, merges[lowest]![2]);
  }
}

/**
 * Tables whose results are the names of both parts together, as in a vocabulary: learnt in any order, the same result
 * of several pairs. Ids below 4 are letters.
 */
const table = fc
  .tuple(fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 1, maxLength: 24 }), fc.infiniteStream(fc.nat()))
  .map(([picks, order]) => {
    const names = ["a", "b", "c", "d"];
    const merges = new Map<string, Merge>();
    for (const picked of picks) {
      const [left, right] = picked.map((n) => n % names.length) as [number, number];
      const name = names[left]! + names[right]!;
      if (name.length > 12) continue;
      if (!names.includes(name)) names.push(name);
      merges.set(`${left} ${right}`, [left, right, names.indexOf(name)]);
    }
    const keyed = [...merges.values()].map((merge) => [order.next().value!, merge] as const);
    return { merges: keyed.sort(([a], [b]) => a - b).map(([, merge]) => merge), size: names.length };
  });

test("equals the definition: short and long pieces, seams that nothing crosses, symbols that merges make", () => {
  const pieces = fc.array(fc.nat({ max: 9 }), { maxLength: 200 });
  fc.assert(
    fc.property(table, pieces, fc.boolean(), ({ merges, size }, drawn, letters) => {
      const symbols = drawn.map((n) => n % (letters ? Math.min(size, 4) : size));
      expect(new Merges(merges, size).apply(symbols)).toEqual(defined(merges, symbols));
    }),
    { numRuns: 400 },
  );
});

test.each<[string, Merge[], number[][]]>([
  // 3 = "ab" as 0·1, or as 4·1, where 4 is a symbol of its own.
  [
    "a token of several spellings",
    [
      [0, 1, 3],
      [4, 1, 3],
      [2, 3, 6],
    ],
    [
      [2, 4, 1],
      [2, 0, 1],
      [2, 2, 0, 1],
    ],
  ],
  [
    "a pair with an empty part",
    [
      [5, 0, 0],
      [0, 1, 3],
    ],
    [
      [5, 5, 0, 1, 1],
      [0, 5, 0, 1],
    ],
  ],
])("%s", (_, merges, pieces) => {
  const merged = new Merges(merges, 7);
  for (const symbols of pieces) expect(merged.apply(symbols)).toEqual(defined(merges, symbols));
});
