/**
 * WGSL copies, fills, casts, random numbers, gathers and scatters against obvious loops; a canary lies behind every
 * buffer.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { WebgpuBackend } from "../../engine/backends/webgpu.ts";
import { Rng, threefry2x32 } from "../../engine/random.ts";
import type { GatherSpec } from "../../kernels/specs.ts";
import * as wgsl from "../../kernels/wgsl/index.ts";
import { openWebgpu, runProgram } from "../support/gpu.ts";

let backend: WebgpuBackend;
beforeAll(async () => {
  backend = await openWebgpu();
});
afterAll(() => backend.dispose());

const rng = new Rng(7);
const floats = (n: number): Float32Array => Float32Array.from({ length: n }, () => rng.normal());
const ints = (n: number, limit: number): Int32Array => Int32Array.from({ length: n }, () => rng.int(limit));
const asFloats = (bytes: ArrayBuffer | undefined): number[] => [...new Float32Array(bytes!)];

const COPIES: [string, number[], number[], number, number[], number][] = [
  ["transpose [3, 5]", [5, 3], [1, 5], 0, [3, 1], 0],
  ["permute [2, 3, 4] to [4, 2, 3]", [4, 2, 3], [1, 12, 4], 0, [6, 3, 1], 0],
  ["slice rows 1 and 2", [2, 5], [5, 1], 5, [5, 1], 0],
  ["every second column into the middle of a row", [3, 2], [5, 2], 1, [7, 1], 3],
  ["broadcast one row", [4, 3], [0, 1], 0, [3, 1], 0],
  ["one word", [1], [1], 4, [1], 2],
  ["by fours: a slice of columns", [3, 4], [8, 1], 4, [4, 1], 0],
  ["by fours: into columns", [2, 4], [4, 1], 0, [12, 1], 8],
  ["by fours: splat", [2, 8], [1, 0], 3, [8, 1], 4],
  ["rank 5", [2, 1, 2, 3, 2], [1, 0, 12, 2, 6], 0, [12, 12, 6, 2, 1], 0],
];
test.each(COPIES)("copy: %s", async (_, dims, inStrides, inOffset, outStrides, outOffset) => {
  const x = floats(40);
  const y = floats(40);
  const want = [...y];
  const visit = (d: number, from: number, to: number): void => {
    if (d === dims.length) want[to] = x[from]!;
    else for (let i = 0; i < dims[d]!; i++) visit(d + 1, from + i * inStrides[d]!, to + i * outStrides[d]!);
  };
  visit(0, inOffset, outOffset);
  const program = wgsl.copy({ dims, inStrides, inOffset, outStrides, outOffset }, backend.profile);
  const [got] = await runProgram(backend, program, [x, y], [1]);
  expect(asFloats(got)).toEqual(want);
});

test.each([1, 63, 64, 65, 1000])("fill and cast %i words", async (n) => {
  const [filled] = await runProgram(backend, wgsl.fill({ count: n, bits: 0xbf800000 }, backend.profile), [n]);
  expect(asFloats(filled)).toEqual(new Array(n).fill(-1));
  const x = floats(n).map((v) => 100 * v);
  const toInt = wgsl.cast({ count: n, from: "f32", to: "i32" }, backend.profile);
  const [truncated] = await runProgram(backend, toInt, [x, n]);
  expect([...new Int32Array(truncated!)]).toEqual([...x].map((v) => Math.trunc(v) + 0));
  const toFloat = wgsl.cast({ count: n, from: "i32", to: "f32" }, backend.profile);
  const [back] = await runProgram(backend, toFloat, [new Int32Array(truncated!), n]);
  expect(asFloats(back)).toEqual([...new Int32Array(truncated!)]);
});

test("a grid of more than 65535 workgroups is folded", async () => {
  const count = 65535 * 64 + 77;
  const buffer = backend.alloc(4 * count + 32);
  backend.run(wgsl.fill({ count: count + 8, bits: 1 }, backend.profile), [buffer], () => "fill");
  backend.run(wgsl.fill({ count, bits: 2 }, backend.profile), [buffer], () => "fill");
  const words = new Uint32Array(await backend.read(buffer, 4 * count + 32));
  backend.free(buffer);
  expect(words.subarray(0, count).every((word) => word === 2)).toBe(true);
  expect([...words.subarray(count)]).toEqual(new Array(8).fill(1));
});

test.each([1, 2, 5, 129])("random: %i words of Threefry", async (count) => {
  const [key0, key1] = [0xdeadbeef, 0x01234567];
  const [got] = await runProgram(backend, wgsl.random({ count, key0, key1 }, backend.profile), [count]);
  const want = Array.from({ length: count }, (_, i) => (threefry2x32(key0, key1, i >> 1, 0)[i & 1]! >>> 8) * 2 ** -24);
  expect(asFloats(got)).toEqual(want);
});

const SPECS: GatherSpec[] = [
  { outer: 1, rows: 1, count: 1, inner: 1 },
  { outer: 1, rows: 5, count: 7, inner: 4 },
  { outer: 3, rows: 4, count: 9, inner: 3 },
  { outer: 2, rows: 33, count: 70, inner: 8 },
  { outer: 5, rows: 65, count: 1, inner: 1 },
];

test.each(SPECS)("gather and its adjoint, $outer × $rows × $inner, $count ids", async (spec) => {
  const { outer, rows, count, inner } = spec;
  const x = floats(outer * rows * inner);
  const g = floats(outer * count * inner);
  const ids = ints(count, rows);
  if (count > 1) [ids[0], ids[count - 1]] = [-1, rows]; // outside: zeros, and no contribution
  const y = new Array<number>(outer * count * inner).fill(0);
  const dx = new Float32Array(outer * rows * inner);
  for (let o = 0; o < outer; o++) {
    for (let n = 0; n < count; n++) {
      for (let i = 0; i < inner; i++) {
        if (ids[n]! < 0 || ids[n]! >= rows) continue;
        y[(o * count + n) * inner + i] = x[(o * rows + ids[n]!) * inner + i]!;
        dx[(o * rows + ids[n]!) * inner + i]! += g[(o * count + n) * inner + i]!; // f32 in the order of n
      }
    }
  }
  const [gathered] = await runProgram(backend, wgsl.gather(spec, backend.profile), [x, ids, y.length]);
  expect(asFloats(gathered)).toEqual(y);
  const [scattered] = await runProgram(backend, wgsl.scatterAdd(spec, backend.profile), [g, ids, dx.length]);
  expect(asFloats(scattered)).toEqual([...dx]); // to the bit: the order of summation is the contract
});

test.each([
  { rows: 7, count: 300 }, // several blocks of ids, each id in most of them
  { rows: 300, count: 129 }, // a last block of one; most rows get nothing
  { rows: 70_000, count: 5000 }, // so many rows that blocks must be longer
])("scatterAdd of $count ids to $rows rows adds in order", async ({ rows, count }) => {
  const inner = rows > 1000 ? 1 : 4;
  const g = floats(count * inner);
  const ids = ints(count, rows);
  const want = new Float32Array(rows * inner);
  ids.forEach((id, n) => {
    for (let i = 0; i < inner; i++) want[id * inner + i]! += g[n * inner + i]!; // f32 in the order of n
  });
  const program = wgsl.scatterAdd({ outer: 1, rows, count, inner }, backend.profile);
  const [got] = await runProgram(backend, program, [g, ids, want.length]);
  expect(new Float32Array(got!)).toEqual(want); // to the bit
});

test.each([...SPECS, { outer: 2, rows: 5, count: 8, inner: 3 }])(
  "takeAlong and its adjoint, $outer × $rows × $inner, $count ids",
  async (spec) => {
    const { outer, rows, count, inner } = spec;
    const x = floats(outer * rows * inner);
    const g = floats(outer * count * inner);
    const ids = ints(outer * count * inner, rows);
    if (ids.length > 1) ids[0] = -3;
    const dx = new Float32Array(outer * rows * inner);
    const y = [...ids].map((id, at) => {
      const o = Math.floor(at / (count * inner));
      const from = (o * rows + id) * inner + (at % inner);
      if (id < 0) return 0;
      dx[from]! += g[at]!;
      return x[from]!;
    });
    const [taken] = await runProgram(backend, wgsl.takeAlong(spec, backend.profile), [x, ids, y.length]);
    expect(asFloats(taken)).toEqual(y);
    const [scattered] = await runProgram(backend, wgsl.scatterAlong(spec, backend.profile), [g, ids, dx.length]);
    expect(asFloats(scattered)).toEqual([...dx]);
  },
);

test("writeRows overwrites the rows named and skips negative ids", async () => {
  const [rows, inner] = [6, 5];
  const dest = floats(rows * inner);
  const src = floats(3 * inner);
  const ids = Int32Array.of(4, -1, 0);
  const want = [...dest];
  for (const n of [0, 2]) for (let i = 0; i < inner; i++) want[ids[n]! * inner + i] = src[n * inner + i]!;
  const program = wgsl.writeRows({ rows, count: 3, inner }, backend.profile);
  const [got] = await runProgram(backend, program, [src, ids, dest], [2]);
  expect(asFloats(got)).toEqual(want);
});
