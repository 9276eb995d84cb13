/**
 * Scaled dot-product attention without a score matrix: keys go by in groups of four, and each query keeps a reference for its
 * scores so far, the sum of their weights relative to it, and an unnormalised output that is rescaled when the reference rises
 * (online softmax: M. Milakov and N. Gimelshein, 2018; T. Dao et al., "FlashAttention", 2022). Four queries advance
 * together, one per lane; at one query (decoding) four keys do instead. The output row itself is the accumulator.
 *
 * Weights are powers of two: 2^(s − reference) with s = log₂e · score, and the reference is the largest s rounded to an
 * integer. Then rescaling is exact, and a result does not depend on how its keys are grouped: groups that all four queries
 * see are collected and added in blocks, as a matrix product, and the others are added at once.
 *
 * A query that may not see a key gets nothing from it, whatever q, k and v hold there: pairs are dropped by lane masks, and
 * groups of keys that no query of a tile sees are not computed. See `AttentionSpec` for who sees what.
 */
import type { Program, WasmKernel } from "../kernel.ts";
import type { AttentionSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, I32, I32x4, kernelModule, load, type Var } from "./assembler.ts";
import {
  accumulate,
  accumulateBlock,
  type Block,
  BLOCK,
  BLOCK_BYTES,
  dots,
  keep,
  laneNumbers,
  lanesOf,
  loadLanes,
  newBlock,
  type Pointers,
  range,
  scaleRow,
  TILE,
  tilePointers,
  UNIT_ROWS,
} from "./attentionTiles.ts";
import { maxLanes } from "./lanes.ts";
import { exp2Fraction, log, powerWeight } from "./math.ts";

/** The reference of a query that has seen nothing, and its log-sum-exp. */
const NOTHING = -1e30;
/** ln 2 in two parts, the first with 9 bits: its product with a reference is exact. */
const LN2_HIGH = 0.693359375;
const LN2_LOW = -0.00021219444005469057;

/** See `AttentionSpec`. Buffers: q, k, v, (aux) → o, lse. */
export function attention(spec: AttentionSpec): Program<WasmKernel> {
  const { batch, queries, keys, heads, kvHeads, headDim, causal, mask } = spec;
  const decode = queries === 1 && mask !== "segments";
  const blocks = Math.ceil(queries / UNIT_ROWS);
  const kernel: WasmKernel = {
    key: `attention.${mask}${causal ? ".causal" : ""}${decode ? ".decode" : ""}`,
    module: () => forwardModule(causal, mask, decode),
    scalars: [queries, keys, heads, kvHeads, headDim, blocks, spec.scale * Math.LOG2E],
    units: batch * heads * blocks,
    costPerUnit: Math.min(queries, UNIT_ROWS) * keys * (2 * headDim + 40) * (causal && queries > 1 ? 0.5 : 1),
  };
  const [o, lse] = mask === "none" ? [3, 4] : [4, 5];
  // Without a mask the aux pointer is not used, and decoding keeps no weights.
  const weights = decode ? lse : lse + 1;
  return {
    temps: decode ? [] : [BLOCK_BYTES * kernel.units],
    steps: [{ kernel, buffers: [0, 1, 2, 3, o, lse, weights] }],
  };
}

/** Where the parts of one batch and head begin, and the sizes that tiles need. */
interface Head {
  readonly queries: I32;
  readonly keys: I32;
  readonly size: I32;
  /** Floats from one query (key) to the next. */
  readonly queryStride: I32;
  readonly keyStride: I32;
  readonly q: I32;
  readonly k: I32;
  readonly v: I32;
  readonly o: I32;
  /** lse of query t is at element t · heads. */
  readonly lse: I32;
  readonly heads: I32;
  /** Where this unit keeps weights. */
  readonly weights: I32;
  /** Times log₂e. */
  readonly scale: F32x4;
  /** Key position of query 0; the segments of this batch's keys. */
  readonly start: I32;
  readonly segments: I32;
}

