/**
 * Attention of single tokens over a cache (decoding). A unit of work is one head of one token. It walks the keys of its
 * row in blocks of 64, and between blocks it adjusts the running maximum and sum of online softmax (Milakov &
 * Gimelshein 2018). In a block it computes the scores, four keys at a time, then their exponentials, four at a time,
 * then the weighted sum of values with the result in registers.
 *
 * The order of every sum depends on the token's position alone, so the other tokens of a call do not change its bits.
 * It has no derivative and is not for whole sequences: `attention.ts` loads a key once for four queries.
 */
import { type Program, type WasmKernel } from "../kernel.ts";
import type { CacheAttentionSpec } from "../specs.ts";
import { F32x4, type FunctionBuilder, type I32, i32s, I32x4, kernelModule, load, type Var } from "./assembler.ts";
import { maxLanes, spread, sumLanes, sumLanes4 } from "./lanes.ts";
import { expWeight } from "./math.ts";

/** The number of keys between two adjustments of the maximum (a multiple of 4), and of scratch floats per unit. */
const BLOCK = 64;
const NOTHING = -1e30;
/** The number of vectors of the result that stay in registers while values are added. */
const REGISTERS = 4;

/** See `CacheAttentionSpec`. Buffers: q, k, v, rows, positions → o. */
export function cacheAttention(spec: CacheAttentionSpec): Program<WasmKernel> {
  const { tokens, cacheRows, capacity, heads, kvHeads, headDim, scale, window } = spec;
  const windowed = window > 0;
  const kernel: WasmKernel = {
    key: `cacheAttention.${headDim}${windowed ? ".window" : ""}`,
    module: () => cacheAttentionModule(headDim, windowed),
    scalars: [cacheRows, capacity, heads, kvHeads, window, scale],
    units: tokens * heads,
    // The length of the cached text is unknown here; half of the capacity is a guess.
    costPerUnit: Math.min(capacity / 2, windowed ? window : Infinity) * (2 * headDim + 20),
  };
  return { temps: [4 * BLOCK * tokens * heads], steps: [{ kernel, buffers: [0, 1, 2, 3, 4, 5, 6] }] };
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function cacheAttentionModule(headDim: number, windowed: boolean): Uint8Array<ArrayBuffer> {
  const params = {
    ...i32s("q", "k", "v", "rows", "positions", "o", "scratch", "cacheRows", "capacity", "heads", "kvHeads", "window"),
    scale: "f32",
    ...i32s("begin", "end"),
  } as const;
  return kernelModule(params, (f, p) => {
    const scale = f.let(p.scale.splat());
    f.for(p.begin, p.end, 1, (unit) => {
      const token = f.let(unit.divU(p.heads));
      const kvHead = unit.remU(p.heads).mul(p.kvHeads).divU(p.heads);
      const row = f.let(load.i32(p.rows.at(token)));
      const q = f.let(p.q.at(unit.mul(headDim)));
      const o = f.let(p.o.at(unit.mul(headDim)));
      const scratch = f.let(p.scratch.at(unit.mul(BLOCK)));
      const first = f.let(
        row
          .mul(p.kvHeads)
          .add(kvHead)
          .mul(p.capacity)
          .mul(4 * headDim),
      );
      const count = f.let(load.i32(p.positions.at(token)).min(p.capacity.sub(1)).add(1));
      alongHead(headDim, (offset, whole) => {
        if (whole) f.store(o, F32x4.of(0), offset);
        else f.storeLane(o, F32x4.of(0), 0, offset);
      });
      f.if(row.ltU(p.cacheRows), () => {
        const top = f.let(F32x4.of(NOTHING));
        const total = f.let(F32x4.of(0));
        const begin = windowed ? f.let(count.sub(p.window).max(0)) : 0;
        f.for(begin, count, BLOCK, (from) => {
          const keys = f.let(count.sub(from).min(BLOCK));
          const at = f.let(first.add(from.mul(4 * headDim)));
          const highest = scores(f, { q, k: f.let(p.k.add(at)), scratch, keys, scale, headDim });
          const higher = f.let(maxLanes(f, highest).pmax(top));
          const factor = expWeight(f, top.sub(higher));
          f.set(top, higher);
          f.set(total, total.mul(factor));
          f.for(0, keys, 4, (j) => {
            const e = f.let(expWeight(f, load.f32x4(scratch.at(j)).sub(top)));
            f.store(scratch.at(j), e);
            f.set(total, total.add(e));
          });
          addValues(f, { o, v: f.let(p.v.add(at)), scratch, keys, factor, headDim });
        });
        const inverse = f.let(F32x4.of(1).div(spread(f, sumLanes(f, total))));
        alongHead(headDim, (offset, whole) => {
          const y = (whole ? load.f32x4 : load.lane0)(o, offset).mul(inverse);
          if (whole) f.store(o, y, offset);
          else f.storeLane(o, y, 0, offset);
        });
      });
    });
  });
}

/** Calls `body` with the offsets of a head's vectors, then with those of the single floats that are left. */
function alongHead(headDim: number, body: (offset: number, whole: boolean) => void): void {
  for (let d = 0; d + 4 <= headDim; d += 4) body(4 * d, true);
  for (let d = headDim & -4; d < headDim; d++) body(4 * d, false);
}

interface Scores {
  readonly q: Var<I32>;
  /** The first key of the block. */
  readonly k: Var<I32>;
  readonly scratch: Var<I32>;
  /** The number of keys, 1 … BLOCK. */
  readonly keys: Var<I32>;
  readonly scale: Var<F32x4>;
  readonly headDim: number;
}

/** Sets scratch[j] = scale · q·k_j, and −1e30 up to the next multiple of 4. @returns the largest in each lane */
function scores(f: FunctionBuilder, { q, k, scratch, keys, scale, headDim }: Scores): Var<F32x4> {
  const highest = f.let(F32x4.of(NOTHING));
  /** Products with four keys: key c lies `step · c` bytes behind `at[c]`. */
  const products = (at: readonly Var<I32>[], step: number): Var<F32x4> => {
    const sums = at.map(() => f.let(F32x4.of(0)));
    const part = f.variable("f32x4");
    const vectors = (headDim & -4) * 4;
    f.for(0, vectors, 16, (d) => {
      f.set(part, load.f32x4(q.add(d)));
      sums.forEach((sum, c) => f.set(sum, sum.add(part.mul(load.f32x4(at[c]!.add(d), step * c)))));
    });
    for (let offset = vectors; offset < 4 * headDim; offset += 4) {
      f.set(part, load.lane0(q, offset));
      sums.forEach((sum, c) => f.set(sum, sum.add(part.mul(load.lane0(at[c]!, step * c + offset)))));
    }
    const four = sumLanes4(f, sums);
    f.set(four, four.mul(scale));
    return four;
  };
  const whole = f.let(keys.and(-4));
  const pointer = f.let(k.add(0));
  f.for(0, whole, 4, (j) => {
    const four = products([pointer, pointer, pointer, pointer], 4 * headDim);
    f.store(scratch.at(j), four);
    f.set(highest, highest.pmax(four));
    f.set(pointer, pointer.add(16 * headDim));
  });
  f.if(whole.lt(keys), () => {
    // The memory behind the last key belongs to other texts: the last key is read again in its place, and its product
    // is dropped.
    const last = keys.sub(1);
    const at = range(4).map((c) =>
      f.let(
        k.add(
          whole
            .add(c)
            .min(last)
            .mul(4 * headDim),
        ),
      ),
    );
    const four = products(at, 0);
    const exists = whole
      .splat()
      .add(I32x4.lanes(0, 1, 2, 3))
      .lt(keys.splat());
    f.set(four, exists.bitselect<F32x4>(four, F32x4.of(NOTHING)));
    f.store(scratch.at(whole), four);
    f.set(highest, highest.pmax(four));
  });
  return highest;
}

interface Values extends Omit<Scores, "q" | "k" | "scale"> {
  readonly o: Var<I32>;
  /** The first value of the block. */
  readonly v: Var<I32>;
  readonly factor: Var<F32x4>;
}

/** o = factor · o + Σ_j scratch[j] · v_j. */
function addValues(f: FunctionBuilder, { o, v, scratch, keys, factor, headDim }: Values): void {
  const places: { offset: number; whole: boolean }[] = [];
  alongHead(headDim, (offset, whole) => void places.push({ offset, whole }));
  for (let begin = 0; begin < places.length; begin += REGISTERS) {
    const block = places.slice(begin, begin + REGISTERS);
    const sums = block.map(({ offset, whole }) => f.let((whole ? load.f32x4 : load.lane0)(o, offset).mul(factor)));
    // Even and odd keys have separate sums, so that one addition need not wait for the other.
    const odd = block.map(() => f.let(F32x4.of(0)));
    const pointer = f.let(v.add(0));
    const weight = f.variable("f32x4");
    const add = (into: readonly Var<F32x4>[], j: I32, ahead: number): void => {
      f.set(weight, load.splat(scratch.at(j), 4 * ahead));
      block.forEach(({ offset, whole }, i) => {
        const value = (whole ? load.f32x4 : load.lane0)(pointer, 4 * headDim * ahead + offset);
        f.set(into[i]!, into[i]!.add(weight.mul(value)));
      });
    };
    const pairs = f.let(keys.and(-2));
    f.for(0, pairs, 2, (j) => {
      add(sums, j, 0);
      add(odd, j, 1);
      f.set(pointer, pointer.add(8 * headDim));
    });
    f.if(pairs.ne(keys), () => add(sums, pairs, 0));
    block.forEach(({ offset, whole }, i) => {
      const y = sums[i]!.add(odd[i]!);
      if (whole) f.store(o, y, offset);
      else f.storeLane(o, y, 0, offset);
    });
  }
}
