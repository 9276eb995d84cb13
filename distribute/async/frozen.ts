/**
 * The weights under an adapter as plain data. Workers that have a memory of their own are sent them once, packed as
 * they are on the learner's device; what is trained comes with every policy (messages.ts).
 */
import { check, fail } from "../../engine/errors.ts";
import { type Device, type Shape, tensor, type Tensor, treeEntries } from "../../engine/index.ts";
import { type Model, type ModelConfig, replaceWeights } from "../../nn/index.ts";
import { packedFromHost, PackedMatrix, type PackedWords } from "../../pretrained/index.ts";
import { buildParams, freezeWeight } from "../../nn/parameters.ts";

/** A weight on the host: floats, or the words of a packed matrix. */
export type FrozenWeight = Float32Array | Float64Array | PackedWords;

/** Weights by their path in the tree of parameters, as in `layers.0.mlp.up.weight`. */
export type FrozenWeights = Readonly<Record<string, FrozenWeight>>;

export const isPackedWords = (weight: FrozenWeight): weight is PackedWords => "words" in weight;

/** The weights of a model without an adapter, copied to the host. */
export async function frozenWeights({ params }: Model): Promise<FrozenWeights> {
  const matrices = new Map<Tensor, PackedMatrix>();
  replaceWeights(params, (weight) => {
    if (weight instanceof PackedMatrix) matrices.set(weight.packed, weight);
    return weight;
  });
  const weights: Record<string, FrozenWeight> = {};
  for (const [path, leaf] of treeEntries(params)) {
    const matrix = matrices.get(leaf);
    if (matrix) weights[path.replace(/\.packed$/, "")] = await matrix.toHost();
    else weights[path] = (await leaf.read()) as Float32Array | Float64Array;
  }
  return weights;
}

/**
 * A copy, on another device, of the model that `frozenWeights` read. Like that model, it may be larger than its
 * device's memory.
 * @throws if a weight is missing, is of another size, or is packed in another way than `config` has it
 */
export function frozenModel(config: ModelConfig, frozen: FrozenWeights, device: Device): Model {
  const left = new Set(Object.keys(frozen));
  const made = (shape: Shape, path: string): Tensor | PackedMatrix => {
    const weight = Object.hasOwn(frozen, path) ? frozen[path]! : fail(`frozen weights: "${path}" is missing`);
    left.delete(path);
    if (!isPackedWords(weight)) return tensor(weight, { device, shape, dtype: device.float });
    const isTable = path === "embedding" || path === "head";
    const expected = { shape, transposed: config.family === "gpt2" && !isTable };
    const { transposed } = weight;
    check(
      path !== "positions" && JSON.stringify({ shape: weight.shape, transposed }) === JSON.stringify(expected),
      () => `frozen weights: "${path}" must be a matrix [${shape.join(", ")}], got packed [${weight.shape.join(", ")}]`,
    );
    return packedFromHost(weight, device);
  };
  const make = (shape: Shape, _: unknown, path: string): Tensor => {
    const weight = made(shape, path);
    freezeWeight(weight, path);
    // A packed matrix may stand wherever a model has a matrix; `buildParams` is typed for tensors alone.
    return weight as Tensor;
  };
  const params = buildParams(config, make);
  check(left.size === 0, () => `frozen weights: no parameter is called ${[...left].slice(0, 3).join(", ")}`);
  return { config, params };
}
