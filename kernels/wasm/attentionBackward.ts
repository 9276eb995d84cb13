/**
 * The adjoint of attention, again without a score matrix: probabilities are recomputed from the forward's log-sum-exp.
 * With P = e^(scale·q·k − lse), dP = g·v and D = Σ_d g·o per query:
 *
 *     dS = P ∘ (dP − D) · scale      dq = dS·k      dk = dSᵀ·q      dv = Pᵀ·g
 *
 * Three steps: D; dq by tiles of four queries over their keys; dk and dv by tiles of four keys over the queries that see
 * them, query heads of the group in order. So every output has one owner and one order of summation.
 */
import type { Program, WasmKernel } from "../kernel.ts";
import type { AttentionBackwardSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, I32, I32x4, kernelModule, load, select, type Var } from "./assembler.ts";
import { queryTileSight, visitGroups } from "./attention.ts";
import {
  accumulate,
  accumulateBlock,
  BLOCK_BYTES,
  dots,
  firstHead,
  keep,
  laneNumbers,
  lanesOf,
  loadLanes,
  newBlock,
  type Pointers,
  range,
  TILE,
  tilePointers,
  UNIT_ROWS,
} from "./attentionTiles.ts";
import { forColumns, sumLanes } from "./lanes.ts";
import { expWeight } from "./math.ts";

type Mask = AttentionBackwardSpec["mask"];

/** See `AttentionBackwardSpec`. Buffers: q, k, v, o, lse, g, (aux) → dq, dk, dv. */
export function attentionBackward(spec: AttentionBackwardSpec): Program<WasmKernel> {
  const { batch, queries, keys, heads, kvHeads, headDim, causal, mask, scale } = spec;
  const name = `${mask}${causal ? ".causal" : ""}`;
  const rows = batch * queries * heads;
  const [queryBlocks, keyBlocks] = [Math.ceil(queries / UNIT_ROWS), Math.ceil(keys / UNIT_ROWS)];
  const pairs = queries * keys * (causal ? 0.5 : 1);
  const [q, k, v, o, lse, g, aux] = [0, 1, 2, 3, 4, 5, 6] as const;
  const dq = mask === "none" ? 6 : 7;
  const delta = dq + 3;
  const deltaKernel: WasmKernel = {
    key: "attentionBackward.delta",
    module: deltaModule,
    scalars: [headDim],
    units: rows,
    costPerUnit: 3 * headDim,
  };
  const sizes = [queries, keys, heads, kvHeads, headDim];
  const dqKernel: WasmKernel = {
    key: `attentionBackward.dq.${name}`,
    module: () => queryModule(causal, mask),
    scalars: [...sizes, queryBlocks, scale],
    units: batch * heads * queryBlocks,
    costPerUnit: (pairs / queryBlocks) * (3 * headDim + 40),
  };
  const dkKernel: WasmKernel = {
    key: `attentionBackward.dkdv.${name}`,
    module: () => keyModule(causal, mask),
    scalars: [...sizes, keyBlocks, scale],
    units: batch * kvHeads * keyBlocks,
    costPerUnit: (pairs / keyBlocks) * Math.ceil(heads / kvHeads) * (4 * headDim + 70),
  };
  return {
    temps: [4 * rows, BLOCK_BYTES * Math.max(dqKernel.units, 2 * dkKernel.units)],
    steps: [
      { kernel: deltaKernel, buffers: [o, g, delta] },
      { kernel: dqKernel, buffers: [q, k, v, lse, g, delta, aux, dq, delta + 1] },
      { kernel: dkKernel, buffers: [q, k, v, lse, g, delta, aux, dq + 1, dq + 2, delta + 1] },
    ],
  };
}

/** D [rows] = Σ_d o·g. */
function deltaModule(): Uint8Array<ArrayBuffer> {
  const params = { o: "i32", g: "i32", delta: "i32", headDim: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const offset = f.let(row.mul(p.headDim));
      const [o, g] = [f.let(p.o.at(offset)), f.let(p.g.at(offset))];
      const sum = f.let(F32x4.of(0));
      forColumns(f, p.headDim, (columns) => f.set(sum, sum.add(columns.only(columns.load(o).mul(columns.load(g))))));
      f.storeLane(p.delta.at(row), sumLanes(f, sum), 0);
    });
  });
}

/** scale · q·k of a tile in probabilities, and dS. Vectors are per column, lanes per row; lse and D as they fit those. */
function differentials(
  f: FunctionBuilder,
  scores: readonly Var<F32x4>[],
  gradients: readonly F32x4[],
  scale: F32x4,
  lse: (c: number) => F32x4,
  delta: (c: number) => F32x4,
  seen: readonly I32x4[] | undefined,
): { p: F32x4[]; ds: F32x4[] } {
  const only = (x: F32x4, c: number): F32x4 => (seen === undefined ? x : x.and(seen[c]!));
  const p = scores.map((s, c) => f.let(only(expWeight(f, s.mul(scale).sub(lse(c))), c)));
  const ds = gradients.map((dp, c) => f.let(only(dp.sub(delta(c)).mul(p[c]!).mul(scale), c)));
  return { p, ds };
}

