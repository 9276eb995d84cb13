/**
 * RMSNorm and LayerNorm over rows, and their adjoints. The variance is the population's, around a mean that is computed
 * first: two passes keep the digits of rows that are far from zero. With x̂ = (x − mean)·r, r = 1/√(variance + eps), h
 * = g·w and ⟨·⟩ the mean over a row:
 *
 *     dx = r·(h − ⟨h⟩ − x̂·⟨h·x̂⟩)      dw = Σ_rows g·x̂      db = Σ_rows g          (RMSNorm: mean = 0, no ⟨h⟩, no b)
 *
 * The sums over rows go by blocks of `BLOCK_ROWS` rows into a temporary, then over the blocks in order.
 */
import { type Program, single, type WasmKernel } from "../kernel.ts";
import type { NormBackwardSpec, NormSpec } from "../specs.ts";
import {
  type F32,
  F32x4,
  type FunctionBuilder,
  type I32,
  i32s,
  kernelModule,
  load as loads,
  type Var,
} from "./assembler.ts";
import { forColumns, spread, sumLanes } from "./lanes.ts";

const BLOCK_ROWS = 32;
/** The number of columns per unit when the blocks' sums are added. */
const BLOCK_COLS = 64;

/** See `NormSpec`. Buffers: x, w, (b) → y. */
export function norm({ kind, rows, cols, eps }: NormSpec): Program<WasmKernel> {
  const layer = kind === "layer";
  const kernel: WasmKernel = {
    key: `norm.${kind}`,
    module: () => normModule(layer),
    scalars: [cols, eps],
    units: rows,
    costPerUnit: 6 * cols,
  };
  return layer ? single(kernel, 4) : { temps: [], steps: [{ kernel, buffers: [0, 1, 2, 2] }] };
}

/** The mean (0 for RMSNorm) and 1/√(variance + eps) of the row at `x`, in every lane. */
function rowStatistics(
  f: FunctionBuilder,
  x: I32,
  cols: I32,
  eps: F32,
  layer: boolean,
): { mean: Var<F32x4>; r: Var<F32x4> } {
  const count = f.let(cols.toF32().splat());
  const mean = f.let(F32x4.of(0));
  if (layer) {
    forColumns(f, cols, ({ load, only }) => f.set(mean, mean.add(only(load(x)))));
    f.set(mean, spread(f, sumLanes(f, mean)).div(count));
  }
  const squares = f.let(F32x4.of(0));
  forColumns(f, cols, ({ load, only }) => {
    const d = f.let(layer ? load(x).sub(mean) : load(x));
    f.set(squares, squares.add(only(d.mul(d))));
  });
  const variance = spread(f, sumLanes(f, squares)).div(count);
  return { mean, r: f.let(F32x4.of(1).div(variance.add(eps.splat()).sqrt())) };
}

function normModule(layer: boolean): Uint8Array<ArrayBuffer> {
  const params = { x: "i32", w: "i32", b: "i32", y: "i32", cols: "i32", eps: "f32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (row) => {
      const offset = f.let(row.mul(p.cols));
      const [x, y] = [f.let(p.x.at(offset)), f.let(p.y.at(offset))];
      const { mean, r } = rowStatistics(f, x, p.cols, p.eps, layer);
      forColumns(f, p.cols, ({ load, store }) => {
        const scaled = (layer ? load(x).sub(mean) : load(x)).mul(r).mul(load(p.w));
        store(y, layer ? scaled.add(load(p.b)) : scaled);
      });
    });
  });
}

