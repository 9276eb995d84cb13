/**
 * Products with packed matrices on the CPU (`format.ts` has the formats; their rows are in wasmRows.ts).
 *
 * - x · Wᵀ: rows of x and of W both run along k, as in the dot tiles of `kernels/wasm/matmul.ts`. With few rows of x
 *   (decoding) a tile decodes in registers, and the time is that of reading W: fewer bits are less time. With many, a
 *   block of rows of W is decoded into a temporary that stays in the cache, and multiplied from there.
 * - x · W, which the gradient needs: W is decoded in passes of some rows, into a temporary of panels of 8 columns that
 *   stays in the second-level cache, and from there multiplied as the outer tiles there do. A unit owns some columns of
 *   the result and has its own part of the temporary.
 *
 * Sums run in the order of `matmul`'s, so each result has the bits of the product with the unpacked matrix: for
 * x · Wᵀ where k is a multiple of a group (8; of a block, 32, in q8), for x · W always.
 */
import type { Program, Step, WasmKernel } from "../../kernels/kernel.ts";
import {
  F32x4,
  type FunctionBuilder,
  I32,
  i32s,
  I32x4,
  kernelModule,
  load,
  type Var,
} from "../../kernels/wasm/assembler.ts";
import { copy, fill, fillWords } from "../../kernels/wasm/copy.ts";
import { fetch, fetchedRows } from "../../kernels/wasm/fetch.ts";
import { sumLanes, sumLanes4 } from "../../kernels/wasm/lanes.ts";
import { addendBuffers, addendPitches, addendPlaces } from "../../kernels/wasm/matmul.ts";
import { unrolledLoop } from "../../kernels/wasm/unrolled.ts";
import { type PackedFormat, type PackedMatmulSpec, packedRow } from "./format.ts";
import { range, scaleAt, stepsOf, decode } from "./wasmDecode.ts";

/** See `PackedMatmulSpec`. */
export const packedMatmul = (spec: PackedMatmulSpec): Program<WasmKernel> =>
  spec.transposed ? timesTransposed(spec) : times(spec);

/** The numbers of rows of x and of W in a tile that decodes in registers, the largest first. */
const TILES = [
  { rows: 2, widths: [4, 1] },
  { rows: 1, widths: [4, 1] },
] as const;
const UNIT_ROWS = 64;
/**
 * The number of rows of x from which on rows of W are decoded into a temporary, which the dot tiles read; in q8 always,
 * as its decoding takes too many registers to be done beside a product. Below: the rows decoded at a time (as the
 * first-level cache holds, or the second), and the number of units.
 */
const MANY_ROWS = 4;
const BLOCK_ROWS = { few: 4, many: 16 } as const;
const UNITS = 32;
const UNIT_COLS = 64;
/** The numbers of unrolled turns of the innermost loops, as in `kernels/wasm/matmul.ts`. */
const UNROLLED = { dot: 8, outer: 2 } as const;

function timesTransposed({ format, m, rows: n, columns, addends }: PackedMatmulSpec): Program<WasmKernel> {
  const { padded, scales, words } = packedRow(format, columns);
  const [X, W, C] = [0, 1, 2 + addends.length];
  const temps: number[] = [];
  const steps: Step<WasmKernel>[] = [];
  let x = X;
  if (padded !== columns) {
    x = C + temps.push(4 * m * padded);
    const zeros = fill({ count: m * padded, bits: 0 }).steps[0]!.kernel;
    const rowsOfX = copy({
      dims: [m, columns],
      inStrides: [columns, 1],
      inOffset: 0,
      outStrides: [padded, 1],
      outOffset: 0,
    });
    steps.push({ kernel: zeros, buffers: [x] }, { kernel: rowsOfX.steps[0]!.kernel, buffers: [X, x] });
  }
  const fetched = fetchedRows(n, columns, 4 * words);
  const variant = `${addends.length > 0 ? ` plus${addends.length}` : ""}${fetched > 0 ? " fetches" : ""}`;
  if (m >= MANY_ROWS || format === "q8") {
    const blockRows = m < MANY_ROWS ? BLOCK_ROWS.few : BLOCK_ROWS.many;
    const blocks = Math.ceil(n / blockRows);
    const blocksPerUnit = Math.ceil(blocks / UNITS);
    const units = Math.ceil(blocks / blocksPerUnit);
    const scratch = C + temps.push(4 * units * blockRows * padded);
    const kernel: WasmKernel = {
      key: `packed ${format}ᵀ many${variant}`,
      module: (fused = false) => manyRowsModule(format, addends.length, fetched > 0, fused),
      scalars: [m, n, padded, 4 * words, 4 * scales, blockRows, blocksPerUnit, fetched, ...addendPitches(addends, n)],
      units,
      costPerUnit: blocksPerUnit * blockRows * (m + 4) * padded,
    };
    steps.push({ kernel, buffers: [x, W, ...addendBuffers(addends, C), C, scratch] });
    return { temps, steps };
  }
  const colBlocks = Math.ceil(n / UNIT_COLS);
  steps.push({
    kernel: {
      key: `packed ${format}ᵀ${variant}`,
      module: (fused = false) => fewRowsModule(format, addends.length, fetched > 0, fused),
      scalars: [m, n, padded, 4 * words, colBlocks, ...addendPitches(addends, n)],
      units: colBlocks * Math.ceil(m / UNIT_ROWS),
      costPerUnit: Math.min(m, UNIT_ROWS) * Math.min(n, UNIT_COLS) * padded,
    },
    buffers: [x, W, ...addendBuffers(addends, C), C],
  });
  return { temps, steps };
}

