/**
 * One decoder-only transformer: Llama/Qwen style (RMSNorm, rotary positions, grouped-query attention, SwiGLU) and GPT-2
 * style (LayerNorm, learned positions, GELU), pre-norm residual blocks (Vaswani et al. 2017; Radford et al. 2019;
 * Touvron et al. 2023). It is a set of functions over a plain tree of parameters, without state.
 *
 * Axes: B rows, T tokens, C hidden size, H heads, D head size, V vocabulary, S positions in a cache.
 */
import { check } from "../engine/errors.ts";
import { attention } from "../engine/ops/attention.ts";
import { cacheAttention } from "../engine/ops/cacheAttention.ts";
import { tensor } from "../engine/ops/create.ts";
import { apply } from "../engine/op.ts";
import { checkTensor } from "../engine/operands.ts";
import { embedding, gather, writeRowsOp } from "../engine/ops/indexing.ts";
import { matmul } from "../engine/ops/matmul.ts";
import { reshape } from "../engine/ops/movement.ts";
import { layerNorm, rmsNorm } from "../engine/ops/norm.ts";
import { fuse } from "../engine/fuse.ts";
import { add, gelu, geluErf, siluExpr } from "../engine/ops/pointwise.ts";
import { rotary } from "../engine/ops/rotary.ts";
import { split } from "../engine/ops/split.ts";
import { checkpoint } from "../engine/checkpoint.ts";
import { scope } from "../engine/scope.ts";
import { isRecording, recordingOutside } from "../engine/tape.ts";
import type { Weight } from "../engine/matrixForm.ts";
import { Tensor } from "../engine/tensor.ts";
import type { Rng } from "../engine/random.ts";
import { type Tree, treeFromLeaves, treeLeaves } from "../engine/tree.ts";
import { isFloat, showShape } from "../engine/types.ts";
import type { KvCache, Places } from "./cache.ts";
import { longestText, type ModelConfig, windowOf } from "./config.ts";
import type { AttentionParams, LayerParams, Linear, MlpParams, Norm, TransformerParams } from "./parameters.ts";
import { type Rotation, rotationOf } from "./rope.ts";

/** A transformer: its configuration and its parameters. `Model<Tensor>`: each of them is a tensor. */
export interface Model<W extends Weight = Weight> {
  readonly config: ModelConfig;
  readonly params: TransformerParams<W>;
  /** The trained part, if that is not all of `params`: an adapter (lora.ts). See `trainableOf`. */
  readonly trainable?: Trainable | undefined;
}

