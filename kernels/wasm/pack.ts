/**
 * Rearrangements of matrices before a product: a transpose, and panels of a few columns. Each is a step that writes a
 * temporary of the product's program; the op for rearrangements is `copy`.
 */
import type { WasmKernel } from "../kernel.ts";
import { F32, i32s, kernelModule, load } from "./assembler.ts";

/** The number of columns per unit: one cache line of floats. */
const LINE = 16;

/** x [batch, rows, cols] → y [batch, cols, rows]. A unit is 16 columns, so that whole cache lines are read. */
export function transposeMatrices(batch: number, rows: number, cols: number): WasmKernel {
  const blocks = Math.ceil(cols / LINE);
  return {
    key: "matmul.transpose",
    module: transposeModule,
    scalars: [rows, cols, blocks],
    units: batch * blocks,
    costPerUnit: 8 * rows * LINE,
  };
}

function transposeModule(): Uint8Array<ArrayBuffer> {
  const params = { x: "i32", y: "i32", rows: "i32", cols: "i32", blocks: "i32", begin: "i32", end: "i32" } as const;
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (unit) => {
      const matrix = f.let(unit.divU(p.blocks).mul(p.rows).mul(p.cols));
      const [x, y] = [f.let(p.x.at(matrix)), f.let(p.y.at(matrix))];
      const begin = f.let(unit.remU(p.blocks).mul(LINE));
      const end = f.let(begin.add(LINE).min(p.cols));
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
export const packedBytes = (batch: number, rows: number, cols: number, panel: number): number =>
  4 * batch * Math.ceil(cols / panel) * panel * rows;

/**
 * x [batch, rows, cols] → y [batch, ⌈rows / pass⌉, ⌈cols / panel⌉, pass, panel], with zeros to the right of the last
 * column; the last pass may have fewer rows, and its panels are shorter. So the panels that a pass reads lie together,
 * and no two of them compete for the same sets of a cache, as those of columns of 4096 would. `panel` is 4 or
 * 8. A unit is the panels of one cache line.
 */
export function packColumns(batch: number, rows: number, cols: number, panel: number, pass: number): WasmKernel {
  const lines = Math.ceil(cols / LINE);
  return {
    key: `matmul.pack ${panel}`,
    module: () => packModule(panel),
    scalars: [rows, cols, lines, Math.ceil(cols / panel) * panel, pass],
    units: batch * lines,
    costPerUnit: 4 * rows * LINE,
  };
}

function packModule(panel: number): Uint8Array<ArrayBuffer> {
  const params = i32s("x", "y", "rows", "cols", "lines", "padded", "pass", "begin", "end");
  return kernelModule(params, (f, p) => {
    const rowBytes = f.let(p.cols.shl(2));
    f.for(p.begin, p.end, 1, (unit) => {
      const batch = f.let(unit.divU(p.lines));
      const j = f.let(unit.remU(p.lines).mul(LINE));
      const x = f.let(p.x.at(batch.mul(p.rows).mul(p.cols).add(j)));
      const y = f.let(p.y.at(batch.mul(p.rows).mul(p.padded)));
      const width = f.let(p.cols.sub(j).min(LINE));
      const vectors = Array.from({ length: LINE / 4 }, (_, v) => v);
      /** The panel of vector `v` of the line, and its place in it. */
      const panelOf = (v: number): number => Math.floor((4 * v) / panel);
      const placeOf = (v: number): number => (16 * v) % (4 * panel);
      f.for(0, p.rows, p.pass, (first) => {
        const count = f.let(p.rows.sub(first).min(p.pass));
        const panelBytes = f.let(count.mul(4 * panel));
        const from = f.let(x.at(first.mul(p.cols)));
        const to = f.let(y.at(first.mul(p.padded).add(j.mul(count))));
        f.if(
          width.eq(LINE),
          () => {
            const targets = Array.from({ length: LINE / panel }, (_, t) => f.let(to.add(panelBytes.mul(t))));
            f.for(0, count, 1, () => {
              vectors.forEach((v) => f.store(targets[panelOf(v)]!, load.f32x4(from, 16 * v), placeOf(v)));
              f.set(from, from.add(rowBytes));
              targets.forEach((t) => f.set(t, t.add(4 * panel)));
            });
          },
          () =>
            f.for(0, width.add(panel - 1).and(-panel), 1, (column) => {
              const at = f.let(to.add(column.divU(panel).mul(panelBytes)).at(column.remU(panel)));
              const source = f.let(from.at(column));
              f.for(0, count, 1, () => {
                f.if(
                  column.lt(width),
                  () => f.store(at, load.f32(source)),
                  () => f.store(at, F32.of(0)),
                );
                f.set(at, at.add(4 * panel));
                f.set(source, source.add(rowBytes));
              });
            }),
        );
      });
    });
  });
}
