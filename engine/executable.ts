/** The part of an op that an executor needs to run it: no tensors, no derivatives. `OpDef` (op.ts) extends it. */
import type { Problem } from "../kernels/specs.ts";
import type { TensorType } from "./types.ts";

/** Elements of a tensor on the reference executor. */
export type Elements = Float32Array | Float64Array | Int32Array;

/** The types of one application of an op. */
export interface Call<P> {
  readonly inputs: readonly TensorType[];
  readonly outputs: readonly TensorType[];
  readonly params: P;
}

export interface Executable<P> {
  readonly name: string;
  /**
   * The definition of the right result: sequential, obvious, in plain `Math`, written independently of the kernels.
   * Runs in f64 and in f32; accumulates in double. Outputs are not initialised.
   */
  reference(inputs: readonly Elements[], outputs: readonly Elements[], call: Call<P>): void;
  /**
   * The op as problems for which there are kernels (`kernels/specs.ts`): one, or several that are solved in order. Each
   * executor makes its own kernels from them.
   */
  kernel(call: Call<P>): Problem | readonly Problem[];
}
