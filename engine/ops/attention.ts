/**
 * Scaled dot-product attention with grouped key/value heads and causal, start or segment masks, forward and backward
 * without a queries × keys matrix in memory (online softmax: Milakov & Gimelshein 2018, arXiv 1805.02867; tiles and the
 * recomputing backward pass: FlashAttention, Dao et al. 2022, arXiv 2205.14135).
 *
 * Query t of row b stands at key position start[b] + t. It sees key j if j is at or before it (causal), with a window
 * of w if j is one of the w last of these (its own position included; Longformer, Beltagy et al. 2020, arXiv
 * 2004.05150; as Mistral 7B has it, Jiang et al. 2023, arXiv 2310.06825) and, with segments, if both have the same
 * segment ≥ 0. A query that sees nothing gives zeros. Only a derivative of the backward op materialises the matrix.
 */
import type { AttentionSpec } from "../../kernels/specs.ts";
import { vjpOf } from "../checkpoint.ts";
import { check } from "../errors.ts";
import { apply, type Call, type Elements, type OpDef, type Sample, type SampleInput } from "../op.ts";
import { checkTensor } from "../operands.ts";
import { checkKeys } from "../options.ts";
import type { Rng } from "../random.ts";
import { filled, normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, checkInt, checkSameDtype, sameShape, type Shape, showShape, type TensorType } from "../types.ts";
import { arange, ones } from "./create.ts";
import { cast } from "./indexing.ts";
import { matmul } from "./matmul.ts";
import { broadcastTo, permute, reshape } from "./movement.ts";
import { add, eq, exp, ge, gt, le, mul, sub, where } from "./pointwise.ts";
import { logsumexp, max, sum } from "./reduce.ts";
import { EXCLUDED } from "./softmax.ts";

interface AttentionParams {
  readonly causal: boolean;
  readonly scale: number;
  /** The kind of the last input: `start` i32 [B], `segments` i32 [B, S], or nothing. */
  readonly mask: "none" | "start" | "segments";
  /** The largest number of keys that a causal query sees, its own and those before it; 0: all of them. */
  readonly window: number;
}

/** Types of q, k, v, which come first, and of the mask's integers, which come last. */
function operandsOf(
  inputs: readonly TensorType[],
  { mask }: AttentionParams,
): { qkv: readonly TensorType[]; aux: TensorType | undefined } {
  return { qkv: inputs.slice(0, 3), aux: mask === "none" ? undefined : inputs[inputs.length - 1] };
}

function specOf({ inputs, params }: Call<AttentionParams>): AttentionSpec {
  const [batch, queries, heads, headDim] = inputs[0]!.shape as [number, number, number, number];
  const [, keys, kvHeads] = inputs[1]!.shape as [number, number, number, number];
  return { batch, queries, keys, heads, kvHeads, headDim, ...params };
}

function checkOperands(where: string, inputs: readonly TensorType[], params: AttentionParams): void {
  const { qkv, aux } = operandsOf(inputs, params);
  const [q, k, v] = qkv as [TensorType, TensorType, TensorType];
  const shown = (): string => qkv.map((x) => showShape(x.shape)).join(" · ");
  qkv.forEach((x) => checkFloat(where, x));
  checkSameDtype(where, qkv);
  check(
    qkv.every((x) => x.shape.length === 4) && sameShape(k.shape, v.shape),
    () => `${where}: expected q [B, T, H, D], k and v [B, S, Hkv, D], got ${shown()}`,
  );
  const [batch, queries, heads, headDim] = q.shape as [number, number, number, number];
  const [batchK, keys, kvHeads, headDimK] = k.shape as [number, number, number, number];
  check(batch === batchK, () => `${where}: batch sizes differ: ${shown()}`);
  check(headDim === headDimK, () => `${where}: head dimensions differ: ${shown()}`);
  check(heads % kvHeads === 0, () => `${where}: ${heads} query heads are no multiple of ${kvHeads} key/value heads`);
  if (!aux) return;
  checkInt(where, aux);
  const expected: Shape = params.mask === "start" ? [batch] : [batch, keys];
  check(
    sameShape(aux.shape, expected),
    () => `${where}: expected ${params.mask} of shape ${showShape(expected)}, got ${showShape(aux.shape)}`,
  );
  check(
    params.mask !== "segments" || queries === keys,
    () => `${where}: segments need as many queries as keys, got ${shown()}`,
  );
}

