/**
 * Matrix product: C[b] = act(scale · op(A[b]) · op(B[b]) + addends).
 *
 * Two kinds of register tiles do all the work:
 * - *outer* (A·B, Aᵀ·B): 4 rows × 8 columns of C stay in registers while k runs. Each k multiplies one element of each
 *   of four rows of A, spread over a vector, by 8 neighbouring elements of a row of B. A step before packs B into
 *   panels of 8 columns, which the first-level cache holds while all rows of A go by. An A that is to be transposed is
 *   packed likewise, by 4 columns. For a product of few rows (decoding) packing does not pay: its tile has 2 rows × 16
 *   columns, a cache line of B, which is read where it lies.
 * - *dot* (A·Bᵀ, a linear layer's y = x·Wᵀ): rows of A and rows of B both run along k, so 2 × 4 dot products advance
 *   four k at a time, and their lanes are summed at the end. Nothing is packed, for any number of rows.
 *
 * Eight sums, two vectors of B, one of A and a product fit the sixteen vector registers of x86. Larger tiles reach half
 * the speed (`npm run bench -- matmul`).
 *
 * The right and lower edges use narrower tiles of the same two kinds, which are exact and load nothing outside the
 * operands. Every element of C is summed in an order that depends on k alone. So neither its tile, nor the other rows
 * of A, nor the partition into units changes its bits.
 *
 * Multiplication and addition are separate unless fused ones are asked for, so every CPU gives the same bits. After K.
 * Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
 */
import { type Expr, exprToString } from "../expr.ts";
import type { Program, Step, WasmKernel } from "../kernel.ts";
import type { Addend, MatmulSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, I32, i32s, kernelModule, load, type Var } from "./assembler.ts";
import { emitExpr } from "./expression.ts";
import { fetch, fetchedRows } from "./fetch.ts";
import { sumLanes, sumLanes4 } from "./lanes.ts";
import { packColumns, packedBytes, transposeMatrices } from "./pack.ts";
import { unrolledLoop } from "./unrolled.ts";

/**
 * The numbers of rows and columns of C per unit of work: large enough that a unit uses its loads several times. If C
 * has few such units (the gradient of a small weight matrix), units have fewer rows, so that every thread gets one. No
 * bit depends on that.
 */
const UNIT_ROWS = 64;
const FEWER_ROWS = 16;
const ENOUGH_UNITS = 16;
const UNIT_COLS = 128;
/**
 * A long k is cut into passes, so that 8 columns of B and 4 rows (or columns) of A stay in the first-level cache.
 * Between passes the sums wait in C, which is exact. C starts with zeros and gets scale, addends and activation at the
 * end, so that one loop serves all passes: V8 makes slower code of a loop whose sums may come from two places.
 */
const PASS = { rows: 256, columns: 512 } as const;
const PASSES_ABOVE = 512;
/**
 * The k above which sums are made in blocks of it, and their sums are added: the rounding error grows with the longest
 * chain of additions. For a million times 0.1 one chain is 1 % off. No shorter sum changes a bit.
 */
const LONGEST_CHAIN = 65536;
/** Rows and columns of the register tiles. Edges use single rows, and 4 or 1 columns. */
const TILES = {
  panel: { rows: 4, widths: [8, 4, 1] },
  line: { rows: 2, widths: [16, 4, 1] },
  dot: { rows: 2, widths: [4, 1] },
} as const;
/** The number of unrolled turns of the innermost loop, as measured: with more, `outer` gets slower. */
const UNROLLED = { outer: 2, dot: 8 } as const;
const PANEL = TILES.panel.widths[0];
const PANEL_A = TILES.panel.rows;

/** The properties of a product that are written into the code. */
interface Variant {
  readonly tile: keyof typeof TILES;
  /** Whether the elements of A of one k are neighbours: A is stored transposed. */
  readonly columnsA: boolean;
  /** Whether such an A is packed into panels. */
  readonly packedA: boolean;
  /** Whether k is long enough to be cut into passes. */
  readonly passes: boolean;
  /** Whether k is long enough to be summed in blocks. */
  readonly blocks: boolean;
  /** Whether rows of B are fetched before dot products with them. */
  readonly fetches: boolean;
  readonly addends: number;
  readonly activation: Expr | undefined;
}

