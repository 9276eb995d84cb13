/**
 * The elementary functions of `kernels/wasm/math.ts` against double-precision references: the largest error over bit
 * patterns of all of f32, the special values, and that a lane's bits do not depend on the other lanes.
 */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { erf } from "../../kernels/erf.ts";
import { kernelModule, load, type F32x4, type FunctionBuilder, type Var } from "../../kernels/wasm/assembler.ts";
import * as math from "../../kernels/wasm/math.ts";

type Lanes = (f: FunctionBuilder, x: F32x4, y: F32x4) => Var<F32x4>;

/** Evaluates `lanes` at all x (and y); lengths are multiples of 4. */
function evaluate(lanes: Lanes, x: Float32Array, y: Float32Array = x): Float32Array {
  const bytes = kernelModule({ x: "i32", y: "i32", z: "i32", begin: "i32", end: "i32" }, (f, p) => {
    f.for(p.begin, p.end, 4, (i) => f.store(p.z.at(i), lanes(f, load.f32x4(p.x.at(i)), load.f32x4(p.y.at(i)))));
  });
  const size = x.byteLength;
  const memory = new WebAssembly.Memory({ initial: Math.ceil((3 * size) / 65536), maximum: 65536 });
  new Float32Array(memory.buffer, 0, x.length).set(x);
  new Float32Array(memory.buffer, size, x.length).set(y);
  const { run } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } }).exports;
  (run as (...args: number[]) => void)(0, size, 2 * size, 0, x.length);
  return new Float32Array(memory.buffer, 2 * size, x.length).slice();
}

const SPECIALS = [0, -0, Infinity, -Infinity, NaN, 1, -1, 2 ** -149, -(2 ** -149), 2 ** -126, 3.4028234663852886e38];

/** Every 10,007th bit pattern of f32, special values, and `n` uniform numbers around 0 in each of a few widths. */
function arguments_(n = 20_000): Float32Array {
  const stride = 10_007;
  const bits = Uint32Array.from({ length: Math.floor(2 ** 32 / stride) }, (_, i) => i * stride);
  const rng = new Rng(1);
  const around = [1, 4, 20, 110, 1e4].flatMap((width) =>
    Array.from({ length: n }, () => width * (2 * rng.uniform() - 1)),
  );
  const all = [...SPECIALS, ...new Float32Array(bits.buffer), ...around, ...around.map((x) => 1 + x / 1e5)];
  return Float32Array.from(all.slice(0, all.length & -4));
}

/** The error in units of the last place of the exact value, as far as f32 has such a place. */
function ulps(actual: number, exact: number): number {
  if (Object.is(actual, Math.fround(exact)) || (Number.isNaN(actual) && Number.isNaN(exact))) return 0;
  if (!Number.isFinite(actual) || !Number.isFinite(exact) || exact === 0) return Infinity;
  const exponent = Math.max(-126, Math.floor(Math.log2(Math.abs(exact))));
  return Math.abs(actual - exact) / 2 ** (exponent - 23);
}

/** Fails, naming the place, where any error is above `bound` ULP. */
function expectWithin(
  bound: number,
  actual: Float32Array,
  exact: (i: number) => number,
  show: (i: number) => string,
): void {
  let [largest, at] = [-1, 0];
  for (let i = 0; i < actual.length; i++) {
    const error = ulps(actual[i]!, exact(i));
    if (error > largest) [largest, at] = [error, i];
  }
  expect(largest, `${show(at)}: got ${actual[at]}, exact ${exact(at)}`).toBeLessThanOrEqual(bound);
}