/** Calls `visit` for every query with the keys it sees; the numbers are offsets of rows of D elements (lse: of one). */
function eachQuery(
  { batch, queries, keys, heads, kvHeads, headDim, causal, mask, window }: AttentionSpec,
  aux: Elements | undefined,
  visit: (query: number, atQ: number, atKeys: readonly number[]) => void,
): void {
  for (let b = 0; b < batch; b++) {
    for (let t = 0; t < queries; t++) {
      const position = (mask === "start" ? aux![b]! : 0) + t;
      const segment = mask === "segments" ? aux![b * keys + position]! : 0;
      for (let h = 0; h < heads; h++) {
        const atKeys: number[] = [];
        for (let j = 0; j < keys; j++) {
          if (causal && j > position) continue;
          if (window > 0 && j <= position - window) continue;
          if (mask === "segments" && (segment < 0 || aux![b * keys + j] !== segment)) continue;
          atKeys.push(((b * keys + j) * kvHeads + Math.floor((h * kvHeads) / heads)) * headDim);
        }
        const query = (b * queries + t) * heads + h;
        visit(query, query * headDim, atKeys);
      }
    }
  }
}

function dot(x: Elements, atX: number, y: Elements, atY: number, length: number): number {
  let total = 0;
  for (let d = 0; d < length; d++) total += x[atX + d]! * y[atY + d]!;
  return total;
}

/** Inputs q, k, v, (start or segments) → o [B, T, H, D], lse [B, T, H]. */
export const attentionOp: OpDef<AttentionParams> = {
  name: "attention",
  infer(inputs, params) {
    checkOperands("attention", inputs, params);
    const { shape, dtype } = inputs[0]!;
    return [
      { shape, dtype },
      { shape: shape.slice(0, 3), dtype },
    ];
  },
  reference([q, k, v, aux], [o, lse], call) {
    const spec = specOf(call);
    const { headDim, scale } = spec;
    o!.fill(0);
    lse!.fill(EXCLUDED);
    eachQuery(spec, aux, (query, atQ, atKeys) => {
      if (atKeys.length === 0) return;
      const scores = atKeys.map((atK) => scale * dot(q!, atQ, k!, atK, headDim));
      const largest = Math.max(...scores);
      const logTotal = largest + Math.log(scores.reduce((total, s) => total + Math.exp(s - largest), 0));
      for (let d = 0; d < headDim; d++) {
        o![atQ + d] = atKeys.reduce((total, atK, j) => total + Math.exp(scores[j]! - logTotal) * v![atK + d]!, 0);
      }
      lse![query] = logTotal;
    });
  },
  kernel: (call) => ({ family: "attention", spec: specOf(call) }),
  vjp({ g: [gO, gLse], x, y: [o, lse], params, needs }) {
    const [q, k, v, ...aux] = x as [Tensor, Tensor, Tensor, ...Tensor[]];
    const none = aux.map(() => null);
    if (gO && !gLse) return [...apply(attentionBackwardOp, [q, k, v, o!, lse!, gO, ...aux], params), ...none];
    // Only a second derivative reaches this line: lse is passed only to the backward op.
    const unfused = (inputs: readonly Tensor[]): Tensor[] => unfusedForward(inputs, aux, params);
    return [...vjpOf(unfused, [q, k, v], [gO!, gLse!], needs.slice(0, 3)), ...none];
  },
  samples: (rng) => attentionSamples(rng, () => []),
};

