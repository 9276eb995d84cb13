/** WGSL reductions and running sums against obvious loops, under both schedules. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { WebgpuBackend } from "../../engine/backends/webgpu.ts";
import { Rng } from "../../engine/random.ts";
import { input, where } from "../../kernels/expr.ts";
import type { ReduceSpec } from "../../kernels/specs.ts";
import { cumsum, reduce } from "../../kernels/wgsl/index.ts";
import { openWebgpu, runProgram } from "../support/gpu.ts";

let backend: WebgpuBackend;
beforeAll(async () => {
  backend = await openWebgpu();
});
afterAll(() => backend.dispose());

const rng = new Rng(11);
const KINDS = ["sum", "max", "min", "argmax", "argmin"] as const;
// One element; odd rows; a long row (blocks of 256, twice at 140000); columns; many outputs; for a GPU, workgroups of a
// few columns and of 16, with and without blocks.
const SIZES = [
  [1, 1, 1],
  [3, 7, 1],
  [5, 64, 1],
  [2, 130, 1],
  [2, 1000, 1],
  [1, 4097, 1],
  [1, 140000, 1],
  [1, 700, 3],
  [2, 5, 9],
  [2, 70, 12],
  [1, 1030, 8],
  [4100, 3, 1],
  [300, 33, 2],
  [70, 40, 17],
  [1, 1100, 37],
  [1, 5000, 16],
  [1, 31, 40],
] as const;

for (const schedule of ["software", "gpu"] as const) {
  test.each(SIZES)(`${schedule}: [%i, %i, %i]`, async (outer, length, inner) => {
    const size = outer * length * inner;
    // Few distinct values, so that there are ties, and a second input as a mask.
    const x = Float32Array.from({ length: size }, () => rng.int(200) / 8 - 9);
    const mask = Float32Array.from({ length: size }, () => Number(rng.uniform() < 0.9));
    const prologue = where(input(1).ne(0), input(0).mul(2), 0);
    for (const kind of KINDS) {
      const spec: ReduceSpec = { kind, prologue, inputs: 2, outer, length, inner, scale: kind === "sum" ? 0.5 : 1 };
      const [bytes] = await runProgram(backend, reduce(spec, { schedule }), [x, mask, outer * inner]);
      const got = kind.startsWith("arg") ? new Int32Array(bytes!) : new Float32Array(bytes!);
      for (let o = 0; o < outer; o++) {
        for (let i = 0; i < inner; i++) {
          const value = (j: number): number => {
            const at = (o * length + j) * inner + i;
            return mask[at] !== 0 ? 2 * x[at]! : 0;
          };
          let sum = 0;
          let [most, least] = [0, 0];
          for (let j = 0; j < length; j++) {
            sum += value(j);
            if (value(j) > value(most)) most = j;
            if (value(j) < value(least)) least = j;
          }
          // Multiples of 1/4 below 2^22: f32 sums them exactly in any order.
          const want = { sum: sum / 2, max: value(most), min: value(least), argmax: most, argmin: least }[kind];
          expect(got[o * inner + i], `${kind} at ${o}, ${i}`).toBe(want);
        }
      }
    }
  });
}

for (const schedule of ["software", "gpu"] as const) {
  // The shapes of the gradients of biases, and ragged ones.
  test.each([
    [1, 256, 128],
    [1, 4096, 64],
    [3, 1030, 68],
    [2, 33, 4],
    [1, 1, 8],
    [1, 40, 8192],
  ])(`${schedule}: four columns at a time of [%i, %i, %i]`, async (outer, length, inner) => {
    const x = Float32Array.from({ length: outer * length * inner }, () => rng.int(200) / 8 - 9);
    const spec: ReduceSpec = { kind: "sum", prologue: input(0), inputs: 1, outer, length, inner, scale: 0.5 };
    const want = new Float32Array(outer * inner);
    x.forEach((v, at) => (want[Math.floor(at / (length * inner)) * inner + (at % inner)]! += v / 2));
    const [bytes] = await runProgram(backend, reduce(spec, { schedule }), [x, want.length]);
    expect(new Float32Array(bytes!)).toEqual(want);
  });

  test(`${schedule}: NaN and ±∞ stay in their columns`, async () => {
    const [length, inner] = [5000, 20];
    const x = Float32Array.from({ length: length * inner }, () => rng.int(200) / 8 - 9);
    x[4321 * inner + 3] = NaN;
    x[1234 * inner + 5] = Infinity;
    x[17 * inner + 6] = -Infinity;
    for (let j = 0; j < length; j++) x[j * inner + 19] = NaN;
    const column = (i: number): number[] => Array.from({ length }, (_, j) => x[j * inner + i]!);
    for (const kind of KINDS) {
      const spec: ReduceSpec = { kind, prologue: input(0), inputs: 1, outer: 1, length, inner, scale: 1 };
      const [bytes] = await runProgram(backend, reduce(spec, { schedule }), [x, inner]);
      const got = kind.startsWith("arg") ? new Int32Array(bytes!) : new Float32Array(bytes!);
      for (let i = 0; i < inner; i++) {
        const values = column(i);
        const kept = values.map((v, j) => [v, j] as const).filter(([v]) => !Number.isNaN(v));
        const best = (sign: 1 | -1): number =>
          kept.length === 0 ? 0 : kept.reduce((a, b) => (sign * b[0] > sign * a[0] ? b : a))[1];
        const want = {
          sum: values.reduce((a, b) => a + b, 0),
          max: values.reduce((a, b) => Math.max(a, b)),
          min: values.reduce((a, b) => Math.min(a, b)),
          argmax: best(1),
          argmin: best(-1),
        }[kind];
        expect(got[i], `${kind} of column ${i}`).toBe(want);
      }
    }
  });
}

test("a sum of 100,000 terms is as exact as its parts", async () => {
  const x = Float32Array.from({ length: 100_000 }, () => rng.uniform());
  const want = x.reduce((a, b) => a + b, 0);
  const spec: ReduceSpec = {
    kind: "sum",
    prologue: input(0),
    inputs: 1,
    outer: 1,
    length: x.length,
    inner: 1,
    scale: 1,
  };
  const [bytes] = await runProgram(backend, reduce(spec, backend.profile), [x, 1]);
  expect(Math.abs(new Float32Array(bytes!)[0]! / want - 1)).toBeLessThan(5e-7);
});

test("the same input gives the same bits", async () => {
  const x = Float32Array.from({ length: 5000 }, () => rng.normal());
  const spec: ReduceSpec = { kind: "sum", prologue: input(0), inputs: 1, outer: 1, length: 5000, inner: 1, scale: 1 };
  const runs = await Promise.all([1, 2].map(() => runProgram(backend, reduce(spec, backend.profile), [x, 1])));
  expect(new Uint32Array(runs[0]![0]!)).toEqual(new Uint32Array(runs[1]![0]!));
});

test.each([
  [1, 1, 1],
  [3, 17, 1],
  [2, 5, 70],
])("cumsum [%i, %i, %i], both ways", async (outer, length, inner) => {
  const x = Float32Array.from({ length: outer * length * inner }, () => rng.normal());
  for (const reverse of [false, true]) {
    const want = new Float32Array(x.length);
    for (let o = 0; o < outer; o++) {
      for (let i = 0; i < inner; i++) {
        let sum = 0;
        for (let step = 0; step < length; step++) {
          const at = (o * length + (reverse ? length - 1 - step : step)) * inner + i;
          want[at] = sum = Math.fround(sum + x[at]!);
        }
      }
    }
    const [bytes] = await runProgram(backend, cumsum({ outer, length, inner, reverse }, backend.profile), [
      x,
      x.length,
    ]);
    expect(new Float32Array(bytes!)).toEqual(want);
  }
});

test.each([
  [1, 513, 1],
  [3, 1000, 2],
  [1, 5001, 1],
])("a long cumsum [%i, %i, %i] goes by blocks, the same bits every time", async (outer, length, inner) => {
  const x = Float32Array.from({ length: outer * length * inner }, () => rng.normal());
  for (const reverse of [false, true]) {
    const program = cumsum({ outer, length, inner, reverse }, backend.profile);
    expect(program.steps.length).toBe(3);
    const [bytes] = await runProgram(backend, program, [x, x.length]);
    const got = new Float32Array(bytes!);
    for (let column = 0; column < outer * inner; column++) {
      const origin = Math.floor(column / inner) * length * inner + (column % inner);
      let [sum, size] = [0, 1];
      for (let step = 0; step < length; step++) {
        const at = origin + (reverse ? length - 1 - step : step) * inner;
        sum += x[at]!;
        size += Math.abs(x[at]!);
        expect(Math.abs(got[at]! - sum)).toBeLessThan(1e-6 * size); // 2⁻²⁴ per addition, along two levels
      }
    }
    const [again] = await runProgram(backend, program, [x, x.length]);
    expect(new Float32Array(again!)).toEqual(got);
  }
});
