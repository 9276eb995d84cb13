/**
 * Attention of single tokens over a cache of keys and values, which decoding uses instead of `attention`. Each token
 * names its row of the cache and its position there, so tokens of many texts, at different places and in any order,
 * share one call.
 */
import type { CacheAttentionSpec } from "../../kernels/specs.ts";
import { vjpOf } from "../checkpoint.ts";
import { check } from "../errors.ts";
import { apply1, type Call, type OpDef, type Sample, typed } from "../op.ts";
import { checkTensor } from "../operands.ts";
import { checkKeys } from "../options.ts";
import type { Rng } from "../random.ts";
import { normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, checkInt, checkSameDtype, sameShape, showShape, type TensorType } from "../types.ts";
import { attention, checkWindow } from "./attention.ts";
import { cast, gatherOp } from "./indexing.ts";
import { permute, reshape } from "./movement.ts";
import { ge, lt, mul } from "./pointwise.ts";

interface CacheAttentionParams {
  readonly scale: number;
  /** The largest number of keys that a token sees; 0: all up to its own. */
  readonly window: number;
}

function specOf({ inputs, params }: Call<CacheAttentionParams>): CacheAttentionSpec {
  const [tokens, heads, headDim] = inputs[0]!.shape as [number, number, number];
  const [cacheRows, kvHeads, capacity] = inputs[1]!.shape as [number, number, number];
  return { tokens, cacheRows, capacity, heads, kvHeads, headDim, ...params };
}

function checkOperands(inputs: readonly TensorType[]): void {
  const [q, k, v, rows, positions] = inputs as [TensorType, TensorType, TensorType, TensorType, TensorType];
  const shown = (): string => [q, k, v].map((x) => showShape(x.shape)).join(" · ");
  [q, k, v].forEach((x) => checkFloat("cacheAttention", x));
  checkSameDtype("cacheAttention", [q, k, v]);
  check(
    q.shape.length === 3 && k.shape.length === 4 && sameShape(k.shape, v.shape) && q.shape[2] === k.shape[3],
    () => `cacheAttention: expected q [N, H, D], k and v [R, Hkv, S, D], got ${shown()}`,
  );
  check(
    Number.isInteger(q.shape[1]! / k.shape[1]!),
    () => `cacheAttention: ${q.shape[1]} query heads are no multiple of ${k.shape[1]} key/value heads`,
  );
  for (const x of [rows, positions]) {
    checkInt("cacheAttention", x);
    check(
      sameShape(x.shape, [q.shape[0]!]),
      () =>
        `cacheAttention: expected one row and one position for each of ${q.shape[0]} tokens, got ${showShape(x.shape)}`,
    );
  }
}

/** Inputs q [N,H,D], k and v [R,Hkv,S,D], rows i32 [N], positions i32 [N] → o [N,H,D]. */
export const cacheAttentionOp: OpDef<CacheAttentionParams> = {
  name: "cacheAttention",
  infer(inputs) {
    checkOperands(inputs);
    return typed(inputs[0]!.shape, inputs[0]!);
  },
  reference([q, k, v, rows, positions], [o], call) {
    const { tokens, cacheRows, capacity, heads, kvHeads, headDim, scale, window } = specOf(call);
    o!.fill(0);
    for (let unit = 0; unit < tokens * heads; unit++) {
      const [token, head] = [Math.floor(unit / heads), unit % heads];
      const row = rows![token]!;
      if (row < 0 || row >= cacheRows) continue;
      const end = Math.min(positions![token]! + 1, capacity);
      const first = window > 0 ? Math.max(0, end - window) : 0;
      const keyAt = (j: number): number =>
        ((row * kvHeads + Math.floor((head * kvHeads) / heads)) * capacity + first + j) * headDim;
      const scores = Array.from({ length: end - first }, (_, j) => {
        let product = 0;
        for (let d = 0; d < headDim; d++) product += q![unit * headDim + d]! * k![keyAt(j) + d]!;
        return scale * product;
      });
      const top = scores.reduce((a, b) => Math.max(a, b), -Infinity);
      const weights = scores.map((s) => Math.exp(s - top));
      const total = weights.reduce((a, b) => a + b, 0);
      for (let d = 0; d < headDim; d++) {
        let sum = 0;
        weights.forEach((w, j) => (sum += w * v![keyAt(j) + d]!));
        o![unit * headDim + d] = sum / total;
      }
    }
  },
  kernel: (call) => ({ family: "cacheAttention", spec: specOf(call) }),
  vjp: ({ g, x, params, needs }) => vjpOf((inputs) => unfused(inputs, params), x, g, needs),
  samples: (rng) => [
    sample(rng, { rows: 3, capacity: 5, heads: 2, kvHeads: 1, headDim: 4 }, [2, 0, 2, 1], [3, 0, 4, 2]),
    sample(rng, { rows: 2, capacity: 70, heads: 4, kvHeads: 2, headDim: 3 }, [1, 0], [65, 69]),
    sample(rng, { rows: 1, capacity: 1, heads: 1, kvHeads: 1, headDim: 1 }, [0], [0]),
    sample(rng, { rows: 2, capacity: 9, heads: 1, kvHeads: 1, headDim: 37 }, [1, -1, 2, 0], [8, 3, 1, 5]),
    sample(rng, { rows: 2, capacity: 9, heads: 2, kvHeads: 1, headDim: 3 }, [1, 0, -1, 0, 1], [8, 3, 1, 0, 2], 3),
    sample(rng, { rows: 1, capacity: 80, heads: 1, kvHeads: 1, headDim: 4 }, [0, 0], [79, 70], 70),
  ],
};