/** Not followed below −88, where the result is no normal number any more. */
const sigmoid = (x: number): number => (x < -88 ? 0 : 1 / (1 + Math.exp(-x)));
const UNARY: [name: string, lanes: Lanes, exact: (x: number) => number, bound: number][] = [
  ["exp", math.exp, Math.exp, 1.1],
  ["expm1", math.expm1, Math.expm1, 1.5],
  ["log", math.log, Math.log, 0.9],
  ["log1p", math.log1p, Math.log1p, 1.5],
  ["tanh", math.tanh, Math.tanh, 1.5],
  ["sigmoid", math.sigmoid, sigmoid, 2.4],
  ["erf", math.erf, erf, 1.5],
  ["sin", math.sin, Math.sin, 1.5],
  ["cos", math.cos, Math.cos, 1.5],
  ["sign", math.sign, Math.sign, 0],
  ["rsqrt", math.rsqrt, (x) => 1 / Math.sqrt(x), 1.5],
];

describe("wasm elementary functions", () => {
  const x = arguments_();

  it.each(UNARY)("%s: largest error over all of f32", (_, lanes, exact, bound) => {
    const y = evaluate(lanes, x);
    expectWithin(
      bound,
      y,
      (i) => exact(x[i]!),
      (i) => String(x[i]),
    );
  });

  it("expWeight: the bits of exp at and below 0, and 0 where those are not normal numbers", () => {
    const weights = x.map((v) => -Math.abs(v));
    const [y, full] = [evaluate(math.expWeight, weights), evaluate(math.exp, weights)];
    for (let i = 0; i < y.length; i++) {
      const expected = weights[i]! < -87.3 ? 0 : full[i]!;
      if (!Object.is(y[i], expected)) expect(y[i], `e^${weights[i]}`).toBe(expected);
    }
    expect(Math.exp(-87.3)).toBeGreaterThan(2 ** -126);
  });

  it("pow: largest error, and every pair of special values", () => {
    const rng = new Rng(2);
    const [bases, exponents]: [number[], number[]] = [[], []];
    const special = [...SPECIALS, 2, -2, 3, -3, 0.5, -0.5, 1 / 3, 16777217, -3e9, 2.5, 0.9999999];
    for (const a of special) {
      bases.push(...special.map(() => a));
      exponents.push(...special);
    }
    const float = new Float32Array(1);
    for (let i = 0; i < 200_000; i++) {
      new Uint32Array(float.buffer)[0] = rng.bits();
      const base = i % 2 === 0 ? float[0]! : rng.uniform() * 3;
      // Exponents that keep the power inside f32 half of the time.
      const scale = 88 / Math.max(1e-3, Math.abs(Math.log(Math.abs(base))));
      bases.push(base);
      exponents.push(i % 5 === 0 ? Math.round(8 * rng.normal()) : scale * (2.4 * rng.uniform() - 1.2));
    }
    const whole = bases.length & -4;
    const [a, b] = [Float32Array.from(bases.slice(0, whole)), Float32Array.from(exponents.slice(0, whole))];
    const y = evaluate(math.pow, a, b);
    expectWithin(
      0.6,
      y,
      (i) => Math.pow(a[i]!, b[i]!),
      (i) => `${a[i]} ^ ${b[i]}`,
    );
  });

  it.each(UNARY)("%s: the same bits in any lane, next to anything", (_, lanes) => {
    const rng = new Rng(3);
    const some = rng.shuffle(Array.from(x.filter((_v, i) => i % 50 === 0 || i < 20)));
    const values = Float32Array.from(some.slice(0, some.length & -4));
    const order = rng.shuffle(Array.from(values.keys()));
    const direct = new Int32Array(evaluate(lanes, values).buffer);
    const shuffled = new Int32Array(
      evaluate(
        lanes,
        Float32Array.from(order, (i) => values[i]!),
      ).buffer,
    );
    const isNaNBits = (bits: number): boolean => (bits & 0x7fffffff) > 0x7f800000; // a NaN's payload may differ
    const different = order.findIndex(
      (i, j) => shuffled[j] !== direct[i] && !(isNaNBits(shuffled[j]!) && isNaNBits(direct[i]!)),
    );
    expect(different).toBe(-1);
  });
});
