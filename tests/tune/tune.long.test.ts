/**
 * Tuning on the adapter of the tests: the choice is right, holds for another device that is given it, and is no slower
 * than the tables' on shapes that were not measured. Times are the shortest of many turns, as the machine may be busy.
 */
import { expect, it } from "vitest";
import { type Device, device, matmul, scope, tensor } from "../../engine/index.ts";
import { noise } from "../../bench/data.ts";
import { type ScheduleStore, tunedDevice } from "../../tune/index.ts";
import { gpuOptions, openAdapter } from "../support/gpu.ts";

const texts = new Map<string, string>();
const store: ScheduleStore = {
  getItem: (key) => texts.get(key) ?? null,
  setItem: (key, text) => void texts.set(key, text),
};

/** Not measured by tuning: rows, columns, terms of each class. */
const SHAPES = [
  [1, 384, 384],
  [3, 384, 192],
  [12, 192, 192],
  [40, 160, 192],
  [96, 192, 192],
] as const;

it("is right, kept, and no slower than the tables", { timeout: 600_000 }, async () => {
  const tuned = await tunedDevice({ store, webgpu: gpuOptions });
  const { schedules } = tuned;
  expect(Object.keys(schedules!).toSorted()).toEqual(["attention", "matmul"]);
  expect([...texts.values()]).toEqual([JSON.stringify(schedules)]);
  const given = await device("webgpu", { webgpu: { ...gpuOptions, schedules: schedules! } });
  const kept = await tunedDevice({ store, webgpu: gpuOptions });
  const table = await device("webgpu", { webgpu: gpuOptions });
  expect([given.schedules, kept.schedules, table.schedules]).toEqual([schedules, schedules, undefined]);

  for (const [m, n, k] of SHAPES) {
    const product = async (on: Device, times: number): Promise<Float32Array> => {
      const c = scope(() => {
        const a = tensor(noise(1, m * k), { device: on, shape: [m, k] });
        const b = tensor(noise(2, n * k), { device: on, shape: [n, k] });
        return Array.from({ length: times }, () => matmul(a, b, { transB: true })).at(-1)!;
      });
      const values = await c.read();
      c.dispose();
      return values as Float32Array;
    };
    const [first, second, third, right] = [
      await product(tuned, 1),
      await product(given, 1),
      await product(kept, 1),
      await product(table, 1),
    ];
    expect([second, third]).toEqual([first, first]);
    right.forEach((value, i) => expect(Math.abs(first[i]! - value)).toBeLessThan(1e-4));
    const best = new Map<Device, number>();
    const ratio = (): number => best.get(tuned)! / best.get(table)!;
    for (let round = 0; round < 12 || (round < 60 && ratio() >= 1.35); round++) {
      for (const on of round % 2 === 0 ? [table, tuned] : [tuned, table]) {
        const start = performance.now();
        await product(on, 10);
        best.set(on, Math.min(best.get(on) ?? Infinity, performance.now() - start));
      }
    }
    expect(ratio(), `${m}×${k}·${k}×${n}`).toBeLessThan(1.35);
  }
  for (const on of [tuned, given, kept, table]) on.dispose();
});

it("is refused with an adapter of one's own, which can be opened once", async () => {
  const adapter = await openAdapter();
  await expect(tunedDevice({ webgpu: { adapter } })).rejects.toThrow(
    "tunedDevice: it opens the adapter several times, so it cannot have webgpu.adapter",
  );
});
