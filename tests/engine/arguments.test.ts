/**
 * What is given to an op belongs to whoever made it, and what makes no sense is refused in one sentence: results are
 * tensors of their own (tt-metal#50232, tfjs-core#341), fractions and places outside are errors on every executor, and
 * reading a generator's state changes nothing that it draws.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as wg from "../../engine/index.ts";
import { sumTo } from "../../engine/ops/reduce.ts";
import { gpuEnabled, gpuOptions } from "../support/gpu.ts";
import { globalNorm } from "../../nn/optimizer.ts";

const KINDS = ["reference", "wasm", ...(gpuEnabled ? (["webgpu"] as const) : [])] as const;
let devices: wg.Device[] = [];
beforeAll(async () => {
  devices = await Promise.all(KINDS.map((kind) => wg.device(kind, { webgpu: gpuOptions })));
});
afterAll(() => devices.forEach((d) => d.dispose()));

const OWN: Readonly<Record<string, (x: wg.Tensor) => wg.Tensor>> = {
  "reshape to the same shape": (x) => wg.reshape(x, x.shape),
  "reshape to -1": (x) => wg.reshape(x, [-1]),
  "broadcastTo its own shape": (x) => wg.broadcastTo(x, x.shape),
  "cast to its own type": (x) => wg.cast(x, x.dtype),
  "sumTo its own shape": (x) => sumTo(x, x.shape),
  "sum over no axis": (x) => wg.sum(x, { axis: [] }),
  "mean over no axis": (x) => wg.mean(x, { axis: [] }),
  "max over no axis": (x) => wg.max(x, { axis: [], keepdims: true }),
  "min over no axis": (x) => wg.min(x, { axis: [] }),
  "dropout of nothing": (x) => wg.dropout(x, 0, new wg.Rng(0)),
};
/** These copy, though they change nothing. */
const COPIES: Readonly<Record<string, (x: wg.Tensor) => wg.Tensor>> = {
  permute: (x) => wg.permute(x, [0]),
  transpose: (x) => wg.transpose(x, 0, 0),
  slice: (x) => wg.slice(x, [0], [3]),
  pad: (x) => wg.pad(x, [0], [0]),
  concat: (x) => wg.concat([x]),
  split: (x) => wg.split(x, 1)[0]!,
  "mul by 1": (x) => wg.mul(x, 1),
  "add 0": (x) => wg.add(x, 0),
  clamp: (x) => wg.clamp(x, -9, 9),
  "a formula that is its argument": wg.fuse("same", (x) => x),
  "logsumexp over no axis": (x) => wg.logsumexp(x, { axis: [] }),
  "maskedSum over no axis": (x) => wg.maskedSum(x, wg.onesLike(x), { axis: [] }),
  "maskedMean over no axis": (x) => wg.maskedMean(x, wg.onesLike(x), { axis: [] }),
  "maskedMax over no axis": (x) => wg.maskedMax(x, wg.onesLike(x), { axis: [] }),
};

test("what is written into a tensor is seen in results that share its memory, and in no other", async () => {
  for (const device of devices) {
    const seen = async (op: (x: wg.Tensor) => wg.Tensor): Promise<number[]> => {
      const x = wg.tensor([1, 2, 3], { device });
      const y = op(x);
      wg.assign(x, wg.tensor([9, 8, 7], { device }));
      return [...(await y.read())];
    };
    for (const [name, op] of Object.entries({ ...OWN, stopGradient: wg.stopGradient }))
      expect(await seen(op), `${device.kind}: ${name}`).toEqual([9, 8, 7]);
    for (const [name, op] of Object.entries(COPIES))
      expect(await seen(op), `${device.kind}: ${name}`).toEqual([1, 2, 3]);
  }
});

