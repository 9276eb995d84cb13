/**
 * Every generator of `kernels/wasm` that is not a matrix or row kernel, against an obvious TypeScript loop, on random
 * problems with sizes of 1, odd sizes and broadcasting. `runWasm` puts guard words around the buffers and shuffles
 * ranges of units; running twice with different ranges must give the same bits.
 */
import { describe, expect, it } from "vitest";
import { Rng, threefry2x32 } from "../../engine/random.ts";
import { constant, type Expr, evaluator, input, where } from "../../kernels/expr.ts";
import type { Program, WasmKernel } from "../../kernels/kernel.ts";
import { broadcastStrides, collapse } from "../../kernels/pointwise.ts";
import type { PointwiseInput, ReduceSpec } from "../../kernels/specs.ts";
import * as wasm from "../../kernels/wasm/index.ts";
import { expectClose, normals, runWasm, type Values } from "./wasm-harness.ts";

const SIZES = [1, 2, 3, 4, 5, 7, 8, 17, 33, 64, 131];
const size = (rng: Rng): number => rng.choice(SIZES);
const product = (x: readonly number[]): number => x.reduce((a, b) => a * b, 1);
const ints = (rng: Rng, length: number, low: number, high: number): Int32Array =>
  Int32Array.from({ length }, () => low + rng.int(high - low));

/** Runs twice, with different partitions and places in memory; the bits must agree. */
function run(
  program: Program<WasmKernel>,
  inputs: readonly Values[],
  outputs: readonly number[],
  seed: number,
): Float32Array[] {
  const first = runWasm(program, inputs, outputs, 2 * seed);
  const second = runWasm(program, inputs, outputs, 2 * seed + 1);
  first.forEach((y, k) => {
    const [a, b] = [bits(y), bits(second[k]!)];
    expect(
      a.findIndex((word, i) => word !== b[i]),
      "another partition, other bits",
    ).toBe(-1);
  });
  return first;
}
const bits = (x: Float32Array): Int32Array => new Int32Array(x.buffer);

/** Prepends a copy of input `from` to output `to`, for programs that read what they overwrite. */
function afterCopy(program: Program<WasmKernel>, from: number, to: number, count: number): Program<WasmKernel> {
  const copy = wasm.copy({ dims: [count], inStrides: [1], inOffset: 0, outStrides: [1], outOffset: 0 });
  return { temps: program.temps, steps: [{ kernel: copy.steps[0]!.kernel, buffers: [from, to] }, ...program.steps] };
}

/** A copy on plain arrays, from the definition. */
function strided(
  x: ArrayLike<number>,
  y: Float32Array,
  dims: readonly number[],
  at: (index: number[]) => [from: number, to: number],
): void {
  const index = dims.map(() => 0);
  for (let n = 0; n < product(dims); n++) {
    const [from, to] = at(index);
    y[to] = x[from]!;
    for (let d = dims.length - 1; d >= 0 && ++index[d]! === dims[d]; d--) index[d] = 0;
  }
}
const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, v, d) => sum + v * b[d]!, 0);

