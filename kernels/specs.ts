/**
 * The contracts of the kernels: for each family, the normalised problem that `wasm/` and `wgsl/` both solve. Ops in
 * `engine/ops` translate shapes and parameters into these and know no generator: an executor brings its own, so that a
 * page with one executor carries the kernels of that one. Generators write the values that comments call *baked* into
 * the code and pass the others as arguments. All tensors are contiguous, row-major and have 4-byte elements (f32 unless
 * said). Buffers are listed as `inputs → outputs`, in binding order.
 *
 * Every output element is computed by one owner with an order of summation that depends on shapes only, so the same
 * inputs give the same bits.
 */
import type { Expr } from "./expr.ts";
import type { AdapterProfile, Program, WasmKernel, WgslKernel } from "./kernel.ts";

/**
 * Pointwise: y_k = outputs_k(inputs…) over a broadcast index space.
 * Buffers: the tensor inputs in order → every output with `inPlace[k] < 0`, in order.
 * Baked: expressions, input kinds, rank, which strides are 0, `inPlace`. Arguments: dims, non-zero strides, scalars.
 */
export interface PointwiseSpec {
  readonly name: string;
  readonly outputs: readonly Expr[];
  /** One entry per expression input: a tensor with its strides over `dims` (0 = broadcast), or a number. */
  readonly inputs: readonly PointwiseInput[];
  /** The output's shape after merging axes that every input walks alike; at least one axis. */
  readonly dims: readonly number[];
  /** The buffer of the tensor input that output k overwrites (it walks `dims` contiguously); −1: none. */
  readonly inPlace: readonly number[];
}
export type PointwiseInput =
  | { readonly kind: "tensor"; readonly strides: readonly number[] }
  | { readonly kind: "scalar"; readonly value: number };

/**
 * Reduction over the middle axis: x [outer, length, inner] → y [outer, inner], after a pointwise prologue over `inputs`
 * tensors of that same full shape (masked sums are prologues). argmax/argmin write i32 indices, lowest on a tie.
 * Buffers: inputs… → y. Baked: kind, prologue, inputs. `scale` multiplies a sum (means).
 */
export interface ReduceSpec {
  readonly kind: "sum" | "max" | "min" | "argmax" | "argmin";
  readonly prologue: Expr;
  readonly inputs: number;
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
  readonly scale: number;
}

/**
 * Running sum over the middle axis of [outer, length, inner]. `reverse` sums from the end, which is the adjoint.
 * Buffers: x → y.
 */
export interface CumsumSpec {
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
  readonly reverse: boolean;
}

/**
 * Strided copy of 4-byte words of any type: for every index i of `dims`, y[outOffset + Σ i_d·outStrides_d] = x[inOffset
 * + Σ i_d·inStrides_d]. The other elements of y keep their content. Permute, slice, broadcastTo (stride 0), concat and
 * pad (several steps on one output) use it. Baked: rank.
 */
export interface CopySpec {
  readonly dims: readonly number[];
  readonly inStrides: readonly number[];
  readonly inOffset: number;
  readonly outStrides: readonly number[];
  readonly outOffset: number;
}

/** y[i] = the 32-bit word `bits` for i < count. Buffers: → y. */
export interface FillSpec {
  readonly count: number;
  readonly bits: number;
}

/**
 * Many tensors in one: y[offsets[i] + j] = x_i[j], with zeros between; offsets ascend and nothing overlaps. It lets
 * optimisers use one kernel for all parameters. Buffers: x_0 … → y [total].
 */
export interface PackTensorsSpec {
  readonly sizes: readonly number[];
  readonly offsets: readonly number[];
  readonly total: number;
}

/**
 * gather: x [outer, rows, inner], ids i32 [count] → y [outer, count, inner] with y[o, n] = x[o, ids[n]]. An id outside
 * [0, rows) gives zeros. (The op has already refused such ids where the host made them.)
 */
export interface GatherSpec {
  readonly outer: number;
  readonly rows: number;
  readonly count: number;
  readonly inner: number;
}

/**
 * The adjoint of gather: g [outer, count, inner], ids i32 [count] → y [outer, rows, inner]. Each row of y is the sum of
 * its rows of g in the order of n; rows without any are 0.
 */
export type ScatterAddSpec = GatherSpec;

/**
 * takeAlong: x [outer, rows, inner], ids i32 [outer, count, inner] → y [outer, count, inner] with y[o, n, i] = x[o,
 * ids[o, n, i], i].
 */
export type TakeAlongSpec = GatherSpec;
/** Its adjoint: g [outer, count, inner], ids i32 [outer, count, inner] → y [outer, rows, inner]. */
export type ScatterAlongSpec = GatherSpec;

/**
 * Writes rows in place: dest[ids[n]] = src[n]. src [count, inner], ids i32 [count], dest [rows, inner]; ids below 0 are
 * skipped, and no two ids are equal. Buffers: src, ids, dest (readwrite).
 */
