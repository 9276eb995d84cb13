/**
 * A soak: the main job with a tiny model for thousands of steps of RL, in a real run folder, with everything that
 * remembers earlier steps (replay, curriculum, an adaptive KL coefficient, a running baseline), checkpoints,
 * evaluations and transcripts. What it holds is measured as it goes and must not grow.
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

/** What a run holds after so many steps, in bytes. */
export interface Sample {
  readonly step: number;
  /** Of the process, the device's memory on a software adapter included. */
  readonly rss: number;
  /** Objects of JavaScript, after a garbage collection. */
  readonly heap: number;
  /** Array buffers, after a garbage collection; the memory of the WebAssembly executor is none of them. */
  readonly buffers: number;
  /** Open file descriptors; 0 where the system has no list of them (Linux has). */
  readonly handles: number;
  /** What the engine counts, in bytes and pieces. */
  readonly held: Readonly<Record<string, number>>;
}

export interface Soak {
  readonly samples: readonly Sample[];
  readonly seconds: number;
}

const SAMPLES = 50;
/** Flags of `npm start`: what remembers. Everything that happens now and then happens hundreds of times. */
const FLAGS = [
  ["--method", "rae+paw", "--kl", "0.1", "--kl-target", "0.01", "--curriculum", "failed+learnability"],
  ["--replay", "1", "--set", "replay.maxUses=2", "--importance-correction", "tis"],
].flat();

/** Makes V8 collect what nobody holds any more. */
function collector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

const HANDLES = "/proc/self/fd";
/** The descriptor with which the list is read is one of them, always. */
const openHandles = (): number => (existsSync(HANDLES) ? readdirSync(HANDLES).length : 0);

/** Trains for so many steps. @param on is told each sample */
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
 * Bytes, or open files, by which a measure may grow between the first and the last third of the warm samples: what a
 * collector leaves, and pages.
 */
const ALLOWED = { rss: 16e6, heap: 1e6, buffers: 1e6, handles: 0 } as const;
/**
 * Factor by which the engine's caches may grow: now and then the policy writes a text of a length that it has not
 * written before, which has its own buffers and kernels. What is live may not grow at all. In
 * 10,000 steps on WebGPU the bind groups, whose cache has a largest size, grew by 2.1 % in the last third.
 */
const CACHES = 1.05;
/** Samples before this part of the run are of caches that fill and code that is compiled. */
const WARM = 0.3;

/** The measures of which a slope is told, in bytes or pieces. */
export const MEASURES: Readonly<Record<string, (sample: Sample) => number>> = {
  rss: ({ rss }) => rss,
  heap: ({ heap }) => heap,
  "array buffers": ({ buffers }) => buffers,
  "engine's live": ({ held }) => held["liveBytes"]!,
  "engine's reserved": ({ held }) => held["reservedBytes"]!,
  "open files": ({ handles }) => handles,
};

export interface Slope {
  /** By how much it grows in a thousand steps: the slope of the line of least squares. */
  readonly perThousand: number;
  /** Of the slope, if the samples were independent of each other; they are not quite. */
  readonly standardError: number;
}

/** The slope of a measure over the steps after the run was warm. */
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

/** What has grown after the run was warm, each as a sentence; nothing: its memory is constant. */
export function growth({ samples }: Soak): string[] {
  const warm = samples.filter((_, i) => i >= WARM * samples.length);
  const middle = Math.ceil(warm.length / 2);
  const [early, late] = [warm.slice(0, middle), warm.slice(middle)];
  const [first, last] = [early.at(-1)!, late.at(-1)!];
  const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  const third = Math.ceil(warm.length / 3);
  const measured = (Object.keys(ALLOWED) as (keyof typeof ALLOWED)[]).flatMap((measure) => {
    const of = (part: readonly Sample[]): number[] => part.map((sample) => sample[measure]);
    // The most that it once had against the least that it comes back to: V8 and the adapter give 30 to 40 MB back to
    // the system at one time or another and take them again, which two averages or two minima would call growth.
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