describe("wasm pointwise", () => {
  const [x, y, z] = [input(0), input(1), input(2)] as [Expr, Expr, Expr];
  const gelu = x.mul(0.5).mul(x.add(x.mul(x).mul(x).mul(0.044715)).mul(0.7978845608028654).tanh().add(1));
  const FORMULAS: [name: string, outputs: Expr[]][] = [
    ["add", [x.add(y)]],
    ["three", [x.mul(y).add(z), x.sub(z), constant(2.5)]],
    ["select", [where(x.lt(y), z, x.neg()), x.ge(0).add(y.ne(0))]],
    ["kinks", [x.max(y).min(z), x.abs(), x.sign(), x.floor(), where(y, 1, z)]],
    ["smooth", [gelu, y.sigmoid().mul(x.exp()), z.sin().mul(z.erf()), y.square().add(2).log().sqrt().rsqrt()]],
    ["power", [x.abs().pow(y), x.clamp(-0.5, 0.5), x.expm1(), z.cos()]],
    ["broadcast only", [y.exp().mul(y)]],
  ];

  it.each(FORMULAS)("%s: random broadcasts, scalars and sizes", (name, outputs) => {
    const rng = new Rng(7).split(name);
    const evaluate = evaluator(outputs);
    for (let trial = 0; trial < 25; trial++) {
      const shape = Array.from({ length: 1 + rng.int(4) }, () =>
        trial % 5 === 0 ? 1 : rng.choice([1, 2, 3, 5, 8, 19]),
      );
      if (trial === 1) shape.splice(0, 9, 3, 9001); // more than one piece per row
      const shapes = [0, 1, 2].map(() => shape.map((n) => (rng.int(3) === 0 ? 1 : n)).slice(rng.int(shape.length)));
      const scalar = [rng.int(5) === 0, rng.int(3) === 0, false];
      const merged = collapse(
        shape,
        shapes.map((s) => broadcastStrides(s, shape)).concat([broadcastStrides(shape, shape)]),
      );
      const data = shapes.map((s, k) => (scalar[k] ? Float32Array.of(rng.normal()) : normals(rng, product(s))));
      const inputs = data.map((d, k): PointwiseInput => {
        return scalar[k] ? { kind: "scalar", value: d[0]! } : { kind: "tensor", strides: merged.strides[k]! };
      });
      const program = wasm.pointwise({ name, outputs, inputs, dims: merged.dims, inPlace: outputs.map(() => -1) });
      const count = product(shape);
      const actual = run(
        program,
        data.filter((_, k) => !scalar[k]),
        outputs.map(() => count),
        trial,
      );

      const expected = outputs.map(() => new Float32Array(count));
      const strides = shapes.map((s, k) => (scalar[k] ? shape.map(() => 0) : broadcastStrides(s, shape)));
      const own = broadcastStrides(shape, shape);
      const out: number[] = [];
      strided([], new Float32Array(count), shape, (index) => {
        evaluate(
          data.map((d, k) => d[dot(index, strides[k]!)]!),
          out,
        );
        out.forEach((v, k) => (expected[k]![dot(index, own)] = v));
        return [0, dot(index, own)];
      });
      actual.forEach((a, k) => expectClose(a, expected[k]!, 2e-6));
    }
  });

  it("overwrites inputs in place, also with other outputs and broadcast inputs beside them", () => {
    for (const [trial, cols] of [1, 3, 16, 37, 8195].entries()) {
      const rng = new Rng(trial);
      const [a, b, row] = [normals(rng, 3 * cols), normals(rng, 3 * cols), normals(rng, cols)] as const;
      const program = wasm.pointwise({
        name: "in place",
        outputs: [x.add(y), x.sub(y).mul(z)],
        inputs: [
          { kind: "tensor", strides: [cols, 1] },
          { kind: "tensor", strides: [cols, 1] },
          { kind: "tensor", strides: [0, 1] },
        ],
        dims: [3, cols],
        inPlace: [1, -1],
      });
      const steps = program.steps.map((step) => ({ ...step, buffers: [0, 3, 2, 4] }));
      const [sum, difference] = run(
        afterCopy({ temps: [], steps }, 1, 3, 3 * cols),
        [a, b, row],
        [3 * cols, 3 * cols],
        trial,
      );
      expectClose(
        sum!,
        a.map((v, i) => v + b[i]!),
        1e-7,
      );
      expectClose(
        difference!,
        a.map((v, i) => (v - b[i]!) * row[i % cols]!),
        1e-6,
      );
    }
  });

  it("walks a last axis by any stride", () => {
    const a = normals(new Rng(0), 70);
    const program = wasm.pointwise({
      name: "every third",
      outputs: [x.mul(2)],
      inputs: [{ kind: "tensor", strides: [35, 3] }],
      dims: [2, 11],
      inPlace: [-1],
    });
    const [actual] = run(program, [a], [22], 0);
    expectClose(
      actual!,
      Array.from({ length: 22 }, (_, i) => 2 * a[Math.floor(i / 11) * 35 + 3 * (i % 11)]!),
      0,
    );
  });
});

