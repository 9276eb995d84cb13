/** The test of the test: every op whose derivative is wrong by 0.1 % is rejected, and so is a kernel with a planted bug. */
import { beforeAll, describe, expect, test } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { isFloat } from "../../engine/types.ts";
import {
  adjointError,
  type AnyOp,
  allOps,
  difference,
  evaluate,
  gradientError,
  samplesOf,
} from "../support/opChecks.ts";

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
/** Steps have derivative 0: scaling it by 1.001 changes nothing. */
const STEPS = new Set(["sign", "floor", "lt", "le", "gt", "ge", "eq", "ne", "argmax", "argmin"]);

describe("a vjp that is wrong by 0.1 % is rejected", () => {
  test.each(differentiable.filter((op) => !STEPS.has(op.name)).map((op) => ({ name: op.name, op })))(
    "$name",
    ({ op }) => {
      const wrong: AnyOp = { ...op, vjp: (context) => op.vjp(context).map((d) => (d === null ? null : mul(d, 1.001))) };
      const worst = Math.max(
        ...samplesOf(op).map((s) => (op.linear ? adjointError(f64, wrong, s) : gradientError(f64, wrong, s, 1))),
      );
      expect(worst).toBeGreaterThan(op.linear ? 1e-12 : 1e-7);
    },
  );
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
});
