/** Exercises of chapter 3: a SIMD kernel for the inner product, and an order in which a transpose uses cache lines. */
import { F32x4, type FunctionBuilder, i32s, kernelModule, load, type ParamVars } from "../../kernels/wasm/assembler.ts";
import { expectEqual } from "./expect.ts";

const PARAMS = i32s("x", "y", "to", "n");
/** Variables: the addresses of x, of y and of the result, and the number of floats. */
export type Params = ParamVars<typeof PARAMS>;

/**
 * An inner product with SIMD
 *
 * Emit code that stores Σ x_i·y_i over n floats at `to`. `x`, `y` and `to` are addresses; n is any number ≥ 0, also
 * one that is no multiple of 4. Take four floats at a time (`n.and(-4)` is n rounded down to a multiple of 4), add up
 * the four lanes (`sum.lane(0)` is the first, an F32), then take the rest one by one. At the end `f.store(to, total)`.
 * What changes while `f.for` runs must be a variable: made by `f.let`, changed by `f.set`. A TypeScript `let` would
 * hold the expression of one turn.
 *
 * @difficulty 2
 * @hint Three parts: a loop over `four` numbers, by 4, that adds vectors; the sum of the lanes; a loop over the
 * rest, by 1.
 * @hint `F32x4.of(0)` begins the vector, `load.f32x4(x.at(i))` reads four floats.
 */
export function exercise1(f: FunctionBuilder, { x, y, to, n }: Params): void {
  const sum = f.let(F32x4.of(0));
  f.for(0, n, 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
  f.store(to, sum.lane(0));
}

export function check1(answer: typeof exercise1): void {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536 });
  const floats = new Float32Array(memory.buffer);
  const bytes = kernelModule(PARAMS, (f, p) => answer(f, p));
  const isVector = bytes.some((byte, i) => byte === 0xfd && bytes[i + 1] === 0xe6 && bytes[i + 2] === 0x01);
  if (!isVector) throw new Error("expected code that multiplies four floats at a time (f32x4.mul), got none");
  if (!WebAssembly.validate(bytes)) throw new Error("the code that was emitted is no valid WebAssembly");
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } });
  const run = exports["run"] as (...args: number[]) => void;
  for (const n of [4, 1, 0, 8, 7, 30, 30]) {
    floats.fill(1000); // also behind x and y, so that reading there changes the result
    const product = (i: number): number => (1 + i) * (2 - (i % 3)); // small integers: exact in any order
    for (let i = 0; i < n; i++) [floats[i], floats[64 + i]] = [1 + i, 2 - (i % 3)];
    run(0, 4 * 64, 4 * 200, n);
    const wanted = Array.from({ length: n }, (_, i) => product(i)).reduce((a, b) => a + b, 0);
    expectEqual(floats[200], wanted, `the inner product of ${n} floats, behind which stand numbers of 1000`);
    expectEqual(floats[201], 1000, `the float behind the result, for n = ${n}`);
  }
}

