/**
 * Matrix product in WebAssembly SIMD: C[b] = act(scale · op(A[b]) · op(B[b]) + bias).
 *
 * Two register tiles do all the work:
 * - *outer* (A·B, Aᵀ·B): 4 rows × 16 columns of C stay in registers while k runs; each k multiplies one broadcast element of
 *   four rows of A with 16 neighbouring elements of a row of B. B is read in place, or from panels of 16 columns that a
 *   first step packed, where its rows lie so far apart that they would evict each other from the cache.
 * - *dot* (A·Bᵀ, a linear layer's y = x·Wᵀ): rows of A and rows of B both run along k, so 4 × 4 dot products advance four k
 *   at a time, and their lanes are summed at the end. Nothing is transposed, at one row (decoding) as at a thousand.
 *
 * The ragged right and lower edges use narrower tiles of the same two kinds: exact, without a load outside the operands.
 * Every element of C is summed in one order that depends on k alone, so neither the tile that it falls into, nor the other
 * rows of A, nor the partition into units changes its bits.
 *
 * Plain multiply and add, not fused: bitwise the same on every CPU. After K. Goto and R. van de Geijn, "Anatomy of
 * high-performance matrix multiplication" (2008), without its packing of A. Not here: Strassen, lower precision.
 */
import { type Expr, exprToString } from "../expr.ts";
import type { Program, Step, WasmKernel } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, type I32, kernelModule, load, type Var } from "./assembler.ts";
import { emitExpr } from "./expression.ts";
import { sumLanes, sumLanes4 } from "./lanes.ts";
import { packColumns, packedBytes, PANEL, transposeMatrices } from "./pack.ts";

/**
 * Rows and columns of C per unit of work: each large enough to reuse what it loads. Where C has few such units (the gradient
 * of a small weight matrix), they have fewer rows, so that there is something for every thread. No bit depends on that.
 */
const UNIT_ROWS = 64;
const FEWER_ROWS = 16;
const ENOUGH_UNITS = 16;
const UNIT_COLS = 128;
/** Rows of a register tile; the lower edge goes row by row. */
const TILE_ROWS = 4;
/** Steps along k between two tests of the loop's end. */
const UNROLL = 2;

/** What is baked into the code. */
interface Variant {
  readonly tile: "outer" | "dot";
  readonly transA: boolean;
  readonly packed: boolean;
  readonly bias: boolean;
  readonly activation: Expr | undefined;
}

/** See `MatmulSpec`. Buffers: A, B, (bias) → C. */
export function matmul(spec: MatmulSpec): Program<WasmKernel> {
  const { batch, m, n, k, transA, transB, batchA, batchB } = spec;
  // One B for all: the batches of A are further rows.
  if (batch > 1 && batchA && !batchB && !transA) return matmul({ ...spec, batch: 1, m: batch * m });

  const temps: number[] = [];
  const steps: Step<WasmKernel>[] = [];
  const [A, B, C] = [0, 1, spec.bias ? 3 : 2];
  const temp = (bytes: number): number => C + temps.push(bytes);
  let [a, b] = [A, B];
  const countA = batchA ? batch : 1;
  const countB = batchB ? batch : 1;

  // Aᵀ·Bᵀ needs rows of A along k; Aᵀ·B reads a few floats of every row, which pays only while all rows stay in the cache.
  const turnA = transA && (transB || m * k > TURN_A_ABOVE);
  if (turnA) {
    a = temp(4 * countA * m * k);
    steps.push({ kernel: transposeMatrices(countA, k, m), buffers: [A, a] });
  }
  const packed = !transB && n >= PANEL && m >= PACK_FROM_ROWS && k * n > PACK_ABOVE;
  if (packed) {
    b = temp(packedBytes(countB, k, n));
    steps.push({ kernel: packColumns(countB, k, n), buffers: [B, b] });
  }
  const variant: Variant = {
    tile: transB ? "dot" : "outer",
    transA: transA && !turnA,
    packed,
    bias: spec.bias,
    activation: spec.activation,
  };
  const colBlocks = Math.ceil(n / UNIT_COLS);
  const unitRows = batch * Math.ceil(m / UNIT_ROWS) * colBlocks < ENOUGH_UNITS ? FEWER_ROWS : UNIT_ROWS;
  const rowBlocks = Math.ceil(m / unitRows);
  const panels = Math.ceil(n / PANEL);
  const kernel: WasmKernel = {
    key: `matmul.${variantKey(variant)}`,
    module: () => generate(variant),
    scalars: [
      m,
      n,
      k,
      batchA ? m * k : 0,
      batchB ? (packed ? panels * PANEL : n) * k : 0,
      unitRows,
      rowBlocks,
      colBlocks,
      spec.scale,
    ],
    units: batch * rowBlocks * colBlocks,
    costPerUnit: Math.min(m, unitRows) * Math.min(n, UNIT_COLS) * k,
  };
  steps.push({ kernel, buffers: [a, b, spec.bias ? 2 : C, C] });
  return { temps, steps };
}