function forwardModule(causal: boolean, mask: AttentionSpec["mask"], decode: boolean): Uint8Array<ArrayBuffer> {
  // prettier-ignore
  const params = {
    q: "i32", k: "i32", v: "i32", aux: "i32", o: "i32", lse: "i32", weights: "i32",
    queries: "i32", keys: "i32", heads: "i32", kvHeads: "i32", headDim: "i32", blocks: "i32", scale: "f32",
    begin: "i32", end: "i32",
  } as const;
  return kernelModule(params, (f, p) => {
    const queryStride = f.let(p.heads.mul(p.headDim));
    const keyStride = f.let(p.kvHeads.mul(p.headDim));
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const block = f.let(unit.remU(p.blocks));
      const head = f.let(unit.divU(p.blocks).remU(p.heads));
      const batch = f.let(unit.divU(p.blocks).divU(p.heads));
      const query0 = f.let(batch.mul(p.queries).mul(p.heads).add(head));
      const kvHead = head.mul(p.kvHeads).divU(p.heads);
      const key0 = f.let(batch.mul(p.keys).mul(p.kvHeads).add(kvHead).mul(p.headDim));
      const h: Head = {
        queries: p.queries,
        keys: p.keys,
        size: p.headDim,
        heads: p.heads,
        queryStride,
        keyStride,
        scale,
        weights: f.let(p.weights.add(unit.mul(BLOCK_BYTES))),
        q: f.let(p.q.at(query0.mul(p.headDim))),
        o: f.let(p.o.at(query0.mul(p.headDim))),
        lse: f.let(p.lse.at(query0)),
        k: f.let(p.k.at(key0)),
        v: f.let(p.v.at(key0)),
        start: f.let(mask === "start" ? load.i32(p.aux.at(batch)) : I32.of(0)),
        segments: f.let(p.aux.at(batch.mul(p.keys))),
      };
      if (decode) decodeQuery(f, h, causal);
      else {
        const first = f.let(block.mul(UNIT_ROWS));
        f.for(first, f.let(first.add(UNIT_ROWS).min(p.queries)), TILE, (t) =>
          queryTile(f, h, t, causal, mask === "segments"),
        );
      }
    });
  });
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

