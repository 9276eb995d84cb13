/**
 * Rearrangements of matrices that come before a product: a transpose, and panels of 16 columns.
 * Each is a step that writes a temporary of the matmul's program; on their own these are not ops (that is `copy`).
 */
import type { WasmKernel } from "../kernel.ts";
import { F32x4, kernelModule, load } from "./assembler.ts";

/** Columns of a panel: one cache line of floats. */
export const PANEL = 16;

/** x [batch, rows, cols] → y [batch, cols, rows]. A unit is 16 columns, so that whole cache lines are read. */
export function transposeMatrices(batch: number, rows: number, cols: number): WasmKernel {
  const blocks = Math.ceil(cols / PANEL);
  return {
    key: "matmul.transpose",
    module: transposeModule,
    scalars: [rows, cols, blocks],
    units: batch * blocks,
    costPerUnit: 8 * rows * PANEL,
  };
}

function transposeModule(): Uint8Array<ArrayBuffer> {
  const params = { x: "i32", y: "i32", rows: "i32", cols: "i32", blocks: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (unit) => {
      const matrix = f.let(unit.divU(p.blocks).mul(p.rows).mul(p.cols));
      const [x, y] = [f.let(p.x.at(matrix)), f.let(p.y.at(matrix))];
      const begin = f.let(unit.remU(p.blocks).mul(PANEL));
      const end = f.let(begin.add(PANEL).min(p.cols));
      const fullCols = f.let(end.and(-4));
      const fullRows = f.let(p.rows.and(-4));
      const rowBytes = f.let(p.cols.shl(2));
      const colBytes = f.let(p.rows.shl(2));
      f.for(0, fullRows, 4, (i) => {
        f.for(begin, fullCols, 4, (j) => {
          const from = f.let(x.at(i.mul(p.cols).add(j)));
          const r = [0, 1, 2, 3].map((n) => f.let(load.f32x4(from.add(rowBytes.mul(n)))));
          const [a, b] = [f.let(r[0]!.shuffle(r[1]!, 0, 4, 1, 5)), f.let(r[0]!.shuffle(r[1]!, 2, 6, 3, 7))];
          const [c, d] = [f.let(r[2]!.shuffle(r[3]!, 0, 4, 1, 5)), f.let(r[2]!.shuffle(r[3]!, 2, 6, 3, 7))];
          const to = f.let(y.at(j.mul(p.rows).add(i)));
          f.store(to, a.shuffle(c, 0, 1, 4, 5));
          f.store(to.add(colBytes), a.shuffle(c, 2, 3, 6, 7));
          f.store(to.add(colBytes.mul(2)), b.shuffle(d, 0, 1, 4, 5));
          f.store(to.add(colBytes.mul(3)), b.shuffle(d, 2, 3, 6, 7));
        });
      });
      const move = (i: typeof begin, j: typeof begin): void =>
        f.store(y.at(j.mul(p.rows).add(i)), load.f32(x.at(i.mul(p.cols).add(j))));
      f.for(fullCols, end, 1, (j) => f.for(0, fullRows, 1, (i) => move(i, j)));
      f.for(begin, end, 1, (j) => f.for(fullRows, p.rows, 1, (i) => move(i, j)));
    });
  });
}

/** Bytes of the packed form of x [batch, rows, cols]. */
export const packedBytes = (batch: number, rows: number, cols: number): number =>
  4 * batch * Math.ceil(cols / PANEL) * PANEL * rows;

/** x [batch, rows, cols] → y [batch, ⌈cols / 16⌉, rows, 16], zeros to the right of the last column. A unit is one panel. */
export function packColumns(batch: number, rows: number, cols: number): WasmKernel {
  const panels = Math.ceil(cols / PANEL);
  return {
    key: "matmul.pack",
    module: packModule,
    scalars: [rows, cols, panels],
    units: batch * panels,
    costPerUnit: 2 * rows * PANEL,
  };
}

function packModule(): Uint8Array<ArrayBuffer> {
  const params = { x: "i32", y: "i32", rows: "i32", cols: "i32", panels: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    const rowBytes = f.let(p.cols.shl(2));
    f.for(p.begin, p.end, 1, (unit) => {
      const j = f.let(unit.remU(p.panels).mul(PANEL));
      const from = f.let(p.x.at(unit.divU(p.panels).mul(p.rows).mul(p.cols).add(j)));
      const to = f.let(p.y.at(unit.mul(p.rows).mul(PANEL)));
      const width = f.let(p.cols.sub(j).min(PANEL));
      f.for(0, p.rows, 1, () => {
        f.if(
          width.eq(PANEL),
          () => [0, 16, 32, 48].forEach((offset) => f.store(to, load.f32x4(from, offset), offset)),
          () => {
            [0, 16, 32, 48].forEach((offset) => f.store(to, F32x4.of(0), offset));
            f.for(0, width, 1, (column) => f.store(to.at(column), load.f32(from.at(column))));
          },
        );
        f.set(from, from.add(rowBytes));
        f.set(to, to.add(4 * PANEL));
      });
    });
  });
}