/** Inputs q, k, v, o, lse, the gradient of o, (start or segments) → the gradients of q, k, v. */
export const attentionBackwardOp: OpDef<AttentionParams> = {
  name: "attentionBackward",
  infer(inputs, params) {
    checkOperands("attentionBackward", inputs, params);
    return inputs.slice(0, 3);
  },
  reference([q, k, v, o, lse, g, aux], outputs, call) {
    const spec = specOf(call);
    const { headDim, scale } = spec;
    const [dq, dk, dv] = outputs.map((y) => new Float64Array(y.length)) as [Float64Array, Float64Array, Float64Array];
    eachQuery(spec, aux, (query, atQ, atKeys) => {
      const along = dot(g!, atQ, o!, atQ, headDim);
      for (const atK of atKeys) {
        const p = Math.exp(scale * dot(q!, atQ, k!, atK, headDim) - lse![query]!);
        const ds = scale * p * (dot(g!, atQ, v!, atK, headDim) - along);
        for (let d = 0; d < headDim; d++) {
          dq[atQ + d]! += ds * k![atK + d]!;
          dk[atK + d]! += ds * q![atQ + d]!;
          dv[atK + d]! += p * g![atQ + d]!;
        }
      }
    });
    [dq, dk, dv].forEach((d, i) => outputs[i]!.set(d));
  },
  kernel: (call) => ({ family: "attentionBackward", spec: specOf(call) }),
  vjp({ g, x, params, needs }) {
    const [inputs, aux] = [x.slice(0, 6), x.slice(6)];
    const unfused = (floats: readonly Tensor[]): Tensor[] => unfusedBackward(floats, aux, params);
    return [...vjpOf(unfused, inputs, g, needs.slice(0, 6)), ...aux.map(() => null)];
  },
  samples: (rng) =>
    attentionSamples(rng, (shape) => [
      normal(rng, shape),
      // Larger than any log-sum-exp here, so that e^(score − lse) stays of the order of a probability.
      { ...normal(rng, shape.slice(0, 3)), data: normal(rng, shape.slice(0, 3)).data.map((z) => 2 + 0.3 * z) },
      normal(rng, shape),
    ]),
};

/** [B, n, h, D] → [B, H, n, D], each head repeated for the query heads that share it. */
function byHead(x: Tensor, heads: number): Tensor {
  const [batch, n, kvHeads, headDim] = x.shape as [number, number, number, number];
  const repeated = broadcastTo(reshape(x, [batch, n, kvHeads, 1, headDim]), [
    batch,
    n,
    kvHeads,
    heads / kvHeads,
    headDim,
  ]);
  return permute(reshape(repeated, [batch, n, heads, headDim]), [0, 2, 1, 3]);
}
/** The adjoint of `byHead`: the gradient of [B, n, h, D] from that of [B, H, n, D]. */
function fromHeads(x: Tensor, kvHeads: number): Tensor {
  const [batch, heads, n, headDim] = x.shape as [number, number, number, number];
  const grouped = reshape(permute(x, [0, 2, 1, 3]), [batch, n, kvHeads, heads / kvHeads, headDim]);
  return sum(grouped, { axis: 3 });
}

/** 1 where query t sees key j: broadcasts to [B, H, T, S]. */
function visible(q: Tensor, k: Tensor, [aux]: readonly Tensor[], { causal, mask, window }: AttentionParams): Tensor {
  const [batch, queries] = q.shape as [number, number];
  const keys = k.shape[1]!;
  const count = (n: number, shape: Shape): Tensor => reshape(cast(arange(n, { device: q.device }), q.dtype), shape);
  const numbers = (shape: Shape): Tensor => reshape(cast(aux!, q.dtype), shape);
  const key = count(keys, [1, 1, 1, keys]);
  const query = count(queries, [1, 1, queries, 1]);
  const position = mask === "start" ? add(query, numbers([batch, 1, 1, 1])) : query;
  const upTo = causal ? le(key, position) : ones([1, 1, queries, keys], { device: q.device, dtype: q.dtype });
  const before = window > 0 ? mul(upTo, gt(key, sub(position, window))) : upTo;
  if (mask !== "segments") return before;
  const ofQuery = numbers([batch, 1, keys, 1]);
  return mul(before, mul(eq(ofQuery, numbers([batch, 1, 1, keys])), ge(ofQuery, 0)));
}

/**
 * 0 for queries that see no key, and for keys that no query sees, whatever they hold: the matrix has zeros for them,
 * and 0·NaN is NaN.
 */
