/**
 * All executors side by side, for properties: the same function of the same numbers on the f64 reference, on wasm and
 * on webgpu (guarded), and what they must agree on. WebGPU is left out under WORLDGRAD_GPU=off only, which CI refuses.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { type Shape, sizeOf } from "../../engine/types.ts";
import { gpuEnabled, gpuOptions } from "./gpu.ts";
import { GuardedDevice } from "./guarded.ts";
import { difference } from "./opChecks.ts";

export interface Executors {
  /** The f64 reference. */
  readonly reference: Device;
  /** What is compared with it. */
  readonly kernels: readonly GuardedDevice[];
  readonly dispose: () => void;
}

export async function openExecutors(): Promise<Executors> {
  const reference = await device("reference");
  const plain = [await device("wasm"), ...(gpuEnabled ? [await device("webgpu", { webgpu: gpuOptions })] : [])];
  return {
    reference,
    kernels: plain.map((d) => new GuardedDevice(d)),
    dispose: () => [reference, ...plain].forEach((d) => d.dispose()),
  };
}

/** Makes a tensor on the device at hand. */
export type Make = (values: ArrayLike<number>, shape: Shape, dtype?: "i32") => Tensor;
export type Build = (make: Make) => readonly Tensor[];

/** The results' elements on one device. */
export async function valuesOn(on: Device, build: Build): Promise<number[][]> {
  const results = scope(() =>
    build((values, shape, dtype) =>
      tensor(dtype ? Int32Array.from(values) : Float64Array.from(values), {
        device: on,
        shape,
        dtype: dtype ?? on.float,
      }),
    ),
  );
  const values = await Promise.all(results.map(async (y) => [...(await y.read())]));
  results.forEach((y) => y.dispose());
  if (on instanceof GuardedDevice) await on.verify();
  return values;
}

/**
 * Runs `build` everywhere and expects what the reference gets.
 * @param tolerance relative to the largest element of each result (1 at least); 0: the same numbers, NaN and −0
 *   included
 * @returns the reference's results
 */
export async function agree(executors: Executors, build: Build, tolerance = 1e-5): Promise<number[][]> {
  const expected = await valuesOn(executors.reference, build);
  for (const on of executors.kernels) {
    const actual = await valuesOn(on, build);
    expect(actual.length).toBe(expected.length);
    expected.forEach((y, k) => {
      if (tolerance === 0) expect(actual[k], `${on.kind}, result ${k}`).toEqual(y);
      else expect(difference(actual[k]!, y), `${on.kind}, result ${k}`).toBeLessThan(tolerance);
    });
  }
  return expected;
}

/** Normal values that f32 holds exactly, so that all executors start from the same numbers. */
export function draw(rng: Rng, shape: Shape): number[] {
  return Array.from({ length: sizeOf(shape) }, () => Math.fround(rng.normal()));
}
export const maskOf = (rng: Rng, shape: Shape): number[] => Array.from({ length: sizeOf(shape) }, () => rng.int(2));

export const seeds: fc.Arbitrary<number> = fc.integer({ min: 0, max: 2 ** 31 - 1 });

/** All index tuples of a shape, row-major. */
export function indicesOf(shape: Shape): number[][] {
  return shape.reduce<number[][]>(
    (all, n) => all.flatMap((index) => Array.from({ length: n }, (_, i) => [...index, i])),
    [[]],
  );
}

/** Where the element at `index` of a broadcast result lies in an operand of `shape`. */
export function offsetIn(shape: Shape, index: readonly number[]): number {
  const lead = index.length - shape.length;
  return shape.reduce((offset, n, d) => offset * n + (n === 1 ? 0 : index[lead + d]!), 0);
}