/** See `NormBackwardSpec`. Buffers: x, w, g → dx, dw, (db). */
export function normBackward({ kind, rows, cols, eps }: NormBackwardSpec): Program<WasmKernel> {
  const layer = kind === "layer";
  const blocks = Math.ceil(rows / BLOCK_ROWS);
  const rowsKernel: WasmKernel = {
    key: `normBackward.${kind}`,
    module: () => normBackwardModule(layer),
    scalars: [rows, cols, blocks, eps],
    units: blocks,
    costPerUnit: 14 * cols * Math.min(rows, BLOCK_ROWS),
  };
  const columnsKernel: WasmKernel = {
    key: "normBackward.sumBlocks",
    module: sumBlocksModule,
    scalars: [cols, blocks],
    units: Math.ceil(cols / BLOCK_COLS),
    costPerUnit: 4 * Math.min(cols, BLOCK_COLS) * blocks,
  };
  const [dx, dw, db] = [3, 4, 5];
  const partials = layer ? [6, 7] : [5]; // of dw, (db): [blocks, cols] each
  const steps = [
    { kernel: rowsKernel, buffers: [0, 1, 2, dx, partials[0]!, partials[layer ? 1 : 0]!] },
    { kernel: columnsKernel, buffers: [partials[0]!, dw] },
  ];
  if (layer) steps.push({ kernel: columnsKernel, buffers: [partials[1]!, db] });
  return { temps: partials.map(() => 4 * blocks * cols), steps };
}

function normBackwardModule(layer: boolean): Uint8Array<ArrayBuffer> {
  const params = {
    ...i32s("x", "w", "g", "dx", "dw", "db", "rows", "cols", "blocks"),
    eps: "f32",
    ...i32s("begin", "end"),
  } as const;
  return kernelModule(params, (f, p) => {
    const count = f.let(p.cols.toF32().splat());
    f.for(p.begin, p.end, 1, (block) => {
      const [dw, db] = [f.let(p.dw.at(block.mul(p.cols))), f.let(p.db.at(block.mul(p.cols)))];
      const bytes = f.let(p.cols.shl(2));
      f.fillBytes(dw, 0, bytes);
      if (layer) f.fillBytes(db, 0, bytes);
      const first = f.let(block.mul(BLOCK_ROWS));
      f.for(first, f.let(first.add(BLOCK_ROWS).min(p.rows)), 1, (row) => {
        const offset = f.let(row.mul(p.cols));
        const [x, g, dx] = [f.let(p.x.at(offset)), f.let(p.g.at(offset)), f.let(p.dx.at(offset))];
        const { mean, r } = rowStatistics(f, x, p.cols, p.eps, layer);
        const [meanH, along] = [f.let(F32x4.of(0)), f.let(F32x4.of(0))];
        forColumns(f, p.cols, ({ load, store, only }) => {
          const [gj, xhat] = [f.let(load(g)), f.let((layer ? load(x).sub(mean) : load(x)).mul(r))];
          const h = f.let(gj.mul(load(p.w)));
          if (layer) f.set(meanH, meanH.add(only(h)));
          f.set(along, along.add(only(h.mul(xhat))));
          store(dw, load(dw).add(gj.mul(xhat)));
          if (layer) store(db, load(db).add(gj));
        });
        f.set(along, spread(f, sumLanes(f, along)).div(count));
        if (layer) f.set(meanH, spread(f, sumLanes(f, meanH)).div(count));
        forColumns(f, p.cols, ({ load, store }) => {
          const xhat = (layer ? load(x).sub(mean) : load(x)).mul(r);
          const h = load(g).mul(load(p.w));
          store(dx, (layer ? h.sub(meanH) : h).sub(xhat.mul(along)).mul(r));
        });
      });
    });
  });
}

/** y[j] = Σ_blocks x[block, j]. */
function sumBlocksModule(): Uint8Array<ArrayBuffer> {
  const params = { x: "i32", y: "i32", cols: "i32", blocks: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (unit) => {
      const j = f.let(unit.mul(BLOCK_COLS));
      const end = f.let(j.add(BLOCK_COLS).min(p.cols));
      const sumDown = (width: number): void =>
        f.while(j.add(width).le(end), () => {
          const sum = f.let(F32x4.of(0));
          const at = f.let(p.x.at(j));
          f.for(0, p.blocks, 1, () => {
            f.set(sum, sum.add(width === 4 ? loads.f32x4(at) : loads.splat(at)));
            f.set(at, at.at(p.cols));
          });
          if (width === 4) f.store(p.y.at(j), sum);
          else f.storeLane(p.y.at(j), sum, 0);
          f.set(j, j.add(width));
        });
      sumDown(4);
      sumDown(1);
    });
  });
}