const FEW = {
  ...i32s("x", "w", "addend0", "addend1", "c", "m", "n", "k", "rowBytes", "colBlocks", "pitch0", "pitch1"),
  ...i32s("begin", "end"),
} as const;

function fewRowsModule(
  format: PackedFormat,
  addends: number,
  fetches: boolean,
  fused: boolean,
): Uint8Array<ArrayBuffer> {
  return kernelModule(FEW, (f, p) => {
    const [i, j] = [f.variable("i32"), f.variable("i32")];
    /** Dot products of rows i… of x with rows j… of W. */
    const tile = (rows: number, width: number): void => {
      const sums = range(rows).map(() => range(width).map(() => f.let(F32x4.of(0))));
      const x = range(rows).map((r) => f.let(p.x.at(i.add(r).mul(p.k))));
      const w = range(width).map((s) => f.let(p.w.add(j.add(s).mul(p.rowBytes))));
      const steps = range(stepsOf(format));
      const madd = (sum: Var<F32x4>, a: F32x4, b: F32x4): void =>
        f.set(sum, fused ? a.relaxedMadd(b, sum) : sum.add(a.mul(b)));
      f.for(0, p.k, 8, () => {
        const of = (r: number, step: number): F32x4 => load.f32x4(x[r]!, 16 * step);
        if (rows === 1) {
          // The elements of a single row of x in the group stay in registers for all rows of W.
          const a = steps.map((step) => f.let(of(0, step)));
          w.forEach((row, s) => {
            const words = f.let(load.i32x4(row));
            for (const step of steps) madd(sums[0]![s]!, a[step]!, decode(format, words, step, undefined));
          });
        } else {
          for (const step of steps) {
            const weights = w.map((row) => f.let(decode(format, load.i32x4(row), step, undefined)));
            sums.forEach((ofRow, r) => {
              const a = f.let(of(r, step));
              ofRow.forEach((sum, s) => madd(sum, a, weights[s]!));
            });
          }
        }
        w.forEach((row) => f.set(row, row.add(16)));
        x.forEach((row) => f.set(row, row.add(32)));
      });
      storeSums(f, p, addends, sums, i, j);
    };
    f.for(p.begin, p.end, 1, (unit) => {
      const rowBegin = f.let(unit.divU(p.colBlocks).mul(UNIT_ROWS));
      const rowEnd = f.let(rowBegin.add(UNIT_ROWS).min(p.m));
      const colBegin = f.let(unit.remU(p.colBlocks).mul(UNIT_COLS));
      const colEnd = f.let(colBegin.add(UNIT_COLS).min(p.n));
      if (fetches) fetch(f, p.w.add(colBegin.mul(p.rowBytes)), colEnd.sub(colBegin).mul(p.rowBytes));
      f.set(i, rowBegin);
      for (const { rows, widths } of TILES) {
        // The rows of x that tiles of this height cover; W is read once for all of them, a few rows at a time.
        const [first, covered] = [f.let(i), f.let(i.add(rowEnd.sub(i).and(-rows)))];
        f.if(first.lt(covered), () => {
          f.set(j, colBegin);
          for (const width of widths) {
            f.while(j.add(width).le(colEnd), () => {
              f.set(i, first);
              f.while(i.lt(covered), () => {
                tile(rows, width);
                f.set(i, i.add(rows));
              });
              f.set(j, j.add(width));
            });
          }
          f.set(i, covered);
        });
      }
    });
  });
}

const MANY = {
  ...i32s("x", "w", "addend0", "addend1", "c", "scratch", "m", "n", "k", "rowBytes", "scales", "blockRows"),
  ...i32s("blocksPerUnit", "fetchedRows", "pitch0", "pitch1", "begin", "end"),
} as const;