function queryModule(causal: boolean, mask: Mask): Uint8Array<ArrayBuffer> {
  // prettier-ignore
  const params = {
    q: "i32", k: "i32", v: "i32", lse: "i32", g: "i32", delta: "i32", aux: "i32", dq: "i32", weights: "i32",
    queries: "i32", keys: "i32", heads: "i32", kvHeads: "i32", headDim: "i32", blocks: "i32", scale: "f32",
    begin: "i32", end: "i32",
  } as const;
  return kernelModule(params, (f, p) => {
    const queryStride = f.let(p.heads.mul(p.headDim));
    const keyStride = f.let(p.kvHeads.mul(p.headDim));
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const first = f.let(unit.remU(p.blocks).mul(UNIT_ROWS));
      const head = f.let(unit.divU(p.blocks).remU(p.heads));
      const batch = f.let(unit.divU(p.blocks).divU(p.heads));
      const query0 = f.let(batch.mul(p.queries).mul(p.heads).add(head));
      const kvHead = head.mul(p.kvHeads).divU(p.heads);
      const key0 = f.let(batch.mul(p.keys).mul(p.kvHeads).add(kvHead).mul(p.headDim));
      const [kBase, vBase] = [f.let(p.k.at(key0)), f.let(p.v.at(key0))];
      const sighted = {
        queries: p.queries,
        keys: p.keys,
        start: f.let(mask === "start" ? load.i32(p.aux.at(batch)) : I32.of(0)),
        segments: f.let(p.aux.at(batch.mul(p.keys))),
      };
      f.for(first, f.let(first.add(UNIT_ROWS).min(p.queries)), TILE, (t) => {
        const tile = (base: I32): Pointers =>
          tilePointers(f, base.at(query0.mul(p.headDim)), t, p.queries, queryStride);
        const [q, g, dq] = [tile(p.q), tile(p.g), tile(p.dq)];
        dq.forEach((row) => f.fillBytes(row, 0, p.headDim.shl(2)));
        const perRow = (base: I32): Var<F32x4> => {
          const rows = tilePointers(f, base.at(query0), t, p.queries, p.heads);
          const v = f.let(load.splat(rows[0]!));
          for (const r of [1, 2, 3]) f.set(v, v.withLane(r, load.f32(rows[r]!)));
          return v;
        };
        const [lse, delta] = [perRow(p.lse), perRow(p.delta)];
        const block = newBlock(f);
        const weights = f.let(p.weights.add(unit.mul(BLOCK_BYTES)));
        const at = (j: I32, seen?: readonly I32x4[]): F32x4[] => {
          const scores = dots(f, q, tilePointers(f, kBase, j, p.keys, keyStride), p.headDim);
          const gradients = dots(f, g, tilePointers(f, vBase, j, p.keys, keyStride), p.headDim);
          const [lses, deltas] = [(): F32x4 => lse, (): F32x4 => delta];
          return differentials(f, scores, gradients, scale, lses, deltas, seen).ds;
        };
        queryTileSight(f, sighted, t, causal, mask === "segments").forGroups(block, {
          all: (j) => keep(f, block, j, [{ memory: weights, weights: at(j) }]),
          flush: () => accumulateBlock(f, dq, block, weights, kBase, keyStride, p.headDim),
          some: (j, seen) => {
            const ds = at(j, seen).map((x) => lanesOf(f, x));
            const k = tilePointers(f, kBase, j, p.keys, keyStride);
            accumulate(f, dq, k, ds, p.headDim, seen.map((x) => lanesOf(f, x))); // prettier-ignore
          },
        });
      });
    });
  });
}

