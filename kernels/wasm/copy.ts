/**
 * Strided copy and fill of 32-bit words of any type: permute, slice, broadcast, concat, pad and constants. Axes that
 * both sides walk alike are merged; a unit of `copy` is one row of the last axis that is left.
 */
import { type Program, type WasmKernel, single } from "../kernel.ts";
import { collapse } from "../pointwise.ts";
import type { CopySpec, FillSpec } from "../specs.ts";
import { I32x4, kernelModule, load, type FunctionBuilder, type I32, type Kind, type Var } from "./assembler.ts";

/** The number of words per unit of work along the last axis. */
const CHUNK = 16384;

/** The number of rows per unit of a transposition: as many floats as a cache line, so that they are read together. */
const TRANSPOSED_ROWS = 16;

/** See `CopySpec`. Buffers: x → y. Baked: rank, and how each side walks the last axis. */
export function copy(spec: CopySpec): Program<WasmKernel> {
  const { dims, strides } = collapse(spec.dims, [spec.inStrides, spec.outStrides]);
  const rank = dims.length;
  const [inStrides, outStrides] = strides as [number[], number[]];
  const cols = dims[rank - 1]!;
  const across = inStrides.lastIndexOf(1);
  if (across >= 0 && across < rank - 1 && cols > 1 && outStrides[rank - 1] === 1) {
    const move = (x: readonly number[]): number[] => [
      ...x.filter((_, d) => d !== across && d < rank - 1),
      x[across]!,
      x[rank - 1]!,
    ];
    return transpose(spec, move(dims), move(inStrides), move(outStrides));
  }
  if (cols === 1) [inStrides[rank - 1], outStrides[rank - 1]] = [1, 1];
  const inStep = inStrides[rank - 1]!;
  const outStep = outStrides[rank - 1]!;
  const inner = outStep !== 1 ? "strided" : inStep === 1 ? "block" : inStep === 0 ? "splat" : "strided";
  const rows = dims.slice(0, -1).reduce((a, b) => a * b, 1);
  return single(
    {
      key: `copy ${rank} ${inner}`,
      module: () => assembleCopy(rank, inner),
      scalars: [spec.inOffset, spec.outOffset, ...dims, ...inStrides, ...outStrides],
      units: rows * Math.ceil(cols / CHUNK),
      costPerUnit: 2 * Math.min(cols, CHUNK),
    },
    2,
  );
}

function stridedParams(rank: number): Record<string, Kind> {
  const sizes = ["dim", "xs", "ys"].flatMap((name) => Array.from({ length: rank }, (_, d) => `${name}${d}`));
  const names = ["x", "y", "xOffset", "yOffset", ...sizes, "begin", "end"];
  return Object.fromEntries(names.map((name): [string, Kind] => [name, "i32"]));
}

/**
 * Splits `row`, an index into the first `axes` axes as one, and moves `x` and `y` to its beginning. `row` is used up.
 */
function addOuter(
  f: FunctionBuilder,
  p: Record<string, Var<I32>>,
  row: Var<I32>,
  axes: number,
  x: Var<I32>,
  y: Var<I32>,
): void {
  for (let d = axes - 1; d >= 0; d--) {
    const index = d === 0 ? row : f.let(row.remU(p[`dim${d}`]!));
    f.set(x, x.at(index.mul(p[`xs${d}`]!)));
    f.set(y, y.at(index.mul(p[`ys${d}`]!)));
    if (d > 0) f.set(row, row.divU(p[`dim${d}`]!));
  }
}

function assembleCopy(rank: number, inner: "block" | "splat" | "strided"): Uint8Array<ArrayBuffer> {
  return kernelModule(stridedParams(rank), (f, vars) => {
    const p = vars as Record<string, Var<I32>>;
    const [cols, xStep, yStep] = [`dim${rank - 1}`, `xs${rank - 1}`, `ys${rank - 1}`].map((n) => p[n]!) as [
      I32,
      I32,
      I32,
    ];
    const chunks = f.let(cols.add(CHUNK - 1).divU(CHUNK));
    f.for(p.begin!, p.end!, 1, (unit) => {
      const row = f.let(unit.divU(chunks));
      const from = f.let(unit.sub(row.mul(chunks)).mul(CHUNK));
      const count = f.let(cols.sub(from).min(CHUNK));
      const x = f.let(p.x!.at(p.xOffset!.add(from.mul(xStep))));
      const y = f.let(p.y!.at(p.yOffset!.add(from.mul(yStep))));
      addOuter(f, p, row, rank - 1, x, y);
      if (inner === "block") copyWords(f, y, x, count);
      else if (inner === "splat") fillWords(f, y, f.let(load.i32(x).splat()), count);
      else {
        f.for(0, count, 1, () => {
          f.store(y, load.i32(x));
          f.set(x, x.at(xStep));
          f.set(y, y.at(yStep));
        });
      }
    });
  });
}

