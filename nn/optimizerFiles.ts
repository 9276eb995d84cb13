/** Optimiser states as safetensors files; their tensors have the parameters' names in Hugging Face's files. */
import { check, fail } from "../engine/errors.ts";
import { tensor } from "../engine/ops/create.ts";
import { scope } from "../engine/scope.ts";
import { assign } from "../engine/state.ts";
import type { Tensor } from "../engine/tensor.ts";
import { type Tree, treeEntries } from "../engine/tree.ts";
import { sameShape, type Shape, showShape } from "../engine/types.ts";
import type { ModelConfig } from "./config.ts";
import type { AdamW } from "./optimizer.ts";
import { huggingFaceName } from "./parameters.ts";
import {
  readSafetensors,
  readSafetensorsHeader,
  type SafeDtype,
  type SafeTensor,
  type SafeTensorInfo,
  type SafeTensorInput,
  writeSafetensors,
} from "./safetensors.ts";

/** File contents by name. */
export type Files = Readonly<Record<string, Uint8Array | string>>;

/** `optimizer.safetensors`: AdamW's moments as `m.<name>`, `v.<name>`, its step count in the metadata. */
export async function optimizerToFiles(config: ModelConfig, optimizer: AdamW<Tree>): Promise<Files> {
  const { step, m, v } = optimizer.state;
  const prefixed = async (prefix: string, tree: Tree): Promise<[string, SafeTensorInput][]> =>
    (await namedTensors(config, tree)).map(([name, x]) => [`${prefix}.${name}`, x]);
  const tensors = [...(await prefixed("m", m)), ...(await prefixed("v", v))];
  return { "optimizer.safetensors": writeSafetensors(tensors, { step: String(step) }) };
}

/**
 * Writes saved moments into a fresh optimiser of the same model.
 * @param step the number of updates so far; as saved in the file unless given
 * @throws as `modelFromTensors`, or if the file does not give its step; nothing is changed then
 */
export function restoreOptimizer(
  config: ModelConfig,
  optimizer: AdamW<Tree>,
  weights: Uint8Array,
  step: number = savedStep(weights),
): void {
  const saved = readSafetensors(weights);
  const { m, v } = optimizer.state;
  scope(() => {
    const updates: [moment: Tensor, value: Tensor][] = [];
    for (const [prefix, tree] of Object.entries({ m, v })) {
      for (const [path, moment] of treeEntries(tree)) {
        const name = `${prefix}.${huggingFaceName(config, path)}`;
        const found = saved.get(name) ?? fail(`checkpoint: tensor "${name}" is missing`);
        saved.delete(name);
        const { device, shape, dtype } = moment;
        updates.push([moment, tensor(floats(name, found, shape), { device, shape, dtype })]);
      }
    }
    for (const name of saved.keys()) fail(`checkpoint: tensor "${name}" is no moment of this model`);
    optimizer.resume(step);
    for (const [moment, value] of updates) assign(moment, value);
  }, "restoreOptimizer");
}

function savedStep(weights: Uint8Array): number {
  const step = readSafetensorsHeader(weights).metadata.get("step") ?? "missing";
  check(/^\d+$/.test(step), () => `checkpoint: the optimiser's step in the metadata is ${step}, expected a number`);
  return Number(step);
}

async function namedTensors(config: ModelConfig, tree: Tree): Promise<[string, SafeTensorInput][]> {
  const named: [string, SafeTensorInput][] = [];
  for (const [path, x] of treeEntries(tree)) named.push(await namedTensor(config, path, x));
  return named;
}

/** A parameter's name and tensor as they are written. */
export async function namedTensor(config: ModelConfig, path: string, x: Tensor): Promise<[string, SafeTensorInput]> {
  const data = await x.read();
  const shape = [...x.shape];
  const name = huggingFaceName(config, path);
  if (data instanceof Int32Array) return fail(`checkpoint: "${path}" is an integer tensor`);
  return [name, data instanceof Float64Array ? { dtype: "F64", shape, data } : { dtype: "F32", shape, data }];
}

const FLOATS: readonly SafeDtype[] = ["F32", "F16", "BF16", "F64"];

/** @throws if a tensor of a file has another shape, or is no float */
export function checkInfo(
  { name, dtype, shape }: Pick<SafeTensorInfo, "name" | "dtype" | "shape">,
  expected: Shape,
): void {
  check(
    sameShape(shape, expected),
    () => `checkpoint: "${name}" has shape ${showShape(shape)}, expected ${showShape(expected)}`,
  );
  check(FLOATS.includes(dtype), () => `checkpoint: "${name}" has element type ${dtype}, expected a float`);
}

/** The numbers of a tensor of a file. @throws if it has another shape, or is no float */
export function floats(name: string, { dtype, data, shape }: SafeTensor, expected: Shape): Float32Array | Float64Array {
  checkInfo({ name, dtype, shape }, expected);
  return data as Float32Array | Float64Array;
}