function connected(queries: readonly Tensor[], keys: readonly Tensor[], sees: Tensor): readonly Tensor[] {
  const of = (axis: number): Tensor => {
    const any = max(sees, { axis });
    return reshape(any, [any.shape[0]!, any.shape[2]!, 1, 1]);
  };
  const [ofQuery, ofKey] = [of(3), of(2)];
  return [...queries.map((x) => where(ofQuery, x, 0)), ...keys.map((x) => where(ofKey, x, 0))];
}
/** Scores [B, H, T, S] where seen, else −1e30. */
function unfusedScores(q: Tensor, k: Tensor, sees: Tensor, scale: number): Tensor {
  const heads = q.shape[2]!;
  return where(sees, matmul(byHead(q, heads), byHead(k, heads), { transB: true, scale }), EXCLUDED);
}
/** e^(score − lse) where seen, else 0: masked before the exponential, so that its derivative meets no overflow. */
const unfusedWeights = (scores: Tensor, sees: Tensor, lse_BTH: Tensor): Tensor =>
  exp(where(sees, sub(scores, reshape(permute(lse_BTH, [0, 2, 1]), [...scores.shape.slice(0, 3), 1])), EXCLUDED));

/** The computation of `attentionOp`, op by op. */
function unfusedForward(inputs: readonly Tensor[], aux: readonly Tensor[], params: AttentionParams): Tensor[] {
  const sees = visible(inputs[0]!, inputs[1]!, aux, params);
  const [q, k, v] = connected(inputs.slice(0, 1), inputs.slice(1), sees) as [Tensor, Tensor, Tensor];
  const scores = unfusedScores(q, k, sees, params.scale);
  const lse_BTH = permute(logsumexp(scores, { axis: -1 }), [0, 2, 1]);
  const o = matmul(unfusedWeights(scores, sees, lse_BTH), byHead(v, q.shape[2]!));
  return [permute(o, [0, 2, 1, 3]), lse_BTH];
}

/** The computation of `attentionBackwardOp`, op by op. */
function unfusedBackward(inputs: readonly Tensor[], aux: readonly Tensor[], params: AttentionParams): Tensor[] {
  const [o, lse_BTH] = [inputs[3]!, inputs[4]!];
  const [heads, kvHeads] = [inputs[0]!.shape[2]!, inputs[1]!.shape[2]!];
  const sees = visible(inputs[0]!, inputs[1]!, aux, params);
  const [q, g, k, v] = connected([inputs[0]!, inputs[5]!], inputs.slice(1, 3), sees) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  const weights = unfusedWeights(unfusedScores(q, k, sees, params.scale), sees, lse_BTH);
  const gByHead = byHead(g, heads);
  const along = sum(mul(gByHead, byHead(o, heads)), { axis: -1, keepdims: true });
  const dScores = mul(weights, sub(matmul(gByHead, byHead(v, heads), { transB: true }), along));
  const { scale } = params;
  return [
    permute(matmul(dScores, byHead(k, heads), { scale }), [0, 2, 1, 3]),
    fromHeads(matmul(dScores, byHead(q, heads), { transA: true, scale }), kvHeads),
    fromHeads(matmul(weights, gByHead, { transA: true }), kvHeads),
  ];
}

/** The sample with queries of zeros, so that all scores are equal. */
const equalScores = (sample: Sample<AttentionParams>): Sample<AttentionParams> => ({
  ...sample,
  inputs: sample.inputs.map((x, i) => (i === 0 ? filled(x.shape, () => 0) : x)),
});

