/** The assembler: encodings, control flow, and every instruction of `values.ts` executed against plain TypeScript. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import {
  F32x4,
  F64x2,
  type FunctionBuilder,
  I32,
  I32x4,
  kernelModule,
  load,
  select,
  signedLEB,
  unsignedLEB,
  type Value,
  withSharedMemory,
} from "../../kernels/wasm/assembler.ts";

type Fn = (...args: number[]) => void;

/** Instantiates a module on one page of memory. */
function instantiate(bytes: Uint8Array<ArrayBuffer>): { run: Fn; f32: Float32Array; i32: Int32Array } {
  expect(WebAssembly.validate(bytes)).toBe(true);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536 });
  const { run } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } }).exports;
  return { run: run as Fn, f32: new Float32Array(memory.buffer), i32: new Int32Array(memory.buffer) };
}

/** Runs `f.store(64, value(load 0, load 16, load 32))` and gives the words at 64. */
function compute(words: readonly number[], value: (x: I32) => Value, asFloat: boolean): Float32Array | Int32Array {
  const { run, f32, i32 } = instantiate(kernelModule({ x: "i32" }, (f, { x }) => f.store(x, value(x), 64)));
  (asFloat ? f32 : i32).set(words);
  run(0);
  return i32.slice(16, 20);
}
const floatBits = (...x: number[]): Int32Array => new Int32Array(Float32Array.from(x).buffer);

describe("encodings", () => {
  it("LEB128", () => {
    expect(unsignedLEB(0)).toEqual([0]);
    expect(unsignedLEB(624485)).toEqual([0xe5, 0x8e, 0x26]);
    expect(unsignedLEB(2 ** 32 - 1)).toEqual([0xff, 0xff, 0xff, 0xff, 0x0f]);
    expect(signedLEB(-123456)).toEqual([0xc0, 0xbb, 0x78]);
    expect(signedLEB(64)).toEqual([0xc0, 0]);
    expect(signedLEB(-64)).toEqual([0x40]);
    expect(signedLEB(2 ** 31 - 1)).toEqual([0xff, 0xff, 0xff, 0xff, 0x07]);
  });

  it("i32 constants of every size survive, also as unsigned", () => {
    for (const value of [0, 1, -1, 63, 64, -64, -65, 2 ** 31 - 1, -(2 ** 31), 2 ** 32 - 4]) {
      expect(compute([], () => I32.of(value), false)[0]).toBe(value | 0);
    }
  });

  it("the same module binds a shared memory after withSharedMemory, and only then", () => {
    const bytes = kernelModule({ x: "i32" }, (f, { x }) => f.store(x, I32.of(7)));
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true });
    expect(() => new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } })).toThrow(
      WebAssembly.LinkError,
    );
    const { run } = new WebAssembly.Instance(new WebAssembly.Module(withSharedMemory(bytes)), { env: { memory } })
      .exports;
    (run as Fn)(8);
    expect(new Int32Array(memory.buffer)[2]).toBe(7);
  });
});

