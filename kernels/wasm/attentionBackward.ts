/**
 * The adjoint of attention, again without a score matrix: probabilities are recomputed from the forward's log-sum-exp.
 * With P = e^(scale·q·k − lse), dP = g·v and D = Σ_d g·o per query:
 *
 *     dS = P ∘ (dP − D) · scale      dq = dS·k      dk = dSᵀ·q      dv = Pᵀ·g
 *
 * One pass makes all three, so that scores and dP, the larger half of the work, are computed once. A unit of work is a
 * key/value head of a row of the batch. It owns dk and dv there and dq of the heads that read it, and it adds in the
 * order of query heads, queries, keys. So every output has one owner and one order of summation. The price: no more
 * threads have work than there are such heads.
 */
import type { Program, WasmKernel } from "../kernel.ts";
import type { AttentionBackwardSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, I32, i32s, kernelModule, load, type Var } from "./assembler.ts";
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
import {
  addColumns,
  addRows,
  BLOCK_BYTES,
  clearRow,
  dots,
  firstHead,
  keep,
  neighbours,
  newBlock,
  type Pointers,
  range,
  rowBytes,
  rowDots,
  rowPointers,
  TILE,
} from "./attentionTiles.ts";
import { expWeight } from "./math.ts";

/** The log-sum-exp of a query that does not exist: it makes its probabilities 0. */
const NEVER = 1e30;

/** See `AttentionBackwardSpec`. Buffers: q, k, v, o, lse, g, (aux) → dq, dk, dv. */
export function attentionBackward(spec: AttentionBackwardSpec): Program<WasmKernel> {
  const { batch, queries, keys, heads, kvHeads, headDim, mask, scale, window } = spec;
  const kind = maskKindOf(spec);
  const [q, k, v, o, lse, g, aux] = [0, 1, 2, 3, 4, 5, 6] as const;
  const dq = mask === "none" ? 6 : 7; // aux is not used where there is no mask
  const kernel: WasmKernel = {
    key: `attentionBackward.${headDim}.${showMaskKind(kind)}`,
    module: () => backwardModule(headDim, kind),
    scalars: [queries, keys, heads, kvHeads, window, scale],
    units: batch * kvHeads,
    costPerUnit: pairsOf(queries, spec) * Math.ceil(heads / kvHeads) * (5 * headDim + 60),
  };
  return {
    temps: [unitBytes(headDim) * kernel.units],
    steps: [{ kernel, buffers: [q, k, v, o, lse, g, aux, dq, dq + 1, dq + 2, dq + 3] }],
  };
}

/** The memory of a unit: P and dS of a block, the masks of a group, and two rows for queries beyond the last. */
const unitBytes = (headDim: number): number => 2 * BLOCK_BYTES + SEEN_BYTES + 2 * rowBytes(headDim);

function backwardModule(headDim: number, kind: MaskKind): Uint8Array<ArrayBuffer> {
  const params = {
    ...i32s(
      "q",
      "k",
      "v",
      "o",
      "lse",
      "g",
      "aux",
      "dq",
      "dk",
      "dv",
      "scratch",
      "queries",
      "keys",
      "heads",
      "kvHeads",
      "window",
    ),
    scale: "f32",
    ...i32s("begin", "end"),
  } as const;
  return kernelModule(params, (f, p) => {
    const queryStride = f.let(p.heads.mul(headDim));
    const keyStride = f.let(p.kvHeads.mul(headDim));
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const kvHead = f.let(unit.remU(p.kvHeads));
      const batch = f.let(unit.divU(p.kvHeads));
      const key0 = f.let(batch.mul(p.keys).mul(p.kvHeads).add(kvHead).mul(headDim));
      const [k, v, dk, dv] = [p.k, p.v, p.dk, p.dv].map((base) => f.let(base.at(key0))) as [I32, I32, I32, I32];
      const scratch = f.let(p.scratch.add(unit.mul(unitBytes(headDim))));
      const zeros = f.let(scratch.add(2 * BLOCK_BYTES + SEEN_BYTES));
      const memory = {
        p: scratch,
        ds: f.let(scratch.add(BLOCK_BYTES)),
        seen: f.let(scratch.add(2 * BLOCK_BYTES)),
        zeros,
        lost: f.let(zeros.add(rowBytes(headDim))),
      };
      const keyMask = keyMaskOf(f, p, batch, kind);
      clearRow(f, zeros, headDim);
      f.for(0, p.keys, 1, (j) => [dk, dv].forEach((base) => clearRow(f, base.at(j.mul(keyStride)), headDim)));
      const lastHead = f.let(firstHead(kvHead.add(1), p.heads, p.kvHeads));
      f.for(firstHead(kvHead, p.heads, p.kvHeads), lastHead, 1, (head) => {
        const query0 = f.let(batch.mul(p.queries).mul(p.heads).add(head));
        f.for(0, p.queries, TILE, (t) => {
          const rows = (base: I32, spare: I32): Pointers =>
            rowPointers(f, base.at(query0.mul(headDim)), t, queryStride, p.queries, spare);
          const lse = f.let(F32x4.of(NEVER));
          for (const r of range(TILE)) {
            f.if(t.add(r).lt(p.queries), () => {
              f.set(lse, lse.withLane(r, load.f32(p.lse.at(query0.add(t.add(r).mul(p.heads))))));
            });
          }
          const [q, g, o] = [p.q, p.g, p.o].map((base) => rows(base, zeros)) as [Pointers, Pointers, Pointers];
          const dq = rows(p.dq, memory.lost);
          const delta = rowDots(f, g, o, headDim);
          queryTile(f, { q, g, dq, lse, delta, k, v, dk, dv, keyStride, scale, headDim, memory }, keyMask, t);
        });
      });
    });
  });
}

