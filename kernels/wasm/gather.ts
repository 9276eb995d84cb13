/**
 * Reads and writes of rows by index. Every output element has one owner: a unit of `scatterAdd` and `scatterAlong` owns
 * its columns for all rows and goes through the indices in order. So there are no atomics, and the order of summation
 * is the order of n.
 */
import { type Program, type WasmKernel, single } from "../kernel.ts";
import type { GatherSpec, ScatterAddSpec, ScatterAlongSpec, TakeAlongSpec, WriteRowsSpec } from "../specs.ts";
import { F32, i32s, I32x4, kernelModule, load, type FunctionBuilder, type I32, type ParamVars } from "./assembler.ts";
import { copyWords, fillWords } from "./copy.ts";

/** The number of columns per unit of the kernels whose units own columns. */
const COLUMNS = 64;

/**
 * The largest number of ids that are added in one chain; more are added in blocks, whose sums are added: the rounding
 * error grows with the longest chain of additions. For a million times 0.1 one chain is 1 % off.
 */
const LONGEST_CHAIN = 65536;
/** The number of words per unit of the kernel that adds the blocks. */
const CHUNK = 16384;

const PARAMS = i32s("x", "ids", "y", "rows", "count", "inner", "groups", "begin", "end");
/** The range of ids that count: from `from` on and before `until`. */
const SCATTER_PARAMS = i32s("x", "ids", "y", "rows", "count", "inner", "groups", "from", "until", "begin", "end");

/** See `GatherSpec`. Buffers: x, ids → y. A unit is one row of y. */
export function gather({ outer, rows, count, inner }: GatherSpec): Program<WasmKernel> {
  return single(
    {
      key: "gather",
      module: () =>
        kernelModule(PARAMS, (f, p) => {
          f.for(p.begin, p.end, 1, (unit) => {
            const outer = f.let(unit.divU(p.count));
            const id = f.let(load.i32(p.ids.at(unit.sub(outer.mul(p.count)))));
            const y = f.let(p.y.at(unit.mul(p.inner)));
            f.if(
              id.ltU(p.rows),
              () => copyWords(f, y, f.let(p.x.at(outer.mul(p.rows).add(id).mul(p.inner))), p.inner),
              () => fillWords(f, y, I32x4.of(0), p.inner),
            );
          });
        }),
      scalars: [rows, count, inner, 1],
      units: outer * count,
      costPerUnit: 2 * inner,
    },
    3,
  );
}

/** Buffers: g, ids → y of so many elements. `kernel` adds the ids from one place to another. */
function inBlocks(
  elements: number,
  count: number,
  kernel: (from: number, until: number) => WasmKernel,
): Program<WasmKernel> {
  if (count <= LONGEST_CHAIN) return single(kernel(0, count), 3);
  const [g, ids, y, sums] = [0, 1, 2, 3];
  const add: WasmKernel = {
    key: "scatter blocks",
    module: () =>
      kernelModule(i32s("from", "to", "count", "begin", "end"), (f, p) => {
        f.for(p.begin, p.end, 1, (unit) => {
          const first = f.let(unit.mul(CHUNK));
          const words = f.let(p.count.sub(first).min(CHUNK));
          addWords(f, f.let(p.to.at(first)), f.let(p.from.at(first)), words);
        });
      }),
    scalars: [elements],
    units: Math.ceil(elements / CHUNK),
    costPerUnit: 6 * Math.min(elements, CHUNK),
  };
  const steps = [{ kernel: kernel(0, LONGEST_CHAIN), buffers: [g, ids, y] }];
  for (let from = LONGEST_CHAIN; from < count; from += LONGEST_CHAIN) {
    const block = kernel(from, Math.min(count, from + LONGEST_CHAIN));
    steps.push({ kernel: block, buffers: [g, ids, sums] }, { kernel: add, buffers: [sums, y] });
  }
  return { temps: [4 * elements], steps };
}

/** The place of a unit: the address of its columns in y and of the n-th id's columns in g, and their number. */
interface Place {
  readonly y: I32;
  readonly at: I32;
  readonly width: I32;
}

/**
 * Buffers: g, ids → y. A unit is a group of columns of one outer index: 0 in all rows, to which `add` adds id by id.
 * @param cost of a column of an id
 */
