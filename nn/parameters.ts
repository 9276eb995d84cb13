/**
 * The transformer's parameters as a plain tree, their initialisation, and their names in Hugging Face checkpoints.
 * Matrices keep the layout of the checkpoint: [out, in] in the Llama and Qwen families, [in, out] in GPT-2 (its
 * Conv1D), so that loading and saving copy bytes and gradients compare name by name.
 */
import { fail } from "../engine/errors.ts";
import { ones, randomNormal, zeros } from "../engine/ops/create.ts";
import { checkDevice, type Device } from "../engine/device.ts";
import { checkRng, type Rng } from "../engine/random.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import type { Weight } from "../engine/matrixForm.ts";
import { Tensor } from "../engine/tensor.ts";
import { type Tree, treeLeaves } from "../engine/tree.ts";
import type { Shape } from "../engine/types.ts";
import type { ModelConfig } from "./config.ts";

/** A linear layer: a matrix, [out, in] or in GPT-2 [in, out], and perhaps a bias [out]. */
export type Linear<W extends Weight = Weight> = {
  readonly weight: W;
  readonly bias?: Tensor | undefined;
};
/** Gains [C], and in LayerNorm biases [C]. */
export type Norm = { readonly weight: Tensor; readonly bias?: Tensor | undefined };

/** GPT-2 has one matrix `qkv`, the others three; `qNorm` and `kNorm` [D] are Qwen3's. */
export type AttentionParams<W extends Weight = Weight> = {
  readonly qkv?: Linear<W> | undefined;
  readonly q?: Linear<W> | undefined;
  readonly k?: Linear<W> | undefined;
  readonly v?: Linear<W> | undefined;
  readonly o: Linear<W>;
  readonly qNorm?: Norm | undefined;
  readonly kNorm?: Norm | undefined;
};
/** `gate` exists in SwiGLU only. */
export type MlpParams<W extends Weight = Weight> = {
  readonly gate?: Linear<W> | undefined;
  readonly up: Linear<W>;
  readonly down: Linear<W>;
};
/** Parameters of one block. */
export type LayerParams<W extends Weight = Weight> = {
  readonly inputNorm: Norm;
  readonly attention: AttentionParams<W>;
  readonly postNorm: Norm;
  readonly mlp: MlpParams<W>;
};
/**
 * All parameters of a transformer, as a tree. The matrices may have other forms (`MatrixForm`);
 * `TransformerParams<Tensor>` is the tree of a model whose parameters can all be trained.
 */
export type TransformerParams<W extends Weight = Weight> = {
  /** [V, C] */
  readonly embedding: W;
  /** [P, C], learned positions only */
  readonly positions?: Tensor | undefined;
  readonly layers: readonly LayerParams<W>[];
  readonly norm: Norm;
  /** [V, C], unless tied to the embedding */
  readonly head?: W | undefined;
};

/** The kind of a parameter, for initialisation. */
type Kind = "weight" | "residual" | "one" | "zero";
type Make = (shape: Shape, kind: Kind, path: string) => Tensor;

/** The path and shape of every parameter of `config`, in the order of the tree; nothing is allocated. */
export function parameterShapes(config: ModelConfig): [path: string, shape: Shape][] {
  const shapes: [string, Shape][] = [];
  buildParams(config, (shape, _kind, path) => {
    shapes.push([path, shape]);
    return undefined as unknown as Tensor;
  });
  return shapes;
}