/** Four queries of a head, and the place of the head's keys. */
interface Tile {
  readonly q: Pointers;
  readonly g: Pointers;
  readonly dq: Pointers;
  readonly lse: F32x4;
  readonly delta: F32x4;
  readonly k: I32;
  readonly v: I32;
  readonly dk: I32;
  readonly dv: I32;
  /** The number of floats from one key to the next. */
  readonly keyStride: I32;
  readonly scale: F32x4;
  readonly headDim: number;
  readonly memory: { readonly p: I32; readonly ds: I32; readonly seen: I32 };
}

function queryTile(f: FunctionBuilder, tile: Tile, keyMask: KeyMask, t: Var<I32>): void {
  const { q, g, dq, k, v, dk, dv, keyStride, headDim, memory } = tile;
  dq.forEach((row) => clearRow(f, row, headDim));
  const block = newBlock(f);
  forKeys(f, keyMask, t, block, {
    add: (j, count, seen) => {
      const columns = (base: I32): Pointers => neighbours(f, base, j, keyStride, seen && keyMask.keys);
      const scores = dots(f, q, columns(k), headDim);
      const gradients = dots(f, g, columns(v), headDim);
      keep(f, block, j, count, [
        { memory: memory.p, columns: scores },
        { memory: memory.ds, columns: gradients },
        ...(seen ? [{ memory: memory.seen, columns: seen }] : []),
      ]);
    },
    flush: (masked) => {
      differentials(f, tile, block.count, masked);
      const seen = masked ? memory.seen : undefined;
      const weighted = (weights: I32, columns: I32) => ({ block, memory: weights, seen, columns, stride: keyStride });
      addColumns(f, dq, weighted(memory.ds, k), headDim);
      addRows(f, q, weighted(memory.ds, dk), headDim);
      addRows(f, g, weighted(memory.p, dv), headDim);
    },
  });
}

/** Overwrites the scores that were kept with P, and dP with dS. */
function differentials(f: FunctionBuilder, { lse, delta, scale, memory }: Tile, count: I32, masked: boolean): void {
  const at = f.let(I32.of(0));
  f.for(0, count, 1, () => {
    const [pAt, dsAt] = [f.let(memory.p.add(at)), f.let(memory.ds.add(at))];
    const seen = masked ? f.let(load.i32x4(memory.seen.add(at))) : undefined;
    const maskedBySeen = (x: F32x4): Var<F32x4> => f.let(seen === undefined ? x : x.and(seen));
    const p = maskedBySeen(expWeight(f, load.f32x4(pAt).mul(scale).sub(lse)));
    const ds = maskedBySeen(load.f32x4(dsAt).sub(delta).mul(p).mul(scale));
    f.store(pAt, p);
    f.store(dsAt, ds);
    f.set(at, at.add(4 * TILE));
  });
}
