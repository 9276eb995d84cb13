/**
 * Attention of single tokens over a cache, for decoding: online softmax (Milakov & Gimelshein 2018) along the keys of
 * one row.
 *
 * On a software adapter a thread takes one head of one token. On a GPU decoding has too few heads to keep the machine
 * busy, so the 32 threads of a workgroup take every 32nd key each and merge their results (Flash-Decoding, Dao et al.
 * 2023). A token's result does not depend on the other tokens. There is no paged cache and no derivative.
 */
import { type AdapterProfile, type Program, type WgslKernel, f32, single, u32 } from "../kernel.ts";
import type { CacheAttentionSpec } from "../specs.ts";
import { mathFunctions } from "./math.ts";
import { independentThreads, vectorPrelude, vectorType, vectorWidth } from "./rows.ts";
import { gridFor, groupMain, linearMain, shader } from "./shader.ts";

const LANES = 32;
/** The workgroup memory that every adapter has. */
const WORKGROUP_BYTES = 16384;

/** See `CacheAttentionSpec`. Buffers: q, k, v, rows, positions → o. */
export function cacheAttention(spec: CacheAttentionSpec, profile: AdapterProfile): Program<WgslKernel> {
  const { tokens, cacheRows, capacity, heads, kvHeads, headDim, scale, window } = spec;
  const V = vectorType(headDim);
  const parts = headDim / vectorWidth(headDim);
  const shared = profile.schedule === "gpu" && LANES * (4 * headDim + 8) <= WORKGROUP_BYTES;
  const threads = independentThreads(profile);
  const count = tokens * heads;
  const main = shared
    ? groupMain(LANES, "params.count").replace("let row = ", "let i = ").replace("row >=", "i >=")
    : linearMain(threads, "params.count");
  // The first key that a thread reads.
  const first = [...(shared ? ["lane"] : []), window > 0 ? "last - min(last, params.window)" : "0u"].join(" + ");
  const kernel = shader({
    key: `cacheAttention/${headDim}/${shared ? "workgroup" : `threads${threads}`}${window > 0 ? "/window" : ""}`,
    bindings: {
      q: `read ${V}`,
      k: `read ${V}`,
      v: `read ${V}`,
      rows: "read i32",
      positions: "read i32",
      o: `write ${V}`,
    },
    params: {
      count: u32(count),
      cacheRows: u32(cacheRows),
      capacity: u32(capacity),
      heads: u32(heads),
      kvHeads: u32(kvHeads),
      scale: f32(scale),
      ...(window > 0 ? { window: u32(window) } : {}),
    },
    workgroups: gridFor(count, shared ? 1 : threads),
    body: () => `${mathFunctions(["max_f32"])}${vectorPrelude(headDim)}
const PARTS = ${parts}u;
alias Head = array<V, PARTS>;
${
  shared
    ? `var<workgroup> tops: array<f32, ${LANES}>;
var<workgroup> totals: array<f32, ${LANES}>;
var<workgroup> sums: array<Head, ${LANES}>;
`
    : ""
}${main}
  let token = i / params.heads;
  let head = i % params.heads;
  let at = i * PARTS;
  let row = rows[token];
  if (row < 0 || u32(row) >= params.cacheRows) {
    for (var d = ${shared ? "lane" : "0u"}; d < PARTS; d += ${shared ? LANES : 1}u) { o[at + d] = V(0.0); }
    return;
  }
  let firstKey = (u32(row) * params.kvHeads + head * params.kvHeads / params.heads) * params.capacity * PARTS;
  let last = u32(clamp(positions[token], -1, i32(params.capacity) - 1) + 1);
  var mine: Head;
  var sum: Head;
  for (var d = 0u; d < PARTS; d++) {
    mine[d] = q[at + d];
    sum[d] = V(0.0);
  }
  var top = -1e30;
  var weight = 0.0;
  for (var key = ${first}; key < last; key += ${shared ? LANES : 1}u) {
    let other = firstKey + key * PARTS;
    var products = V(0.0);
    for (var d = 0u; d < PARTS; d++) { products += mine[d] * k[other + d]; }
    let score = params.scale * total(products);
    if (score > top) {
      let shrink = exp(max(top - score, -100.0));
      weight *= shrink;
      for (var d = 0u; d < PARTS; d++) { sum[d] *= shrink; }
      top = score;
    }
    let p = exp(max_f32(score - top, -100.0));
    weight += p;
    for (var d = 0u; d < PARTS; d++) { sum[d] += p * v[other + d]; }
  }
${shared ? merge : finishAlone}
}`,
  });
  return single(kernel, 6);
}

const finishAlone = `  for (var d = 0u; d < PARTS; d++) { o[at + d] = sum[d] / weight; }`;

/** Every thread computes the common maximum and total; then each makes every 32nd part of the result. */
const merge = `  tops[lane] = top;
  totals[lane] = weight;
  sums[lane] = sum;
  workgroupBarrier();
  var highest = tops[0];
  for (var other = 1u; other < ${LANES}u; other++) { highest = max(highest, tops[other]); }
  var whole = 0.0;
  for (var other = 0u; other < ${LANES}u; other++) {
    whole += totals[other] * exp(max(tops[other] - highest, -100.0));
  }
  for (var d = lane; d < PARTS; d += ${LANES}u) {
    var y = V(0.0);
    for (var other = 0u; other < ${LANES}u; other++) {
      y += sums[other][d] * exp(max(tops[other] - highest, -100.0));
    }
    o[at + d] = y / whole;
  }`;