describe("wasm reduce", () => {
  const KINDS = ["sum", "max", "min", "argmax", "argmin"] as const;

  function expected(
    { kind, outer, length, inner, scale }: ReduceSpec,
    x: Float32Array,
    mask?: Float32Array,
  ): Float32Array {
    const y = new Float32Array(outer * inner);
    for (let o = 0; o < outer; o++) {
      for (let i = 0; i < inner; i++) {
        const column = Array.from({ length }, (_, j) => {
          const at = (o * length + j) * inner + i;
          return mask === undefined || mask[at] !== 0
            ? x[at]!
            : kind === "sum"
              ? 0
              : kind.endsWith("max")
                ? -1e30
                : 1e30;
        });
        const best = kind.endsWith("max") ? Math.max(...column) : Math.min(...column);
        const sum = column.reduce((a, b) => a + b, 0) * scale;
        y[o * inner + i] = kind === "sum" ? sum : kind.startsWith("arg") ? column.indexOf(best) : best;
      }
    }
    return y;
  }

  it.each(KINDS)("%s: rows and columns of all sizes, masked or not, with ties", (kind) => {
    const rng = new Rng(11).split(kind);
    for (let trial = 0; trial < 40; trial++) {
      const masked = trial % 2 === 1;
      const prologue = masked
        ? where(input(1).ne(0), input(0), kind === "sum" ? 0 : kind.endsWith("max") ? -1e30 : 1e30)
        : input(0);
      const inner = trial % 4 < 2 ? 1 : trial === 6 ? 700 : size(rng);
      const length = trial < 4 ? 5000 + 3000 * trial : trial === 7 ? 1000 : size(rng);
      const spec = { kind, prologue, inputs: masked ? 2 : 1, outer: 1 + rng.int(4), length, inner, scale: 0.5 };
      const count = spec.outer * spec.length * spec.inner;
      const x = trial % 3 === 0 ? Float32Array.from(ints(rng, count, -3, 4)) : normals(rng, count);
      const mask = Float32Array.from({ length: count }, () => rng.int(2));
      const [y] = run(wasm.reduce(spec), masked ? [x, mask] : [x], [spec.outer * spec.inner], trial);
      const actual = kind.startsWith("arg") ? Float32Array.from(bits(y!)) : y!;
      expectClose(actual, expected(spec, x, masked ? mask : undefined), kind === "sum" ? 1e-6 : 0, Math.sqrt(length));
    }
  });

  it("passes NaN and infinities on", () => {
    for (const inner of [1, 5]) {
      const x = new Float32Array(9 * inner).fill(1);
      x[4 * inner] = NaN;
      const spec = { prologue: input(0), inputs: 1, outer: 1, length: 9, inner, scale: 1 };
      for (const kind of ["sum", "max", "min"] as const)
        expect(run(wasm.reduce({ ...spec, kind }), [x], [inner], 0)[0]![0]).toBeNaN();
      const low = new Float32Array(9 * inner).fill(-Infinity);
      expect(run(wasm.reduce({ ...spec, kind: "max" }), [low], [inner], 0)[0]![0]).toBe(-Infinity);
      expect(bits(run(wasm.reduce({ ...spec, kind: "argmax" }), [low], [inner], 0)[0]!)[0]).toBe(0);
    }
  });

  it("sums a million terms to a relative error of 1e-6, whatever the shape", () => {
    const x = Float32Array.from({ length: 1 << 20 }, (_, i) => 0.1 + (i % 7) * 0.01);
    const exact = x.reduce((a, b) => a + b, 0);
    for (const inner of [1, 2]) {
      const spec = {
        kind: "sum" as const,
        prologue: input(0),
        inputs: 1,
        outer: 1,
        length: x.length / inner,
        inner,
        scale: 1,
      };
      const y = run(wasm.reduce(spec), [x], [inner], 0)[0]!;
      expect(Math.abs(y.reduce((a, b) => a + b, 0) / exact - 1)).toBeLessThan(1e-6);
    }
  });
});

