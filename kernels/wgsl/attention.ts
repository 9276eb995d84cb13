/**
 * Scaled dot-product attention without a T×S matrix in memory, forward and backward.
 *
 * Forward: online softmax (Milakov & Gimelshein 2018; FlashAttention, Dao et al. 2022). One thread per (row, head,
 * query) walks the keys and keeps the running maximum m, the sum l of e^(s−m) and the weighted sum of values; it
 * rescales both when m rises. Backward (FlashAttention-2, Dao 2023) computes p = e^(s − lse) again:
 *   D_t = Σ g_t·o_t;   ds = p·(g_t·v_j − D_t)·scale;   dq_t = Σ_j ds·k_j;   dk_j = Σ_t ds·q_t;   dv_j = Σ_t p·g_t.
 * Queries own dq, and keys own dk and dv, so there are no atomic additions and every sum has a fixed order.
 *
 * Neighbouring threads take neighbouring queries of one head: they read the same key at the same time. It does not use
 * workgroup memory for tiles, and it does not divide keys between threads for decoding.
 */
import { type AdapterProfile, type Program, type WgslKernel, f32, single, u32 } from "../kernel.ts";
import type { AttentionBackwardSpec, AttentionSpec } from "../specs.ts";
import { type Bindings, independentThreads, vectorPrelude, vectorType, vectorWidth } from "./rows.ts";
import { gridFor, linearMain, shader } from "./shader.ts";

/**
 * WGSL functions that decide which query sees which key, with the same text in every pass. `sees` decides; the other
 * functions only bound the loops. No arithmetic uses an unseen key or query, so padding may hold any bits.
 */
function visibility({ causal, mask, window }: AttentionSpec): string {
  const windowed = window > 0;
  return `
fn startOf(batch: u32) -> i32 { return ${mask === "start" ? "aux[batch]" : "0"}; }
fn sees(batch: u32, query: u32, key: u32) -> bool {
  ${causal ? "if (i32(key) > startOf(batch) + i32(query)) { return false; }" : ""}
  ${windowed ? "if (i32(key) + i32(params.window) <= startOf(batch) + i32(query)) { return false; }" : ""}
  ${
    mask === "segments"
      ? `let segment = aux[batch * params.keys + query];
  return segment >= 0 && aux[batch * params.keys + key] == segment;`
      : "return true;"
  }
}
fn keysBegin(batch: u32, query: u32) -> u32 {
  return ${windowed ? "u32(max(startOf(batch) + i32(query) + 1 - i32(params.window), 0))" : "0u"};
}
fn keysEnd(batch: u32, query: u32) -> u32 {
  return ${causal ? "u32(clamp(startOf(batch) + i32(query) + 1, 0, i32(params.keys)))" : "params.keys"};
}
fn firstQuery(batch: u32, key: u32) -> u32 {
  return ${causal ? "u32(max(i32(key) - startOf(batch), 0))" : "0u"};
}
fn queriesEnd(batch: u32, key: u32) -> u32 {
  return ${
    windowed ? "u32(clamp(i32(key) + i32(params.window) - startOf(batch), 0, i32(params.queries)))" : "params.queries"
  };
}
`;
}

/** The most parts of a head for which loops are unrolled: Mesa's LLVM compiles ten times as slowly as SwiftShader. */
function longestUnrolled({ schedule, adapter }: AdapterProfile): number {
  return schedule === "gpu" ? 32 : adapter === "swiftshader" ? 16 : 4;
}

/**
 * A loop over the parts of a head (`V` each). Unrolled, so that `mine`, `sum` … are registers: software adapters would
 * read an indexed array lane by lane, 2–3× as slowly.
 */
function overParts(spec: AttentionSpec, profile: AdapterProfile): (each: (part: string) => string) => string {
  const parts = spec.headDim / vectorWidth(spec.headDim);
  if (parts > longestUnrolled(profile)) {
    return (each) => `for (var d = 0u; d < params.parts; d++) { ${each("d")} }`;
  }
  return (each) => Array.from({ length: parts }, (_, d) => each(`${d}u`)).join("\n    ");
}

interface Pass {
  readonly name: string;
  /** The number of threads. */
  readonly count: number;
  readonly bindings: Bindings;
  readonly body: string;
}