/** See `MatmulSpec`. Buffers: A, B, addends… → C. */
export function matmul(spec: MatmulSpec): Program<WasmKernel> {
  const { batch, m, n, k, transA, transB, batchA, batchB } = spec;
  // One B for all batches: their rows of A are the rows of one product.
  if (batch > 1 && batchA && !batchB && !transA) return matmul({ ...spec, batch: 1, m: batch * m });

  const temps: number[] = [];
  const steps: Step<WasmKernel>[] = [];
  const { addends } = spec;
  const [A, B, C] = [0, 1, 2 + addends.length];
  const temp = (bytes: number): number => C + temps.push(bytes);
  let [a, b] = [A, B];
  const countA = batchA ? batch : 1;
  const countB = batchB ? batch : 1;

  // Aᵀ·Bᵀ needs rows of A that run along k.
  if (transA && transB) {
    a = temp(4 * countA * m * k);
    steps.push({ kernel: transposeMatrices(countA, k, m), buffers: [A, a] });
  }
  // Without packing, Aᵀ·B would read four floats here and four there.
  const packA = transA && !transB && n >= MANY_COLS;
  const packB = !transB && m >= (n % SAME_SET === 0 ? FEW_ROWS : MANY_ROWS);
  const fetched = fetchedRows(n, k, 4 * k);
  const variant: Variant = {
    tile: transB ? "dot" : packB ? "panel" : "line",
    columnsA: transA && !transB,
    packedA: packA,
    passes: !transB && k > PASSES_ABOVE,
    blocks: k > LONGEST_CHAIN,
    fetches: transB && fetched > 0,
    addends: addends.length,
    activation: spec.activation,
  };
  const pass = variant.passes ? passOf(variant) : k;
  if (packA) {
    a = temp(packedBytes(countA, k, m, PANEL_A));
    steps.push({ kernel: packColumns(countA, k, m, PANEL_A, pass), buffers: [A, a] });
  }
  if (packB) {
    b = temp(packedBytes(countB, k, n, PANEL));
    steps.push({ kernel: packColumns(countB, k, n, PANEL, pass), buffers: [B, b] });
  }
  const colBlocks = Math.ceil(n / UNIT_COLS);
  const unitRows = batch * Math.ceil(m / UNIT_ROWS) * colBlocks < ENOUGH_UNITS ? FEWER_ROWS : UNIT_ROWS;
  const rowBlocks = Math.ceil(m / unitRows);
  const padded = (size: number, panel: number): number => Math.ceil(size / panel) * panel;
  const kernel: WasmKernel = {
    key: `matmul.${variantKey(variant)}`,
    module: (fused = false) => generate(variant, fused),
    scalars: [
      m,
      n,
      k,
      batchA ? (packA ? padded(m, PANEL_A) : m) * k : 0,
      batchB ? (packB ? padded(n, PANEL) : n) * k : 0,
      // The number of floats of one k, of all its panels if the operand is packed.
      packA ? padded(m, PANEL_A) : m,
      packB ? padded(n, PANEL) : n,
      unitRows,
      rowBlocks,
      colBlocks,
      fetched,
      ...addendPitches(addends, n),
      spec.scale,
    ],
    units: batch * rowBlocks * colBlocks,
    costPerUnit: Math.min(m, unitRows) * Math.min(n, UNIT_COLS) * k,
  };
  // With passes, the sums of blocks are kept beside C, as the sums of passes are kept in it.
  const totals = variant.blocks && variant.passes ? temp(4 * batch * m * n) : C;
  steps.push({ kernel, buffers: [a, b, ...addendBuffers(addends, C), C, totals] });
  return { temps, steps };
}

/**
 * The limits of packing, as measured on one core of a server with 1 MB of second-level cache (`npm run bench --
 * matmul`). No result depends on them. Rows whose length is a multiple of `SAME_SET` floats begin in the same set of
 * the first-level cache and evict each other.
 */
const SAME_SET = 1024;
const MANY_ROWS = 128;
const FEW_ROWS = 16;
const MANY_COLS = 64;

const passOf = ({ columnsA }: Variant): number => PASS[columnsA ? "columns" : "rows"];

const variantKey = (v: Variant): string =>
  [
    v.tile,
    v.columnsA && "columns",
    v.packedA && "packed",
    v.passes && "passes",
    v.blocks && "blocks",
    v.fetches && "fetches",
    v.addends > 0 && `plus${v.addends}`,
    v.activation && exprToString(v.activation),
  ]
    .filter(Boolean)
    .join(" ");