/** Queries t … t + 3 over all keys that one of them sees. */
function queryTile(f: FunctionBuilder, h: Head, t: Var<I32>, causal: boolean, segments: boolean): void {
  const sight = queryTileSight(f, h, t, causal, segments);
  const q = tilePointers(f, h.q, t, h.queries, h.queryStride);
  const o = tilePointers(f, h.o, t, h.queries, h.queryStride);
  o.forEach((row) => f.fillBytes(row, 0, h.size.shl(2)));
  const top = f.let(F32x4.of(NOTHING));
  const total = f.let(F32x4.of(0));
  const block = newBlock(f);
  /** The largest of the block's scores, as integers. */
  const highest = f.let(F32x4.of(NOTHING));
  const scoresAt = (j: I32): Var<F32x4>[] => {
    const scores = dots(f, q, tilePointers(f, h.k, j, h.keys, h.keyStride), h.size);
    scores.forEach((s) => f.set(s, s.mul(h.scale)));
    return scores;
  };

  sight.forGroups(block, {
    all: (j) => {
      const scores = scoresAt(j);
      scores.forEach((s) => f.set(highest, highest.pmax(s.nearest())));
      keep(f, block, j, [{ memory: h.weights, weights: scores }]);
    },
    flush: () => {
      const higher = f.let(top.pmax(highest));
      const factor = powerWeight(f, top.sub(higher));
      f.set(top, higher);
      f.set(highest, F32x4.of(NOTHING));
      f.set(total, total.mul(factor));
      const at = f.let(h.weights.add(0));
      f.for(0, block.count, 1, () => {
        const weight = weightOf(f, f.let(load.f32x4(at)), top);
        f.set(total, total.add(weight));
        f.store(at, weight);
        f.set(at, at.add(4 * TILE));
      });
      accumulateBlock(f, o, block, h.weights, h.v, h.keyStride, h.size, lanesOf(f, factor));
    },
    some: (j, seen) => {
      const scores = scoresAt(j);
      scores.forEach((s, c) => f.set(s, seen[c]!.bitselect(s, F32x4.of(NOTHING))));
      const higher = f.let(scores.reduce<F32x4>((m, s) => m.pmax(s.nearest()), top));
      f.if(higher.ne(top).any(), () => {
        const factor = powerWeight(f, top.sub(higher));
        f.set(total, total.mul(factor));
        lanesOf<F32x4>(f, factor).forEach((x, r) => scaleRow(f, o[r]!, x, h.size));
        f.set(top, higher);
      });
      const weights = scores.map((s, c) => {
        const weight = weightOf(f, s, top);
        f.set(weight, weight.and(seen[c]!));
        f.set(total, total.add(weight));
        return lanesOf<F32x4>(f, weight);
      });
      const values = tilePointers(f, h.v, j, h.keys, h.keyStride);
      accumulate(f, o, values, weights, h.size, seen.map((mask) => lanesOf<I32x4>(f, mask))); // prettier-ignore
    },
  });

  const empty = f.let(total.eq(0));
  const inverse = f.let(empty.bitselect(F32x4.of(0), F32x4.of(1).div(total)));
  const lse = f.let(empty.bitselect(F32x4.of(NOTHING), lseOf(f, top, total)));
  lanesOf<F32x4>(f, inverse).forEach((x, r) =>
    f.if(t.add(r).lt(h.queries), () => {
      scaleRow(f, o[r]!, x, h.size);
      f.storeLane(h.lse.at(t.add(r).mul(h.heads)), lse, r);
    }),
  );
}

/** What to do with a group of four keys (or queries) from `j` on. */
export interface GroupVisitor {
  /** Every row of the tile sees all four: they join the block, which has room. */
  readonly all: (j: Var<I32>) => void;
  /** The block is full, or has no further neighbours: adds it. */
  readonly flush: () => void;
  /** Some rows see some. */
  readonly some: (j: Var<I32>, seen: readonly I32x4[]) => void;
}

/**
 * Visits groups from `begin` up to `end` in order, by what the rows see of them; the block is empty afterwards.
 * `look` gives whether all is seen, and masks by column, at most one of both where the other is not needed.
 */
export function visitGroups(
  f: FunctionBuilder,
  begin: I32,
  end: I32,
  block: Block,
  visitor: GroupVisitor,
  look: (j: Var<I32>) => { all: I32; masks: () => readonly I32x4[] },
): void {
  // One turn more than there are groups: in it nothing is seen, and the block is added.
  f.for(begin, f.let(end.add(TILE)), TILE, (j) => {
    const { all, masks } = look(j);
    const whole = f.let(all);
    f.if(block.count.ne(0).and(whole.not().or(block.count.eq(BLOCK))), () => {
      visitor.flush();
      f.set(block.count, I32.of(0));
    });
    f.if(
      whole,
      () => visitor.all(j),
      () =>
        f.if(j.lt(end), () => {
          const seen = masks();
          const some = seen.reduce<I32x4>((a, b) => a.or(b), I32x4.of(0));
          f.if(some.any(), () => visitor.some(j, seen));
        }),
    );
  });
}

/** What queryTileSight needs of a head; the backward pass for dq has the same. */
export type Sighted = Pick<Head, "queries" | "keys" | "start" | "segments">;