/** The tree of `config`, with `make` called once per parameter; checkpoints are read with it, too. */
export function buildParams(config: ModelConfig, make: Make): TransformerParams<Tensor> {
  const { hiddenSize: C, intermediateSize: F, headDim: D, heads, kvHeads } = config;
  const linear = (
    path: string,
    inputs: number,
    outputs: number,
    bias: boolean,
    kind: Kind = "weight",
  ): Linear<Tensor> => ({
    weight: make(config.family === "gpt2" ? [inputs, outputs] : [outputs, inputs], kind, `${path}.weight`),
    ...(bias ? { bias: make([outputs], "zero", `${path}.bias`) } : {}),
  });
  const norm = (path: string, size = C): Norm => ({
    weight: make([size], "one", `${path}.weight`),
    ...(config.norm === "layer" ? { bias: make([size], "zero", `${path}.bias`) } : {}),
  });
  const attention = (path: string): AttentionParams<Tensor> => {
    const { attentionBias: bias, attentionOutputBias } = config;
    const o = linear(`${path}.o`, heads * D, C, attentionOutputBias, "residual");
    if (config.family === "gpt2") return { qkv: linear(`${path}.qkv`, C, 3 * C, bias), o };
    return {
      q: linear(`${path}.q`, C, heads * D, bias),
      k: linear(`${path}.k`, C, kvHeads * D, bias),
      v: linear(`${path}.v`, C, kvHeads * D, bias),
      o,
      ...(config.qkNorm ? { qNorm: norm(`${path}.qNorm`, D), kNorm: norm(`${path}.kNorm`, D) } : {}),
    };
  };
  return {
    embedding: make([config.vocabSize, C], "weight", "embedding"),
    ...(config.positions === "learned" ? { positions: make([config.maxPositions, C], "weight", "positions") } : {}),
    layers: Array.from({ length: config.layers }, (_, n) => ({
      inputNorm: norm(`layers.${n}.inputNorm`),
      attention: attention(`layers.${n}.attention`),
      postNorm: norm(`layers.${n}.postNorm`),
      mlp: {
        ...(config.mlp === "swiglu" ? { gate: linear(`layers.${n}.mlp.gate`, C, F, config.mlpBias) } : {}),
        up: linear(`layers.${n}.mlp.up`, C, F, config.mlpBias),
        down: linear(`layers.${n}.mlp.down`, F, C, config.mlpBias, "residual"),
      },
    })),
    norm: norm("norm"),
    ...(config.tieEmbeddings ? {} : { head: make([config.vocabSize, C], "weight", "head") }),
  };
}

/**
 * Random parameters: normal with standard deviation `initializerRange`, gains 1, biases 0; matrices that write into the
 * residual stream are scaled by 1/√(2·layers) (Radford et al. 2019, §2.3). Each parameter has its own stream, so the
 * same seed gives the same values on every executor. They live outside all scopes.
 */
export function initParams(config: ModelConfig, rng: Rng, device: Device): TransformerParams<Tensor> {
  checkRng("initParams", rng);
  checkDevice("initParams", device);
  const std = { weight: config.initializerRange, residual: config.initializerRange / Math.sqrt(2 * config.layers) };
  const make: Make = (shape, kind, path) => {
    if (kind === "one") return ones(shape, { device });
    if (kind === "zero") return zeros(shape, { device });
    return randomNormal(rng.split(path), shape, { device, std: std[kind] });
  };
  // The scope frees the first ones if memory runs out at a later one.
  return outsideScopes(() => scope(() => buildParams(config, make), "initParams"));
}

/**
 * The parameters with another form in the place of each matrix: of the linear layers, the embedding and the head. A
 * tied head is not replaced separately. Gains, biases and the table of learned positions stay as they are.
 * @param replace may return the weight itself; `path` is that in the tree, as in `layers.0.mlp.up.weight`
 */
export function replaceWeights(
  params: TransformerParams,
  replace: (weight: Weight, path: string) => Weight,
): TransformerParams {
  const visit = (node: unknown, path: string): unknown => {
    if (typeof node !== "object" || node === null) return node;
    if (isWeight(node)) return node.shape.length === 2 && path !== "positions" ? replace(node, path) : node;
    const children = Object.entries(node).map(([key, child]) => [key, visit(child, path ? `${path}.${key}` : key)]);
    return Array.isArray(node) ? children.map(([, child]) => child) : Object.fromEntries(children);
  };
  return visit(params, "") as TransformerParams;
}

