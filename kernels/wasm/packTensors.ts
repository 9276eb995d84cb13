/** Packs many buffers into one: a copy of each, after a fill with zeros if there are gaps. */
import type { Program, Step, WasmKernel } from "../kernel.ts";
import type { PackTensorsSpec } from "../specs.ts";
import { copy, fill } from "./copy.ts";

/** See `PackTensorsSpec`. */
export function packTensors({ sizes, offsets, total }: PackTensorsSpec): Program<WasmKernel> {
  const target = sizes.length;
  const steps: Step<WasmKernel>[] = [];
  const isFull = sizes.reduce((sum, size) => sum + size, 0) === total;
  if (!isFull) steps.push({ kernel: fill({ count: total, bits: 0 }).steps[0]!.kernel, buffers: [target] });
  sizes.forEach((size, i) => {
    const [step] = copy({ dims: [size], inStrides: [1], inOffset: 0, outStrides: [1], outOffset: offsets[i]! }).steps;
    steps.push({ kernel: step!.kernel, buffers: [i, target] });
  });
  return { temps: [], steps };
}