function keyModule(causal: boolean, mask: Mask): Uint8Array<ArrayBuffer> {
  // prettier-ignore
  const params = {
    q: "i32", k: "i32", v: "i32", lse: "i32", g: "i32", delta: "i32", aux: "i32", dk: "i32", dv: "i32", weights: "i32",
    queries: "i32", keys: "i32", heads: "i32", kvHeads: "i32", headDim: "i32", blocks: "i32", scale: "f32",
    begin: "i32", end: "i32",
  } as const;
  return kernelModule(params, (f, p) => {
    const queryStride = f.let(p.heads.mul(p.headDim));
    const keyStride = f.let(p.kvHeads.mul(p.headDim));
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const first = f.let(unit.remU(p.blocks).mul(UNIT_ROWS));
      const kvHead = f.let(unit.divU(p.blocks).remU(p.kvHeads));
      const batch = f.let(unit.divU(p.blocks).divU(p.kvHeads));
      const key0 = f.let(batch.mul(p.keys).mul(p.kvHeads).add(kvHead).mul(p.headDim));
      const start = f.let(mask === "start" ? load.i32(p.aux.at(batch)) : I32.of(0));
      const segments = f.let(p.aux.at(batch.mul(p.keys)));
      const lastKey = f.let(p.keys.sub(1));
      f.for(first, f.let(first.add(UNIT_ROWS).min(p.keys)), TILE, (j) => {
        const tile = (base: I32): Pointers => tilePointers(f, base.at(key0), j, p.keys, keyStride);
        const [k, v, dk, dv] = [tile(p.k), tile(p.v), tile(p.dk), tile(p.dv)];
        [...dk, ...dv].forEach((row) => f.fillBytes(row, 0, p.headDim.shl(2)));
        const keyNumbers = f.let(laneNumbers(j, I32x4.lanes(0, 1, 2, 3)));
        const own = mask === "segments" ? loadLanes(f, segments, j, p.keys) : undefined;
        const end = f.let(firstHead(kvHead.add(1), p.heads, p.kvHeads));
        // The first query that sees key j stands at its position.
        const firstQuery = f.let(causal ? j.sub(start).max(0).and(-TILE) : I32.of(0));
        f.for(firstHead(kvHead, p.heads, p.kvHeads), end, 1, (head) => {
          const query0 = f.let(batch.mul(p.queries).mul(p.heads).add(head));
          const [qBase, gBase] = [f.let(p.q.at(query0.mul(p.headDim))), f.let(p.g.at(query0.mul(p.headDim)))];
          const block = newBlock(f);
          const [forV, forK] = [f.let(p.weights.add(unit.mul(2 * BLOCK_BYTES))), f.let(I32.of(0))];
          f.set(forK, forV.add(BLOCK_BYTES));
          const at = (t: I32, seen?: readonly I32x4[]): { p: F32x4[]; ds: F32x4[] } => {
            const perColumn = (base: I32): Var<F32x4>[] =>
              tilePointers(f, base.at(query0), t, p.queries, p.heads).map((a) => f.let(load.splat(a)));
            const [lse, delta] = [perColumn(p.lse), perColumn(p.delta)];
            const scores = dots(f, k, tilePointers(f, qBase, t, p.queries, queryStride), p.headDim);
            const gradients = dots(f, v, tilePointers(f, gBase, t, p.queries, queryStride), p.headDim);
            const of = (values: Var<F32x4>[]) => (c: number) => values[c]!;
            return differentials(f, scores, gradients, scale, of(lse), of(delta), seen);
          };
          const visitor = {
            all: (t: Var<I32>): void => {
              const { p: weights, ds } = at(t);
              keep(f, block, t, [{ memory: forV, weights }, { memory: forK, weights: ds }]); // prettier-ignore
            },
            flush: (): void => {
              accumulateBlock(f, dv, block, forV, gBase, queryStride, p.headDim);
              accumulateBlock(f, dk, block, forK, qBase, queryStride, p.headDim);
            },
            some: (t: Var<I32>, seen: readonly I32x4[]): void => {
              const { p: weights, ds } = at(t, seen);
              const seenLanes = seen.map((x) => lanesOf(f, x));
              const [q, g] = [qBase, gBase].map((base) => tilePointers(f, base, t, p.queries, queryStride));
              accumulate(f, dv, g!, weights.map((x) => lanesOf(f, x)), p.headDim, seenLanes); // prettier-ignore
              accumulate(f, dk, q!, ds.map((x) => lanesOf(f, x)), p.headDim, seenLanes); // prettier-ignore
            },
          };
          visitGroups(f, firstQuery, p.queries, block, visitor, (t) => {
            const masks = (): Var<I32x4>[] =>
              range(TILE).map((c) => {
                // A query sees no key beyond its limit.
                const limit = causal ? t.add(c).add(start).min(lastKey) : lastKey;
                const exists = t.add(c).lt(p.queries);
                const within = keyNumbers.gt(select(exists, limit, I32.of(-1)).splat()).not();
                if (own === undefined) return f.let(within);
                const segment = load.i32(segments.at(t.add(c).min(lastKey)));
                return f.let(within.and(own.eq(segment.splat())).and(own.gt(-1)));
              });
            if (own === undefined) {
              const inside = t.add(TILE).le(p.queries).and(j.add(TILE).le(p.keys));
              return { all: causal ? inside.and(j.add(TILE - 1).le(t.add(start))) : inside, masks };
            }
            const seen = masks();
            return { all: seen.reduce<I32x4>((a, b) => a.and(b), I32x4.of(-1)).all(), masks: () => seen };
          });
        });
      });
    });
  });
}
