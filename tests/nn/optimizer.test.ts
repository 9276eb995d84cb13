/** AdamW against the formula in plain f64, clipping, accumulation, schedules, and what it refuses. */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { reshape } from "../../engine/ops/movement.ts";
import { add, mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { type Tree, treeLeaves } from "../../engine/tree.ts";
import {
  accumulateGrads,
  AdamW,
  type AdamWOptions,
  globalNorm,
  schedule,
  type ScheduleOptions,
} from "../../nn/optimizer.ts";
import { readAll, reference, relativeError, wasm } from "../support/rlExecutors.ts";

interface State {
  readonly p: number[];
  readonly m: number[];
  readonly v: number[];
}

/** One step of algorithm 2 of Loshchilov & Hutter on flat lists. */
function adamwStep(states: State[], grads: number[][], t: number, lr: number, options: Required<AdamWOptions>): number {
  const norm = Math.sqrt(grads.flat().reduce((total, g) => total + g * g, 0));
  const scale = Math.min(1, options.clipNorm / (norm + 1e-6));
  const [beta1, beta2] = options.betas;
  states.forEach(({ p, m, v }, k) => {
    grads[k]!.forEach((raw, i) => {
      const g = raw * scale;
      m[i] = beta1 * m[i]! + (1 - beta1) * g;
      v[i] = beta2 * v[i]! + (1 - beta2) * g * g;
      const mHat = m[i] / (1 - beta1 ** t);
      const vHat = v[i] / (1 - beta2 ** t);
      if (k === 0) p[i]! -= lr * options.weightDecay * p[i]!; // matrices decay, vectors do not
      p[i]! -= (lr * mHat) / (Math.sqrt(vHat) + options.eps);
    });
  });
  return norm;
}

describe.each([
  { ...reference, exact: 1e-12 },
  { ...wasm, exact: 2e-5 },
])("on $name", ({ open, exact }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());
  const shapes = [[3, 5], [7]];
  const make = (values: readonly number[][]): Tensor[] =>
    values.map((x, i) => tensor(Float64Array.from(x), { device, shape: shapes[i]! }));

  it("follows the formula for any gradients, rates and clips", async () => {
    const numbers = (n: number): fc.Arbitrary<number[]> =>
      fc.array(fc.double({ min: -2, max: 2, noNaN: true }), { minLength: n, maxLength: n });
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(numbers(15), numbers(7)),
        fc.array(fc.tuple(numbers(15), numbers(7)), { minLength: 1, maxLength: 4 }),
        fc.constantFrom(0.2, 1, Infinity),
        fc.constantFrom(0, 0.1),
        async (start, steps, clipNorm, weightDecay) => {
          const options = {
            lr: 0.01,
            betas: [0.9, 0.95],
            eps: 1e-6,
            weightDecay,
            clipNorm,
            decays: () => true,
          } as const;
          const { decays: _, ...given } = options;
          const params = make(start);
          const optimizer = new AdamW(params, given);
          const states = start.map((p) => ({ p: [...p], m: p.map(() => 0), v: p.map(() => 0) }));
          for (const [i, grads] of steps.entries()) {
            const lr = 0.01 * (i + 1);
            const norm = scope(() => optimizer.step(make(grads), lr));
            const expected = adamwStep(states, grads, i + 1, lr, options);
            expect(Math.abs((await norm.item()) - expected)).toBeLessThanOrEqual(exact * Math.max(1, expected));
          }
          const actual = await readAll(params);
          states.forEach(({ p }, k) => expect(relativeError(actual[k]!, p)).toBeLessThanOrEqual(exact));
        },
      ),
      { numRuns: 25, seed: 3 },
    );
  });

  it("a norm that is NaN or infinite changes nothing", async () => {
    for (const bad of [NaN, Infinity, -Infinity]) {
      const params = make([Array<number>(15).fill(1), Array<number>(7).fill(2)]);
      const optimizer = new AdamW(params);
      const grads = make([Array<number>(15).fill(0.5), [0, 0, bad, 0, 0, 0, 0]]);
      const norm = await optimizer.step(grads).item();
      expect(Number.isFinite(norm)).toBe(false);
      const { m, v } = optimizer.state;
      expect((await readAll(params)).flat()).toEqual([...Array<number>(15).fill(1), ...Array<number>(7).fill(2)]);
      expect((await readAll([...m, ...v])).flat().every((x) => x === 0)).toBe(true);
    }
  });

  it("accumulation sums, even where the gradient of two parameters is one tensor", async () => {
    const params = make([Array<number>(15).fill(1), Array<number>(7).fill(1)]).map((x) =>
      x.rank === 2 ? sum(x, { axis: 0 }) : sum(x),
    );
    const weights = tensor([1, 2, 3, 4, 5], { device });
    const gradient = (k: number): Tensor[] =>
      grad(([a, b]: Tensor[]) => sum(mul(mul(weights, k), add(a!, mul(b!, tensor([1, 1, 1, 1, 1], { device }))))))(
        params,
      );
    const twins = (): Tensor[] => grad(([a, b]: Tensor[]) => sum(mul(weights, add(a!, b!))))([weights, params[0]!]);
    const total = [1, 10, 100].map(gradient).reduce((a, b) => accumulateGrads(a, b));
    expect(await readAll(total)).toEqual([[111, 222, 333, 444, 555], [1665]]);
    const pair = accumulateGrads(twins(), twins());
    expect(await readAll(pair)).toEqual([
      [2, 4, 6, 8, 10],
      [2, 4, 6, 8, 10],
    ]);
  });

  it("gradients meet parameters and totals by name, however their keys are sorted", async () => {
    // lr 1 and a first step: AdamW moves each parameter by −sign(g) (algorithm 2 with m̂/√v̂ = ±1).
    const one = (x: number): Tensor => tensor([x], { device });
    const params = { a: one(0), deep: { list: [one(0), one(0)], b: one(0) } };
    const optimizer = new AdamW(params, { lr: 1, weightDecay: 0 });
    optimizer.step({ deep: { b: one(-1), list: [one(1), one(-1)] }, a: one(1) });
    const moved = await readAll(treeLeaves(params));
    [-1, -1, 1, 1].forEach((to, i) => expect(moved[i]![0]).toBeCloseTo(to, 4));

    const total = accumulateGrads({ a: one(1), b: one(10) }, { b: one(100), a: one(1000) });
    expect(await readAll([total.a, total.b])).toEqual([[1001], [110]]);
  });

  it("a gradient without its place, by name or by shape, is an error that names it, and changes nothing", async () => {
    const one = (x: number): Tensor => tensor([x], { device });
    const params = { a: one(0), deep: { b: one(0) } };
    const optimizer = new AdamW(params, { lr: 1 });
    const total = { a: one(3), deep: { b: one(4) } };
    const wrong: readonly (readonly [Tree, string])[] = [
      [{ a: one(1), deep: { c: one(1) } }, 'missing "deep.b", unknown "deep.c"'],
      [{ a: one(1) }, 'missing "deep.b"'],
      [{ a: one(1), deep: { b: undefined } }, 'missing "deep.b"'],
      [{ a: one(1), deep: { b: one(1) }, more: [one(1)] }, 'unknown "more.0"'],
      [{ a: one(1), deep: { b: one(1), constructor: one(1) } }, 'unknown "deep.constructor"'],
      [{ a: one(1), "deep.b": one(1) }, "nested differently"],
      [{ a: one(1), deep: { b: sum(one(1)) } }, 'the gradient of "deep.b" has shape [], expected [1]'],
    ];
    for (const [grads, message] of wrong) {
      expect(() => optimizer.step(grads as typeof params), message).toThrow(message);
      expect(() => accumulateGrads<Tree>(total, grads), message).toThrow(message);
    }
    expect(optimizer.state.step).toBe(0);
    expect(await readAll(treeLeaves([params, total]))).toEqual([[0], [0], [3], [4]]);
  });

  it("the norm is over the whole tree; steps leave no memory behind", async () => {
    const grads = make([Array<number>(15).fill(2), Array<number>(7).fill(-2)]);
    expect(await globalNorm({ a: grads[0]!, b: [grads[1]!] }).item()).toBeCloseTo(2 * Math.sqrt(22), 5);
    const params = make([Array<number>(15).fill(1), Array<number>(7).fill(1)]);
    const live = (): number => device.backend.stats().liveBytes;
    const element = device.float === "f64" ? 8 : 4;
    const packed = 2 * 64 * element; // two parameters, each at a multiple of 64 elements
    const before = live() - 22 * element;
    const optimizer = new AdamW(params);
    expect(live()).toBe(before + 3 * packed);
    for (let i = 0; i < 3; i++) optimizer.step(grads).dispose();
    expect(live()).toBe(before + 3 * packed);
    optimizer.dispose();
    expect(live()).toBe(before + packed); // the parameters live on where they are
    expect(treeLeaves(params).some((x) => x.disposed)).toBe(false);
    for (const x of params) x.dispose();
    expect(live()).toBe(before);
  });

  it("two optimisers of the same parameters take turns; a handle of old sees what either did", async () => {
    const params = make([Array<number>(15).fill(1), Array<number>(7).fill(1)]);
    const old = reshape(params[0]!, [15]);
    const grads = make([Array<number>(15).fill(2), Array<number>(7).fill(-2)]);
    const options = { lr: 0.1, weightDecay: 0 };
    const [a, b] = [new AdamW(params, options), new AdamW(params, options)];
    for (const optimizer of [a, b, a, a]) optimizer.step(grads).dispose();
    // With constant gradients every step of either is lr, whatever its count.
    const values = await readAll([...params, old]);
    for (const x of [...values[0]!, ...values[2]!]) expect(x).toBeCloseTo(0.6, 5);
    for (const x of values[1]!) expect(x).toBeCloseTo(1.4, 5);
    for (const optimizer of [a, b]) optimizer.dispose();
  });

  it("a parameter that is given twice is refused", () => {
    const [p] = make([Array<number>(15).fill(1)]);
    expect(() => new AdamW([p!, reshape(p!, [15])])).toThrow("share their memory");
  });

  it("a step is noticed by a backward pass that needs the old values", () => {
    const [p] = make([Array<number>(15).fill(1)]);
    const optimizer = new AdamW([p!]);
    const loss = ([x]: Tensor[]): Tensor => {
      const y = sum(mul(x!, x!));
      optimizer.step(make([Array<number>(15).fill(1)]));
      return y;
    };
    expect(() => grad(loss)([p!])).toThrow("overwritten between the forward and the backward pass");
  });

  it("bad input is named, and nothing is changed", async () => {
    const params = make([Array<number>(15).fill(1), Array<number>(7).fill(1)]);
    const build = (options: AdamWOptions) => (): unknown => new AdamW(params, options);
    expect(build({ lr: -1 })).toThrow("AdamW: lr must be ≥ 0, got -1");
    expect(build({ betas: [0.9, 1] })).toThrow("AdamW: betas must be in [0, 1), got 0.9, 1");
    expect(build({ eps: 0 })).toThrow("AdamW: eps must be > 0");
    expect(build({ weightDecay: -1 })).toThrow("weightDecay must be ≥ 0");
    expect(build({ clipNorm: 0 })).toThrow("clipNorm must be > 0");
    expect(build({ weight_decay: 1 } as AdamWOptions)).toThrow("did you mean 'weightDecay'?");
    const optimizer = new AdamW(params);
    const grads = make([Array<number>(15).fill(1), Array<number>(7).fill(1)]);
    expect(() => optimizer.step(grads.slice(1))).toThrow('AdamW: gradients and parameters: missing "1"');
    expect(() => optimizer.step([grads[0]!, grads[0]!])).toThrow('the gradient of "1" has shape [3, 5], expected [7]');
    expect(() => optimizer.step(grads, NaN)).toThrow("AdamW: lr must be ≥ 0, got NaN");
    expect(() => optimizer.resume(-1)).toThrow("step must be an integer ≥ 0, got -1");
    expect((await readAll(params)).flat().every((x) => x === 1)).toBe(true);
    expect(optimizer.state.step).toBe(0);
  });
});

