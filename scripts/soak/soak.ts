/**
 * Soak test: the main job with a tiny model for thousands of steps of RL, in a real run folder, with everything that
 * remembers earlier steps (replay, curriculum, an adaptive KL coefficient, a running baseline), checkpoints,
 * evaluations and transcripts. The memory that it holds is measured as it runs and must not grow.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Device } from "../../engine/device.ts";
import { Run } from "../../run/run.ts";
import { createRun } from "../../run/node/runFolder.ts";
import { heldBy } from "../../tests/support/held.ts";
import { QUIET, tinyPreset } from "../../tests/support/tinyRun.ts";

/** Memory of a run after some steps, in bytes. */
export interface Sample {
  readonly step: number;
  /** Resident memory of the process, with the device memory of a software adapter. */
  readonly rss: number;
  /** Objects of JavaScript, after a garbage collection. */
  readonly heap: number;
  /** Array buffers, after a garbage collection, without the memory of the WebAssembly executor. */
  readonly buffers: number;
  /** Open file descriptors; 0 where the system has no list of them (Linux has). */
  readonly handles: number;
  /** The engine's counts, in bytes and pieces. */
  readonly held: Readonly<Record<string, number>>;
}

export interface Soak {
  readonly samples: readonly Sample[];
  readonly seconds: number;
}

const SAMPLES = 50;
/** Flags of `npm start` for everything that remembers. Rare events happen hundreds of times. */
const FLAGS = [
  ["--method", "rae+paw", "--kl", "0.1", "--kl-target", "0.01", "--curriculum", "failed+learnability"],
  ["--replay", "1", "--set", "replay.maxUses=2", "--importance-correction", "tis"],
].flat();

/** Starts a garbage collection of V8. */
function collector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

const HANDLES = "/proc/self/fd";
/** Number of open descriptors, always including the one that reads the list. */
const openHandles = (): number => (existsSync(HANDLES) ? readdirSync(HANDLES).length : 0);

/** Trains for this many steps. @param on called with each sample */
export async function soak(
  device: Device,
  steps: number,
  on: (sample: Sample) => void = () => undefined,
): Promise<Soak> {
  const base = mkdtempSync(join(tmpdir(), "worldgrad-soak-"));
  const collect = collector();
  const samples: Sample[] = [];
  const started = performance.now();
  const every = Math.max(1, Math.floor(steps / SAMPLES));
  let isRl = false;
  const observer = {
    ...QUIET,
    phase: (_name: string, total: number): void => void (isRl = total === steps),
    update: (step: number): void => {
      if (!isRl || step % every !== 0) return;
      collect();
      const { rss, heapUsed: heap, arrayBuffers: buffers } = process.memoryUsage();
      const sample = { step, rss, heap, buffers, handles: openHandles(), held: heldBy(device) };
      samples.push(sample);
      on(sample);
    },
  };
  const preset = {
    ...tinyPreset(...FLAGS, "--steps", String(steps)),
    checkpointEvery: Math.ceil(every / 2),
    evaluation: { every, episodes: 2, finalEpisodes: 2 },
  };
  try {
    const run = new Run(
      createRun(join(base, "run"), { preset }),
      preset,
      device,
      observer,
      new AbortController().signal,
    );
    await run.run(false);
    run.dispose();
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
  return { samples, seconds: (performance.now() - started) / 1000 };
}

/**
 * Allowed growth between the first and the last third of the warm samples, in bytes or open files: what a collector
 * leaves, and pages.
 */
const ALLOWED = { rss: 16e6, heap: 1e6, buffers: 1e6, handles: 0 } as const;
/**
 * Allowed growth of the caches of the engine, as a factor: now and then the policy writes a text of a new length, which
 * has its own buffers and kernels. Live memory may not grow at all. In 10,000 steps on WebGPU the bind groups, whose
 * cache has a largest size, grew by 2.1 % in the last third.
 */
const CACHES = 1.05;
/** Share of the run before the warm samples, while caches fill and code is compiled. */
const WARM = 0.3;

/** Measures with a printed slope, in bytes or pieces. */
export const MEASURES: Readonly<Record<string, (sample: Sample) => number>> = {
  rss: ({ rss }) => rss,
  heap: ({ heap }) => heap,
  "array buffers": ({ buffers }) => buffers,
  "engine's live": ({ held }) => held["liveBytes"]!,
  "engine's reserved": ({ held }) => held["reservedBytes"]!,
  "open files": ({ handles }) => handles,
};

export interface Slope {
  /** Growth in a thousand steps: the slope of the line of least squares. */
  readonly perThousand: number;
  /** Standard error of the slope if the samples were independent, which they nearly are. */
  readonly standardError: number;
}

/** Slope of a measure over the warm samples. */
export function slopeOf({ samples }: Pick<Soak, "samples">, measure: (sample: Sample) => number): Slope {
  const warm = samples.filter((_, i) => i >= WARM * samples.length);
  const mean = (of: readonly number[]): number => of.reduce((sum, x) => sum + x, 0) / of.length;
  const [xs, ys] = [warm.map(({ step }) => step / 1000), warm.map(measure)];
  const [x0, y0] = [mean(xs), mean(ys)];
  const spread = xs.reduce((sum, x) => sum + (x - x0) ** 2, 0);
  const slope = xs.reduce((sum, x, i) => sum + (x - x0) * (ys[i]! - y0), 0) / spread;
  const rest = xs.reduce((sum, x, i) => sum + (ys[i]! - y0 - slope * (x - x0)) ** 2, 0);
  return { perThousand: slope, standardError: Math.sqrt(rest / Math.max(1, xs.length - 2) / spread) };
}

/** Measures that have grown over the warm samples, each as a sentence; empty if memory is constant. */
export function growth({ samples }: Soak): string[] {
  const warm = samples.filter((_, i) => i >= WARM * samples.length);
  const middle = Math.ceil(warm.length / 2);
  const [early, late] = [warm.slice(0, middle), warm.slice(middle)];
  const [first, last] = [early.at(-1)!, late.at(-1)!];
  const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  const third = Math.ceil(warm.length / 3);
  const measured = (Object.keys(ALLOWED) as (keyof typeof ALLOWED)[]).flatMap((measure) => {
    const of = (part: readonly Sample[]): number[] => part.map((sample) => sample[measure]);
    // The largest value before against the smallest after: V8 and the adapter return 30 to 40 MB to the system now and
    // then and take them again, which two averages or two minima would call growth.
    const [before, after] = [Math.max(...of(warm.slice(0, third))), Math.min(...of(warm.slice(-third)))];
    const say = (n: number): string => (measure === "handles" ? `${n}` : megabytes(n));
    return after - before > ALLOWED[measure] ? [`${measure}: ${say(before)}, then ${say(after)}`] : [];
  });
  const counted = Object.keys(last.held).flatMap((name) => {
    const most = (part: readonly Sample[]): number => Math.max(...part.map(({ held }) => held[name]!));
    const [before, after] = [most(early), most(late)];
    const allowed = name.startsWith("live") ? before : before * CACHES;
    return after > allowed ? [`${name} at step ${first.step}: ${before}, at step ${last.step}: ${after}`] : [];
  });
  return [...measured, ...counted];
}
