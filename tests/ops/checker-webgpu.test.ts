/**
 * The test of the test for WGSL: bugs are planted into the text of kernels, one at a time, as a slip of the hand would
 * make them, and the checks of ops-webgpu.test.ts have to notice each.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import type { WgslKernel } from "../../kernels/kernel.ts";
import { gpuOptions } from "../support/gpu.ts";
import { GuardedDevice } from "../support/guarded.ts";
import { type AnyOp, allOps, difference, evaluate, samplesOf } from "../support/opChecks.ts";

// Compilers of software adapters take up to 0.3 s for a kernel that they have not seen, and these nobody has seen.
vi.setConfig({ testTimeout: 300_000 });

let f64: Device;
let webgpu: Device;
beforeAll(async () => {
  f64 = await device("reference");
  webgpu = await device("webgpu", { webgpu: gpuOptions });
});
afterAll(() => [f64, webgpu].forEach((d) => d.dispose()));

/** A slip: what it looks like in the text of `main`, and what it makes of it. The last place is taken. */
const SLIPS: Record<string, [pattern: RegExp, replacement: string]> = {
  "minus for plus": [/ \+ /g, " - "],
  "subtracted, not added up": [/(?<!; \w+) \+= (?!\d+u?\))/g, " -= "],
  "times forgotten": [/ \* /g, " + "],
  "min for max": [/max\(/g, "min("],
  "stored one element later": [/\] = /g, " + 1] = "],
  "no bounds check": [/if \([^)]*>= [^)]*\) \{ return; \}/g, ""],
  "bounds check one too late": [/(?<=if \([^)]*) >= (?=[^)]*\) \{ return; \})/g, " > "],
};

/** Slips that change nothing. */
const HARMLESS: Record<string, readonly string[]> = {
  // `store` checks rows and columns again: the check in `main` only ends idle threads early.
  matmul: ["no bounds check", "bounds check one too late"],
  packedMatmul: ["no bounds check", "bounds check one too late"],
  // Behind the end of the ids lie the guards, which are outside every table.
  writeRows: ["no bounds check", "bounds check one too late"],
  // Which logit `top` is does not matter: it only keeps the exponentials in range.
  sample: ["minus for plus"],
  // `begin + first`, where `first` is 0 because one thread has the whole row.
  softmax: ["minus for plus"],
  softmaxBackward: ["minus for plus"],
  // Workgroups are as many as there are groups of columns; which columns they have is checked where they are stored.
  normBackward: ["no bounds check", "bounds check one too late"],
};

function plant(code: string, slip: string): string | undefined {
  const [pattern, replacement] = SLIPS[slip]!;
  const place = [...code.matchAll(pattern)].findLast(({ index }) => index > code.indexOf("@compute"));
  return place && code.slice(0, place.index) + replacement + code.slice(place.index + place[0].length);
}

/** A device on which the last kernel of every program has the slip, if it has a place for it. */
function withSlip(slip: string): { device: Device; planted: () => number } {
  let planted = 0;
  const spoil = (kernel: WgslKernel): WgslKernel => {
    const code = plant(kernel.code(), slip);
    if (code === undefined) return kernel;
    planted++;
    return { ...kernel, key: `${kernel.key}, ${slip}`, code: () => code };
  };
  const spoilt = new GuardedDevice(webgpu, { schedule: "software" }, ({ temps, steps }) => ({
    temps,
    steps: steps.map((step, i) => (i === steps.length - 1 ? { ...step, kernel: spoil(step.kernel) } : step)),
  })); // `software`, whatever the adapter: its texts are meant
  return { device: spoilt, planted: () => planted };
}

/** Whether one sample at least gives a wrong number, or writes where it must not. */
async function isNoticed(op: AnyOp, spoilt: Device): Promise<boolean> {
  for (const sample of samplesOf(op)) {
    const right = await evaluate(f64, op, sample);
    try {
      const got = await evaluate(spoilt, op, sample);
      if (right.some((y, k) => !(difference(got[k]!, y) < (op.tolerance ?? 1e-5)))) return true;
    } catch (error) {
      if (!(error instanceof Error) || !/behind the end|was changed/.test(error.message)) throw error;
      return true;
    }
  }
  return false;
}

// One op or two for each family of kernels.
const NAMES = `
  add sigmoid geluErf where dropout sum max argmax maskedSum cumsum inPlace
  permute broadcastTo concat pad assign fill random cast matmul
  gather scatterAdd takeAlong scatterAlong writeRows rotary
  packedMatmul packedRows
  sample cacheAttention softmax softmaxBackward norm normBackward attention attentionBackward logProbs logProbsBackward`
  .trim()
  .split(/\s+/);
let slips = 0;
let noticed = 0;

describe("a slip in the text of a kernel is noticed", () => {
  test.each(NAMES)("%s", async (name) => {
    const op = allOps().find((o) => o.name === name)!;
    const missed: string[] = [];
    for (const slip of Object.keys(SLIPS)) {
      if (HARMLESS[name]?.includes(slip)) continue;
      const { device: spoilt, planted } = withSlip(slip);
      const isFound = await isNoticed(op, spoilt);
      if (planted() === 0) continue;
      slips++;
      if (isFound) noticed++;
      else missed.push(slip);
    }
    expect(missed).toEqual([]);
  });
  test("and there were enough of them", () => {
    console.info(`planted ${slips} slips in ${NAMES.length} ops, ${noticed} were noticed`);
    expect(slips).toBeGreaterThan(100);
    expect(noticed).toBe(slips);
  });
});
