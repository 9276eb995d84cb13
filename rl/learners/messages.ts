/** The messages between learners, as plain data for any transport. */
import { check } from "../../engine/errors.ts";
import { type Tensor, tensor, type Tree, treeFromLeaves, treeLeaves } from "../../engine/index.ts";
import { readWeights } from "../async/messages.ts";
import { type BatchLoss, TERMS } from "../train/loss.ts";

/** The elements of a tensor, on the host. */
export type Floats = Float32Array | Float64Array;

/** The gradient of a micro-batch, and what its forward pass gave. */
export interface MicroGradient {
  /** One array for each tensor that is trained, in the order of the tree. */
  readonly gradient: readonly Floats[];
  /** [N], of the scored tokens. */
  readonly logProbs: Floats;
  readonly entropy: Floats;
  /** The terms of the loss, in the order of `TERMS`; undefined where the objective has none. */
  readonly terms: readonly (number | undefined)[];
}

/** Copies the results of a micro-batch to the host, and frees its tensors. */
export async function gradientToHost(gradient: Tree, result: BatchLoss): Promise<MicroGradient> {
  try {
    return await onHost(gradient, result);
  } finally {
    const terms = TERMS.map((name) => result[name]);
    for (const x of [...treeLeaves(gradient), result.logProbs, result.entropy, ...terms]) x?.dispose();
  }
}

async function onHost(gradient: Tree, result: BatchLoss): Promise<MicroGradient> {
  const floats = async (x: Tensor): Promise<Floats> => (await x.read()) as Floats;
  const terms: (number | undefined)[] = [];
  for (const name of TERMS) terms.push(await result[name]?.item());
  return {
    gradient: await readWeights(gradient),
    logProbs: await floats(result.logProbs),
    entropy: await floats(result.entropy),
    terms,
  };
}

/** The same as tensors, with the gradient in a tree like `trained`. @throws if the sizes are not those of the tree */
export function gradientFromHost<T extends Tree>(
  trained: T,
  { gradient, logProbs, entropy, terms }: MicroGradient,
): { readonly grads: T; readonly result: BatchLoss } {
  const grads = treeOfArrays(trained, gradient);
  const { device } = treeLeaves(trained)[0]!;
  const float = (values: Floats | readonly number[], shape: readonly number[]): Tensor =>
    tensor(values, { device, shape, dtype: device.float });
  const scalars = TERMS.flatMap((name, i) => (terms[i] === undefined ? [] : [[name, float([terms[i]], [])] as const]));
  const result = {
    logProbs: float(logProbs, [logProbs.length]),
    entropy: float(entropy, [entropy.length]),
    ...Object.fromEntries(scalars),
  } as BatchLoss;
  return { grads, result };
}

/** Arrays as a tree of tensors like another one. @throws if numbers or sizes differ */
export function treeOfArrays<T extends Tree>(like: T, arrays: readonly Floats[]): T {
  const leaves = treeLeaves(like);
  check(
    leaves.length === arrays.length && leaves.every(({ size }, i) => size === arrays[i]!.length),
    () => `learners: ${arrays.length} arrays do not fit the ${leaves.length} tensors that are trained`,
  );
  const made = leaves.map(({ device, shape, dtype }, i) => tensor(arrays[i]!, { device, shape, dtype }));
  return treeFromLeaves(like, made);
}