describe("wasm cumsum, copy, fill, cast, random", () => {
  it("cumsum: both directions, rows and columns", () => {
    const rng = new Rng(3);
    for (let trial = 0; trial < 30; trial++) {
      const spec = {
        outer: 1 + rng.int(3),
        length: size(rng),
        inner: trial % 2 === 0 ? 1 : size(rng),
        reverse: trial % 3 === 0,
      };
      const x = normals(rng, spec.outer * spec.length * spec.inner);
      const expected = x.slice(); // rounded once for each element: the sum itself is a double
      for (let o = 0; o < spec.outer; o++)
        for (let i = 0; i < spec.inner; i++) {
          let sum = 0;
          for (let n = 0; n < spec.length; n++) {
            const at = (o * spec.length + (spec.reverse ? spec.length - 1 - n : n)) * spec.inner + i;
            expected[at] = sum += x[at]!;
          }
        }
      expectClose(run(wasm.cumsum(spec), [x], [x.length], trial)[0]!, expected, 0);
    }
  });

  it("copy: permutations, slices, broadcasts and windows of a larger output", () => {
    const rng = new Rng(4);
    for (let trial = 0; trial < 40; trial++) {
      const dims = Array.from({ length: 1 + rng.int(4) }, () => rng.choice([1, 2, 3, 4, 5, 9]));
      if (trial === 0) dims.splice(0, 9, 2, 20_011);
      if (trial % 8 === 1) dims.splice(0, 9, 2, rng.choice([3, 16, 37]), rng.choice([5, 16, 66]));
      const order = rng.shuffle(Array.from(dims.keys()));
      const stored = order.map((d) => dims[d]! + rng.int(2));
      const inStrides = dims.map((_, d) => (rng.int(5) === 0 ? 0 : product(stored.slice(order.indexOf(d) + 1))));
      const window = dims.map((n) => n + rng.int(3));
      const outStrides = window.map((_, d) => product(window.slice(d + 1)));
      const [inOffset, outOffset] = [rng.int(4), rng.int(3)];
      const x = normals(rng, product(stored) + inOffset);
      const before = normals(rng, product(window) + outOffset);
      const program = wasm.copy({ dims, inStrides, inOffset, outStrides, outOffset });
      const steps = program.steps.map((step) => ({ ...step, buffers: [0, 2] }));
      const [actual] = run(afterCopy({ temps: [], steps }, 1, 2, before.length), [x, before], [before.length], trial);
      const expected = before.slice();
      strided(x, expected, dims, (index) => [inOffset + dot(index, inStrides), outOffset + dot(index, outStrides)]);
      expectClose(actual!, expected, 0);
    }
  });

  it("fill and cast", () => {
    for (const count of [...SIZES, 16384, 16387, 40_001]) {
      const rng = new Rng(count);
      expect(bits(run(wasm.fill({ count, bits: -123456 }), [], [count], count)[0]!).every((v) => v === -123456)).toBe(
        true,
      );
      const i = ints(rng, count, -1000, 1000);
      expectClose(run(wasm.cast({ count, from: "i32", to: "f32" }), [i], [count], count)[0]!, i, 0);
      const x = normals(rng, count, 50);
      expect(bits(run(wasm.cast({ count, from: "f32", to: "i32" }), [x], [count], count)[0]!)).toEqual(
        Int32Array.from(x, Math.trunc),
      );
    }
  });

  it("random: the words of threefry2x32 on the host", () => {
    for (const count of [...SIZES, 4096, 4099, 10_000]) {
      const [key0, key1] = [0xdeadbeef, count];
      const [y] = run(wasm.random({ count, key0, key1 }), [], [count], count);
      const expected = Float32Array.from(
        { length: count },
        (_, i) => (threefry2x32(key0, key1, i >> 1, 0)[i & 1]! >>> 8) * 2 ** -24,
      );
      expect(bits(y!)).toEqual(bits(expected));
    }
  });
});