/** Which keys the queries t … t + 3 see, and their visit in order. */
export function queryTileSight(
  f: FunctionBuilder,
  h: Sighted,
  t: Var<I32>,
  causal: boolean,
  segments: boolean,
): { forGroups: (block: Block, visitor: GroupVisitor) => void } {
  // A query sees no key beyond its limit; −1 for rows that do not exist and for padding.
  const rows = f.let(laneNumbers(t, I32x4.lanes(0, 1, 2, 3)));
  const lastKey = f.let(h.keys.sub(1).splat());
  const limit = f.let(causal ? rows.add(h.start.splat()).minS(lastKey) : lastKey.add(0));
  const own = segments ? loadLanes(f, h.segments, t, h.queries) : undefined;
  const exists = own === undefined ? rows.lt(h.queries.splat()) : rows.lt(h.queries.splat()).and(own.gt(-1));
  f.set(limit, exists.bitselect<I32x4>(limit, I32x4.of(-1)));
  const swapped = f.let(limit.shuffle(limit, 2, 3, 0, 1));
  const [low, high] = [f.let(limit.minS(swapped)), f.let(limit.maxS(swapped))];
  const lowest = f.let(low.lane(0).min(low.lane(1)));
  const end = f.let(high.lane(0).max(high.lane(1)).add(1).max(0));
  return {
    forGroups: (block, visitor) =>
      visitGroups(f, I32.of(0), end, block, visitor, (j) => {
        const keySegments = own && loadLanes(f, h.segments, j, h.keys);
        const masks = (): Var<I32x4>[] =>
          range(TILE).map((c) => {
            const within = f.let(limit.lt(j.add(c).splat()).not());
            if (own === undefined || keySegments === undefined) return within;
            return f.let(within.and(own.eq(keySegments.shuffle(keySegments, c, c, c, c))));
          });
        if (own === undefined) return { all: j.add(TILE - 1).le(lowest), masks };
        const seen = masks();
        return { all: seen.reduce<I32x4>((a, b) => a.and(b), I32x4.of(-1)).all(), masks: () => seen };
      }),
  };
}

/** One query over its keys, four keys per step in the lanes; the same sums in the same order as `queryTile`. */
function decodeQuery(f: FunctionBuilder, h: Head, causal: boolean): void {
  const limit = f.let(causal ? h.start.min(h.keys.sub(1)) : h.keys.sub(1));
  const [q, o] = [f.let(h.q.add(0)), f.let(h.o.add(0))];
  f.fillBytes(o, 0, h.size.shl(2));
  const top = f.let(F32x4.of(NOTHING));
  const total = f.let(F32x4.of(0));
  f.for(0, f.let(limit.add(1)), TILE, (j) => {
    const seen = f.let(
      limit
        .splat()
        .lt(laneNumbers(j, I32x4.lanes(0, 1, 2, 3)))
        .not(),
    );
    const keys = tilePointers(f, h.k, j, h.keys, h.keyStride);
    const [scores] = dots(f, keys, [q], h.size) as [Var<F32x4>];
    f.set(scores, seen.bitselect(scores.mul(h.scale), F32x4.of(NOTHING)));
    const higher = f.let(maxLanes(f, scores.nearest()).pmax(top));
    f.if(higher.ne(top).any(), () => {
      const factor = powerWeight(f, top.sub(higher));
      f.set(total, total.mul(factor));
      scaleRow(f, o, factor, h.size);
      f.set(top, higher);
    });
    const weights = lanesOf<F32x4>(f, f.let(weightOf(f, scores, top).and(seen)));
    weights.forEach((x) => f.set(total, total.add(x)));
    const values: Pointers = tilePointers(f, h.v, j, h.keys, h.keyStride);
    const accumulateWith = (masks?: readonly I32x4[][]): void =>
      accumulate(
        f,
        [o],
        values,
        weights.map((x) => [x]),
        h.size,
        masks,
      );
    f.if(
      seen.all(),
      () => accumulateWith(),
      () => accumulateWith(lanesOf<I32x4>(f, seen).map((x) => [x])),
    );
  });
  const empty = f.let(total.eq(0));
  scaleRow(f, o, f.let(empty.bitselect(F32x4.of(0), F32x4.of(1).div(total))), h.size);
  f.storeLane(h.lse, empty.bitselect(F32x4.of(NOTHING), lseOf(f, top, total)), 0);
}