export function solution1(f: FunctionBuilder, { x, y, to, n }: Params): void {
  const four = f.let(n.and(-4));
  const sum = f.let(F32x4.of(0));
  f.for(0, four, 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
  const total = f.let(
    sum
      .lane(0)
      .add(sum.lane(1))
      .add(sum.lane(2).add(sum.lane(3))),
  );
  f.for(four, n, 1, (i) => f.set(total, total.add(load.f32(x.at(i)).mul(load.f32(y.at(i))))));
  f.store(to, total);
}

export const wrong1: readonly (typeof exercise1)[] = [
  /** Reads behind the end. */
  (f, { x, y, to, n }) => {
    const sum = f.let(F32x4.of(0));
    f.for(0, n, 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
    f.store(
      to,
      sum
        .lane(0)
        .add(sum.lane(1))
        .add(sum.lane(2).add(sum.lane(3))),
    );
  },
  /** One float at a time. */
  (f, { x, y, to, n }) => {
    const total = f.let(F32x4.of(0).lane(0));
    f.for(0, n, 1, (i) => f.set(total, total.add(load.f32(x.at(i)).mul(load.f32(y.at(i))))));
    f.store(to, total);
  },
  /** Leaves the rest out. */
  (f, { x, y, to, n }) => {
    const sum = f.let(F32x4.of(0));
    f.for(0, n.and(-4), 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
    f.store(
      to,
      sum
        .lane(0)
        .add(sum.lane(1))
        .add(sum.lane(2).add(sum.lane(3))),
    );
  },
  /** A variable of TypeScript: one expression, computed once, behind the end. */
  (f, { x, y, to, n }) => {
    const sum = f.let(F32x4.of(0));
    f.for(0, n.and(-4), 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
    let total = sum.lane(0).add(sum.lane(1)).add(sum.lane(2)).add(sum.lane(3));
    f.for(n.and(-4), n, 1, (i) => {
      total = total.add(load.f32(x.at(i)).mul(load.f32(y.at(i))));
    });
    f.store(to, total);
  },
  /** Stores the four sums. */
  (f, { x, y, to, n }) => {
    const sum = f.let(F32x4.of(0));
    f.for(0, n.and(-4), 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
    f.store(to, sum);
  },
  /** The rest is added to the vector's first lane only after it was read: too late. */
  (f, { x, y, to, n }) => {
    const sum = f.let(F32x4.of(0));
    const total = f.let(sum.lane(0));
    f.for(0, n.and(-4), 4, (i) => f.set(sum, sum.add(load.f32x4(x.at(i)).mul(load.f32x4(y.at(i))))));
    f.for(n.and(-4), n, 1, (i) => f.set(total, total.add(load.f32(x.at(i)).mul(load.f32(y.at(i))))));
    f.store(to, total);
  },
];

/**
 * A transpose that uses its lines
 *
 * To transpose an n × n matrix, y_ji = x_ij, is to call `move(i, j)` once for each pair of i and j from 0 to n − 1, in
 * any order. Row after row of x, the writes go down columns of y: a new cache line each time. The check has a cache of
 * 64 lines of 16 floats (the line unused for longest makes room) and counts how often a line has to be fetched.
 * Find an order with at most n²/4 fetches for n from 64 to 100 (n²/8 is the least: 16 floats per line, two matrices).
 *
 * @difficulty 2
 * @hint A line holds 16 floats. Use all of them before it is thrown out: move a square block, then the next.
 * @hint Blocks of 16 × 16 touch at most 64 lines. Mind the edges, where n is no multiple of 16.
 */
export function exercise2(n: number, move: (i: number, j: number) => void): void {
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) move(i, j);
}

/** Fetched lines, and how often each pair was moved. */
function observe(answer: typeof exercise2, n: number): { fetched: number; moved: Map<number, number> } {
  const cache = new Set<number>(); // in the order of last use
  const moved = new Map<number, number>();
  let fetched = 0;
  const touch = (float: number): void => {
    const line = Math.floor(float / 16);
    if (!cache.delete(line)) fetched++;
    cache.add(line);
    if (cache.size > 64) cache.delete(cache.values().next().value!);
  };
  const start = 16 * Math.ceil((n * n) / 16); // y begins with a line of its own
  answer(n, (i, j) => {
    for (const index of [i, j]) {
      if (!Number.isInteger(index) || index < 0 || index >= n)
        throw new Error(`move(${i}, ${j}) is outside of ${n} × ${n}`);
    }
    moved.set(i * n + j, (moved.get(i * n + j) ?? 0) + 1);
    touch(i * n + j);
    touch(start + j * n + i);
  });
  return { fetched, moved };
}

export function check2(answer: typeof exercise2): void {
  for (const n of [5, 64, 96, 100]) {
    const { fetched, moved } = observe(answer, n);
    expectEqual(moved.size, n * n, `pairs that were moved, n = ${n}`);
    const twice = [...moved.values()].filter((count) => count > 1).length;
    expectEqual(twice, 0, `pairs that were moved more than once, n = ${n}`);
    if (n >= 64 && fetched > (n * n) / 4)
      throw new Error(`n = ${n}: expected at most ${(n * n) / 4} fetches, got ${fetched}`);
  }
}

export function solution2(n: number, move: (i: number, j: number) => void): void {
  const size = 16; // of a block: 16 rows of x and 16 of y are 32 lines, or 64 where lines and rows do not begin alike
  for (let top = 0; top < n; top += size) {
    for (let left = 0; left < n; left += size) {
      for (let i = top; i < Math.min(top + size, n); i++) {
        for (let j = left; j < Math.min(left + size, n); j++) move(i, j);
      }
    }
  }
}

export const wrong2: readonly (typeof exercise2)[] = [
  /** Column after column: now x is read badly. */
  (n, move) => {
    for (let j = 0; j < n; j++) for (let i = 0; i < n; i++) move(i, j);
  },
  /** Blocks too small: each line is fetched again for a quarter of it. */
  (n, move) => {
    for (let top = 0; top < n; top += 4) {
      for (let left = 0; left < n; left += 4) {
        for (let i = top; i < Math.min(top + 4, n); i++) {
          for (let j = left; j < Math.min(left + 4, n); j++) move(i, j);
        }
      }
    }
  },
  /** Whole blocks only: the edge stays behind. */
  (n, move) => {
    for (let top = 0; top + 16 <= n; top += 16) {
      for (let left = 0; left + 16 <= n; left += 16) {
        for (let i = top; i < top + 16; i++) for (let j = left; j < left + 16; j++) move(i, j);
      }
    }
  },
];
