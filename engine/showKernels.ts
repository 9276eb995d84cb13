/** The kernels of an op as text, for readers. */
import { programOf } from "../kernels/program.ts";
import { generatorsFor } from "../kernels/wgsl/generators.ts";
import type { Call, Executable } from "./executable.ts";

/**
 * The WGSL of an op for these types and parameters: one complete shader for each kernel that it runs, in order. Nothing
 * is compiled, and no GPU is needed.
 * @example
 * const type = { shape: [3], dtype: "f32" } as const;
 * console.log(wgslOf(exp.op, { inputs: [type], outputs: [type], params: { args: [null] } })[0]);
 */
export function wgslOf<P>(op: Executable<P>, call: Call<P>): string[] {
  const operands = call.inputs.length + call.outputs.length;
  const { steps } = programOf(op.kernel(call), operands, generatorsFor({ schedule: "gpu" }));
  return steps.map(({ kernel }) => kernel.code());
}