/**
 * Declares a weight from a file read-only until it is trained, so that a model may be larger than the memory
 * (`Storage.freeze`). This concerns only the weights of the blocks. Embedding and head stay in the memory: a program
 * that looks up one row of a table, or draws one token, would have to copy all of it in.
 */
export function freezeWeight(weight: Weight, path: string): void {
  if (path.startsWith("layers.")) for (const x of treeLeaves(weight)) x.storage.freeze();
}

const isWeight = (node: object): node is Weight => node instanceof Tensor || "withTensors" in node;

const LLAMA_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^embedding$/, "model.embed_tokens.weight"],
  [/^head$/, "lm_head.weight"],
  [/^norm\./, "model.norm."],
  [/^layers\.(\d+)\.inputNorm\./, "model.layers.$1.input_layernorm."],
  [/^layers\.(\d+)\.postNorm\./, "model.layers.$1.post_attention_layernorm."],
  [/^layers\.(\d+)\.attention\.([qkvo])\./, "model.layers.$1.self_attn.$2_proj."],
  [/^layers\.(\d+)\.attention\.([qk])Norm\./, "model.layers.$1.self_attn.$2_norm."],
  [/^layers\.(\d+)\.mlp\.(gate|up|down)\./, "model.layers.$1.mlp.$2_proj."],
];
const GPT2_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^embedding$/, "transformer.wte.weight"],
  [/^positions$/, "transformer.wpe.weight"],
  [/^head$/, "lm_head.weight"],
  [/^norm\./, "transformer.ln_f."],
  [/^layers\.(\d+)\.inputNorm\./, "transformer.h.$1.ln_1."],
  [/^layers\.(\d+)\.postNorm\./, "transformer.h.$1.ln_2."],
  [/^layers\.(\d+)\.attention\.qkv\./, "transformer.h.$1.attn.c_attn."],
  [/^layers\.(\d+)\.attention\.o\./, "transformer.h.$1.attn.c_proj."],
  [/^layers\.(\d+)\.mlp\.up\./, "transformer.h.$1.mlp.c_fc."],
  [/^layers\.(\d+)\.mlp\.down\./, "transformer.h.$1.mlp.c_proj."],
];

/** The name in a Hugging Face checkpoint of the parameter at `path` of the tree. */
export function huggingFaceName(config: ModelConfig, path: string): string {
  if (path.startsWith("base_model.")) return path; // of an adapter, whose tree has PEFT's names
  for (const [pattern, replacement] of config.family === "gpt2" ? GPT2_NAMES : LLAMA_NAMES) {
    if (pattern.test(path)) return path.replace(pattern, replacement);
  }
  return fail(`parameters: no Hugging Face name for "${path}" in family ${config.family}`);
}

/** The part of a `Model` that decides the number of its parameters. */
interface Counted {
  readonly params: TransformerParams;
  readonly trainable?: { readonly params: Tree; readonly base?: { readonly params: TransformerParams } } | undefined;
}

/** The numbers of trained parameters and of all (PEFT's `get_nb_trainable_parameters`). */
export function countParameters({ params, trainable }: Counted): { readonly trainable: number; readonly all: number } {
  const count = (leaves: readonly Tensor[]): number => leaves.reduce((n, x) => n + x.size, 0);
  const trained = count(treeLeaves(trainable?.params ?? params));
  return { trainable: trained, all: trained + (trainable?.base ? matrixSizes(trainable.base.params) : 0) };
}

/** The number of parameters in a tree; a form counts as many as the matrix that it stands for. */
function matrixSizes(params: TransformerParams): number {
  let total = 0;
  const counted = new Set<Tensor>();
  replaceWeights(params, (weight) => {
    total += weight.shape[0]! * weight.shape[1]!;
    for (const x of treeLeaves(weight)) counted.add(x);
    return weight;
  });
  return treeLeaves(params).reduce((n, x) => (counted.has(x) ? n : n + x.size), total);
}
