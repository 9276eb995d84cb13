/**
 * What ops make of numbers at the ends: NaN, ±∞, the largest floats, the smallest, −0, and ids that nobody could check.
 * One element of one input of every op's own samples is replaced, and each executor is compared with the reference in
 * f32. What holds everywhere:
 *
 * - what does not depend on the element is what it was: trouble stays where it is;
 * - where the reference has NaN or an infinity, nobody has a number: trouble is not hidden;
 * - where the reference has a number, others have it too or, behind ±∞ and the largest floats only, none: f32 overflows
 *   on the way where the reference goes through f64, but never to another number.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import { matmul, max, relu, silu, softplus, tensor, type Tensor } from "../../engine/index.ts";
import { isFloat } from "../../engine/types.ts";
import { gpuEnabled, gpuOptions } from "../support/gpu.ts";
import { GuardedDevice } from "../support/guarded.ts";
import { allOps, type AnyOp, type AnySample, evaluate, labelOf, samplesOf } from "../support/opChecks.ts";
import { tried } from "../support/tried.ts";

const LARGEST = 3.4028234663852886e38;
const FLOATS = {
  NaN: NaN,
  "∞": Infinity,
  "−∞": -Infinity,
  largest: LARGEST,
  lowest: -LARGEST,
  denormal: 1e-40,
  "−0": -0,
};
const IDS = { "−1": -1, "past every table": 2 ** 31 - 1, lowest: -(2 ** 31) };
type Name = keyof typeof FLOATS;

/** Where a rule does not hold: op, executor ("" for both), input, values; and why. */
const EXCEPT: readonly (readonly [op: string, on: string, input: number, values: readonly Name[], why: string])[] = [
  ["norm", "", 0, ["largest", "lowest"], "the square overflows, and x/∞ is 0: f32 has no room for Σx²"],
  ["normBackward", "", 0, ["largest", "lowest"], "as norm"],
  ["sample", "", 1, ["NaN", "∞", "−∞", "lowest"], "an inverse temperature that the sampler refuses; no id fits it"],
  ["softmaxBackward", "webgpu", 0, ["−∞", "lowest"], "no result of softmax is negative; ≤ 0 says excluded there"],
  ["attention", "", 0, ["largest"], "a score below −1e30 is taken for excluded"],
  ["attention", "webgpu", 0, ["∞", "−∞"], "as above: the only key in sight has the score −∞"],
  ["log", "webgpu", 0, ["denormal"], "WGSL may take denormal numbers for 0, drivers do"],
  ["pow", "webgpu", 0, ["denormal"], "as log"],
];

let reference: Device;
let executors: { readonly on: string; readonly device: Device }[] = [];
let guarded: GuardedDevice[] = [];
beforeAll(async () => {
  reference = await device("reference", { precision: "f32" });
  executors = [{ on: "wasm", device: await device("wasm") }];
  if (gpuEnabled) executors.push({ on: "webgpu", device: await device("webgpu", { webgpu: gpuOptions }) });
  guarded = executors.map((e) => new GuardedDevice(e.device));
});
afterAll(() => [reference, ...executors.map((e) => e.device)].forEach((d) => d.dispose()));

/** The sample with `value` in the middle of input `input`. */
function planted(sample: AnySample, input: number, value: number): AnySample {
  const inputs = sample.inputs.map((x, i) =>
    i === input ? { ...x, data: x.data.with(x.data.length >> 1, value) } : x,
  );
  return { ...sample, inputs };
}

/** The first and the last of an op's samples: the smallest, and one with more than a vector's columns. */
const chosen = (op: AnyOp): AnySample[] => [...new Set([samplesOf(op)[0]!, samplesOf(op).at(-1)!])];

const same = (a: number, b: number): boolean => Object.is(a, b) || Math.abs(a - b) <= 1e-4 * Math.max(1, Math.abs(b));

/** What is wrong with an element; undefined if nothing is. */
function fault(actual: number, expected: number, depends: boolean, isHuge: boolean): string | undefined {
  if (!depends) return same(actual, expected) ? undefined : "does not depend on it, and changed";
  if (!Number.isFinite(expected)) return Number.isFinite(actual) ? "hides it" : undefined;
  return same(actual, expected) || (isHuge && !Number.isFinite(actual)) ? undefined : "is another number";
}