const PARAMS = {
  ...i32s("a", "b", "addend0", "addend1", "c", "totals", "m", "n", "k", "batchStrideA", "batchStrideB"),
  ...i32s("stepA", "stepB", "unitRows", "rowBlocks", "colBlocks", "fetchedRows", "pitch0", "pitch1"),
  scale: "f32",
  ...i32s("begin", "end"),
} as const;

/** The two buffers of addends of a kernel, after A and B; in the place of an absent one any other. */
export const addendBuffers = (addends: readonly Addend[], other: number): number[] =>
  [0, 1].map((i) => (i < addends.length ? 2 + i : other));
/** The number of floats from row to row of either. */
export const addendPitches = (addends: readonly Addend[], n: number): number[] =>
  [0, 1].map((i) => (addends[i] === "whole" ? n : 0));

/** The places of the first `count` addends in a row and column of C. */
export function addendPlaces(
  f: FunctionBuilder,
  p: Readonly<Record<"addend0" | "addend1" | "pitch0" | "pitch1", I32>>,
  count: number,
  row: I32,
  column: I32,
): I32[] {
  const both = [p.addend0.at(row.mul(p.pitch0).add(column)), p.addend1.at(row.mul(p.pitch1).add(column))];
  return both.slice(0, count).map((at) => f.let(at));
}

/** The part of the problem that a tile sees: the operands of one batch, and a place in C. */
interface Site {
  readonly a: I32;
  readonly b: I32;
  readonly c: I32;
  readonly n: I32;
  readonly k: I32;
  /** The number of bytes of one k, of all its panels if the operand is packed. */
  readonly stepA: I32;
  readonly stepB: I32;
  readonly i: Var<I32>;
  readonly j: Var<I32>;
  /** sum + a·b */
  readonly madd: (sum: F32x4, a: F32x4, b: F32x4) => F32x4;
  /** The pass: its first k, and their number. */
  readonly from: Var<I32>;
  readonly count: Var<I32>;
  /** The places of the addends of row i + `row`, from column j on. */
  readonly addendsOf: (row: number) => I32[];
  /** scale · x + addends, then the activation, `offset` bytes from those places on (`splat`: one column in lanes). */
  readonly finish: (x: F32x4, addends: readonly I32[], offset: number, splat: boolean) => F32x4;
}

