/**
 * Scaled dot-product attention without a score matrix (online softmax: M. Milakov and N. Gimelshein, 2018; T. Dao et
 * al., "FlashAttention", 2022). A query visits the keys in groups of four. It keeps a reference for its scores so far,
 * the sum of their weights relative to it, and an output that is not normalised yet and is rescaled when the reference
 * rises. Four queries advance together, one per lane. The output row itself is the accumulator.
 *
 * Weights are powers of two: 2^(s − reference) with s = log₂e · score, and the reference is the largest s rounded to an
 * integer. So rescaling is exact, and a result does not depend on how its keys are grouped into blocks, which are added
 * as matrix products.
 *
 * A key that a query may not see never changes its result, whatever q, k and v hold there: lane masks drop such pairs,
 * and groups of keys that no query of a tile sees are not computed. `AttentionSpec` defines which keys a query sees.
 */
import type { Program, WasmKernel } from "../kernel.ts";
import type { AttentionSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, I32, i32s, kernelModule, load, type Var } from "./assembler.ts";
import {
  addColumns,
  BLOCK_BYTES,
  clearRow,
  dots,
  keep,
  lanesOf,
  neighbours,
  newBlock,
  rowBytes,
  rowPointers,
  scaleRow,
  TILE,
  UNIT_ROWS,
} from "./attentionTiles.ts";
import {
  forKeys,
  type KeyMask,
  keyMaskOf,
  type MaskKind,
  maskKindOf,
  pairsOf,
  SEEN_BYTES,
  showMaskKind,
} from "./attentionMask.ts";
import { exp2Fraction, log, powerWeight } from "./math.ts";

/** The reference of a query that has seen nothing, which is also its log-sum-exp. */
const NOTHING = -1e30;
/** ln 2 in two parts, the first with 9 bits: its product with a reference is exact. */
const LN2_HIGH = 0.693359375;
const LN2_LOW = -0.00021219444005469057;

/** See `AttentionSpec`. Buffers: q, k, v, (aux) → o, lse. */
export function attention(spec: AttentionSpec): Program<WasmKernel> {
  const { batch, queries, keys, heads, kvHeads, headDim, mask, window } = spec;
  const kind = maskKindOf(spec);
  const blocks = Math.ceil(queries / UNIT_ROWS);
  const kernel: WasmKernel = {
    key: `attention.${headDim}.${showMaskKind(kind)}`,
    module: () => forwardModule(headDim, kind),
    scalars: [queries, keys, heads, kvHeads, blocks, window, spec.scale * Math.LOG2E],
    units: batch * heads * blocks,
    costPerUnit: (pairsOf(queries, spec) / queries) * Math.min(queries, UNIT_ROWS) * (2 * headDim + 40),
  };
  const [o, lse] = mask === "none" ? [3, 4] : [4, 5];
  const aux = 3; // not used where there is no mask
  return {
    temps: [unitBytes(headDim) * kernel.units],
    steps: [{ kernel, buffers: [0, 1, 2, aux, o, lse, lse + 1] }],
  };
}

/** The memory of a unit: the weights of a block, the masks of a group, and a row for queries beyond the last. */
const unitBytes = (headDim: number): number => BLOCK_BYTES + SEEN_BYTES + rowBytes(headDim);

function forwardModule(headDim: number, kind: MaskKind): Uint8Array<ArrayBuffer> {
  const params = {
    ...i32s("q", "k", "v", "aux", "o", "lse", "scratch", "queries", "keys", "heads", "kvHeads", "blocks", "window"),
    scale: "f32",
    ...i32s("begin", "end"),
  } as const;
  return kernelModule(params, (f, p) => {
    const queryStride = f.let(p.heads.mul(headDim));
    const keyStride = f.let(p.kvHeads.mul(headDim));
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const first = f.let(unit.remU(p.blocks).mul(UNIT_ROWS));
      const head = f.let(unit.divU(p.blocks).remU(p.heads));
      const batch = f.let(unit.divU(p.blocks).divU(p.heads));
      const query0 = f.let(batch.mul(p.queries).mul(p.heads).add(head));
      const kvHead = head.mul(p.kvHeads).divU(p.heads);
      const key0 = f.let(batch.mul(p.keys).mul(p.kvHeads).add(kvHead).mul(headDim));
      const scratch = f.let(p.scratch.add(unit.mul(unitBytes(headDim))));
      const h: Head = {
        size: headDim,
        queryStride,
        keyStride,
        scale,
        weights: scratch,
        seen: f.let(scratch.add(BLOCK_BYTES)),
        spare: f.let(scratch.add(BLOCK_BYTES + SEEN_BYTES)),
        q: f.let(p.q.at(query0.mul(headDim))),
        o: f.let(p.o.at(query0.mul(headDim))),
        lse: f.let(p.lse.at(query0)),
        heads: p.heads,
        k: f.let(p.k.at(key0)),
        v: f.let(p.v.at(key0)),
        keyMask: keyMaskOf(f, p, batch, kind),
      };
      f.for(first, f.let(first.add(UNIT_ROWS).min(p.queries)), TILE, (t) => queryTile(f, h, t));
    });
  });
}