/** Exchanges the last two axes: in x the last but one is contiguous, in y the last. A unit is a few rows of y. */
function transpose(spec: CopySpec, dims: number[], inStrides: number[], outStrides: number[]): Program<WasmKernel> {
  const rank = dims.length;
  const [rows, cols] = [dims[rank - 2]!, dims[rank - 1]!];
  const groups = Math.ceil(rows / TRANSPOSED_ROWS);
  const outer = dims.slice(0, -2).reduce((a, b) => a * b, 1);
  return single(
    {
      key: `copy ${rank} transpose`,
      module: () => assembleTranspose(rank),
      scalars: [spec.inOffset, spec.outOffset, ...dims, ...inStrides, ...outStrides],
      units: outer * groups,
      costPerUnit: 4 * Math.min(rows, TRANSPOSED_ROWS) * cols,
    },
    2,
  );
}

function assembleTranspose(rank: number): Uint8Array<ArrayBuffer> {
  return kernelModule(stridedParams(rank), (f, vars) => {
    const p = vars as Record<string, Var<I32>>;
    const [rows, cols] = [p[`dim${rank - 2}`]!, p[`dim${rank - 1}`]!];
    const xStep = f.let(p[`xs${rank - 1}`]!.shl(2)); // in bytes: one column of y further
    const yStep = f.let(p[`ys${rank - 2}`]!.shl(2)); // one row further
    const groups = f.let(rows.add(TRANSPOSED_ROWS - 1).divU(TRANSPOSED_ROWS));
    f.for(p["begin"]!, p["end"]!, 1, (unit) => {
      const outer = f.let(unit.divU(groups));
      const first = f.let(unit.sub(outer.mul(groups)).mul(TRANSPOSED_ROWS));
      const count = f.let(rows.sub(first).min(TRANSPOSED_ROWS));
      const x = f.let(p["x"]!.at(p["xOffset"]!.add(first)));
      const y = f.let(p["y"]!.at(p["yOffset"]!).add(first.mul(yStep)));
      addOuter(f, p, outer, rank - 2, x, y);
      const square = f.let(count.and(-4));
      const wide = f.let(cols.and(-4));
      const one = (r: I32, c: I32): void => f.store(y.add(r.mul(yStep)).at(c), load.i32(x.add(c.mul(xStep)).at(r)));
      f.for(0, wide, 4, (c) => {
        f.for(0, square, 4, (r) => {
          const from = f.let(x.add(c.mul(xStep)).at(r));
          const to = f.let(y.add(r.mul(yStep)).at(c));
          const lines = [0, 1, 2, 3].map((k) => f.let(load.i32x4(from.add(xStep.mul(k)))));
          transpose4(f, lines).forEach((line, k) => f.store(to.add(yStep.mul(k)), line));
        });
        f.for(square, count, 1, (r) => f.for(c, c.add(4), 1, (j) => one(r, j)));
      });
      f.for(wide, cols, 1, (c) => f.for(0, count, 1, (r) => one(r, c)));
    });
  });
}

/** The columns of a 4 × 4 block as its rows. */
function transpose4(f: FunctionBuilder, rows: readonly I32x4[]): I32x4[] {
  const [a, b, c, d] = rows as [I32x4, I32x4, I32x4, I32x4];
  const [ab, cd] = [f.let(a.shuffle(b, 0, 4, 1, 5)), f.let(c.shuffle(d, 0, 4, 1, 5))];
  const [ef, gh] = [f.let(a.shuffle(b, 2, 6, 3, 7)), f.let(c.shuffle(d, 2, 6, 3, 7))];
  return [
    ab.shuffle(cd, 0, 1, 4, 5),
    ab.shuffle(cd, 2, 3, 6, 7),
    ef.shuffle(gh, 0, 1, 4, 5),
    ef.shuffle(gh, 2, 3, 6, 7),
  ];
}

/** Copies `count` words between ranges that do not overlap. */
export function copyWords(f: FunctionBuilder, to: I32, from: I32, count: I32): void {
  const whole = f.let(count.and(-4));
  f.for(0, whole, 4, (i) => f.store(to.at(i), load.i32x4(from.at(i))));
  f.for(whole, count, 1, (i) => f.store(to.at(i), load.i32(from.at(i))));
}

/** Stores `count` words of `value`, a vector of four equal words. */
export function fillWords(f: FunctionBuilder, to: I32, value: I32x4, count: I32): void {
  const whole = f.let(count.and(-4));
  f.for(0, whole, 4, (i) => f.store(to.at(i), value));
  f.for(whole, count, 1, (i) => f.storeLane(to.at(i), value, 0));
}

/** See `FillSpec`. Buffers: → y. */
export function fill({ count, bits }: FillSpec): Program<WasmKernel> {
  return single(
    {
      key: "fill",
      module: () =>
        kernelModule({ y: "i32", count: "i32", bits: "i32", begin: "i32", end: "i32" }, (f, p) => {
          const value = f.let(p.bits.splat());
          f.for(p.begin, p.end, 1, (unit) => {
            const from = f.let(unit.mul(CHUNK));
            fillWords(f, f.let(p.y.at(from)), value, f.let(p.count.sub(from).min(CHUNK)));
          });
        }),
      scalars: [count, bits | 0],
      units: Math.ceil(count / CHUNK),
      costPerUnit: Math.min(count, CHUNK),
    },
    1,
  );
}
