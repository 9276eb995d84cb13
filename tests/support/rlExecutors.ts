/**
 * The executors that a suite of nn or rl runs on, and how exact each is: relative to the largest element of what is
 * compared.
 */
import { device, type Device } from "../../engine/device.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { gpuEnabled, gpuOptions } from "./gpu.ts";

export interface Executor {
  readonly name: string;
  readonly open: () => Promise<Device>;
  /** A forward or backward pass against a correct one in f64. */
  readonly tolerance: number;
}

export const reference: Executor = { name: "reference f64", open: () => device("reference"), tolerance: 1e-9 };
export const wasm: Executor = { name: "wasm", open: () => device("wasm"), tolerance: 1e-4 };
export const webgpu: Executor = {
  name: "webgpu",
  open: () => device("webgpu", { webgpu: gpuOptions }),
  tolerance: 1e-4,
};

/** WebGPU included, unless WORLDGRAD_GPU=off (which CI refuses). */
export const everyExecutor: readonly Executor[] = gpuEnabled ? [reference, wasm, webgpu] : [reference, wasm];

/** max |actual − expected| / max |expected|; Infinity for different lengths, NaN for NaN. */
export function relativeError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Infinity;
  let [worst, scale] = [0, 0];
  for (let i = 0; i < actual.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    if (Number.isNaN(difference)) return NaN;
    worst = Math.max(worst, difference);
    scale = Math.max(scale, Math.abs(expected[i]!));
  }
  return scale === 0 ? worst : worst / scale;
}

/** The elements of every tensor. */
export const readAll = (tensors: readonly Tensor[]): Promise<number[][]> =>
  Promise.all(tensors.map(async (x) => [...(await x.read())]));
