/** A few hundred documents for every parser; `npm run fuzz -- --minutes N` tries more. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { fuzz } from "../../scripts/fuzz/fuzz.ts";
import type { Target } from "../../scripts/fuzz/target.ts";
import { TARGETS } from "../../scripts/fuzz/targets.ts";

test.each(TARGETS)("$name: whatever is changed in a valid document, it is read or refused", async (target) => {
  const { tried, refused, failure } = await fuzz(target, { seed: 1, ms: 4_000, runs: target.few ?? 200 });
  expect(failure).toBeUndefined();
  expect(refused).toBeGreaterThan(0);
  expect(tried).toBeGreaterThan(20);
});

test("it would see a reader that fails with an error of JavaScript's", async () => {
  const careless: Target = {
    name: "careless",
    documents: fc.constant({ a: { b: 1 } }),
    read: (document) => (document as { a: { b: number } }).a.b.toFixed(1),
  };
  expect((await fuzz(careless, { seed: 1, ms: 4_000, runs: 200 })).failure).toContain("careless: TypeError");
});