describe("a result is another tensor than what it was made of", () => {
  for (const [name, op] of Object.entries(OWN))
    test(name, async () => {
      for (const device of devices) {
        const before = device.backend.stats().liveBytes;
        const x = wg.tensor([1, 2, 3], { device });
        const y = op(x);
        y.dispose();
        expect([...(await x.read())], device.kind).toEqual([1, 2, 3]);
        const z = op(x);
        x.dispose();
        expect([...(await z.read())], device.kind).toEqual([1, 2, 3]);
        z.dispose();
        expect(device.backend.stats().liveBytes).toBe(before);
        const slope = wg.grad((w: wg.Tensor) => wg.sum(wg.mul(op(w), op(w))))(wg.tensor([1, 2, 3], { device }));
        expect([...(await slope.read())], device.kind).toEqual([2, 4, 6]);
      }
    });
});

const ints = (device: wg.Device, ...values: number[]): wg.Tensor => wg.tensor(Int32Array.from(values), { device });

/** Lists with holes, which JavaScript's `forEach` and `map` pass over. */
const HOLE = Object.assign([1, 2, 3], { length: 4 });
const ROWS = Object.assign([[1], [2]], { length: 3 });

type Call = (x: wg.Tensor, device: wg.Device) => unknown;
const REFUSED: readonly (readonly [name: string, call: Call, says: string])[] = [
  ["a fraction as a place", (x) => wg.slice(x, [0.5], [2.5]), "slice: from [0.5] to [2.5] is no block of [3]"],
  ["more places than axes", (x) => wg.slice(x, [0, 0], [1, 1]), "slice: from [0, 0] to [1, 1] is no block of [3]"],
  ["a place before the first", (x) => wg.slice(x, [-5]), "slice: from [-5] to [] is no block of [3]"],
  ["a fraction of padding", (x) => wg.pad(x, [0.5], [0.5]), "pad: before [0.5] and after [0.5] must be integers ≥ 0"],
  ["half an integer", (_, device) => wg.full([1], 0.5, { dtype: "i32", device }), "full: i32 values must be 32-bit"],
  ["2^40 in 32 bits", (_, device) => wg.full([1], 2 ** 40, { dtype: "i32", device }), "integers, got 1099511627776"],
  ["a text to fill with", (_, device) => wg.full([1], "1" as never, { device }), 'full: expected a number, got "1"'],
  ["true", (_, device) => wg.tensor(true as never, { device }), "Float64Array or Int32Array, got true"],
  ["nothing", (_, device) => wg.tensor(null as never, { device }), "Float64Array or Int32Array, got null"],
  ["a view", (_, device) => wg.tensor(new DataView(new ArrayBuffer(4)) as never, { device }), "got DataView"],
  ["64 bits", (_, device) => wg.tensor(new BigInt64Array(2) as never, { device }), "got BigInt64Array"],
  [
    "queries behind the keys",
    (_, device) => {
      const q = wg.ones([1, 1, 1, 2], { device });
      return wg.attention(q, q, q, { start: ints(device, 9) });
    },
    "attention: start 9 is outside [0, 0], for 1 queries and 1 keys",
  ],
  ...[-1, 4].map((at): readonly [string, Call, string] => [
    `the place ${at} of a cache of 4`,
    (_, device) => {
      const cache = wg.ones([1, 1, 4, 2], { device });
      const q = wg.ones([1, 1, 2], { device });
      return wg.cacheAttention(q, cache, cache, ints(device, 0), ints(device, at));
    },
    `cacheAttention: position ${at} is outside a cache of 4 positions`,
  ]),
  ["half a diagonal", (_, device) => wg.triuMask(2, 2, 0.5, { device }), "triuMask: k must be a whole number, the"],
  ["a diagonal NaN", (_, device) => wg.triuMask(2, 2, NaN, { device }), "triuMask: k must be a whole number, the"],
  ["ddof NaN", (x) => wg.variance(x, { ddof: NaN }), "variance: ddof must be a whole number ≥ 0, of degrees of"],
  ["ddof 0.5", (x) => wg.variance(x, { ddof: 0.5 }), "of degrees of freedom, got 0.5"],
  ["ddof −1", (x) => wg.maskedVariance(x, x, { ddof: -1 }), "maskedVariance: ddof must be a whole number ≥ 0"],
  ["ddof ½ of whitening", (x) => wg.maskedWhiten(x, x, { ddof: 0.5 }), "maskedWhiten: ddof must be a whole number ≥ 0"],
  [
    "a spread NaN",
    (_, device) => wg.randomNormal(new wg.Rng(1), [1], { std: NaN, device }),
    "randomNormal: std must be a finite number ≥ 0, got NaN",
  ],
  [
    "a spread below 0",
    (_, device) => wg.randomNormal(new wg.Rng(1), [1], { std: -1, device }),
    "randomNormal: std must be a finite number ≥ 0, got -1",
  ],
  ["a list with a hole", (_, device) => wg.tensor(HOLE, { device }), "nested lists of numbers, got undefined"],
  ["a row that is a hole", (_, device) => wg.tensor(ROWS, { device }), "nested lists of numbers, got undefined"],
  [
    "dropout without numbers to draw",
    (x) => wg.dropout(x, 0.5, undefined as never),
    "dropout: rng must be a stream of random numbers, new Rng(0), got missing",
  ],
  ["a seed as a stream", (_, device) => wg.randomUniform(3 as never, [1], { device }), "randomUniform: rng must be a"],
  ["no stream", (_, device) => wg.randomNormal(undefined as never, [1], { device }), "new Rng(0), got missing"],
  ["oneHot of a list", () => wg.oneHot([1] as never, 2), "oneHot: expected a tensor, got [1]; tensor(…) makes one"],
  ["softmax of nothing", () => wg.softmax(undefined as never), "softmax: expected a tensor, got missing"],
  ["attention to nothing", (x) => wg.attention(x, null as never, x), "attention: expected a tensor, got null"],
  [
    "the slope of no function",
    () => wg.grad(null as never),
    "grad: expected a function of a tree of tensors, got null",
  ],
  ["a tensor as JSON", (x) => JSON.stringify({ x }), "has its values on a device: write what await x.read() gives"],
];