function manyRowsModule(
  format: PackedFormat,
  addends: number,
  fetches: boolean,
  fused: boolean,
): Uint8Array<ArrayBuffer> {
  const steps = range(stepsOf(format));
  return kernelModule(MANY, (f, p) => {
    const [i, j] = [f.variable("i32"), f.variable("i32")];
    const xBytes = f.let(p.k.shl(2));
    const vectors = f.let(p.k.shrU(2));
    f.for(p.begin, p.end, 1, (unit) => {
      const weights = f.let(p.scratch.at(unit.mul(p.blockRows).mul(p.k)));
      const begin = f.let(unit.mul(p.blocksPerUnit).mul(p.blockRows));
      const end = f.let(begin.add(p.blocksPerUnit.mul(p.blockRows)).min(p.n));
      f.for(begin, end, p.blockRows, (first) => {
        const count = f.let(end.sub(first).min(p.blockRows));
        if (fetches) {
          f.if(first.sub(begin).and(p.fetchedRows.sub(1)).eq(0), () => {
            const rows = end.sub(first).min(p.fetchedRows);
            fetch(f, p.w.add(first.mul(p.rowBytes)), rows.mul(p.rowBytes));
          });
        }
        f.for(0, count, 1, (row) => {
          const w = f.let(p.w.add(first.add(row).mul(p.rowBytes)));
          const scales = f.let(w.add(p.scales));
          const to = f.let(weights.add(row.mul(xBytes)));
          f.for(0, p.k, 4 * steps.length, (column) => {
            const scale = scaleAt(f, format, scales.at(column.shrU(5)));
            const words = f.let(load.i32x4(w));
            for (const step of steps) f.store(to, decode(format, words, step, scale), 16 * step);
            f.set(to, to.add(16 * steps.length));
            f.set(w, w.add(16));
          });
        });
        /** Dot products of rows i… of x with rows j… of the block. */
        const tile = (rows: number, width: number): void => {
          const sums = range(rows).map(() => range(width).map(() => f.let(F32x4.of(0))));
          const x = range(rows).map((r) => f.let(p.x.add(i.add(r).mul(xBytes))));
          const w = range(width).map((s) => f.let(weights.add(j.add(s).mul(xBytes))));
          const streams = [...x, ...w].map((pointer) => ({ pointer, stride: 16 }));
          unrolledLoop(f, UNROLLED.dot, vectors, streams, ([offset]) => {
            const a = x.map((row) => f.let(load.f32x4(row, offset)));
            w.forEach((row, s) => {
              const b = f.let(load.f32x4(row, offset));
              sums.forEach((ofColumns, r) =>
                f.set(ofColumns[s]!, fused ? a[r]!.relaxedMadd(b, ofColumns[s]!) : ofColumns[s]!.add(a[r]!.mul(b))),
              );
            });
          });
          storeSums(f, p, addends, sums, i, f.let(first.add(j)));
        };
        f.for(0, p.m, UNIT_ROWS, (rowBegin) => {
          const rowEnd = f.let(rowBegin.add(UNIT_ROWS).min(p.m));
          f.set(j, I32.of(0));
          for (const width of [4, 1]) {
            f.while(j.add(width).le(count), () => {
              f.set(i, rowBegin);
              for (const rows of [2, 1]) {
                f.while(i.add(rows).le(rowEnd), () => {
                  tile(rows, width);
                  f.set(i, i.add(rows));
                });
              }
              f.set(j, j.add(width));
            });
          }
        });
      });
    });
  });
}

/** Stores the sums' lanes, summed, with the addends, in rows i… and columns j… of the result. */
function storeSums(
  f: FunctionBuilder,
  p: Parameters<typeof addendPlaces>[1] & { readonly c: I32; readonly n: I32 },
  addends: number,
  sums: readonly (readonly F32x4[])[],
  i: I32,
  j: I32,
): void {
  sums.forEach((row, r) => {
    const places = addendPlaces(f, p, addends, i.add(r), j);
    const plus = (y: F32x4, read: typeof load.f32x4, offset: number): F32x4 =>
      places.reduce((all, at) => all.add(read(at, offset)), y);
    const c = f.let(p.c.at(i.add(r).mul(p.n).add(j)));
    if (row.length === 4) {
      f.store(c, plus(sumLanes4(f, row), load.f32x4, 0));
    } else {
      row.forEach((sum, s) => f.storeLane(c, plus(sumLanes(f, sum), load.splat, 4 * s), 0, 4 * s));
    }
  });
}

/** The numbers of columns of W that a unit of x · W owns, of rows of W in a pass, and of columns in a panel. */
const COLUMNS = 64;
const PASS = 256;
const PANEL = 8;