/** The trained part of a model, and the way to make the model of it. */
export interface Trainable<T extends Tree = Tree> {
  /** The tensors that the optimiser changes in place. */
  readonly params: T;
  /** The model with other tensors in the place of `params`: with the variables of a gradient, or a copy. */
  modelOf(params: T, options?: TrainingOptions): Model;
  /**
   * The model without the trained part, if that was added to it: the policy that training starts from, and its
   * reference, without a second copy of the weights. Undefined where all parameters are trained.
   */
  readonly base?: Model;
  /** The settings of such a part, as plain data: `addLora(base, settings)` makes another like it. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** Options of a forward pass in training. */
export interface TrainingOptions {
  /** The stream of dropout, for adapters that have some; no dropout unless given. */
  readonly dropout?: Rng | undefined;
}

/**
 * The trained part of a model: its `trainable` part, or else all parameters. Trainers train it, their optimisers are
 * made of it, and rollout workers are sent it.
 * @throws if all parameters are to be trained and some are no floats
 *
 * @example
 * const optimizer = new AdamW(trainableOf(model).params, { clipNorm: 1 });
 */
export function trainableOf(model: Model): Trainable {
  if (model.trainable) return model.trainable;
  const { config, params } = model;
  check(
    treeLeaves(params).every((x) => isFloat(x.dtype)),
    () => "trainableOf: only floats can be trained; add an adapter to the model and train that (addLora)",
  );
  return { params, modelOf: (leaves) => ({ config, params: leaves as TransformerParams }) };
}

/** Options of `forward`. */
export interface ForwardOptions {
  /**
   * i32 [B, T]: attention stays inside equal non-negative segments; −1 marks padding. Positions then count from
   * `positions`.
   */
  readonly segments?: Tensor;
  /** Position of every token, [B · T]; 0 … T−1 in each row unless given. */
  readonly positions?: Int32Array;
  /** The cache whose rows are continued: B is 1, and each of the T tokens has its own place (see `KvCache.append`). */
  readonly cache?: { readonly store: KvCache; readonly places: Places };
  /**
   * Whether, while a gradient is recorded, each block keeps only its input and runs again in the backward pass
   * (`checkpoint`). The same bits for about a third more time; activations take 4·C bytes per token and block, and
   * those of one block. It has no effect if heads are watched. Default false.
   */
  readonly gradientCheckpointing?: boolean;
  /** A callback that gets the heads of every layer; only without a cache. */
  readonly watch?: (layer: number, heads: AttentionHeads) => void;
}

/** Queries and result [B, T, H, D], keys and values [B, T, K, D] with K key/value heads, positions turned in. */
export interface AttentionHeads {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly out: Tensor;
  /** The largest number of keys that a query sees, in layers with a sliding window. */
  readonly window?: number;
}

/**
 * Hidden states after the final norm.
 * @param ids i32 [B, T]; rows may be padded at the end with any valid id: causal attention never reads it
 * @returns [B, T, C]; `logits` or `tokenLogProbs` turn them into predictions of the next token
 * @throws if an id or a position is outside its table
 */
export function forward(
  params: TransformerParams,
  config: ModelConfig,
  ids: Tensor,
  options: ForwardOptions = {},
): Tensor {
  checkTensor("forward", ids);
  check(ids.rank === 2, () => `forward: ids must be [B, T], got ${showShape(ids.shape)}`);
  const [B, T] = ids.shape as [number, number];
  const { device } = ids;
  const positions = options.positions ?? options.cache?.places.positions ?? countUp(B, T);
  checkPositions(positions, T, config);
  const positions_BT = tensor(positions, { device, shape: [B, T] });
  const context: BlockContext = {
    config,
    ...options,
    positions_BT,
    rotation:
      config.positions === "rotary"
        ? rotationOf(config, positions, positions_BT, options.cache?.places.rows)
        : undefined,
    ...(options.cache ? { decoding: decodingOf(options.cache.places, reshape(positions_BT, [B * T])) } : {}),
  };
  let x_BTC = rowsOf(params.embedding, ids);
  if (params.positions) {
    x_BTC = through(x_BTC, params.positions, {}, (x, table) => add(x, embedding(table, positions_BT)));
  }
  params.layers.forEach((layer, n) => {
    x_BTC = through(x_BTC, layer, context, (x, block) => transformerBlock(x, block, context, n));
  });
  return through(x_BTC, params.norm, {}, (x, weights) => norm(x, weights, config));
}

/**
 * A stage of the residual stream. Without a gradient its input and intermediate tensors are freed; otherwise they are
 * kept for the backward pass, or computed again there (`gradientCheckpointing`).
 */
function through<T extends Tree>(
  x_BTC: Tensor,
  params: T,
  { gradientCheckpointing = false, watch }: ForwardOptions,
  stage: (x_BTC: Tensor, params: T) => Tensor,
): Tensor {
  if (recordingOutside()) {
    const inputs = [x_BTC, ...treeLeaves(params)];
    if (isRecording(inputs)) {
      if (!gradientCheckpointing || watch !== undefined) return stage(x_BTC, params);
      return checkpoint(([x, ...leaves]) => [stage(x!, treeFromLeaves(params, leaves))], inputs)[0]!;
    }
  }
  if (watch !== undefined) return stage(x_BTC, params); // a watcher may keep the tensors
  const y_BTC = scope(() => stage(x_BTC, params), "block");
  x_BTC.dispose();
  return y_BTC;
}

/** One block: attention and MLP, each behind a norm and beside the residual stream. @param n its layer of a cache */
export function transformerBlock(x_BTC: Tensor, layer: LayerParams, context: BlockContext, n: number): Tensor {
  const { config } = context;
  // The last product of each adds the residual stream: y = x + attention(norm x), then y + mlp(norm y).
  const y_BTC = selfAttention(norm(x_BTC, layer.inputNorm, config), x_BTC, layer.attention, context, n);
  return mlp(norm(y_BTC, layer.postNorm, config), y_BTC, layer.mlp, config);
}

/** The matrix [V, C] that turns hidden states into logits. */
export function outputMatrix<W extends Weight>(params: TransformerParams<W>): W {
  return params.head ?? params.embedding;
}

/** Logits [..., V] of hidden states [..., C]. */
export function logits(params: TransformerParams, hidden: Tensor): Tensor {
  const matrix = outputMatrix(params);
  return matrix instanceof Tensor ? matmul(hidden, matrix, { transB: true }) : matrix.times(hidden);
}

/** The rows of a table [V, C] that i32 ids [...] name, [..., C]. */
export function rowsOf(table: Weight, ids: Tensor): Tensor {
  return table instanceof Tensor ? embedding(table, ids) : table.rows(ids);
}

/** The rows `index` (into B·T) of hidden states [B, T, C], as [N, C]. */
export function pickHidden(hidden_BTC: Tensor, index: Int32Array): Tensor {
  const C = hidden_BTC.shape[2]!;
  return gather(reshape(hidden_BTC, [-1, C]), tensor(index, { device: hidden_BTC.device }));
}

/** Options that all blocks of one forward pass share. */
export interface BlockContext extends ForwardOptions {
  readonly config: ModelConfig;
  readonly positions_BT: Tensor;
  readonly rotation: Rotation | undefined;
  /** The row and position of each token in the cache, and the places of its keys and values. */
  readonly decoding?: { readonly rows_N: Tensor; readonly positions_N: Tensor; readonly slots: Tensor };
}

const decodingOf = ({ rows, slots }: Places, positions_N: Tensor): BlockContext["decoding"] => ({
  rows_N: tensor(rows, { device: positions_N.device }),
  positions_N,
  slots: tensor(slots, { device: positions_N.device }),
});

function countUp(B: number, T: number): Int32Array {
  const positions = new Int32Array(B * T);
  for (let i = 0; i < positions.length; i++) positions[i] = i % T;
  return positions;
}

function checkPositions(positions: Int32Array, T: number, config: ModelConfig): void {
  const most = longestText(config);
  const wrong = positions.findIndex((position) => position < 0 || position >= most);
  check(
    wrong < 0,
    () =>
      `forward: position ${positions[wrong]} in row ${Math.floor(wrong / T)} is outside ` +
      `the model's ${most} positions`,
  );
}

/** y = x Wᵀ + b, or x W + b where the checkpoint stores [in, out]; beside a residual r [..., out] y + r. */
export function linear(x: Tensor, { weight, bias }: Linear, config: ModelConfig, residual?: Tensor): Tensor {
  if (!(weight instanceof Tensor)) return weight.times(x, bias, residual);
  return matmul(x, weight, { transB: config.family !== "gpt2", bias, addend: residual });
}

function norm(x: Tensor, { weight, bias }: Norm, config: ModelConfig): Tensor {
  return bias ? layerNorm(x, weight, bias, config.normEps) : rmsNorm(x, weight, config.normEps);
}

function selfAttention(
  x_BTC: Tensor,
  residual_BTC: Tensor,
  p: AttentionParams,
  context: BlockContext,
  layer: number,
): Tensor {
  const { config, cache } = context;
  const [B, T] = x_BTC.shape as [number, number];
  const { heads, kvHeads, headDim: D } = config;
  let [q, k, v] = projections(x_BTC, p, config);
  q = reshape(q, [B, T, heads, D]);
  k = reshape(k, [B, T, kvHeads, D]);
  v = reshape(v, [B, T, kvHeads, D]);
  if (p.qNorm && p.kNorm) {
    q = rmsNorm(q, p.qNorm.weight, config.normEps);
    k = rmsNorm(k, p.kNorm.weight, config.normEps);
  }
  if (context.rotation && (config.rotaryLayers?.[layer] ?? true)) {
    const { rows_BT, cos, sin } = context.rotation;
    q = rotary(q, rows_BT, cos, sin);
    k = rotary(k, rows_BT, cos, sin);
  }
  const window = windowOf(config, layer);
  let out: Tensor;
  if (cache && context.decoding) {
    const { k: keys, v: values } = cache.store.layers[layer]!;
    const { rows_N, positions_N, slots } = context.decoding;
    // The op and not `writeRows`, which would search for slots that occur twice: these cannot.
    for (const [cached, fresh] of [
      [keys, k],
      [values, v],
    ] as const) {
      apply(writeRowsOp, [reshape(fresh, [-1, D]), slots, reshape(cached, [-1, D])], { axis: 0 });
    }
    out = cacheAttention(reshape(q, [B * T, heads, D]), keys, values, rows_N, positions_N, window ? { window } : {});
  } else {
    out = attention(q, k, v, {
      ...(context.segments ? { segments: context.segments } : {}),
      ...(window ? { window } : {}),
    });
    context.watch?.(layer, { q, k, v, out, ...(window ? { window } : {}) });
  }
  const merged = reshape(out, [B, T, heads * D]);
  return linear(merged, p.o, config, residual_BTC);
}

function projections(x: Tensor, p: AttentionParams, config: ModelConfig): [Tensor, Tensor, Tensor] {
  if (p.qkv) {
    return split(linear(x, p.qkv, config), 3) as [Tensor, Tensor, Tensor];
  }
  return [linear(x, p.q!, config), linear(x, p.k!, config), linear(x, p.v!, config)];
}

/** silu(gate) · up in one kernel (N. Shazeer, "GLU Variants Improve Transformer", 2020). */
const swiglu = fuse("swiglu", (gate, up) => siluExpr(gate).mul(up));

function mlp(x: Tensor, residual: Tensor, p: MlpParams, config: ModelConfig): Tensor {
  const up = linear(x, p.up, config);
  if (p.gate) return linear(swiglu(linear(x, p.gate, config), up), p.down, config, residual);
  return linear(config.mlp === "gelu_erf" ? geluErf(up) : gelu(up), p.down, config, residual);
}