describe("wasm reading and writing by index", () => {
  const rng = new Rng(5);
  const trials = Array.from({ length: 25 }, (_, trial) => ({
    trial,
    spec: { outer: 1 + rng.int(3), rows: size(rng), count: size(rng), inner: size(rng) },
  }));
  const each = (
    spec: (typeof trials)[0]["spec"],
    visit: (o: number, n: number, i: number, at: number) => void,
  ): void => {
    for (let o = 0; o < spec.outer; o++)
      for (let n = 0; n < spec.count; n++)
        for (let i = 0; i < spec.inner; i++) visit(o, n, i, (o * spec.count + n) * spec.inner + i);
  };

  it("gather and scatterAdd; ids outside give zeros and add nothing", () => {
    for (const { trial, spec } of trials) {
      const { outer, rows, count, inner } = spec;
      const ids = ints(rng, count, trial % 4 === 0 ? -2 : 0, trial % 4 === 0 ? rows + 2 : rows);
      const inside = (id: number): boolean => id >= 0 && id < rows;
      const x = normals(rng, outer * rows * inner);
      const g = normals(rng, outer * count * inner);
      const [taken, summed] = [new Float32Array(g.length), new Float32Array(x.length)];
      each(spec, (o, n, i, at) => {
        if (!inside(ids[n]!)) return;
        const from = (o * rows + ids[n]!) * inner + i;
        taken[at] = x[from]!;
        summed[from] = summed[from]! + g[at]!;
      });
      expectClose(run(wasm.gather(spec), [x, ids], [g.length], trial)[0]!, taken, 0);
      expectClose(run(wasm.scatterAdd(spec), [g, ids], [x.length], trial)[0]!, summed, 0);
    }
  });

  it("takeAlong and scatterAlong", () => {
    for (const { trial, spec } of trials) {
      const { outer, rows, count, inner } = spec;
      const ids = ints(rng, outer * count * inner, trial % 4 === 0 ? -1 : 0, trial % 4 === 0 ? rows + 1 : rows);
      const x = normals(rng, outer * rows * inner);
      const g = normals(rng, ids.length);
      const [taken, summed] = [new Float32Array(g.length), new Float32Array(x.length)];
      each(spec, (o, _, i, at) => {
        if (ids[at]! < 0 || ids[at]! >= rows) return;
        const from = (o * rows + ids[at]!) * inner + i;
        taken[at] = x[from]!;
        summed[from] = summed[from]! + g[at]!;
      });
      expectClose(run(wasm.takeAlong(spec), [x, ids], [g.length], trial)[0]!, taken, 0);
      expectClose(run(wasm.scatterAlong(spec), [g, ids], [x.length], trial)[0]!, summed, 0);
    }
  });

  it("writeRows: distinct rows, negative ids skipped, other rows untouched", () => {
    for (const { trial, spec } of trials) {
      const { rows, inner } = spec;
      const count = Math.min(spec.count, rows);
      const ids = Int32Array.from(rng.shuffle(Array.from({ length: rows }, (_, i) => i)).slice(0, count), (id) =>
        id % 5 === 4 ? -1 : id,
      );
      const [src, before] = [normals(rng, count * inner), normals(rng, rows * inner)];
      const steps = wasm.writeRows({ rows, count, inner }).steps.map((step) => ({ ...step, buffers: [0, 1, 3] }));
      const [actual] = run(
        afterCopy({ temps: [], steps }, 2, 3, before.length),
        [src, ids, before],
        [before.length],
        trial,
      );
      const expected = before.slice();
      ids.forEach((id, n) => id >= 0 && expected.set(src.subarray(n * inner, (n + 1) * inner), id * inner));
      expectClose(actual!, expected, 0);
    }
  });
});