function sample(
  rng: Rng,
  size: {
    readonly rows: number;
    readonly capacity: number;
    readonly heads: number;
    readonly kvHeads: number;
    readonly headDim: number;
  },
  rows: readonly number[],
  positions: readonly number[],
  window = 0,
): Sample<CacheAttentionParams> {
  const cache = [size.rows, size.kvHeads, size.capacity, size.headDim];
  const ids = (data: readonly number[]): Sample<CacheAttentionParams>["inputs"][number] => ({
    shape: [data.length],
    dtype: "i32",
    data,
  });
  return {
    label: `rows ${rows.join()}${window > 0 ? `, window ${window}` : ""}`,
    inputs: [
      normal(rng, [rows.length, size.heads, size.headDim]),
      normal(rng, cache),
      normal(rng, cache),
      ids(rows),
      ids(positions),
    ],
    params: { scale: 0.7, window },
  };
}

/** `cacheAttention` written as `attention` over copies of the rows. */
function unfused([q, k, v, rows, positions]: readonly Tensor[], { scale, window }: CacheAttentionParams): Tensor[] {
  const [tokens, heads, headDim] = q!.shape as [number, number, number];
  // [N, S, Hkv, D], the layout of a sequence; zeros where there is no row.
  const ofRows = (cache: Tensor): Tensor => permute(apply1(gatherOp, [cache, rows!], { axis: 0 }), [0, 2, 1, 3]);
  const attended = attention(reshape(q!, [tokens, 1, heads, headDim]), ofRows(k!), ofRows(v!), {
    start: positions!,
    scale,
    ...(window > 0 ? { window } : {}),
  });
  const row = cast(rows!, q!.dtype);
  const exists = mul(ge(row, 0), lt(row, k!.shape[0]!));
  return [mul(reshape(attended, q!.shape), reshape(exists, [tokens, 1, 1]))];
}

/** Options of `cacheAttention`. */
export interface CacheAttentionOptions {
  /** The factor of the scores; 1/√D unless given. */
  readonly scale?: number;
  /** The largest number of keys that a token sees, its own and those right before it; all of them unless given. */
  readonly window?: number;
}

/**
 * softmax(scale · q kᵀ) v for single tokens, each over the keys 0 … position of its own row of a cache.
 * @param q [N, H, D]
 * @param keys [R, Hkv, S, D]; query head h reads head ⌊h·Hkv/H⌋
 * @param values as `keys`
 * @param rows i32 [N]; a token whose row does not exist (−1: padding) gets zeros
 * @param positions i32 [N], in [0, S)
 * @returns [N, H, D]
 * @throws if shapes do not fit, if a position that came from the host is outside the cache, or if `window` is no
 *   integer ≥ 1
 */
export function cacheAttention(
  q: Tensor,
  keys: Tensor,
  values: Tensor,
  rows: Tensor,
  positions: Tensor,
  options: CacheAttentionOptions = {},
): Tensor {
  for (const x of [q, keys, values]) checkTensor("cacheAttention", x);
  checkKeys("cacheAttention", options, ["scale", "window"]);
  checkWindow("cacheAttention", options.window);
  const { scale = 1 / Math.sqrt(q.shape[q.rank - 1] ?? 1), window = 0 } = options;
  checkTensor("cacheAttention", positions);
  const capacity = keys.shape[2] ?? 1;
  const wrong = positions.storage.hostInts?.find((at) => at < 0 || at >= capacity);
  check(wrong === undefined, () => `cacheAttention: position ${wrong} is outside a cache of ${capacity} positions`);
  return apply1(cacheAttentionOp, [q, keys, values, rows, positions], { scale, window });
}