describe.each(allOps().map((op) => ({ name: op.name, op })))("$name", ({ name: opName, op }) => {
  test("floats at the ends", async (context) => {
    for (const sample of chosen(op)) {
      const plain = await evaluate(reference, op, sample);
      for (const input of sample.inputs.keys()) {
        if (!isFloat(sample.inputs[input]!.dtype)) continue;
        const names = Object.keys(FLOATS) as Name[];
        const samples = names.map((name) => planted(sample, input, FLOATS[name]));
        const all = (on: Device): Promise<number[][][]> => Promise.all(samples.map((s) => evaluate(on, op, s)));
        const expected = await all(reference);
        const depends = plain.map((y, k) => y.map((v, j) => expected.some((e) => !Object.is(e[k]![j], v))));
        for (const { on, device } of executors) {
          if (on === "webgpu" && sample !== chosen(op).at(-1)) continue; // each pipeline takes 50 ms to compile
          const actual = await all(device);
          tried(context, { values: names.length });
          names.forEach((name, n) => {
            if (EXCEPT.some(([o, e, i, v]) => o === opName && (e || on) === on && i === input && v.includes(name)))
              return;
            const isHuge = ["∞", "−∞", "largest", "lowest"].includes(name);
            const faults = expected[n]!.flatMap((y, k) =>
              y.flatMap((e, j) => {
                const what = fault(actual[n]![k]![j]!, e, depends[k]![j]!, isHuge);
                return what === undefined ? [] : [`[${k}][${j}] ${what}: ${actual[n]![k]![j]!} for ${e}`];
              }),
            );
            expect(faults, `${on}: ${name} in input ${input} of ${labelOf(sample)}`).toEqual([]);
          });
        }
      }
    }
  });

  const withIds = chosen(op).filter((sample) => sample.inputs.some((x) => !isFloat(x.dtype)));
  if (withIds.length === 0) return;
  test("ids that a device computed", async (context) => {
    for (const sample of withIds) {
      for (const input of sample.inputs.keys()) {
        if (isFloat(sample.inputs[input]!.dtype)) continue;
        for (const [name, id] of Object.entries(IDS)) {
          const wild = planted(sample, input, id);
          const expected = await evaluate(reference, op, wild);
          for (const on of guarded) {
            const actual = await evaluate(on, op, wild); // throws if a write went past the end of a buffer
            tried(context, { ids: 1 });
            const where = `${on.kind}: ${name} in input ${input} of ${labelOf(sample)}`;
            // What lies behind a buffer is NaN there: a read past the end shows.
            actual.forEach((y, k) =>
              y.forEach((v, j) =>
                expect(same(v, expected[k]![j]!), `${where} [${k}][${j}] ${v} for ${expected[k]![j]}`).toBe(true),
              ),
            );
          }
        }
      }
    }
  });
});

/** By their numbers: what a reference that is wrong, too, would hide, and a product's epilogue, which is no op. */
const BY_NUMBER: readonly (readonly [what: string, of: (on: Device) => Tensor, is: readonly number[]])[] = [
  ["relu of NaN", (on) => relu(tensor([NaN, -1, 2], { device: on })), [NaN, 0, 2]],
  [
    "relu of NaN behind a product",
    (on) => matmul(tensor([[NaN], [-1], [2]], { device: on }), tensor([[1]], { device: on }), { activation: "relu" }),
    [NaN, 0, 2],
  ],
  ["the largest of 1, NaN, 2", (on) => max(tensor([1, NaN, 2], { device: on })), [NaN]],
  ["softplus where exp overflows", (on) => softplus(tensor([1e30, -1e30], { device: on })), [Math.fround(1e30), 0]],
  ["silu of the lowest float", (on) => silu(tensor([-LARGEST, -200], { device: on })), [0, 0]],
];

test.each(BY_NUMBER)("%s", async (_, of, is) => {
  for (const on of [reference, ...executors.map((e) => e.device)]) {
    const y = of(on);
    const actual = [...(await y.read())];
    y.dispose();
    expect(actual, on.kind).toHaveLength(is.length);
    is.forEach((v, i) => expect(Object.is(actual[i], v) || actual[i] === v, `${on.kind}: ${actual.join()}`).toBe(true));
  }
});