/** The addresses of one batch's and head's parts, and the sizes that tiles need. */
interface Head {
  readonly size: number;
  /** The number of floats from one query (key) to the next. */
  readonly queryStride: I32;
  readonly keyStride: I32;
  readonly q: I32;
  readonly k: I32;
  readonly v: I32;
  readonly o: I32;
  /** The address of lse; that of query t is at element t · heads. */
  readonly lse: I32;
  readonly heads: I32;
  /** The memory of this unit: weights, masks, and the results of queries that do not exist. */
  readonly weights: I32;
  readonly seen: I32;
  readonly spare: I32;
  /** The scale of scores, times log₂e. */
  readonly scale: F32x4;
  readonly keyMask: KeyMask;
}

/** 2^(s − reference), where the reference is an integer and at least the integer nearest to s. */
function weightOf(f: FunctionBuilder, s: F32x4, reference: F32x4): Var<F32x4> {
  const n = f.let(s.nearest());
  const fraction = exp2Fraction(f, f.let(s.sub(n)));
  return f.let(fraction.mul(powerWeight(f, n.sub(reference))));
}

/** ln(total · 2^reference). */
const lseOf = (f: FunctionBuilder, reference: F32x4, total: F32x4): F32x4 =>
  reference.mul(LN2_HIGH).add(log(f, total).add(reference.mul(LN2_LOW)));

/** Computes queries t … t + 3 over all keys that one of them sees. */
function queryTile(f: FunctionBuilder, h: Head, t: Var<I32>): void {
  const { queries, keys } = h.keyMask;
  const q = neighbours(f, h.q, t, h.queryStride, queries);
  const o = rowPointers(f, h.o, t, h.queryStride, queries, h.spare);
  o.forEach((row) => clearRow(f, row, h.size));
  const top = f.let(F32x4.of(NOTHING));
  const total = f.let(F32x4.of(0));
  const block = newBlock(f);
  /** The largest of the block's scores. */
  const highest = f.let(F32x4.of(NOTHING));
  forKeys(f, h.keyMask, t, block, {
    add: (j, count, seen) => {
      const scores = dots(f, q, neighbours(f, h.k, j, h.keyStride, seen && keys), h.size);
      scores.forEach((s, c) => {
        const scaled = s.mul(h.scale);
        f.set(s, seen === undefined ? scaled : seen[c]!.bitselect(scaled, F32x4.of(NOTHING)));
        f.set(highest, highest.pmax(s));
      });
      keep(f, block, j, count, [
        { memory: h.weights, columns: scores },
        ...(seen ? [{ memory: h.seen, columns: seen }] : []),
      ]);
    },
    flush: (masked) => {
      const higher = f.let(top.pmax(highest.nearest()));
      const factor = powerWeight(f, top.sub(higher));
      f.set(top, higher);
      f.set(highest, F32x4.of(NOTHING));
      f.set(total, total.mul(factor));
      const at = f.let(I32.of(0));
      f.for(0, block.count, 1, () => {
        const place = f.let(h.weights.add(at));
        const weight = weightOf(f, f.let(load.f32x4(place)), top);
        if (masked) f.set(weight, weight.and(load.i32x4(h.seen.add(at))));
        f.set(total, total.add(weight));
        f.store(place, weight);
        f.set(at, at.add(4 * TILE));
      });
      const seen = masked ? h.seen : undefined;
      const weighted = { block, memory: h.weights, seen, columns: h.v, stride: h.keyStride };
      addColumns(f, o, weighted, h.size, lanesOf(f, factor));
    },
  });

  const empty = f.let(total.eq(0));
  const inverse = f.let(empty.bitselect(F32x4.of(0), F32x4.of(1).div(total)));
  const lse = f.let(empty.bitselect(F32x4.of(NOTHING), lseOf(f, top, total)));
  lanesOf(f, inverse).forEach((x, r) =>
    f.if(t.add(r).lt(queries), () => {
      scaleRow(f, o[r]!, x, h.size);
      f.storeLane(h.lse.at(t.add(r).mul(h.heads)), lse, r);
    }),
  );
}
