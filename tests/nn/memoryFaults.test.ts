/** What is left when memory runs out, at every point where it can: nothing, and nothing half-done. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { full } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { KvCache } from "../../nn/cache.ts";
import { modelConfig } from "../../nn/config.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { initParams } from "../../nn/parameters.ts";
import { failingMemory } from "../support/failingMemory.ts";
import { reference, wasm } from "../support/rlExecutors.ts";

describe.each([reference, wasm])("on $name", ({ open }) => {
  let device: Device;
  let failAt: (n: number) => number;
  beforeAll(async () => {
    device = await open();
    failAt = failingMemory(device);
  });
  afterAll(() => device.dispose());

  const live = (): number => device.backend.stats().liveBytes;
  const shapes = [[3, 5], [7], [2, 2], [130]];
  const make = (value: number): Tensor[] => shapes.map((shape) => full(shape, value, { device }));
  const values = (xs: readonly Tensor[]): number[][] => xs.map((x) => [...x.readSync()]);

  /** Runs `body` with its 1st, 2nd, … allocation failing, and `after` each; how often, until it needs no more. */
  function everywhere<S>(before: () => S, body: (state: S) => void, after: (state: S) => void): number {
    for (let n = 1; ; n++) {
      const state = before();
      failAt(n);
      let error: unknown;
      try {
        body(state);
      } catch (caught) {
        error = caught;
      }
      failAt(0);
      after(state);
      if (error === undefined) return n - 1;
      expect((error as Error).message).toContain(`allocation ${n} fails`);
    }
  }

  it("a new AdamW that fails leaves nothing, and the parameters as they were", () => {
    const base = live();
    const failures = everywhere(
      () => make(3),
      (ps) => new AdamW(ps).dispose(),
      (ps) => {
        expect(values(ps).flat()).toEqual(Array<number>(15 + 7 + 4 + 130).fill(3));
        for (const p of ps) p.dispose();
        expect(live()).toBe(base);
      },
    );
    expect(failures).toBe(6); // two groups, each with two moments and its parameters
  });

  it("a step that fails has changed nothing and is not counted", () => {
    const base = live();
    const [ps, gs, expected] = [make(1), make(0.5), make(1)];
    const options = { lr: 0.1, clipNorm: 1 };
    const [optimizer, control] = [new AdamW(ps, options), new AdamW(expected, options)];
    const all = (): number[][] => values([...ps, ...treeLeaves(optimizer.state.m), ...treeLeaves(optimizer.state.v)]);
    for (let step = 0; step < 2; step++) {
      const start = [live(), optimizer.state.step, all()];
      const failures = everywhere(
        () => undefined,
        () => optimizer.step(gs).dispose(),
        () => {
          if (optimizer.state.step === step) expect([live(), optimizer.state.step, all()]).toEqual(start);
        },
      );
      expect(failures).toBeGreaterThan(3);
      expect([live(), optimizer.state.step]).toEqual([start[0], step + 1]);
      control.step(gs).dispose();
      expect(values(ps)).toEqual(values(expected));
    }
    for (const x of [...ps, ...gs, ...expected]) x.dispose();
    for (const x of [optimizer, control]) x.dispose();
    expect(live()).toBe(base);
  });

  it("a cache and a new model that fail leave nothing", () => {
    const config = modelConfig({ vocabSize: 7, hiddenSize: 8, layers: 2, heads: 2, maxPositions: 8 });
    const base = live();
    const check = (): void => expect(live()).toBe(base);
    const dispose = (tree: Parameters<typeof treeLeaves>[0]): void => treeLeaves(tree).forEach((x) => x.dispose());
    expect(everywhere(check, () => new KvCache(config, 2, 8, device).dispose(), check)).toBe(4);
    expect(everywhere(check, () => dispose(initParams(config, new Rng(1), device)), check)).toBeGreaterThan(15);
  });
});

describe("a model of more than one block (wasm)", () => {
  // 64 MiB is a block: the matrix is one by itself, without a copy of it or of its gradient.
  const SIZE = 17 * 2 ** 20;
  const build = (device: Device, value: number): Tensor[] =>
    [[SIZE / 64, 64], [3, 5], [7]].map((shape) => full(shape, value, { device }));
  const first = (xs: readonly Tensor[]): number[] => xs.map((x) => scope(() => x.readSync())[0]!);

  it(
    "is updated as one; a step that ends between two blocks says what it has changed",
    { timeout: 60_000 },
    async () => {
      const device = await wasm.open();
      const failAt = failingMemory(device);
      const [ps, gs] = [build(device, 1), build(device, 0.5)];
      const live = device.backend.stats().liveBytes;
      const optimizer = new AdamW(ps, { lr: 0.1, weightDecay: 0.5 });
      const { liveBytes, peakBytes } = device.backend.stats();
      expect(liveBytes - live).toBeLessThan(2 * 4 * SIZE + 8192); // moments; the matrix stays where it is
      expect(peakBytes - liveBytes).toBeLessThan(8192);
      // With a constant gradient the first steps are lr each, and matrices decay.
      const norm = optimizer.step(gs);
      expect(norm.readSync()[0]! / (0.5 * Math.sqrt(SIZE + 22))).toBeCloseTo(1, 4);
      norm.dispose();
      for (const [i, expected] of [0.85, 0.85, 0.9].entries()) expect(first(ps)[i]).toBeCloseTo(expected, 4);
      const needed = (failAt(0), optimizer.step(gs).dispose(), failAt(0));
      const before = first(ps);
      failAt(needed); // the last allocation: the third block
      expect(() => optimizer.step(gs)).toThrow(
        'AdamW: step 3 ended half-way: 2 parameters have changed ("0" … "1"), 1 have not ("2" … "2"): ' +
          `allocation ${needed} fails`,
      );
      failAt(0);
      expect(optimizer.state.step).toBe(2);
      const after = first(ps);
      expect(after[0]).toBeLessThan(before[0]!);
      expect(after[2]).toBe(before[2]);
      expect(device.backend.stats().peakBytes - device.backend.stats().liveBytes).toBeLessThan(65536);
      device.dispose();
    },
  );
});