describe("schedule", () => {
  const values = (options: ScheduleOptions, steps: number[]): number[] =>
    steps.map((s) => +schedule(options)(s).toFixed(12));

  it("warms up, then stays, falls linearly, or as a cosine", () => {
    expect(values({ lr: 1 }, [0, 9])).toEqual([1, 1]);
    expect(values({ lr: 1, warmup: 4 }, [0, 1, 3, 4, 99])).toEqual([0.25, 0.5, 1, 1, 1]);
    expect(values({ lr: 2, decay: "linear", steps: 10 }, [0, 5, 10, 11])).toEqual([2, 1, 0, 0]);
    expect(values({ lr: 2, decay: "cosine", steps: 12, warmup: 2, minRatio: 0.1 }, [1, 2, 7, 12, 50])).toEqual([
      2, 2, 1.1, 0.2, 0.2,
    ]);
  });

  it("names what is missing or unknown", () => {
    expect(() => schedule({ lr: 1, decay: "cosine" })).toThrow("cosine decay needs steps > warmup (0), got undefined");
    expect(() => schedule({ lr: 1, decay: "linear", steps: 3, warmup: 3 })).toThrow("needs steps > warmup (3), got 3");
    expect(() => schedule({ lr: 1, decay: "cubic" as "linear", steps: 3 })).toThrow('unknown decay "cubic"');
    expect(() => schedule({ lr: -1 })).toThrow("schedule: lr must be a number ≥ 0, got -1");
    expect(() => schedule({ lr: Infinity })).toThrow("schedule: lr must be a number ≥ 0, got Infinity");
    expect(() => schedule({ lr: "1e-3" as never })).toThrow('schedule: lr must be a number ≥ 0, got "1e-3"');
    expect(() => schedule({ lr: 1, warmUp: 3 } as ScheduleOptions)).toThrow("did you mean 'warmup'?");
  });

  // A share of the steps, as Transformers 5 reads `warmup_steps` below 1 (huggingface/transformers#41326), would make
  // the first rate lr/0.1.
  it.each([0.1, 3.5, -3, NaN, Infinity])("refuses a warm-up of %d steps", (warmup) => {
    expect(() => schedule({ lr: 1, warmup })).toThrow(
      `schedule: warmup must be a number of steps, an integer ≥ 0, got ${warmup}`,
    );
  });

  it.each([-1, 1.5, NaN])("refuses minRatio %d", (minRatio) => {
    expect(() => schedule({ lr: 1, decay: "cosine", steps: 9, minRatio })).toThrow(
      `schedule: minRatio must be in [0, 1], got ${minRatio}`,
    );
  });
});
