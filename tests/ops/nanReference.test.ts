/**
 * The reference judges all other executors (extremes.test.ts); this judges the reference. If a result changes with an
 * element of an input when that gets another number, it is NaN when the element is NaN.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import { isFloat } from "../../engine/types.ts";
import { allOps, type AnySample, evaluate, labelOf, samplesOf } from "../support/opChecks.ts";

/** Where it does not hold: op, inputs, why. */
const EXCEPT: readonly (readonly [op: string, inputs: readonly number[], why: string])[] = [
  ...["lt", "le", "gt", "ge", "eq", "ne"].map((op): [string, number[], string] => [
    op,
    [0, 1],
    "a comparison is 1 or 0, and none holds with NaN but ne",
  ]),
  ["where", [0], "a mask chooses; NaN is not 0, so it chooses the first"],
  ["maskedSum", [1], "a mask, as where"],
  ["maskedMax", [1], "a mask, as where"],
  ["softmax", [1], "a mask, as where"],
  ["dropout", [1], "the random number that is compared with the rate"],
  ["argmax", [0], "positions of extremes pass over NaN"],
  ["argmin", [0], "as argmax"],
  ["sample", [0, 1], "an id: −1 says that none could be drawn"],
  ["cast", [0], "a whole number: NaN becomes 0, as in WGSL and WebAssembly"],
];

let reference: Device;
beforeAll(async () => {
  reference = await device("reference", { precision: "f64" });
});
afterAll(() => reference.dispose());

/** The sample with another value at one place of an input. */
const planted = (sample: AnySample, input: number, at: number, value: number): AnySample => ({
  ...sample,
  inputs: sample.inputs.map((x, i) => (i === input ? { ...x, data: x.data.with(at, value) } : x)),
});

/** Other numbers near one: some of them beyond what masks, clips and steps do with it. */
const others = (value: number): number[] =>
  [value + 0.3, value - 0.3, value + 2.5, value - 2.5, 1, 0].filter((v) => v !== value);

describe.each(allOps().map((op) => ({ name: op.name, op })))("$name", ({ name, op }) => {
  test("NaN is not hidden where another number would show", async () => {
    let seen = 0;
    for (const sample of samplesOf(op)) {
      const plain = await evaluate(reference, op, sample);
      for (const [input, { dtype, data }] of sample.inputs.entries()) {
        if (!isFloat(dtype) || EXCEPT.some(([o, i]) => o === name && i.includes(input))) continue;
        for (const at of new Set([0, data.length >> 1, data.length - 1])) {
          const changed = plain.map((y) => y.map(() => false));
          for (const value of others(data[at]!)) {
            const now = await evaluate(reference, op, planted(sample, input, at, value));
            now.forEach((y, k) => y.forEach((v, j) => (changed[k]![j] ||= !Object.is(v, plain[k]![j]))));
          }
          const withNaN = await evaluate(reference, op, planted(sample, input, at, NaN));
          const hidden = withNaN.flatMap((y, k) =>
            y.flatMap((v, j) => (changed[k]![j] && !Number.isNaN(v) ? [`[${k}][${j}] is ${v}`] : [])),
          );
          seen += changed.flat().filter(Boolean).length;
          expect(hidden, `NaN at ${at} of input ${input} of ${labelOf(sample)}`).toEqual([]);
        }
      }
    }
    const isJudged = samplesOf(op)[0]!.inputs.some(
      ({ dtype }, i) => isFloat(dtype) && !EXCEPT.some(([o, inputs]) => o === name && inputs.includes(i)),
    );
    if (isJudged) expect(seen).toBeGreaterThan(0);
  });
});