export interface WriteRowsSpec {
  readonly rows: number;
  readonly count: number;
  readonly inner: number;
}

/** i32 → f32 (exact to 2^24), f32 → i32 (truncating), elementwise. Buffers: x → y. */
export interface CastSpec {
  readonly count: number;
  readonly from: "f32" | "i32";
  readonly to: "f32" | "i32";
}

/**
 * Uniform floats in [0, 1) with 24 bits: y[i] = (bits >>> 8)·2⁻²⁴, where bits are word i & 1 of Threefry-2x32-20 under
 * (key0, key1) at block counter i >> 1 (the low word; the high word is 0). Buffers: → y.
 */
export interface RandomSpec {
  readonly count: number;
  readonly key0: number;
  readonly key1: number;
}

/** A term that a product adds, up to two: `row` is [N], for every row of C, and `whole` is [batch, M, N]. */
export type Addend = "row" | "whole";

/**
 * C[b] = act(scale · op(A[b]) · op(B[b]) + addends), where op transposes if asked.
 * A [batch, M, K] ([batch, K, M] if transA), B [batch, K, N] ([batch, N, K] if transB), C [batch, M, N]. Addends
 * (a bias, a residual) are added in their order.
 * If `batchA` or `batchB` is false, that operand is one matrix for all batches.
 * Buffers: A, B, addends… → C. Baked: flags, number of addends, activation (an expression of one input), tile choice.
 * Arguments: sizes, scale, the kinds of addends.
 */
export interface MatmulSpec {
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly batchA: boolean;
  readonly batchB: boolean;
  readonly scale: number;
  readonly addends: readonly Addend[];
  readonly activation?: Expr;
}

/**
 * Softmax or log-softmax over the last axis. Excluded entries give 0 (softmax) or −1e30 (log-softmax), and so does
 * every entry of a row that has only excluded ones. Buffers: x [rows, cols], (mask f32 [rows, cols]: 0 = excluded) → y.
 */
export interface SoftmaxSpec {
  readonly rows: number;
  readonly cols: number;
  readonly log: boolean;
  readonly masked: boolean;
}
/**
 * The adjoint of softmax. softmax: dx = y·(g − Σ g·y). log-softmax: dx = g − e^y·Σ g, with the sum over entries with y
 * > −1e29; excluded entries get 0. Buffers: y (the forward's result), g → dx.
 */
export interface SoftmaxBackwardSpec {
  readonly rows: number;
  readonly cols: number;
  readonly log: boolean;
}

/**
 * RMSNorm y = x/√(mean x² + eps)·w, LayerNorm y = (x − mean)/√(var + eps)·w + b (population variance, two passes).
 * Buffers: x [rows, cols], w [cols], (b [cols] for layer) → y.
 */
export interface NormSpec {
  readonly kind: "rms" | "layer";
  readonly rows: number;
  readonly cols: number;
  readonly eps: number;
}
/**
 * The adjoint of norm. Columns are summed within blocks of a fixed number of rows, then over blocks (in a temporary).
 * Buffers: x, w, g → dx [rows, cols], dw [cols], (db [cols] for layer).
 */
export type NormBackwardSpec = NormSpec;

/**
 * Rotary position embedding, halves convention (Llama): for j < D/2 with c, s = cos, sin [positions[b,t], j],
 * y_j = x_j·c − x_{j+D/2}·s, y_{j+D/2} = x_{j+D/2}·c + x_j·s; `inverse` rotates back (the adjoint).
 * Buffers: x [tokens, heads, D], positions i32 [tokens], cos [P, D/2], sin [P, D/2] → y.
 */
export interface RotarySpec {
  readonly tokens: number;
  readonly heads: number;
  readonly headDim: number;
  readonly tableRows: number;
  readonly inverse: boolean;
}

/**
 * Scaled dot-product attention with online softmax, no T×S matrix in memory.
 * q [B,T,H,D], k and v [B,S,Hkv,D] (query head h reads kv head ⌊h·Hkv/H⌋), → o [B,T,H,D], lse [B,T,H] (natural log).
 * Query t of row b stands at key position p = start[b] + t. It sees key j iff j < S, (causal ⇒ j ≤ p), (window > 0 ⇒
 * j > p − window; only with causal), and the mask allows: `none` start is 0; `start` aux = i32 start [B]; `segments`
 * aux = i32 segment [B,S], start is 0 and T = S, sees j iff segment[j] = segment[p] and segment[p] ≥ 0 (padding has
 * −1). Sees nothing: o = 0, lse = −1e30, all gradients 0. Buffers: q, k, v, (aux) → o, lse. Baked: causal, mask kind,
 * whether there is a window, headDim where that helps.
 */
