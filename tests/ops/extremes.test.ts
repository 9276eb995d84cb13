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
import {
  clamp,
  crossEntropy,
  expr,
  fuse,
  grad,
  logProbs,
  logsumexp,
  maskedMax,
  matmul,
  max,
  mul,
  pow,
  relu,
  silu,
  softmax,
  softplus,
  sum,
  tensor,
  type Tensor,
  variance,
  where,
} from "../../engine/index.ts";
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
  ["logProbs", "wasm", 2, ["largest"], "logits times such an inverse temperature overflow f32, and tie"],
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

const I = Infinity;
const slopeOf = (f: (x: Tensor) => Tensor, x: Tensor): Tensor => grad((y: Tensor) => sum(f(y)))(x);
const bendOf = (f: (x: Tensor) => Tensor, x: Tensor): Tensor => slopeOf((y) => slopeOf(f, y), x);
const rows = (on: Device): Tensor => tensor([-I, -I, I, 1, I, I, -I, 0], { device: on, shape: [4, 2] });

/**
 * By their numbers: what a reference that is wrong, too, would hide, a product's epilogue, which is no op, and numbers
 * beside tensors. Right is IEEE 754, and PyTorch's choice where there is one.
 */
const BY_NUMBER: readonly (readonly [what: string, of: (on: Device) => Tensor, is: readonly number[]])[] = [
  ["relu of NaN", (on) => relu(tensor([NaN, -1, 2], { device: on })), [NaN, 0, 2]],
  [
    "relu of NaN behind a product",
    (on) => matmul(tensor([[NaN], [-1], [2]], { device: on }), tensor([[1]], { device: on }), { activation: "relu" }),
    [NaN, 0, 2],
  ],
  ["the largest of 1, NaN, 2", (on) => max(tensor([1, NaN, 2], { device: on })), [NaN]],
  ["softplus where exp overflows", (on) => softplus(tensor([1e30, -1e30], { device: on })), [Math.fround(1e30), 0]],
  ["an infinite factor", (on) => mul(tensor([0, 1, -1], { device: on }), I), [NaN, I, -I]], // tinygrad/tinygrad#10201
  ["a factor beyond f32", (on) => mul(tensor([1, -1], { device: on }), 1e300), [I, -I]],
  ["an infinite branch", (on) => where(tensor([1, 0], { device: on }), -I, tensor([1, 2], { device: on })), [-I, 2]],
  ["an infinite literal", (on) => fuse("less", (x) => x.min(-I).add(x))(tensor([1], { device: on })), [-I]],
  [
    "a literal 0 times ∞",
    (on) => fuse("none", (x) => x.mul(0))(tensor([I, -I, NaN, 1], { device: on })),
    [NaN, NaN, NaN, 0],
  ],
  ["∞ times a literal −0", (on) => fuse("none", (x) => expr(-0).mul(x))(tensor([I, 1], { device: on })), [NaN, -0]],
  [
    "∞ times what is worked out to 0",
    (on) => fuse("none", (x) => x.mul(expr(2).sub(2)))(tensor([I, 1], { device: on })),
    [NaN, 0],
  ],
  [
    "a literal 0 over 0",
    (on) => fuse("none", (x) => expr(0).div(x))(tensor([0, NaN, I, 1], { device: on })),
    [NaN, NaN, 0, 0],
  ],
  [
    "the slope of x·0, which does not depend on x",
    (on) =>
      slopeOf(
        fuse("none", (x) => x.mul(0)),
        tensor([I, 1], { device: on }),
      ),
    [0, 0],
  ],
  ["an infinite bound", (on) => clamp(tensor([1, -1], { device: on }), -I, I), [1, -1]],
  ["the variance of one element", (on) => variance(tensor([1], { device: on }), { ddof: 1 }), [NaN]],
  ["softmax of nothing but −∞", (on) => softmax(tensor([-I, -I], { device: on })), [NaN, NaN]],
  [
    "softmax of nothing but −∞ under a mask, and of nothing at all",
    (on) =>
      softmax(tensor([-I, -I, -I, 0, 1, 2], { device: on, shape: [2, 3] }), {
        mask: tensor([1, 1, 0, 0, 0, 0], { device: on, shape: [2, 3] }),
      }),
    [NaN, NaN, 0, 0, 0, 0],
  ],
  ["logsumexp of infinite rows", (on) => logsumexp(rows(on), { axis: -1 }), [-I, I, I, 0]], // pytorch/pytorch#31829
  ["its slope", (on) => slopeOf((x) => logsumexp(x, { axis: -1 }), rows(on)), [0, 0, 1, 0, 0.5, 0.5, 0, 1]],
  ["logsumexp of NaN", (on) => logsumexp(tensor([NaN, 1], { device: on })), [NaN]],
  ["the slope of x⁰", (on) => slopeOf((x) => pow(x, 0), tensor([0, 2, NaN], { device: on })), [0, 0, 0]], // tfjs#346
  [
    "the slope of x⁰, x¹, x², x³ with a tensor of exponents",
    (on) => slopeOf((x) => pow(x, tensor([0, 1, 2, 3], { device: on })), tensor([0, 0, 0, 0], { device: on })),
    [0, 1, 0, 0],
  ],
  ["the bend of x¹", (on) => bendOf((x) => pow(x, 1), tensor([0, 3], { device: on })), [0, 0]], // pytorch/pytorch#95180
  ["the bend of x²", (on) => bendOf((x) => pow(x, 2), tensor([0, -1], { device: on })), [2, 2]],
  [
    "the slope of xᵇ by x, and of that by b, at b = 0: 1/x",
    (on) => {
      const x = tensor([2, -4], { device: on });
      return slopeOf((b) => slopeOf((y) => pow(y, b), x), tensor([0, 0], { device: on }));
    },
    [0.5, -0.25],
  ],
  [
    "whole powers",
    (on) => pow(tensor([7, 5, -3, 2], { device: on }), tensor([2, 3, 3, -2], { device: on })),
    [49, 125, -27, 0.25],
  ],
  ["clamp with its bounds reversed", (on) => clamp(tensor([0, 5, -5], { device: on }), 1, -1), [-1, -1, -1]],
  ["clamp of NaN", (on) => clamp(tensor([NaN], { device: on }), 0, 1), [NaN]],
  [
    "clamp with a bound NaN",
    (on) => clamp(tensor([0, 0], { device: on }), tensor([NaN, -1], { device: on }), 1),
    [NaN, 0],
  ], // pytorch/pytorch#76795
  ["clamp with a number NaN", (on) => clamp(tensor([0], { device: on }), 0, NaN), [NaN]],
  [
    "the largest of very small numbers under a mask",
    (on) =>
      maskedMax(
        tensor([-3e38, -2e38, -I, -I, 1, 2], { device: on, shape: [3, 2] }),
        tensor([1, 1, 1, 1, 0, 0], { device: on, shape: [3, 2] }),
        { axis: -1 },
      ),
    [Math.fround(-2e38), -I, 0],
  ],
  [
    "crossEntropy's slope in rows that are ignored or weigh nothing and hold NaN or ∞",
    (on) => {
      const targets = tensor(new Int32Array([-100, 0, 1]), { device: on });
      const weights = tensor([1, 0, 1], { device: on });
      return slopeOf(
        (z) => crossEntropy(z, targets, { ignoreIndex: -100, weights }),
        tensor([NaN, I, NaN, 1, 0, 0], { device: on, shape: [3, 2] }),
      );
    },
    [0, 0, 0, 0, 0.5, -0.5],
  ],
  [
    "a temperature's slope where a logit is −∞: those of the others",
    (on) =>
      slopeOf(
        (t) =>
          logProbs(tensor([0, 0, -I], { device: on, shape: [1, 3] }), tensor(new Int32Array([0]), { device: on }), t)
            .entropy,
        tensor([2], { device: on }),
      ),
    [0],
  ],
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