/** One thread for each `i` below `count`, with everything that the passes have in common. */
function passKernel(spec: AttentionSpec, profile: AdapterProfile, { name, count, bindings, body }: Pass): WgslKernel {
  const { headDim, causal, mask, window } = spec;
  const threads = independentThreads(profile);
  const parts = headDim / vectorWidth(headDim);
  return shader({
    key: `${name}/${headDim}${causal ? "/causal" : ""}${window > 0 ? "/window" : ""}/${mask}/${threads}`,
    bindings,
    params: {
      count: u32(count),
      queries: u32(spec.queries),
      keys: u32(spec.keys),
      heads: u32(spec.heads),
      kvHeads: u32(spec.kvHeads),
      parts: u32(parts),
      scale: f32(spec.scale),
      ...(window > 0 ? { window: u32(window) } : {}),
    },
    workgroups: gridFor(count, threads),
    body: () => `${vectorPrelude(headDim)}
const PARTS = ${parts}u;
alias Head = array<V, PARTS>;
${visibility(spec)}
${linearMain(threads, "params.count")}${body}
}`,
  });
}

/**
 * Thread i is query `query` of head `head` of row `batch`. Sets its places in q, o, g, lse (`rowOf`) and its first key.
 */
const queryPlace = `
  let query = i % params.queries;
  let head = i / params.queries % params.heads;
  let batch = i / params.queries / params.heads;
  let rowOf = (batch * params.queries + query) * params.heads + head;
  let at = rowOf * PARTS;
  let keyStep = params.kvHeads * PARTS;
  let firstKey = batch * params.keys * keyStep + head * params.kvHeads / params.heads * PARTS;`;

const auxBinding = ({ mask }: AttentionSpec): Bindings => (mask === "none" ? {} : { aux: "read i32" });

/** q, k, v, (aux) → o [B,T,H,D], lse [B,T,H]. */
export function attention(spec: AttentionSpec, profile: AdapterProfile): Program<WgslKernel> {
  const V = vectorType(spec.headDim);
  const each = overParts(spec, profile);
  const kernel = passKernel(spec, profile, {
    name: "attention",
    count: spec.batch * spec.heads * spec.queries,
    bindings: {
      q: `read ${V}`,
      k: `read ${V}`,
      v: `read ${V}`,
      ...auxBinding(spec),
      o: `write ${V}`,
      lse: "write f32",
    },
    body: `${queryPlace}
  var mine: Head;
  var sum: Head;
  ${each((d) => `mine[${d}] = q[at + ${d}]; sum[${d}] = V(0.0);`)}
  var m = -1e30;
  var l = 0.0;
  let last = keysEnd(batch, query);
  for (var key = keysBegin(batch, query); key < last; key++) {
    if (!sees(batch, query, key)) { continue; }
    let other = firstKey + key * keyStep;
    var products = V(0.0);
    ${each((d) => `products += mine[${d}] * k[other + ${d}];`)}
    let score = params.scale * total(products);
    if (score > m) {
      let shrink = exp(m - score);
      l *= shrink;
      ${each((d) => `sum[${d}] *= shrink;`)}
      m = score;
    }
    let weight = exp(score - m);
    l += weight;
    ${each((d) => `sum[${d}] += weight * v[other + ${d}];`)}
  }
  let divisor = select(l, 1.0, l == 0.0); // sees nothing: all zeros
  ${each((d) => `o[at + ${d}] = sum[${d}] / divisor;`)}
  lse[rowOf] = select(m + log(select(l, 1.0, l < 1.0)), -1e30, l == 0.0);`,
  });
  return single(kernel, spec.mask === "none" ? 5 : 6);
}