export interface AttentionSpec {
  readonly batch: number;
  readonly queries: number;
  readonly keys: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly causal: boolean;
  readonly mask: "none" | "start" | "segments";
  readonly window: number;
}
/**
 * The adjoint of attention: it computes the probabilities again from lse, and D = Σ g·o per query. On a GPU dq and dk,
 * dv are made by separate passes, since floats have no atomic addition. Buffers: q, k, v, o, lse, g (of o), (aux) → dq,
 * dk, dv.
 */
export type AttentionBackwardSpec = AttentionSpec;

/**
 * Log-probability of one target per row and the row's entropy, at a per-row temperature: z = logits·invTemperature, lse
 * = log Σ e^z, logp = z[target] − lse, entropy = lse − Σ p·z (centred accumulation: log s − u/s with u = Σ
 * e^(z−m)(z−m)).
 * Buffers: logits [rows, vocab], targets i32 [rows], invTemperature [rows] → logp [rows], entropy [rows], lse [rows].
 */
export interface LogProbsSpec {
  readonly rows: number;
  readonly vocab: number;
}
/**
 * The adjoint of logProbs: dlogits = invTemperature·[gLogp·(1_target − p) − gEntropy·p·(z − lse + entropy)].
 * Buffers: logits, targets, invTemperature, entropy, lse, gLogp [rows], gEntropy [rows] → dlogits.
 */
export type LogProbsBackwardSpec = LogProbsSpec;

/**
 * Attention of single tokens over a cache, for decoding. Token n stands at position `positions[n]` of cache row
 * `rows[n]` and sees the keys 0 … positions[n] of that row, with window > 0 the last `window` of these. Tokens may come
 * in any order, and several may belong to one row.
 * q [N,H,D], k and v [R,Hkv,S,D] (query head h reads kv head ⌊h·Hkv/H⌋), rows i32 [N], positions i32 [N] → o [N,H,D].
 * A token whose row is not in [0, R) sees nothing: o = 0. The bits of a token's result depend on its own row only.
 * Buffers: q, k, v, rows, positions → o. Baked: headDim, whether there is a window.
 */
export interface CacheAttentionSpec {
  readonly tokens: number;
  readonly cacheRows: number;
  readonly capacity: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly window: number;
}

/**
 * Draws one token per row from softmax(logits · invTemperature) by inverting the distribution function at one random
 * number: word 0 of Threefry-2x32-20 under keys[r] at block counter `counters[r]` (high word 0), as (bits >>> 8)·2⁻²⁴.
 * If invTemperature is 0, it takes the lowest of the most probable tokens. `logProb` is the drawn token's at the row's
 * temperature (at 1 where invTemperature is 0), `plainLogProb` at 1. A row with a logit that is not finite gives id =
 * −1 − (the lowest such column), and that logit as both log-probabilities.
 * Buffers: logits [rows, vocab], invTemperature [rows], keys i32 [rows, 2], counters i32 [rows] → id i32 [rows],
 * logProb [rows], plainLogProb [rows].
 */
export interface SampleSpec {
  readonly rows: number;
  readonly vocab: number;
}

/** Kernels from outside, which an op brings along for each executor that it runs on. Buffers: as in its programs. */
export interface CustomSpec {
  readonly wasm: () => Program<WasmKernel>;
  readonly wgsl: (profile: AdapterProfile) => Program<WgslKernel>;
}

/** All families with their problems. `wasm/index.ts` and `wgsl/index.ts` export a generator by each of these names. */
export interface Families {
  readonly attention: AttentionSpec;
  readonly attentionBackward: AttentionBackwardSpec;
  readonly cacheAttention: CacheAttentionSpec;
  readonly cast: CastSpec;
  readonly copy: CopySpec;
  readonly cumsum: CumsumSpec;
  readonly custom: CustomSpec;
  readonly fill: FillSpec;
  readonly gather: GatherSpec;
  readonly logProbs: LogProbsSpec;
  readonly logProbsBackward: LogProbsBackwardSpec;
  readonly matmul: MatmulSpec;
  readonly norm: NormSpec;
  readonly normBackward: NormBackwardSpec;
  readonly packTensors: PackTensorsSpec;
  readonly pointwise: PointwiseSpec;
  readonly random: RandomSpec;
  readonly reduce: ReduceSpec;
  readonly rotary: RotarySpec;
  readonly sample: SampleSpec;
  readonly scatterAdd: ScatterAddSpec;
  readonly scatterAlong: ScatterAlongSpec;
  readonly softmax: SoftmaxSpec;
  readonly softmaxBackward: SoftmaxBackwardSpec;
  readonly takeAlong: TakeAlongSpec;
  readonly writeRows: WriteRowsSpec;
}

/**
 * A problem of a family, which an op wants solved. `operands` lists the op's inputs and outputs (counted together,
 * inputs first) that are the family's buffers, in their order; by default all of them in turn.
 */
export type Problem = { [F in keyof Families]: ProblemOf<F> }[keyof Families];
export interface ProblemOf<F extends keyof Families> {
  readonly family: F;
  readonly spec: Families[F];
  readonly operands?: readonly number[];
}