/** Measured on one core of a server with 1 MB of second-level cache (`bench/matmul.ts`); no result depends on them. */
const TURN_A_ABOVE = 1 << 16;
const PACK_ABOVE = 1 << 16;
const PACK_FROM_ROWS = 128;

const variantKey = (v: Variant): string =>
  [v.tile, v.transA && "ta", v.packed && "packed", v.bias && "bias", v.activation && exprToString(v.activation)]
    .filter(Boolean)
    .join(" ");

// prettier-ignore
const PARAMS = {
  a: "i32", b: "i32", bias: "i32", c: "i32",
  m: "i32", n: "i32", k: "i32", strideA: "i32", strideB: "i32", unitRows: "i32", rowBlocks: "i32", colBlocks: "i32", scale: "f32",
  begin: "i32", end: "i32",
} as const;

/** The part of the problem that a tile sees: operands of one batch, and where in C it is. */
interface Site {
  readonly a: I32;
  readonly b: I32;
  readonly c: I32;
  readonly m: I32;
  readonly n: I32;
  readonly k: I32;
  readonly i: Var<I32>;
  readonly j: Var<I32>;
  /** scale · x + bias, activated, for columns from j + `column` on (or, `splat`, column j in every lane). */
  readonly finish: (x: F32x4, column: number, splat: boolean) => F32x4;
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function generate(variant: Variant): Uint8Array<ArrayBuffer> {
  const tile = variant.tile === "dot" ? dotTile : outerTile;
  const widths = variant.tile === "dot" ? [4, 1] : [PANEL, 4, 1];
  return kernelModule(PARAMS, (f, p) => {
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const colBlock = f.let(unit.remU(p.colBlocks));
      const rest = f.let(unit.divU(p.colBlocks));
      const rowBlock = f.let(rest.remU(p.rowBlocks));
      const batch = f.let(rest.divU(p.rowBlocks));
      const rowBegin = f.let(rowBlock.mul(p.unitRows));
      const rowEnd = f.let(rowBegin.add(p.unitRows).min(p.m));
      const i = f.variable("i32");
      const j = f.let(colBlock.mul(UNIT_COLS));
      const colEnd = f.let(j.add(UNIT_COLS).min(p.n));
      const site: Site = {
        a: f.let(p.a.at(batch.mul(p.strideA))),
        b: f.let(p.b.at(batch.mul(p.strideB))),
        c: f.let(p.c.at(batch.mul(p.m).mul(p.n))),
        m: p.m,
        n: p.n,
        k: p.k,
        i,
        j,
        finish: (x, column, splat) => {
          let y = x.mul(scale);
          if (variant.bias) y = y.add((splat ? load.splat : load.f32x4)(p.bias.at(j), 4 * column));
          return variant.activation === undefined ? y : emitExpr(f, variant.activation, [f.let(y)]);
        },
      };
      for (const width of widths) {
        f.while(j.add(width).le(colEnd), () => {
          f.set(i, rowBegin);
          f.while(i.add(TILE_ROWS).le(rowEnd), () => {
            tile(f, variant, site, TILE_ROWS, width);
            f.set(i, i.add(TILE_ROWS));
          });
          f.while(i.lt(rowEnd), () => {
            tile(f, variant, site, 1, width);
            f.set(i, i.add(1));
          });
          f.set(j, j.add(width));
        });
      }
    });
  });
}