type Write = (to: I32, value: F32x4) => void;

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function generate(variant: Variant, fused: boolean): Uint8Array<ArrayBuffer> {
  const tile = variant.tile === "dot" ? dotTile : outerTile;
  const { rows, widths } = TILES[variant.tile];
  const pass = passOf(variant);
  return kernelModule(PARAMS, (f, p) => {
    const [stepA, stepB] = [f.let(p.stepA.shl(2)), f.let(p.stepB.shl(2))];
    f.for(p.begin, p.end, 1, (unit) => {
      const colBlock = f.let(unit.remU(p.colBlocks));
      const rest = f.let(unit.divU(p.colBlocks));
      const rowBlock = f.let(rest.remU(p.rowBlocks));
      const batch = f.let(rest.divU(p.rowBlocks));
      const rowBegin = f.let(rowBlock.mul(p.unitRows));
      const rowEnd = f.let(rowBegin.add(p.unitRows).min(p.m));
      const [i, j, from, count] = [f.variable("i32"), f.variable("i32"), f.variable("i32"), f.variable("i32")];
      const colBegin = f.let(colBlock.mul(UNIT_COLS));
      const colEnd = f.let(colBegin.add(UNIT_COLS).min(p.n));
      const site: Site = {
        a: f.let(p.a.at(batch.mul(p.batchStrideA))),
        b: f.let(p.b.at(batch.mul(p.batchStrideB))),
        c: f.let(p.c.at(batch.mul(p.m).mul(p.n))),
        n: p.n,
        k: p.k,
        stepA,
        stepB,
        i,
        j,
        madd: (sum, a, b) => (fused ? a.relaxedMadd(b, sum) : sum.add(a.mul(b))),
        from,
        count,
        addendsOf: (row) => addendPlaces(f, p, variant.addends, batch.mul(p.m).add(i).add(row), j),
        finish: (x, places, offset, splat) => {
          let y = x.mul(p.scale.splat());
          for (const at of places) y = y.add((splat ? load.splat : load.f32x4)(at, offset));
          return variant.activation === undefined ? y : emitExpr(f, variant.activation, [f.let(y)]);
        },
      };
      /** Calls `each` for every row of the unit. */
      const forRows = (each: () => void): void => {
        f.set(i, rowBegin);
        f.while(i.lt(rowEnd), () => {
          each();
          f.set(i, i.add(1));
        });
      };
      const tiles = (): void => {
        f.set(j, colBegin);
        for (const width of widths) {
          f.while(j.add(width).le(colEnd), () => {
            if (variant.fetches && width === widths[0]) {
              f.if(j.and(p.fetchedRows.sub(1)).eq(0), () => {
                const end = j.add(p.fetchedRows).min(colEnd);
                fetch(f, site.b.at(j.mul(p.k)), end.sub(j).mul(p.k).shl(2));
              });
            }
            f.set(i, rowBegin);
            f.while(i.add(rows).le(rowEnd), () => {
              tile(f, variant, site, rows, width);
              f.set(i, i.add(rows));
            });
            f.while(i.lt(rowEnd), () => {
              tile(f, variant, site, 1, width);
              f.set(i, i.add(1));
            });
            f.set(j, j.add(width));
          });
        }
      };
      /** Calls `each` for four columns and for single ones of the unit's rows, with their place, value and setter. */
      const forElements = (each: (at: I32, read: typeof load.f32x4, write: Write, splat: boolean) => void): void =>
        forRows(() => {
          f.set(j, colBegin);
          for (const width of [4, 1]) {
            f.while(j.add(width).le(colEnd), () => {
              const at = f.let(batch.mul(p.m).add(i).mul(p.n).add(j));
              if (width === 4) each(at, load.f32x4, (to, value) => f.store(to, value), false);
              else each(at, load.splat, (to, value) => f.storeLane(to, value, 0), true);
              f.set(j, j.add(width));
            });
          }
        });
      const clear = (base: I32): void =>
        forRows(() => {
          const at = batch.mul(p.m).add(i).mul(p.n).add(colBegin);
          f.fillBytes(base.at(at), 0, colEnd.sub(colBegin).shl(2));
        });
      if (variant.passes) {
        clear(p.c);
        if (variant.blocks) clear(p.totals);
        f.set(from, I32.of(0));
        f.while(from.lt(p.k), () => {
          f.set(count, p.k.sub(from).min(pass));
          tiles();
          f.set(from, from.add(pass));
          if (!variant.blocks) return;
          f.if(from.and(LONGEST_CHAIN - 1).eq(0), () => {
            forElements((at, read, write) => write(p.totals.at(at), read(p.totals.at(at)).add(read(p.c.at(at)))));
            clear(p.c);
          });
        });
        forElements((at, read, write, splat) => {
          const sum = variant.blocks ? read(p.totals.at(at)).add(read(p.c.at(at))) : read(p.c.at(at));
          write(p.c.at(at), site.finish(sum, site.addendsOf(0), 0, splat));
        });
      } else {
        f.set(from, I32.of(0));
        f.set(count, p.k);
        tiles();
      }
    });
  });
}

/** Element `index` of an axis that is cut into panels of `size`, as an offset from the start of a pass of `count` k. */
const inPanels = (index: I32, size: number, count: I32): I32 =>
  index
    .and(-size)
    .mul(count)
    .add(index.and(size - 1));

/**
 * Computes rows i… and columns j… of C by outer products over k of one pass. `width` is 16, 8, 4 or 1 columns; for 1
 * all lanes are alike and one is stored.
 */
