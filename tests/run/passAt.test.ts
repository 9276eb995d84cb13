/** pass@k against its definition: the chance that k of the n tries, drawn without replacement, hold a success. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { passAt } from "../../run/heldOut.ts";

/** All subsets of size k of n tries, of which the first c succeeded; the share with a success in it. */
function byCounting(n: number, c: number, k: number): number {
  let [hits, all] = [0, 0];
  for (let set = 0; set < 2 ** n; set++) {
    const members = Array.from({ length: n }, (_, i) => i).filter((i) => (set >> i) & 1);
    if (members.length !== k) continue;
    all++;
    if (members.some((i) => i < c)) hits++;
  }
  return hits / all;
}

test("is what counting subsets gives", () => {
  const cases = fc
    .integer({ min: 1, max: 9 })
    .chain((n) => fc.tuple(fc.constant(n), fc.integer({ min: 0, max: n }), fc.integer({ min: 1, max: n })));
  fc.assert(fc.property(cases, ([n, c, k]) => void expect(passAt([c], n, k)).toBeCloseTo(byCounting(n, c, k), 12)));
});

test("by hand; a mean over tasks; pass@1 is the success rate", () => {
  // 4 tries, 1 success, k = 2: of 6 pairs 3 hold it.
  expect(passAt([1], 4, 2)).toBeCloseTo(0.5, 12);
  expect(passAt([0, 1, 4], 4, 2)).toBeCloseTo((0 + 0.5 + 1) / 3, 12);
  expect(passAt([3, 1, 0, 16], 16, 1)).toBeCloseTo(20 / 64, 12);
  expect(passAt([0], 16, 16)).toBe(0);
  expect(passAt([1], 16, 16)).toBe(1);
  expect(() => passAt([1], 4, 5)).toThrow("passAt: expected 1 ≤ k ≤ 4 tries, got 5");
});
