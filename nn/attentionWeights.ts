/**
 * The weights of causal attention, which show the tokens that each head attends to. They are for studying a few tokens;
 * training uses the fused op (engine/ops/attention.ts), which never holds them in memory.
 *
 * Axes: B rows, T queries, S keys, H heads, K key/value heads, D head size.
 */
import { check } from "../engine/errors.ts";
import { causalMask, tensor } from "../engine/ops/create.ts";
import { matmul } from "../engine/ops/matmul.ts";
import { broadcastTo, permute, reshape, slice } from "../engine/ops/movement.ts";
import { sub } from "../engine/ops/pointwise.ts";
import { softmax } from "../engine/ops/softmax.ts";
import { noGrad } from "../engine/tape.ts";
import type { Tensor } from "../engine/tensor.ts";
import { showShape } from "../engine/types.ts";
import { forward, type Model } from "./transformer.ts";

/**
 * softmax(q·kᵀ/√D) over the keys that a query may see (Vaswani et al. 2017, eq. 1). The queries are the last T of the S
 * positions, so that query t sees the keys up to S − T + t.
 * @param q [B, T, H, D]
 * @param k [B, S, K, D], H a multiple of K
 * @param window the largest number of keys that a query sees, in layers with a sliding window
 * @returns [B, H, T, S]; each query's weights sum to 1
 */
export function attentionWeights(q: Tensor, k: Tensor, window: number = k.shape[1] ?? 1): Tensor {
  const shown = (): string => `${showShape(q.shape)} · ${showShape(k.shape)}`;
  check(
    q.rank === 4 && k.rank === 4,
    () => `attentionWeights: expected q [B, T, H, D], k [B, S, K, D], got ${shown()}`,
  );
  const [T, H, D] = q.shape.slice(1) as [number, number, number];
  const [B, S, K] = k.shape as [number, number, number];
  check(T <= S && H % K === 0, () => `attentionWeights: expected T ≤ S and H a multiple of K, got ${shown()}`);
  const repeated = broadcastTo(reshape(k, [B, S, K, 1, D]), [B, S, K, H / K, D]);
  const keys_BHSD = permute(reshape(repeated, [B, S, H, D]), [0, 2, 1, 3]);
  const scores = matmul(permute(q, [0, 2, 1, 3]), keys_BHSD, { transB: true, scale: 1 / Math.sqrt(D) });
  const causal = causalMask(S, { device: q.device, dtype: q.dtype });
  // 1 where the key lies before the window: in row t for keys up to t − window.
  const far = window < S ? tensor(farKeys(S, window), { device: q.device, dtype: q.dtype, shape: [S, S] }) : undefined;
  const mask = slice(far ? sub(causal, far) : causal, [S - T], [S]);
  return softmax(scores, { mask });
}

function farKeys(S: number, window: number): Float32Array {
  return Float32Array.from({ length: S * S }, (_, i) => (i % S <= Math.floor(i / S) - window ? 1 : 0));
}

/** The state of the model at the end of a text that it has read. */
export interface Reading {
  /** The attention weights of each layer, [H, S], from the last position to all S positions. */
  readonly attention: readonly Tensor[];
  /** The final hidden state of the last position, [1, C]. */
  readonly hidden: Tensor;
}

/** Reads the tokens of one text, without a gradient. @param ids at least one */
export function readText({ params, config }: Model, ids: readonly number[]): Reading {
  check(ids.length > 0, () => "readText: expected at least one token, got none");
  const S = ids.length;
  const attention: Tensor[] = [];
  return noGrad(() => {
    const text = tensor(Int32Array.from(ids), { device: params.embedding.device, shape: [1, S] });
    const hidden = forward(params, config, text, {
      watch: (_layer, { q, k, window }) =>
        attention.push(reshape(attentionWeights(slice(q, [0, S - 1], [1, S]), k, window), [config.heads, S])),
    });
    return { attention, hidden: reshape(slice(hidden, [0, S - 1], [1, S]), [1, -1]) };
  });
}
