/** Some hundred steps of the soak; `npm run soak` runs ten thousand. And the measure sees what grows. */
import { expect, test } from "vitest";
import { growth, type Sample, slopeOf, soak } from "../../scripts/soak/soak.ts";
import { device } from "../../engine/device.ts";
import { gpuEnabled, gpuOptions } from "../support/gpu.ts";

const STEPS = { wasm: 1000, ...(gpuEnabled ? { webgpu: 150 } : {}) };

test.each(Object.entries(STEPS))("on %s a run of %i steps holds no more at its end", async (name, steps) => {
  const on = await device(name as keyof typeof STEPS, { webgpu: gpuOptions });
  const result = await soak(on, steps);
  expect(result.samples.length).toBeGreaterThan(40);
  expect(growth(result)).toEqual([]);
  on.dispose();
});

test("what grows is named, and what falls back is not", () => {
  const samples = Array.from({ length: 50 }, (_, i): Sample => {
    const held = { liveBytes: 100, reservedBytes: 1000 + Math.min(i, 10) };
    const givenBack = i > 16 && i < 25 ? 4e7 : 0;
    return { step: i, rss: 3e8 - givenBack, heap: 2e7, buffers: 1e5, handles: 20, held };
  });
  expect(growth({ samples, seconds: 1 })).toEqual([]);
  const leaking = samples.map((sample, i) => ({ ...sample, heap: 2e7 + 1e5 * i }));
  expect(growth({ samples: leaking, seconds: 1 })).toEqual(["heap: 22.6 MB, then 23.8 MB"]);
  const pages = samples.map((sample, i) => ({ ...sample, rss: 2e8 + 1.5e6 * i }));
  expect(growth({ samples: pages, seconds: 1 })).toEqual(["rss: 239.0 MB, then 257.0 MB"]);
  const unclosed = samples.map((sample, i) => ({ ...sample, handles: i < 33 ? 20 : 21 }));
  expect(growth({ samples: unclosed, seconds: 1 })).toEqual(["handles: 20, then 21"]);
  const growing = samples.map((sample, i) => ({ ...sample, held: { ...sample.held, liveBytes: 100 + i } }));
  expect(growth({ samples: growing, seconds: 1 })).toEqual(["liveBytes at step 32: 132, at step 49: 149"]);
});

test("the slope is that of the line, and its error that of what lies beside it", () => {
  const held = { liveBytes: 0, reservedBytes: 0 };
  const samples = Array.from({ length: 40 }, (_, i): Sample => {
    const heap = 1e6 + 200 * i + (i % 2 === 0 ? 50 : -50);
    return { step: 100 * i, rss: 7, heap, buffers: 0, handles: 0, held };
  });
  const { perThousand, standardError } = slopeOf({ samples }, ({ heap }) => heap);
  // 28 samples are warm: the spread of their steps, in thousands, is 28 (28² − 1) / 12 / 100.
  expect(standardError).toBeCloseTo(Math.sqrt((50 ** 2 * 28) / 26 / ((28 * (28 ** 2 - 1)) / 1200)), 0);
  expect(Math.abs(perThousand - 2000)).toBeLessThan(2 * standardError);
  expect(slopeOf({ samples }, ({ rss }) => rss)).toEqual({ perThousand: 0, standardError: 0 });
});
