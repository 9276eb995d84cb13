/**
 * The tests' WebGPU backend, on the adapter that `vitest.config.ts` provisioned. One device per test file is enough.
 */
import { type GpuAdapter, type GpuDevice, requestAdapter } from "../../engine/backends/webgpu-api.ts";
import { createWebgpuBackend, type WebgpuBackend, type WebgpuOptions } from "../../engine/backends/webgpu.ts";
import type { Program, WgslKernel } from "../../kernels/kernel.ts";

/** False only under WORLDGRAD_GPU=off, which CI refuses. */
export const gpuEnabled: boolean = process.env["WORLDGRAD_GPU"] !== "off";

/**
 * What `createWebgpuBackend` needs to open the provisioned adapter; pass it to `device("webgpu", { webgpu: … })`, too.
 */
export const gpuOptions: WebgpuOptions =
  process.env["WORLDGRAD_ADAPTER"] === "opengl"
    ? { dawnFlags: ["backend=opengl"], featureLevel: "compatibility" }
    : { powerPreference: "high-performance" };

export const openWebgpu = (options: WebgpuOptions = {}): Promise<WebgpuBackend> =>
  createWebgpuBackend({ ...gpuOptions, ...options });

export const openAdapter = (): ReturnType<typeof requestAdapter> => requestAdapter(gpuOptions, gpuOptions.dawnFlags);

/** An adapter that hands out the device it made, so that a test can harm it. */
export async function tappedAdapter(): Promise<{ adapter: GpuAdapter; device: () => GpuDevice }> {
  const real = await openAdapter();
  let made: GpuDevice | undefined;
  const adapter: GpuAdapter = {
    info: real.info,
    limits: real.limits,
    requestDevice: async (descriptor) => (made = await real.requestDevice(descriptor)),
  };
  return { adapter, device: () => made! };
}

const CANARY = 0x7fabcdef;

/**
 * Runs one program. A number among `operands` is an output of so many words: it starts as garbage and comes back;
 * arrays are inputs. Behind every operand lies a canary; a kernel that overwrites one, or an input that is not among
 * `mutable`, makes this throw.
 * @param mutable positions of inputs that the program may write; they come back after the outputs
 * @returns the outputs' bytes, then the mutable inputs', in order
 */
export async function runProgram(
  backend: WebgpuBackend,
  program: Program<WgslKernel>,
  operands: readonly (Float32Array | Int32Array | number)[],
  mutable: readonly number[] = [],
): Promise<ArrayBuffer[]> {
  const PAD = 8;
  const initial = operands.map((operand) => {
    const words = new Uint32Array((typeof operand === "number" ? operand : operand.length) + PAD).fill(CANARY);
    if (typeof operand === "number") words.fill(0x7f7fffff, 0, operand);
    else words.set(new Uint32Array(operand.buffer, operand.byteOffset, operand.length));
    return words;
  });
  const buffers = initial.map((words) => backend.alloc(words.byteLength));
  initial.forEach((words, i) => backend.write(buffers[i]!, words));
  const label = (): string => program.steps[0]?.kernel.key ?? "empty program";
  backend.run(program, buffers, label);
  const after = await Promise.all(buffers.map((buffer, i) => backend.read(buffer, initial[i]!.byteLength)));
  for (const buffer of buffers) backend.free(buffer);
  const result: ArrayBuffer[] = [];
  const written: ArrayBuffer[] = [];
  after.forEach((bytes, i) => {
    const before = initial[i]!;
    const words = new Uint32Array(bytes);
    const size = before.length - PAD;
    const isOutput = typeof operands[i] === "number";
    const start = isOutput || mutable.includes(i) ? size : 0;
    for (let k = start; k < words.length; k++) {
      if (words[k] !== before[k]) throw new Error(`${label()}: operand ${i} of ${size} words was changed at word ${k}`);
    }
    if (isOutput) result.push(bytes.slice(0, 4 * size));
    else if (mutable.includes(i)) written.push(bytes.slice(0, 4 * size));
  });
  return [...result, ...written];
}
