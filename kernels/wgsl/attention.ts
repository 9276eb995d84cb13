/**
 * Scaled dot-product attention without a T×S matrix in memory, forward and backward.
 *
 * Forward: online softmax (Milakov & Gimelshein 2018; FlashAttention, Dao et al. 2022). Each query walks the keys and
 * keeps the running maximum m, the sum l of e^(s−m) and the weighted sum of values; it rescales both when m rises.
 * Backward (FlashAttention-2, Dao 2023) computes p = e^(s − lse) again:
 *   D_t = Σ g_t·o_t;   ds = p·(g_t·v_j − D_t)·scale;   dq_t = Σ_j ds·k_j;   dk_j = Σ_t ds·q_t;   dv_j = Σ_t p·g_t.
 * Queries own dq, and keys own dk and dv, so there are no atomic additions and every sum has a fixed order.
 *
 * How threads divide a pass is in attentionWalk.ts. It does not divide keys between workgroups for decoding.
 */
import { type AdapterProfile, type Program, type WgslKernel, single, u32 } from "../kernel.ts";
import type { AttentionBackwardSpec, AttentionSpec } from "../specs.ts";
import type { Walk } from "./attentionPlan.ts";
import { walkKernel } from "./attentionWalk.ts";
import { type Bindings, independentThreads, vectorPrelude, vectorType, vectorWidth } from "./rows.ts";
import { gridFor, linearMain, shader } from "./shader.ts";

const auxBinding = ({ mask }: AttentionSpec): Bindings => (mask === "none" ? {} : { aux: "read i32" });

/** q, k, v, (aux) → o [B,T,H,D], lse [B,T,H]. */
export function attention(spec: AttentionSpec, profile: AdapterProfile): Program<WgslKernel> {
  const V = vectorType(spec.headDim);
  const kernel = walkKernel(
    spec,
    {
      name: "attention",
      own: "query",
      bindings: {
        q: `read ${V}`,
        k: `read ${V}`,
        v: `read ${V}`,
        ...auxBinding(spec),
        o: `write ${V}`,
        lse: "write f32",
      },
      mine: ["q"],
      others: ["k", "v"],
      sums: [{ output: "o", weight: "weight", of: 1 }],
      softmax: "online",
    },
    profile,
  );
  return single(kernel, spec.mask === "none" ? 5 : 6);
}

/** q, k, v, o, lse, g (of o), (aux) → dq [B,T,H,D], dk and dv [B,S,Hkv,D]. Temp: (lse, D) per query and head. */
export function attentionBackward(spec: AttentionBackwardSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { batch, queries, heads, headDim } = spec;
  const V = vectorType(headDim);
  const threads = independentThreads(profile);
  const rows = batch * queries * heads;

  // lse and D are one buffer: with two the pass by keys would have nine, and WebGPU's default limit is eight.
  const rowSums = shader({
    key: `attentionBackward/rows/${vectorWidth(headDim)}/${threads}`,
    bindings: { o: `read ${V}`, lse: "read f32", g: `read ${V}`, stats: "write vec2f" },
    params: { count: u32(rows), parts: u32(headDim / vectorWidth(headDim)) },
    workgroups: gridFor(rows, threads),
    body: () => `${vectorPrelude(headDim)}
${linearMain(threads, "params.count")}
  var products = V(0.0);
  for (var d = i * params.parts; d < (i + 1u) * params.parts; d++) {
    products += g[d] * o[d];
  }
  stats[i] = vec2f(lse[i], total(products));
}`,
  });

  const inputs: Bindings = {
    q: `read ${V}`,
    k: `read ${V}`,
    v: `read ${V}`,
    stats: "read vec2f",
    g: `read ${V}`,
    ...auxBinding(spec),
  };
  const byQuery: Walk = {
    name: "attentionBackward/queries",
    own: "query",
    bindings: { ...inputs, dq: `write ${V}` },
    mine: ["q", "g"],
    others: ["k", "v"],
    sums: [{ output: "dq", weight: "ds", of: 0 }],
    softmax: "recomputed",
  };
  const byKey: Walk = {
    name: "attentionBackward/keys",
    own: "key",
    bindings: { ...inputs, dk: `write ${V}`, dv: `write ${V}` },
    mine: ["k", "v"],
    others: ["q", "g"],
    sums: [
      { output: "dk", weight: "ds", of: 0 },
      { output: "dv", weight: "weight", of: 1 },
    ],
    softmax: "recomputed",
  };

  // Buffers: q 0, k 1, v 2, o 3, lse 4, g 5, (aux) → dq, dk, dv; then the temp.
  const aux = spec.mask === "none" ? [] : [6];
  const dq = 6 + aux.length;
  const stats = dq + 3;
  return {
    temps: [8 * rows],
    steps: [
      { kernel: rowSums, buffers: [3, 4, 5, stats] },
      { kernel: walkKernel(spec, byQuery, profile), buffers: [0, 1, 2, stats, 5, ...aux, dq] },
      { kernel: walkKernel(spec, byKey, profile), buffers: [0, 1, 2, stats, 5, ...aux, dq + 1, dq + 2] },
    ],
  };
}