function times({ format, m, rows: k, columns: n }: PackedMatmulSpec): Program<WasmKernel> {
  const { scales, words } = packedRow(format, n);
  const units = Math.ceil(n / COLUMNS);
  const kernel: WasmKernel = {
    key: `packed ${format}`,
    module: (fused = false) => timesModule(format, fused),
    scalars: [m, n, k, 4 * words, 4 * scales],
    units,
    costPerUnit: (m + 4) * k * Math.min(n, COLUMNS),
  };
  return { temps: [4 * units * PASS * COLUMNS], steps: [{ kernel, buffers: [0, 1, 2, 3] }] };
}

const TIMES = i32s("x", "w", "c", "scratch", "m", "n", "k", "rowBytes", "scales", "begin", "end");

function timesModule(format: PackedFormat, fused: boolean): Uint8Array<ArrayBuffer> {
  const group = 4 * stepsOf(format);
  return kernelModule(TIMES, (f, p) => {
    const [i, j, from, count] = [f.variable("i32"), f.variable("i32"), f.variable("i32"), f.variable("i32")];
    f.for(p.begin, p.end, 1, (unit) => {
      const first = f.let(unit.mul(COLUMNS));
      const width = f.let(p.n.sub(first).min(COLUMNS));
      const panels = f.let(p.scratch.add(unit.mul(4 * PASS * COLUMNS)));
      const c = f.let(p.c.at(first));
      f.for(0, p.m, 1, (row) => fillWords(f, f.let(c.at(row.mul(p.n))), I32x4.of(0), width));
      /** Decodes the rows of the pass: panel after panel, each [rows, 8]. */
      const unpack = (): void =>
        f.for(0, count, 1, (row) => {
          const w = f.let(p.w.add(from.add(row).mul(p.rowBytes)));
          const to = f.let(panels.at(row.mul(PANEL)));
          f.for(0, width, group, (column) => {
            const at = f.let(w.add(first.add(column).divU(group).shl(4)));
            const scale = scaleAt(f, format, w.add(p.scales).at(first.add(column).shrU(5)));
            for (const step of range(stepsOf(format))) {
              const place = 4 * PASS * PANEL * Math.floor(step / 2) + 16 * (step % 2);
              f.store(to, decode(format, load.i32x4(at), step, scale), place);
            }
            f.set(to, to.add((4 * PASS * PANEL * group) / PANEL));
          });
        });
      /** Adds the pass to rows i… and columns j… of the unit. */
      const tile = (rows: number, columns: 8 | 4 | 1): void => {
        const vectors = range(Math.max(1, columns / 4));
        const read = columns === 1 ? load.splat : load.f32x4;
        const to = range(rows).map((r) => f.let(c.at(i.add(r).mul(p.n).add(j))));
        const sums = to.map((at) => vectors.map((v) => f.let(read(at, 16 * v))));
        const x = range(rows).map((r) => f.let(p.x.at(i.add(r).mul(p.k).add(from))));
        const w = f.let(
          panels.at(
            j
              .and(-PANEL)
              .mul(PASS)
              .add(j.and(PANEL - 1)),
          ),
        );
        const streams = [{ pointer: w, stride: 4 * PANEL }, ...x.map((pointer) => ({ pointer, stride: 4 }))];
        unrolledLoop(f, UNROLLED.outer, count, streams, ([offset, offsetX]) => {
          const weights = vectors.map((v) => f.let(read(w, offset! + 16 * v)));
          sums.forEach((row, r) => {
            const a = f.let(load.splat(x[r]!, offsetX));
            row.forEach((sum, v) => f.set(sum, fused ? a.relaxedMadd(weights[v]!, sum) : sum.add(a.mul(weights[v]!))));
          });
        });
        sums.forEach((row, r) =>
          row.forEach((sum, v) => (columns === 1 ? f.storeLane(to[r]!, sum, 0) : f.store(to[r]!, sum, 16 * v))),
        );
      };
      f.set(from, I32.of(0));
      f.while(from.lt(p.k), () => {
        f.set(count, p.k.sub(from).min(PASS));
        unpack();
        f.set(j, I32.of(0));
        for (const columns of [8, 4, 1] as const) {
          f.while(j.add(columns).le(width), () => {
            f.set(i, I32.of(0));
            for (const rows of [4, 1]) {
              f.while(i.add(rows).le(p.m), () => {
                tile(rows, columns);
                f.set(i, i.add(rows));
              });
            }
            f.set(j, j.add(columns));
          });
        }
        f.set(from, from.add(PASS));
      });
    });
  });
}