/** q, k, v, o, lse, g (of o), (aux) → dq [B,T,H,D], dk and dv [B,S,Hkv,D]. Temp: (lse, D) per query and head. */
export function attentionBackward(spec: AttentionBackwardSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { batch, queries, keys, heads, kvHeads } = spec;
  const V = vectorType(spec.headDim);
  const each = overParts(spec, profile);

  // lse and D are one buffer: with two the pass by keys would have nine, and WebGPU's default limit is eight.
  const rowSums = passKernel({ ...spec, causal: false, mask: "none", window: 0 }, profile, {
    name: "attentionBackward/rows",
    count: batch * queries * heads,
    bindings: { o: `read ${V}`, lse: "read f32", g: `read ${V}`, stats: "write vec2f" },
    body: `
  var products = V(0.0);
  for (var d = i * params.parts; d < (i + 1u) * params.parts; d++) {
    products += g[d] * o[d];
  }
  stats[i] = vec2f(lse[i], total(products));`,
  });

  const inputs: Bindings = {
    q: `read ${V}`,
    k: `read ${V}`,
    v: `read ${V}`,
    stats: "read vec2f",
    g: `read ${V}`,
    ...auxBinding(spec),
  };
  const byQuery = passKernel(spec, profile, {
    name: "attentionBackward/queries",
    count: batch * heads * queries,
    bindings: { ...inputs, dq: `write ${V}` },
    body: `${queryPlace}
  var mine: Head;
  var gradient: Head;
  var sum: Head;
  ${each((d) => `mine[${d}] = q[at + ${d}]; gradient[${d}] = g[at + ${d}]; sum[${d}] = V(0.0);`)}
  let ofRow = stats[rowOf];
  let last = keysEnd(batch, query);
  for (var key = keysBegin(batch, query); key < last; key++) {
    if (!sees(batch, query, key)) { continue; }
    let other = firstKey + key * keyStep;
    var products = V(0.0);
    var gradients = V(0.0);
    ${each((d) => `products += mine[${d}] * k[other + ${d}]; gradients += gradient[${d}] * v[other + ${d}];`)}
    let weight = exp(params.scale * total(products) - ofRow.x);
    let ds = params.scale * weight * (total(gradients) - ofRow.y);
    ${each((d) => `sum[${d}] += ds * k[other + ${d}];`)}
  }
  ${each((d) => `dq[at + ${d}] = sum[${d}];`)}`,
  });

  const byKey = passKernel(spec, profile, {
    name: "attentionBackward/keys",
    count: batch * kvHeads * keys,
    bindings: { ...inputs, dk: `write ${V}`, dv: `write ${V}` },
    body: `
  let key = i % params.keys;
  let kvHead = i / params.keys % params.kvHeads;
  let batch = i / params.keys / params.kvHeads;
  let at = ((batch * params.keys + key) * params.kvHeads + kvHead) * PARTS;
  var mine: Head;
  var value: Head;
  var dkSum: Head;
  var dvSum: Head;
  ${each((d) => `mine[${d}] = k[at + ${d}]; value[${d}] = v[at + ${d}]; dkSum[${d}] = V(0.0); dvSum[${d}] = V(0.0);`)}
  // The query heads that read this head: ⌊head·Hkv/H⌋ = kvHead.
  let firstHead = (kvHead * params.heads + params.kvHeads - 1u) / params.kvHeads;
  let lastHead = ((kvHead + 1u) * params.heads + params.kvHeads - 1u) / params.kvHeads;
  for (var head = firstHead; head < lastHead; head++) {
    let lastQuery = queriesEnd(batch, key);
    for (var query = firstQuery(batch, key); query < lastQuery; query++) {
      if (!sees(batch, query, key)) { continue; }
      let rowOf = (batch * params.queries + query) * params.heads + head;
      let other = rowOf * PARTS;
      var products = V(0.0);
      var gradients = V(0.0);
      ${each((d) => `products += mine[${d}] * q[other + ${d}]; gradients += value[${d}] * g[other + ${d}];`)}
      let ofRow = stats[rowOf];
      let weight = exp(params.scale * total(products) - ofRow.x);
      let ds = params.scale * weight * (total(gradients) - ofRow.y);
      ${each((d) => `dkSum[${d}] += ds * q[other + ${d}]; dvSum[${d}] += weight * g[other + ${d}];`)}
    }
  }
  ${each((d) => `dk[at + ${d}] = dkSum[${d}]; dv[at + ${d}] = dvSum[${d}];`)}`,
  });

  // Buffers: q 0, k 1, v 2, o 3, lse 4, g 5, (aux) → dq, dk, dv; then the temp.
  const aux = spec.mask === "none" ? [] : [6];
  const dq = 6 + aux.length;
  const stats = dq + 3;
  return {
    temps: [8 * batch * queries * heads],
    steps: [
      { kernel: rowSums, buffers: [3, 4, 5, stats] },
      { kernel: byQuery, buffers: [0, 1, 2, stats, 5, ...aux, dq] },
      { kernel: byKey, buffers: [0, 1, 2, stats, 5, ...aux, dq + 1, dq + 2] },
    ],
  };
}
