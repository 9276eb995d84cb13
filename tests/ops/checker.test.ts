/**
 * The test of the test: every op whose derivative is wrong by 0.1 % is rejected, and so is a kernel with a planted bug.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { GradientCheckError } from "../../engine/check.ts";
import { device, type Device } from "../../engine/device.ts";
import { stopGradient } from "../../engine/grad.ts";
import { add, mul, sub } from "../../engine/ops/pointwise.ts";
import type { Call } from "../../engine/op.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { isFloat, type TensorType } from "../../engine/types.ts";
import {
  adjointError,
  type AnyOp,
  allOps,
  checkOpGradient,
  difference,
  evaluate,
  samplesOf,
} from "../support/opChecks.ts";
import { GuardedDevice } from "../support/guarded.ts";

let f64: Device;
let wasm: Device;
beforeAll(async () => {
  f64 = await device("reference");
  wasm = await device("wasm");
});

const differentiable = allOps().filter(
  (op) =>
    op.overwrites === undefined &&
    samplesOf(op).some((s) => s.inputs.some((x, i) => isFloat(x.dtype) && (s.differentiable?.[i] ?? true))),
);
/** What the check says at the first sample whose gradient it rejects. */
async function rejected(op: AnyOp, order: 1 | 2): Promise<string> {
  for (const sample of samplesOf(op)) {
    try {
      await checkOpGradient(f64, op, sample, order);
    } catch (error) {
      if (error instanceof GradientCheckError) return error.message;
      throw error;
    }
  }
  return "accepted at every sample";
}

/** Steps have derivative 0: scaling it by 1.001 changes nothing. */
const STEPS = new Set(["sign", "floor", "lt", "le", "gt", "ge", "eq", "ne", "argmax", "argmin"]);

describe("a vjp that is wrong by 0.1 % is rejected", () => {
  test.each(differentiable.filter((op) => !STEPS.has(op.name)).map((op) => ({ name: op.name, op })))(
    "$name",
    async ({ op }) => {
      const wrong: AnyOp = { ...op, vjp: (context) => op.vjp(context).map((d) => (d === null ? null : mul(d, 1.001))) };
      if (op.linear) expect(Math.max(...samplesOf(op).map((s) => adjointError(f64, wrong, s)))).toBeGreaterThan(1e-12);
      expect(await rejected(wrong, 1)).toContain("checkGradient: the gradient is wrong");
    },
  );
});

/** Ops whose second derivative is 0 wherever it exists, so that no error in it can be seen. */
const PIECEWISE_LINEAR = new Set([
  "abs",
  "relu",
  "maximum",
  "minimum",
  "clamp",
  "where",
  "dropout",
  "max",
  "min",
  "maskedSum",
  "maskedMax",
]);

describe("a vjp that is right, but whose own derivative is wrong by 0.1 %, is rejected", () => {
  /** The same value; derivatives scaled by 1.001. */
  const skewed = (x: Tensor): Tensor => {
    if (!isFloat(x.dtype)) return x;
    const value = stopGradient(x);
    return add(value, mul(sub(x, value), 1.001));
  };
  const candidates = differentiable.filter((op) => !op.linear && !STEPS.has(op.name) && !PIECEWISE_LINEAR.has(op.name));
  test.each(candidates.map((op) => ({ name: op.name, op })))("$name", async ({ op }) => {
    const wrong: AnyOp = {
      ...op,
      vjp: (context) => op.vjp({ ...context, x: context.x.map(skewed), y: context.y.map(skewed) }),
    };
    for (const sample of samplesOf(op)) await checkOpGradient(f64, wrong, sample, 1); // the first derivative is right
    expect(await rejected(wrong, 2)).toContain("checkGradient: the gradient of the gradient is wrong");
  });
});

describe("a wrong kernel is rejected", () => {
  const named = (name: string): AnyOp => allOps().find((op) => op.name === name)!;
  const planted: [label: string, op: AnyOp, kernelOf: AnyOp][] = [
    ["add computed by sub", named("add"), named("sub")],
    ["tanh computed by sigmoid", named("tanh"), named("sigmoid")],
    ["maximum computed by minimum", named("maximum"), named("minimum")],
    ["max computed by min", named("max"), named("min")],
    ["masked sum that forgets its mask", named("maskedSum"), named("maskedMax")],
    ["gelu computed by its other form", named("gelu"), named("geluErf")],
  ];
  test.each(planted)("%s", async (_, op, other) => {
    const wrong: AnyOp = { ...op, kernel: other.kernel };
    let worst = 0;
    for (const sample of samplesOf(op)) {
      const [right, got] = [await evaluate(f64, op, sample), await evaluate(wasm, wrong, sample)];
      right.forEach((y, k) => (worst = Math.max(worst, difference(got[k]!, y))));
    }
    expect(worst).toBeGreaterThan(1e-5);
  });

  /** The shapes of a call with one row more than there is: what a kernel does whose bound is one too large. */
  const oneRowMore = (call: Call<unknown>): Call<unknown> => {
    const longer = (x: TensorType): TensorType => ({ ...x, shape: x.shape.map((n, d) => (d === 0 ? n + 1 : n)) });
    return { ...call, inputs: call.inputs.map(longer), outputs: call.outputs.map(longer) };
  };
  const rowwise = ["exp", "add", "softmax", "softmaxBackward", "logProbs", "cast", "norm", "dropout", "assign"];
  test.each(rowwise)("%s that goes on for a row behind the end is seen by the canaries", async (name) => {
    const op = named(name);
    const wrong: AnyOp = { ...op, kernel: (call) => op.kernel(oneRowMore(call)) };
    const sample = samplesOf(op).find((s) => s.inputs[0]!.shape.length > 0)!;
    await expect(evaluate(new GuardedDevice(wasm), wrong, sample)).rejects.toThrow(
      /wrote 0 words behind the end of a buffer of \d+ bytes|was changed at element/,
    );
  });
  test("an op that changes its input is rejected", async () => {
    const op = named("assign");
    const { overwrites: _, ...silent } = op;
    await expect(evaluate(wasm, silent, samplesOf(op)[0]!)).rejects.toThrow("assign: input 1 was changed at element 0");
  });
});