describe("control flow", () => {
  const collect = (build: (f: FunctionBuilder, push: (x: I32) => void, n: I32) => void, n: number): number[] => {
    const { run, i32 } = instantiate(
      kernelModule({ n: "i32" }, (f, p) => {
        const at = f.let(I32.of(4));
        build(f, (x) => (f.store(at, x), f.set(at, at.add(4))), p.n);
        f.store(I32.of(0), at);
      }),
    );
    run(n);
    return Array.from(i32.slice(1, i32[0]! / 4));
  };

  it("for: bounds, steps, empty ranges, and an end that the body changes", () => {
    expect(collect((f, push, n) => f.for(0, n, 3, push), 10)).toEqual([0, 3, 6, 9]);
    expect(collect((f, push, n) => f.for(n, 4, 1, push), 4)).toEqual([]);
    expect(collect((f, push, n) => f.for(n, 2, I32.of(-4).sub(n), push), -7)).toEqual([-7, -4, -1]);
    const shrinking = collect((f, push, n) => {
      const end = f.let(n);
      f.for(0, end, 1, (i) => (push(i), f.set(end, I32.of(0))));
    }, 3);
    expect(shrinking).toEqual([0, 1, 2]);
  });

  it("if, while, blocks and breaks through several levels", () => {
    const odd = (f: FunctionBuilder, push: (x: I32) => void, n: I32): void =>
      f.for(0, n, 1, (i) =>
        f.if(
          i.and(1),
          () => push(i),
          () => push(i.mul(-10)),
        ),
      );
    expect(collect(odd, 4)).toEqual([0, 1, -20, 3]);
    const halve = (f: FunctionBuilder, push: (x: I32) => void, n: I32): void => {
      const x = f.let(n);
      f.while(x.gt(0), () => (push(x), f.set(x, x.shrU(1))));
    };
    expect(collect(halve, 20)).toEqual([20, 10, 5, 2, 1]);
    const search = (f: FunctionBuilder, push: (x: I32) => void, n: I32): void =>
      f.block((found) => {
        f.for(1, n, 1, (i) => f.for(1, n, 1, (j) => f.if(i.mul(j).eq(42), () => (push(i), push(j), f.break(found)))));
        push(I32.of(-1));
      });
    expect(collect(search, 20)).toEqual([3, 14]);
    expect(collect(search, 6)).toEqual([-1]);
  });

  it("functions call each other and are shared", () => {
    const { run, f32 } = instantiate(
      kernelModule({ x: "i32", n: "i32" }, (f, p, m) => {
        const square = m.define({ x: "f32x4" }, (_, { x }) => x.mul(x));
        const poly = (): ReturnType<typeof square> =>
          m.once("poly", () =>
            m.define({ x: "f32x4", k: "i32" }, (g, { x, k }) => {
              const y = g.let(square({ x }).add(1));
              g.for(0, k, 1, () => g.set(y, y.mul(2)));
              return y;
            }),
          )({ x: load.f32x4(p.x), k: p.n });
        f.store(p.x, poly().add(poly()), 16);
      }),
    );
    f32.set([1, 2, 3, 4]);
    run(0, 3);
    expect(Array.from(f32.slice(4, 8))).toEqual([32, 80, 160, 272]);
  });
});

