/**
 * A few hundred documents for every parser, and every document that one has failed on before; `npm run fuzz --
 * --minutes N` tries more.
 */
import { readdirSync, readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import { UsageError } from "../../run/usage.ts";
import { fuzz } from "../../scripts/fuzz/fuzz.ts";
import type { Json, Target } from "../../scripts/fuzz/target.ts";
import { TARGETS } from "../../scripts/fuzz/targets.ts";

test.each(TARGETS)("$name: whatever is changed in a valid document, it is read or refused", async (target) => {
  const { tried, refused, failure } = await fuzz(target, { seed: 1, ms: 4_000, runs: target.few ?? 200 });
  expect(failure).toBeUndefined();
  expect(refused).toBeGreaterThan(0);
  expect(tried).toBeGreaterThan(20);
});

const CORPUS = new URL("../fixtures/fuzz/past/", import.meta.url);
interface Past {
  readonly target: string;
  /** What it was before it was mended. */
  readonly was: string;
  readonly document: Json;
}
const PAST = readdirSync(CORPUS)
  .sort()
  .map((name) => [name, JSON.parse(readFileSync(new URL(name, CORPUS), "utf8")) as Past] as const);

test.each(PAST)(
  "past failure %s: read, or refused in one sentence, in a second",
  async (_, { target: name, document }) => {
    const target = TARGETS.find((one) => one.name === name);
    if (target === undefined) throw new Error(`there is no target "${name}"`);
    const before = process.cpuUsage();
    try {
      await target.read(document);
    } catch (error) {
      expect(error instanceof WorldgradError || error instanceof UsageError, String(error)).toBe(true);
    }
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000, "ms of processor time").toBeLessThan(1_000);
  },
);

test("a failure whose shrinking takes longer than there is time is a failure, with its document", async () => {
  const slow: Target = {
    name: "slow",
    documents: fc.constant({ a: "x".repeat(50) }),
    read: async (document) => {
      await new Promise((done) => setTimeout(done, 20));
      (document as { a: string }).a.at(0);
    },
  };
  const { failure, document } = await fuzz(slow, { seed: 1, ms: 300, runs: 1e9 });
  expect(failure).toContain("slow: TypeError");
  expect(() => (document as { a: string }).a.at(0)).toThrow(TypeError);
});

test("it would see a reader that fails with an error of JavaScript's", async () => {
  const careless: Target = {
    name: "careless",
    documents: fc.constant({ a: { b: 1 } }),
    read: (document) => (document as { a: { b: number } }).a.b.toFixed(1),
  };
  expect((await fuzz(careless, { seed: 1, ms: 4_000, runs: 200 })).failure).toContain("careless: TypeError");
});

test("it would see a reader that is slow, but takes one slow moment of the machine for none", async () => {
  const busy = (ms: number): void => {
    const end = process.cpuUsage().user + ms * 1_000;
    while (process.cpuUsage().user < end);
  };
  let reads = 0;
  const target = (read: () => void): Target => ({ name: "busy", documents: fc.constant({ a: 1 }), read });
  const always = await fuzz(
    target(() => busy(30)),
    { seed: 1, ms: 300, runs: 3, limitMs: 20 },
  );
  const once = await fuzz(
    target(() => busy(reads++ === 0 ? 30 : 0)),
    { seed: 1, ms: 10_000, runs: 3, limitMs: 20 },
  );
  expect(always.failure).toContain("ms when read again");
  expect(once.failure).toBeUndefined();
  expect(once.tried).toBe(3);
});