function scatter(
  key: string,
  { outer, rows, count, inner }: ScatterAddSpec,
  cost: number,
  add: (f: FunctionBuilder, p: ParamVars<typeof SCATTER_PARAMS>, n: I32, place: Place) => void,
): Program<WasmKernel> {
  const groups = Math.ceil(inner / COLUMNS);
  return inBlocks(outer * rows * inner, count, (from, until) => ({
    key,
    module: () =>
      kernelModule(SCATTER_PARAMS, (f, p) => {
        f.for(p.begin, p.end, 1, (unit) => {
          const outer = f.let(unit.divU(p.groups));
          const first = f.let(unit.sub(outer.mul(p.groups)).mul(COLUMNS));
          const width = f.let(p.inner.sub(first).min(COLUMNS));
          const y = f.let(p.y.at(outer.mul(p.rows).mul(p.inner).add(first)));
          f.for(0, p.rows, 1, (row) => fillWords(f, f.let(y.at(row.mul(p.inner))), I32x4.of(0), width));
          const start = f.let(outer.mul(p.count).mul(p.inner).add(first));
          f.for(p.from, p.until, 1, (n) => add(f, p, n, { y, at: f.let(start.add(n.mul(p.inner))), width }));
        });
      }),
    scalars: [rows, count, inner, groups, from, until],
    units: outer * groups,
    costPerUnit: cost * (rows + until - from) * Math.min(inner, COLUMNS),
  }));
}

/** See `ScatterAddSpec`. Buffers: g, ids → y. */
export const scatterAdd = (spec: ScatterAddSpec): Program<WasmKernel> =>
  scatter("scatterAdd", spec, 2, (f, p, n, { y, at, width }) => {
    const id = f.let(load.i32(p.ids.at(n)));
    f.if(id.ltU(p.rows), () => addWords(f, f.let(y.at(id.mul(p.inner))), f.let(p.x.at(at)), width));
  });

/** to[i] += from[i] for `count` floats. */
function addWords(f: FunctionBuilder, to: I32, from: I32, count: I32): void {
  const whole = f.let(count.and(-4));
  f.for(0, whole, 4, (i) => f.store(to.at(i), load.f32x4(to.at(i)).add(load.f32x4(from.at(i)))));
  f.for(whole, count, 1, (i) => f.store(to.at(i), load.f32(to.at(i)).add(load.f32(from.at(i)))));
}

/** See `TakeAlongSpec`. Buffers: x, ids → y. A unit is one row of y. */
export function takeAlong({ outer, rows, count, inner }: TakeAlongSpec): Program<WasmKernel> {
  return single(
    {
      key: "takeAlong",
      module: () =>
        kernelModule(PARAMS, (f, p) => {
          f.for(p.begin, p.end, 1, (unit) => {
            const x = f.let(p.x.at(unit.divU(p.count).mul(p.rows).mul(p.inner)));
            const base = f.let(unit.mul(p.inner));
            f.for(0, p.inner, 1, (i) => {
              const id = f.let(load.i32(p.ids.at(base.add(i))));
              const value = f.let(F32.of(0));
              f.if(id.ltU(p.rows), () => f.set(value, load.f32(x.at(id.mul(p.inner).add(i)))));
              f.store(p.y.at(base.add(i)), value);
            });
          });
        }),
      scalars: [rows, count, inner, 1],
      units: outer * count,
      costPerUnit: 10 * inner,
    },
    3,
  );
}

/** See `ScatterAlongSpec`. Buffers: g, ids → y. */
export const scatterAlong = (spec: ScatterAlongSpec): Program<WasmKernel> =>
  scatter("scatterAlong", spec, 8, (f, p, _n, { y, at, width }) => {
    f.for(0, width, 1, (i) => {
      const id = f.let(load.i32(p.ids.at(at.add(i))));
      f.if(id.ltU(p.rows), () => {
        const to = f.let(y.at(id.mul(p.inner).add(i)));
        f.store(to, load.f32(to).add(load.f32(p.x.at(at.add(i)))));
      });
    });
  });

/** See `WriteRowsSpec`. Buffers: src, ids, dest. A unit is one row of src; ids are distinct, so units do not meet. */
export function writeRows({ rows, count, inner }: WriteRowsSpec): Program<WasmKernel> {
  return single(
    {
      key: "writeRows",
      module: () =>
        kernelModule(PARAMS, (f, { x: src, y: dest, ...p }) => {
          f.for(p.begin, p.end, 1, (n) => {
            const id = f.let(load.i32(p.ids.at(n)));
            f.if(id.ltU(p.rows), () => {
              copyWords(f, f.let(dest.at(id.mul(p.inner))), f.let(src.at(n.mul(p.inner))), p.inner);
            });
          });
        }),
      scalars: [rows, count, inner, 1],
      units: count,
      costPerUnit: 2 * inner,
    },
    3,
  );
}