function attentionSamples(rng: Rng, more: (q: Shape) => SampleInput[]): Sample<AttentionParams>[] {
  const ints = (shape: Shape, data: readonly number[]): SampleInput => ({ shape, dtype: "i32", data });
  const sample = (
    label: string,
    [batch, queries, keys, heads, kvHeads, headDim]: readonly [number, number, number, number, number, number],
    causal: boolean,
    mask: AttentionParams["mask"] = "none",
    aux: SampleInput[] = [],
    window = 0,
  ): Sample<AttentionParams> => {
    const [q, kv] = [
      [batch, queries, heads, headDim],
      [batch, keys, kvHeads, headDim],
    ];
    return {
      label,
      inputs: [normal(rng, q), normal(rng, kv), normal(rng, kv), ...more(q), ...aux],
      params: { causal, scale: 0.6, mask, window },
    };
  };
  return [
    sample("causal, grouped heads", [1, 5, 5, 4, 2, 2], true),
    sample("one of each", [1, 1, 1, 1, 1, 1], true),
    sample("not causal, T ≠ S", [2, 2, 5, 2, 1, 3], false),
    sample("start, T ≠ S", [2, 2, 7, 2, 2, 2], true, "start", [ints([2], [5, 2])]),
    sample("start before the first key", [1, 3, 4, 1, 1, 2], true, "start", [ints([1], [-1])]),
    sample("segments with padding", [2, 5, 5, 2, 1, 2], true, "segments", [
      ints([2, 5], [0, 0, 1, 1, -1, -1, -1, 2, 2, 2]),
    ]),
    sample("key padding, not causal", [1, 4, 4, 2, 2, 1], false, "segments", [ints([1, 4], [-1, 0, 0, 0])]),
    sample("window of one key", [1, 3, 3, 1, 1, 2], true, "none", [], 1),
    sample("window, two tiles of queries", [1, 9, 9, 2, 1, 2], true, "none", [], 3),
    sample("window and start, T ≠ S", [2, 2, 9, 2, 1, 2], true, "start", [ints([2], [7, 2])], 4),
    equalScores(sample("points: all scores equal", [1, 3, 3, 2, 1, 2], true)),
    sample("window in segments", [1, 7, 7, 1, 1, 2], true, "segments", [ints([1, 7], [0, 0, 0, 0, 1, 1, -1])], 2),
  ];
}

/** Checks that a window is a number of keys. */
export function checkWindow(where: string, window: number | undefined): void {
  const fits = window === undefined || (Number.isSafeInteger(window) && window >= 1 && window < 2 ** 31);
  check(fits, () => `${where}: window is ${String(window)}, expected an integer from 1 to 2³¹ − 1`);
}

/** Options of `attention`. */
export interface AttentionOptions {
  /** Whether a query sees only keys up to its own position; true unless given. */
  readonly causal?: boolean;
  /** The factor of the scores; 1/√D unless given. */
  readonly scale?: number;
  /** i32 [B]: the key position of each row's first query (the length of its cache before it); 0 unless given. */
  readonly start?: Tensor;
  /** i32 [B, S] for T = S: a token sees its own segment only; −1 is padding, which sees and shows nothing. */
  readonly segments?: Tensor;
  /**
   * The largest number of keys that a query sees: its own and those right before it (`sliding_window` of Mistral and
   * Qwen). All of them unless given. Needs `causal`.
   */
  readonly window?: number;
}

/**
 * softmax(scale · q·kᵀ + mask)·v for every head; query head h reads key/value head ⌊h·Hkv/H⌋.
 * @param q [B, T, H, D]
 * @param k [B, S, Hkv, D], H a multiple of Hkv
 * @param v [B, S, Hkv, D]
 * @returns [B, T, H, D]; zeros for a query that sees nothing
 * @throws if shapes do not fit, if both `start` and `segments` are given, if a `start` that came from the host puts a
 *   query before the first or behind the last key, or if `window` is no integer ≥ 1
 */
export function attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions = {}): Tensor {
  for (const x of [q, k, v]) checkTensor("attention", x);
  checkKeys("attention", options, ["causal", "scale", "start", "segments", "window"]);
  const { causal = true, start, segments, window } = options;
  check(
    start === undefined || segments === undefined,
    () => "attention: start and segments cannot be combined; segments number whole rows",
  );
  check(start === undefined || causal, () => "attention: start has no meaning without causal");
  checkWindow("attention", window);
  check(window === undefined || causal, () => "attention: window has no meaning without causal");
  const scale = options.scale ?? 1 / Math.sqrt(q.shape[q.rank - 1] ?? 1);
  const mask = start ? "start" : segments ? "segments" : "none";
  const aux = start ?? segments;
  const last = (k.shape[1] ?? 1) - (q.shape[1] ?? 1);
  const wrong = start?.storage.hostInts?.find((at) => at < 0 || at > last);
  check(
    wrong === undefined,
    () => `attention: start ${wrong} is outside [0, ${last}], for ${q.shape[1]} queries and ${k.shape[1]} keys`,
  );
  return apply(attentionOp, [q, k, v, ...(aux ? [aux] : [])], { causal, scale, mask, window: window ?? 0 })[0]!;
}
