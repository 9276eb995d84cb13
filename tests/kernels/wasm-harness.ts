/**
 * Runs a WebAssembly program of `kernels/wasm` over plain arrays, with the hostile surroundings that kernels must
 * survive: memory that starts as NaN, guard words between buffers, one buffer ending at the last byte of the memory (a
 * load beyond it traps), and the units of every step executed in shuffled ranges.
 */
import { expect } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Program, WasmKernel } from "../../kernels/kernel.ts";

export type Values = Float32Array | Int32Array;
const GUARD_BYTES = 64;
const GUARD_BITS = 0x7fc0_beef; // a quiet NaN: an input read out of bounds shows in the result
const compiled = new Map<string, WebAssembly.Module>();

/**
 * Executes `program` on `inputs`; returns one f32 array per entry of `outputs` (their lengths). `seed` moves buffers
 * and ranges.
 */
export function runWasm(
  program: Program<WasmKernel>,
  inputs: readonly Values[],
  outputs: readonly number[],
  seed = 0,
): Float32Array[] {
  const rng = new Rng(seed);
  const sizes = [...inputs.map((x) => x.byteLength), ...outputs.map((n) => 4 * n), ...program.temps];
  const total = sizes.reduce((sum, size) => sum + size + GUARD_BYTES, 4096);
  const memory = new WebAssembly.Memory({ initial: Math.ceil(total / 65536), maximum: 65536 });
  const words = new Int32Array(memory.buffer).fill(GUARD_BITS);

  // Lay the buffers out downwards from the end of the memory, starting with an arbitrary one.
  const first = rng.int(sizes.length);
  const at = new Array<number>(sizes.length);
  let end = memory.buffer.byteLength;
  for (let i = 0; i < sizes.length; i++) {
    const b = (first + i) % sizes.length;
    at[b] = end - sizes[b]!;
    end = at[b] - GUARD_BYTES;
  }
  inputs.forEach((x, i) =>
    new Int32Array(memory.buffer, at[i], x.length).set(new Int32Array(x.buffer, x.byteOffset, x.length)),
  );

  for (const { kernel, buffers } of program.steps) {
    let module = compiled.get(kernel.key);
    if (module === undefined) compiled.set(kernel.key, (module = new WebAssembly.Module(kernel.module())));
    const run = new WebAssembly.Instance(module, { env: { memory } }).exports.run as (...args: number[]) => void;
    const cuts = [0, kernel.units, rng.int(kernel.units + 1), rng.int(kernel.units + 1)].toSorted((a, b) => a - b);
    const ranges = [0, 1, 2].map((i) => [cuts[i]!, cuts[i + 1]!]).toSorted(() => rng.uniform() - 0.5);
    for (const [begin, stop] of ranges) run(...buffers.map((b) => at[b]!), ...kernel.scalars, begin!, stop!);
  }

  const inside = new Uint8Array(words.length);
  sizes.forEach((size, b) => inside.fill(1, at[b]! / 4, (at[b]! + size) / 4));
  expect(
    words.findIndex((word, i) => inside[i] === 0 && word !== GUARD_BITS),
    "a word outside the buffers changed",
  ).toBe(-1);
  inputs.forEach((x, i) => {
    const before = new Int32Array(x.buffer, x.byteOffset, x.length);
    const after = new Int32Array(memory.buffer, at[i], x.length);
    expect(
      after.findIndex((word, j) => word !== before[j]),
      `input ${i} changed`,
    ).toBe(-1);
  });
  return outputs.map((length, i) => new Float32Array(memory.buffer, at[inputs.length + i], length).slice());
}

/** Fails unless |actual − expected| ≤ tolerance·(scale + |expected|) everywhere; NaN must meet NaN. */
export function expectClose(actual: Float32Array, expected: ArrayLike<number>, tolerance: number, scale = 1): void {
  expect(actual.length).toBe(expected.length);
  for (let i = 0; i < actual.length; i++) {
    const [a, b] = [actual[i]!, expected[i]!];
    const ok =
      Object.is(a, b) || (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(a - b) <= tolerance * (scale + Math.abs(b));
    if (!ok) expect.fail(`element ${i} of ${actual.length}: expected ${b}, got ${a} (tolerance ${tolerance})`);
  }
}

/** Standard normals from `rng`, rounded to f32. */
export function normals(rng: Rng, length: number, scale = 1): Float32Array {
  return Float32Array.from({ length }, () => scale * rng.normal());
}