describe("instructions", () => {
  const rng = new Rng(9);
  const floats = [...Array.from({ length: 9 }, () => Math.fround(3 * rng.normal())), -0, 2.5, -7.5];
  const ints = [...Array.from({ length: 9 }, () => rng.bits() | 0), 0, -1, 7];
  const lanes = (x: I32, k: number): F32x4 => load.f32x4(x, 16 * k);
  const intLanes = (x: I32, k: number): I32x4 => load.i32x4(x, 16 * k);
  const four = <T>(f: (i: number) => T): T[] => [0, 1, 2, 3].map(f);
  const roundEven = (x: number): number => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

  const F32X4: [string, (a: F32x4, b: F32x4) => F32x4, (a: number, b: number) => number][] = [
    ["add", (a, b) => a.add(b), (a, b) => a + b],
    ["sub", (a, b) => a.sub(b), (a, b) => a - b],
    ["mul", (a, b) => a.mul(b), (a, b) => a * b],
    ["div", (a, b) => a.div(b), (a, b) => a / b],
    ["min", (a, b) => a.min(b), Math.min],
    ["max", (a, b) => a.max(b), Math.max],
    ["pmin", (a, b) => a.pmin(b), (a, b) => (b < a ? b : a)],
    ["pmax", (a, b) => a.pmax(b), (a, b) => (a < b ? b : a)],
    ["abs", (a) => a.abs(), Math.abs],
    ["neg", (a) => a.neg(), (a) => -a],
    ["sqrt", (a) => a.abs().sqrt(), (a) => Math.sqrt(Math.abs(a))],
    ["floor", (a) => a.floor(), Math.floor],
    ["nearest", (a) => a.nearest(), roundEven],
    ["mask and bitselect", (a, b) => a.lt(b).bitselect(a, b.mul(2)), (a, b) => (a < b ? a : 2 * b)],
    [
      "comparisons",
      (a, b) =>
        a
          .ge(b)
          .xor(a.gt(b))
          .not()
          .and(a.le(b).andNot(a.eq(b)))
          .bitselect(a, b),
      (a, b) => (a < b ? a : b),
    ],
    ["ne", (a, b) => a.ne(b).bitselect(a, b.neg()), (a, b) => (a !== b ? a : -b)],
    ["convert", (a) => a.toI32x4().toF32x4(), (a) => Math.trunc(a) + 0],
  ];
  it.each(F32X4)("f32x4 %s", (_, value, exact) => {
    const actual = compute(floats, (x) => value(lanes(x, 0), lanes(x, 2)), true);
    expect(actual).toEqual(floatBits(...four((i) => exact(floats[i]!, floats[8 + i]!))));
  });

  const I32X4: [string, (a: I32x4, b: I32x4) => I32x4, (a: number, b: number) => number][] = [
    ["add", (a, b) => a.add(b), (a, b) => a + b],
    ["sub", (a, b) => a.sub(b), (a, b) => a - b],
    ["mul", (a, b) => a.mul(b), Math.imul],
    ["and", (a, b) => a.and(b), (a, b) => a & b],
    ["andNot", (a, b) => a.andNot(b), (a, b) => a & ~b],
    ["or", (a, b) => a.or(b), (a, b) => a | b],
    ["xor", (a, b) => a.xor(b), (a, b) => a ^ b],
    [
      "shifts",
      (a, b) =>
        a
          .shl(5)
          .xor(b.shrS(3))
          .xor(a.shrU(I32.of(7))),
      (a, b) => (a << 5) ^ (b >> 3) ^ (a >>> 7),
    ],
    ["minS", (a, b) => a.minS(b), Math.min],
    ["maxS", (a, b) => a.maxS(b), Math.max],
    [
      "lt, ltU",
      (a, b) => a.lt(b).sub(a.ltU(b).and(I32x4.of(2))),
      (a, b) => -Number(a < b) - 2 * Number(a >>> 0 < b >>> 0),
    ],
    ["gt, eq, ne", (a, b) => a.gt(b).or(a.eq(b)).xor(a.ne(b)), (a, b) => (a >= b ? -1 : 0) ^ (a !== b ? -1 : 0)],
  ];
  it.each(I32X4)("i32x4 %s", (_, value, exact) => {
    const actual = compute(ints, (x) => value(intLanes(x, 0), intLanes(x, 2)), false);
    expect(actual).toEqual(Int32Array.from(four((i) => exact(ints[i]!, ints[8 + i]!))));
  });

  it("f64x2", () => {
    const half = (a: F64x2, b: F64x2): F64x2 => a.add(b).mul(a.sub(b)).div(b).max(F64x2.of(-2)).min(F64x2.of(9));
    const actual = compute(
      floats,
      (x) => {
        const [a, b] = [lanes(x, 0), lanes(x, 1)];
        return half(a.lowF64x2(), b.lowF64x2())
          .toF32x4()
          .shuffle(half(a.highF64x2(), b.highF64x2()).toF32x4(), 0, 1, 4, 5);
      },
      true,
    );
    const exact = (a: number, b: number): number => Math.min(9, Math.max(-2, ((a + b) * (a - b)) / b));
    expect(actual).toEqual(floatBits(...four((i) => exact(floats[i]!, floats[4 + i]!))));
    const integers = compute(
      [],
      () => F64x2.of(-2.5).nearest().toI32x4().add(I32x4.of(3).highF64x2().toI32x4()),
      false,
    );
    expect(Array.from(integers)).toEqual([1, 1, 0, 0]);
  });

  it("lanes, shuffles, splats and lane loads and stores", () => {
    expect(compute(floats, (x) => lanes(x, 0).shuffle(lanes(x, 1), 7, 0, 2, 5), true)).toEqual(
      floatBits(floats[7]!, floats[0]!, floats[2]!, floats[5]!),
    );
    expect(compute(floats, (x) => lanes(x, 0).lane(2).splat().withLane(1, lanes(x, 1).lane(3)), true)).toEqual(
      floatBits(floats[2]!, floats[7]!, floats[2]!, floats[2]!),
    );
    expect(compute(ints, (x) => intLanes(x, 0).lane(3).splat().withLane(0, load.i32(x)), false)).toEqual(
      Int32Array.of(ints[0]!, ints[3]!, ints[3]!, ints[3]!),
    );
    expect(compute(floats, (x) => load.splat(x, 4).add(load.lane0(x, 8)), true)[0]).toBe(
      floatBits(floats[1]! + floats[2]!)[0],
    );
    const { run, f32 } = instantiate(
      kernelModule({ x: "i32" }, (f, { x }) => f.storeLane(x, F32x4.lanes(1, 2, 3, 4), 2, 8)),
    );
    run(4);
    expect(Array.from(f32.slice(0, 6))).toEqual([0, 0, 0, 3, 0, 0]);
  });

  it("scalars", () => {
    const exprs: [(x: I32) => Value, number][] = [
      [(x) => load.i32(x).divU(10), Math.floor((ints[0]! >>> 0) / 10)],
      [(x) => load.i32(x).remU(1000), (ints[0]! >>> 0) % 1000],
      [(x) => load.i32(x).shrS(3).xor(load.i32(x).shrU(5)).or(1), ((ints[0]! >> 3) ^ (ints[0]! >>> 5)) | 1],
      [(x) => load.i32(x).min(5).max(-5), Math.max(-5, Math.min(5, ints[0]!))],
      [(x) => load.i32(x).ltU(9).add(load.i32(x).geU(9).mul(2)).add(load.i32(x).not()), ints[0]! >>> 0 < 9 ? 1 : 2],
      [(x) => select(load.i32(x).ge(0), I32.of(4), I32.of(6)), ints[0]! >= 0 ? 4 : 6],
      [(x) => load.i32(x).toF32().asI32(), floatBits(ints[0]!)[0]!],
      [
        (x) =>
          intLanes(x, 0)
            .any()
            .add(I32x4.lanes(1, 1, 0, 1).all()),
        1,
      ],
    ];
    for (const [value, exact] of exprs) expect(compute(ints, value, false)[0]).toBe(exact | 0);
    const f = (x: I32): ReturnType<typeof load.f32> => load.f32(x);
    const floatsCases: [(x: I32) => Value, number][] = [
      [
        (x) => f(x).add(2).mul(3).sub(0.5).div(f(x)),
        Math.fround(Math.fround(Math.fround(Math.fround(floats[0]! + 2) * 3) - 0.5) / floats[0]!),
      ],
      [(x) => f(x).abs().sqrt().neg().floor(), Math.floor(-Math.sqrt(Math.abs(floats[0]!)))],
      [(x) => f(x).min(0.5).max(-0.5), Math.max(-0.5, Math.min(0.5, floats[0]!))],
    ];
    for (const [value, exact] of floatsCases) expect(compute(floats, value, true)[0]).toBe(floatBits(exact)[0]);
    const all = (x: I32): I32 =>
      f(x)
        .lt(9)
        .add(f(x).le(9))
        .add(f(x).gt(9).mul(4))
        .add(f(x).ge(9).mul(8))
        .add(f(x).eq(9).mul(16))
        .add(f(x).ne(9).mul(32));
    expect(compute([1], all, true)[0]).toBe(34);
    expect(compute([9], all, true)[0]).toBe(1 + 8 + 16);
  });

  it("bulk copies and fills; addresses with all 32 bits", () => {
    const { run, i32 } = instantiate(
      kernelModule({ x: "i32", n: "i32" }, (f, { x, n }) => {
        f.fillBytes(x, 1, n);
        f.copyBytes(x.add(8), x.add(4), n);
      }),
    );
    run(0, 8);
    expect(Array.from(i32.slice(0, 5))).toEqual([0x01010101, 0x01010101, 0x01010101, 0, 0]);
    expect(() => run(-16, 8)).toThrow(WebAssembly.RuntimeError); // 2³² − 16: beyond the memory, not before it
  });

  it("relaxed multiply-add is encoded as the proposal has it", () => {
    const bytes = kernelModule({ x: "i32" }, (f, { x }) =>
      f.store(x, lanes(x, 0).relaxedMadd(lanes(x, 1), lanes(x, 2))),
    );
    expect(Buffer.from(bytes).includes(Buffer.from([0xfd, 0x85, 0x02]))).toBe(true);
  });
});