/** For those who write ops, walk trees or open devices: these are given functions, definitions and names. */
const INNER = [
  "device",
  "setDevice",
  "scope",
  "noGrad",
  "outsideScopes",
  "apply",
  "applyOn",
  "checkpoint",
  "mapTree",
  "printGraph",
  "treeFromLeaves",
  "wgslOf",
  "expr",
  "select",
];

test("no function of values answers a wrong one with a raw error", () => {
  const device = devices[0]!;
  const wrong = [undefined, null, [1], {}, "a", NaN, true];

  const raw: string[] = [];
  for (const [name, f] of Object.entries(wg)) {
    if (typeof f !== "function" || INNER.includes(name) || !/^[a-z]/.test(name)) continue;
    const x = wg.ones([2, 2], { device });
    const rng = new wg.Rng(1);
    const calls = wrong.flatMap((w) => [
      [w],
      [x, w],
      [x, x, w],
      [x, 1, w],
      [x, [0], w],
      [w, [2]],
      [rng, [2], w],
      [2, 2, w],
    ]);
    for (const args of [[], ...calls]) {
      try {
        const result: unknown = (f as (...args: readonly unknown[]) => unknown)(...args);
        if (result instanceof Promise) void result.catch(() => undefined);
      } catch (error) {
        if (!(error instanceof wg.WorldgradError)) raw.push(`${name}: ${String(error)}`);
      }
    }
  }
  expect([...new Set(raw)]).toEqual([]);
});

describe("refused on every executor, and nothing stays behind", () => {
  for (const [name, call, says] of REFUSED)
    test(name, () => {
      for (const device of devices) {
        const x = wg.tensor([1, 2, 3], { device });
        const { liveBytes } = device.backend.stats();
        const refused = (): unknown => wg.scope(() => (call(x, device), undefined));
        expect(refused, device.kind).toThrow(wg.WorldgradError);
        expect(refused, device.kind).toThrow(says);
        expect(device.backend.stats().liveBytes).toBe(liveBytes);
        x.dispose();
      }
    });

  test("ids that were overwritten are looked at as they are now, through every handle", async () => {
    for (const device of devices) {
      const x = wg.tensor([[1, 2, 3]], { device });
      const bad = ints(device, 5, 5);
      const view = wg.reshape(bad, [1, 2]);
      wg.assign(bad, ints(device, 2, 0));
      expect([...(await wg.takeAlong(x, view).read())], device.kind).toEqual([3, 1]);
    }
  });

  test("a tensor in a sentence says what it is", () => {
    const x = wg.tensor([1], { device: devices[0]! });
    expect(() => wg.full([1], x as never, { device: devices[0]! })).toThrow("got Tensor(f64[1] on reference)");
  });
});