function outerTile(f: FunctionBuilder, variant: Variant, site: Site, rows: number, width: number): void {
  const { n, k, i, j, from, count } = site;
  const vectors = Math.max(1, width / 4);
  const isPanel = variant.tile === "panel";
  const read = width === 1 ? load.splat : load.f32x4;
  const write = (at: I32, value: F32x4, offset: number): void =>
    width === 1 ? f.storeLane(at, value, 0) : f.store(at, value, offset);
  const c = range(rows).map((r) => f.let(site.c.at(i.add(r).mul(n).add(j))));
  // The sums of earlier passes are in C.
  const sums = c.map((at) => range(vectors).map((v) => f.let(variant.passes ? read(at, 16 * v) : F32x4.of(0))));
  const pointersA = variant.columnsA
    ? [f.let(site.a.at(variant.packedA ? inPanels(i, PANEL_A, count) : i).add(from.mul(site.stepA)))]
    : range(rows).map((r) => f.let(site.a.at(i.add(r).mul(k).add(from))));
  const pointerB = f.let(site.b.at(isPanel ? inPanels(j, PANEL, count) : j).add(from.mul(site.stepB)));
  const strideA = variant.packedA ? 4 * PANEL_A : variant.columnsA ? site.stepA : 4;
  const strideB = isPanel ? 4 * PANEL : site.stepB;
  const streams = [
    { pointer: pointerB, stride: strideB },
    ...pointersA.map((pointer) => ({ pointer, stride: strideA })),
  ];
  unrolledLoop(f, UNROLLED.outer, count, streams, ([offsetB, offsetA]) => {
    const b = range(vectors).map((v) => f.let(read(pointerB, offsetB! + 16 * v)));
    sums.forEach((row, r) => {
      const a = f.let(
        variant.columnsA ? load.splat(pointersA[0]!, offsetA! + 4 * r) : load.splat(pointersA[r]!, offsetA),
      );
      row.forEach((sum, v) => f.set(sum, site.madd(sum, a, b[v]!)));
    });
  });

  sums.forEach((row, r) => {
    const addends = variant.passes ? [] : site.addendsOf(r);
    row.forEach((sum, v) =>
      write(c[r]!, variant.passes ? sum : site.finish(sum, addends, 16 * v, width === 1), 16 * v),
    );
  });
}

/** Computes rows i… and columns j… of C (`width` 4 or 1) by dot products of rows of A and of B, four k at a time. */
function dotTile(f: FunctionBuilder, { blocks }: Variant, site: Site, rows: number, width: number): void {
  const { n, k, i, j } = site;
  const zeros = (): Var<F32x4>[][] => range(rows).map(() => range(width).map(() => f.let(F32x4.of(0))));
  const sums = zeros();
  const rowsA = (column: I32): I32[] => range(rows).map((r) => site.a.at(i.add(r).mul(k).add(column)));
  const rowsB = (column: I32): I32[] => range(width).map((s) => site.b.at(j.add(s).mul(k).add(column)));
  /** A loop from a column on: so many turns with vectors of so many bytes. */
  const run = (from: I32, turns: number, count: I32, stride: number, read: typeof load.f32x4): void => {
    const [pointersA, pointersB] = [rowsA(from), rowsB(from)].map((all) => all.map((at) => f.let(at)));
    const streams = [...pointersA!, ...pointersB!].map((pointer) => ({ pointer, stride }));
    unrolledLoop(f, turns, count, streams, ([offset]) => {
      const a = pointersA!.map((pointer) => f.let(read(pointer, offset)));
      pointersB!.forEach((pointer, s) => {
        const b = f.let(read(pointer, offset));
        sums.forEach((row, r) => f.set(row[s]!, site.madd(row[s]!, a[r]!, b)));
      });
    });
  };
  if (blocks) {
    const totals = zeros();
    const addTo = (to: Var<F32x4>[][], from: Var<F32x4>[][]): void =>
      to.forEach((row, r) => row.forEach((sum, s) => f.set(sum, sum.add(from[r]![s]!))));
    const [at, end] = [f.let(I32.of(0)), f.let(k.and(-4))];
    f.while(at.lt(end), () => {
      run(at, UNROLLED.dot, end.sub(at).min(LONGEST_CHAIN).shrU(2), 16, load.f32x4);
      addTo(totals, sums);
      sums.flat().forEach((sum) => f.set(sum, F32x4.of(0)));
      f.set(at, at.add(LONGEST_CHAIN));
    });
    addTo(sums, totals);
  } else run(I32.of(0), UNROLLED.dot, k.shrU(2), 16, load.f32x4);
  run(k.and(-4), 1, k.and(3), 4, load.lane0); // the other lanes add 0 · 0
  sums.forEach((row, r) => {
    const c = f.let(site.c.at(i.add(r).mul(n).add(j)));
    const addends = site.addendsOf(r);
    if (width === 4) f.store(c, site.finish(sumLanes4(f, row), addends, 0, false));
    else f.storeLane(c, site.finish(sumLanes(f, row[0]!), addends, 0, true), 0);
  });
}
