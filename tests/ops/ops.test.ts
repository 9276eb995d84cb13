/**
 * Every op on every sample: the reference in f32 against f64, first- and second-order gradients in f64 (or the adjoint
 * identity for linear ops), and the WebAssembly kernels against the reference, with canaries behind every buffer. The
 * WGSL kernels run through the same samples in ops-webgpu.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import {
  adjointError,
  allOps,
  checkOpGradient,
  difference,
  evaluate,
  labelOf,
  samplesOf,
} from "../support/opChecks.ts";
import { GuardedDevice } from "../support/guarded.ts";

let f64: Device;
let f32: Device;
let plainWasm: Device;
let wasm: Device;
beforeAll(async () => {
  f64 = await device("reference");
  f32 = await device("reference", { precision: "f32" });
  plainWasm = await device("wasm");
  wasm = new GuardedDevice(plainWasm);
});
afterAll(() => [f64, f32, plainWasm].forEach((d) => d.dispose()));

const ops = allOps();

test("there are ops, and each has samples", () => {
  expect(ops.length).toBeGreaterThan(60);
  expect(ops.filter((op) => samplesOf(op).length === 0).map((op) => op.name)).toEqual([]);
});

describe.each(ops.map((op) => ({ name: op.name, op })))("$name", ({ op }) => {
  test.each(samplesOf(op).map((sample) => ({ label: labelOf(sample), sample })))("$label", async ({ sample }) => {
    const expected = await evaluate(f64, op, sample);
    const tolerance = op.tolerance ?? 1e-5;
    const inF32 = await evaluate(f32, op, sample);
    expected.forEach((y, k) => expect(difference(inF32[k]!, y), `f32 reference, output ${k}`).toBeLessThan(tolerance));
    const inWasm = await evaluate(wasm, op, sample);
    expected.forEach((y, k) => expect(difference(inWasm[k]!, y), `wasm, output ${k}`).toBeLessThan(tolerance));

    // Gradients in f64, of both orders, where the differences themselves are exact to about 1e-10.
    if (op.overwrites !== undefined) return;
    if (op.linear) expect(adjointError(f64, op, sample), "⟨g, Ax⟩ = ⟨Aᵀg, x⟩").toBeLessThan(1e-12);
    await checkOpGradient(f64, op, sample, 2);
  });
});