test("a gradient penalty: the norm of a gradient can be differentiated", async () => {
  // f = Σ x³, |∇f| = √Σ 9x⁴ = 15 at (1, 2, 0)… d|∇f|/dx = 18x³/|∇f|.
  for (const device of devices) {
    const cubes = (x: wg.Tensor): wg.Tensor => wg.sum(wg.mul(x, wg.mul(x, x)));
    const penalty = wg.grad((x: wg.Tensor) => globalNorm({ x: wg.grad(cubes)(x) }));
    const found = await penalty(wg.tensor([1, 2, 0], { device })).read();
    const norm = Math.sqrt(9 + 9 * 16);
    [18 / norm, (18 * 8) / norm, 0].forEach((right, i) => expect(found[i]!).toBeCloseTo(right, 4));
  }
});

test("the norm of nothing but zeros has the slope 0, as PyTorch's, and hides no NaN", async () => {
  for (const device of devices) {
    const slope = wg.grad((x: wg.Tensor) => globalNorm({ x }));
    const bend = wg.grad((x: wg.Tensor) => wg.sum(wg.square(slope(x))));
    for (const f of [slope, bend])
      expect([...(await f(wg.tensor([0, 0], { device })).read())].map(Math.abs), device.kind).toEqual([0, 0]);
    expect((await slope(wg.tensor([3, 4], { device })).read())[0], device.kind).toBeCloseTo(0.6, 6);
    expect(await globalNorm({ x: wg.tensor([NaN, 1], { device }) }).item(), device.kind).toBeNaN();
    expect(await globalNorm({ x: wg.tensor([0, 0], { device }) }).item(), device.kind).toBe(0);
  }
});

describe("generators", () => {
  test("what is neither a seed nor a state is refused", () => {
    const states = [
      {},
      { key: [1], counter: 0 },
      { key: [1, 0.5], counter: 0 },
      { key: [1, 2] },
      { key: [-1, 2], counter: 0 },
    ];
    for (const wrong of [undefined, null, "a", true, [], ...states])
      expect(() => new wg.Rng(wrong as never)).toThrow(
        /^Rng: expected a seed, an integer in \[0, 2\^53\), or a saved state \{ key, counter \}, got /,
      );
  });

  const draws = (rng: wg.Rng, n: number): number[] => Array.from({ length: n }, () => rng.bits());

  test("reading the state changes nothing, and the state continues behind any draw", () => {
    for (let before = 0; before <= 5; before++) {
      const [rng, quiet] = [new wg.Rng(7), new wg.Rng(7)];
      draws(quiet, before);
      draws(rng, before);
      const saved = JSON.parse(JSON.stringify(rng.state)) as wg.RngState;
      const next = draws(quiet, 5);
      expect(draws(rng, 5)).toEqual(next);
      expect(draws(new wg.Rng(saved), 5)).toEqual(next);
    }
  });

  test("a label that would be taken for another is refused, and large ones are streams of their own", () => {
    const rng = new wg.Rng(1);
    for (const label of [0.5, NaN, -1, 2 ** 53, Infinity, true as never])
      expect(() => rng.split(label)).toThrow(/^Rng.split: a label must be a text or an integer in \[0, 2\^53\), got /);
    const first = [0, 1, 2 ** 32, 2 ** 32 + 1, 2 ** 33].map((label) => rng.split(label).bits());
    expect(new Set([...first, rng.split(0).split(1).bits()]).size).toBe(6);
  });
});