/** Rows i… and columns j… of C by outer products: `width` is 16 or 4 columns, or 1 (all lanes alike, one is stored). */
function outerTile(f: FunctionBuilder, variant: Variant, site: Site, rows: number, width: number): void {
  const { m, n, k, i, j } = site;
  const vectors = Math.max(1, width / 4);
  const loadB = width === 1 ? load.splat : load.f32x4;
  const sums = range(rows).map(() => range(vectors).map(() => f.let(F32x4.of(0))));
  // Aᵀ: the rows' elements are neighbours, and the next k is a row of A further.
  const pointersA = variant.transA ? [f.let(site.a.at(i))] : range(rows).map((r) => f.let(site.a.at(i.add(r).mul(k))));
  const stepA = f.let(m.shl(2));
  const pointerB = f.let(
    variant.packed
      ? site.b.at(
          j
            .and(-PANEL)
            .mul(k)
            .add(j.and(PANEL - 1)),
        )
      : site.b.at(j),
  );
  const stepB = f.let(n.shl(2));
  const b = range(vectors).map(() => f.variable("f32x4"));
  const a = f.variable("f32x4");
  /** `count` further k: the rows of B one after the other, the elements of A at constant offsets where they are neighbours. */
  const advance = (count: number): void => {
    for (let u = 0; u < count; u++) {
      b.forEach((variable, v) => f.set(variable, loadB(pointerB, 16 * v + (variant.packed ? 4 * PANEL * u : 0))));
      sums.forEach((row, r) => {
        f.set(a, variant.transA ? load.splat(pointersA[0]!, 4 * r) : load.splat(pointersA[r]!, 4 * u));
        row.forEach((sum, v) => f.set(sum, sum.add(a.mul(b[v]!))));
      });
      if (variant.transA) f.set(pointersA[0]!, pointersA[0]!.add(stepA));
      if (!variant.packed) f.set(pointerB, pointerB.add(stepB));
    }
    if (!variant.transA) pointersA.forEach((pointer) => f.set(pointer, pointer.add(4 * count)));
    if (variant.packed) f.set(pointerB, pointerB.add(4 * PANEL * count));
  };
  const unrolled = f.let(k.and(-UNROLL));
  f.for(0, unrolled, UNROLL, () => advance(UNROLL));
  f.for(unrolled, k, 1, () => advance(1));
  sums.forEach((row, r) => {
    const c = f.let(site.c.at(i.add(r).mul(n).add(j)));
    row.forEach((sum, v) => {
      const value = site.finish(sum, 4 * v, width === 1);
      if (width === 1) f.storeLane(c, value, 0);
      else f.store(c, value, 16 * v);
    });
  });
}

/** Rows i… and columns j… of C (`width` 4 or 1) by dot products of rows of A and rows of B, four k at a time. */
function dotTile(f: FunctionBuilder, _variant: Variant, site: Site, rows: number, width: number): void {
  const { n, k, i, j } = site;
  const sums = range(rows).map(() => range(width).map(() => f.let(F32x4.of(0))));
  const pointersA = range(rows).map((r) => f.let(site.a.at(i.add(r).mul(k))));
  const pointersB = range(width).map((s) => f.let(site.b.at(j.add(s).mul(k))));
  const b = range(width).map(() => f.variable("f32x4"));
  const a = f.variable("f32x4");
  const advance = (count: number, loadK: (address: I32, offset: number) => F32x4, bytes: number): void => {
    for (let u = 0; u < count; u++) {
      b.forEach((variable, s) => f.set(variable, loadK(pointersB[s]!, bytes * u)));
      sums.forEach((row, r) => {
        f.set(a, loadK(pointersA[r]!, bytes * u));
        row.forEach((sum, s) => f.set(sum, sum.add(a.mul(b[s]!))));
      });
    }
    [...pointersA, ...pointersB].forEach((pointer) => f.set(pointer, pointer.add(bytes * count)));
  };
  const [unrolled, whole] = [f.let(k.and(-4 * UNROLL)), f.let(k.and(-4))];
  f.for(0, unrolled, 4 * UNROLL, () => advance(UNROLL, load.f32x4, 16));
  f.for(unrolled, whole, 4, () => advance(1, load.f32x4, 16));
  f.for(whole, k, 1, () => advance(1, load.lane0, 4)); // the other lanes add 0 · 0
  sums.forEach((row, r) => {
    const c = f.let(site.c.at(i.add(r).mul(n).add(j)));
    if (width === 4) f.store(c, site.finish(sumLanes4(f, row), 0, false));
    else f.storeLane(c, site.finish(sumLanes(f, row[0]!), 0, true), 0);
  });
}
