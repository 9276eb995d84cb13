/** Runs WGSL programs over plain arrays on the provisioned adapter, for the kernel tests. One device per test file. */
import type { WebgpuBackend } from "../../engine/backends/webgpu.ts";
import type { Program, WgslKernel } from "../../kernels/kernel.ts";
import { openWebgpu, runProgram } from "../support/gpu.ts";
import type { Values } from "./wasm-harness.ts";

export { expectClose, normals, type Values } from "./wasm-harness.ts";

let backend: Promise<WebgpuBackend> | undefined;

/** Executes `program` on `inputs`; one f32 array per entry of `outputs` (their lengths), which start as garbage. */
export async function runWgsl(
  program: Program<WgslKernel>,
  inputs: readonly Values[],
  outputs: readonly number[],
): Promise<Float32Array[]> {
  backend ??= openWebgpu();
  const results = await runProgram(await backend, program, [...inputs, ...outputs]);
  return results.map((bytes) => new Float32Array(bytes));
}
