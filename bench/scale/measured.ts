/** What bench/scale.ts --measure finds, as its file has it: bench/scale/measured.json. */
import { readFileSync } from "node:fs";
import { check } from "../../engine/errors.ts";
import type { Machine } from "../machine.ts";

/** A run with so many processes that play. */
export interface MeasuredRun {
  readonly workers: number;
  /** Tokens of episodes that were learnt from, per second of the clock. */
  readonly tokensPerSecond: number;
  readonly secondsPerStep: number;
  /** Shares of the time: the learner does not wait; a place in a worker is taken. */
  readonly learner: number;
  readonly places: number;
  readonly staleness: number;
  /**
   * Seconds of the processor per second of the clock: the learner's process, all that play together, and everything
   * else on the machine, the server included. All together cannot be more than the machine has.
   */
  readonly processors: { readonly learner: number; readonly workers: number; readonly others: number };
  /** Seconds for which each episode had its place. */
  readonly seconds: readonly number[];
  /** Tokens and bytes of each episode. */
  readonly episodes: readonly (readonly [tokens: number, bytes: number])[];
  /** Seconds and tokens of each step of learning. */
  readonly steps: readonly (readonly [seconds: number, tokens: number])[];
}

/** The job with environments that answer at once, or late. */
export interface Setting {
  readonly name: string;
  /** Seconds that each answer takes. */
  readonly wait: number;
  readonly plan: { readonly groups: number; readonly groupSize: number; readonly places: number };
  readonly staleness: number;
  readonly runs: readonly MeasuredRun[];
}

/** A transfer of an object: seconds to store it, and to read and check it. */
export interface Transfer {
  readonly bytes: number;
  readonly publish: readonly number[];
  readonly fetch: readonly number[];
}

export interface Measured {
  readonly time: string;
  readonly commit: string;
  readonly machine: Machine;
  /** Processes that wanted a processor before it began, per processor. */
  readonly load: number;
  readonly server: string;
  readonly model: { readonly parameters: number; readonly bytes: number };
  readonly transfers: readonly Transfer[];
  /** The straight line through the fetches: bytes per second, and seconds beside them. */
  readonly link: { readonly bytesPerSecond: number; readonly latency: number };
  readonly settings: readonly Setting[];
}

/** @throws if there is no such file, or it is none of a measurement */
export function readMeasured(file: string): Measured {
  const measured = JSON.parse(readFileSync(file, "utf8")) as Measured;
  const isWhole = measured.settings?.every(({ runs }) => runs.some(({ workers }) => workers === 1)) ?? false;
  check(isWhole, () => `${file}: expected a measurement with one worker among its runs`);
  return measured;
}

/** The straight line of seconds over bytes that fits best, as a rate and a constant; neither is negative. */
export function lineThrough(transfers: readonly Transfer[]): Measured["link"] {
  const points = transfers.flatMap(({ bytes, fetch }) => fetch.map((seconds) => [bytes, seconds] as const));
  const mean = (at: 0 | 1): number => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, [bytes]) => sum + (bytes - x) ** 2, 0);
  const slope = points.reduce((sum, [bytes, seconds]) => sum + (bytes - x) * (seconds - y), 0) / spread;
  check(slope > 0, () => `transfers: expected larger objects to take longer, got ${slope} s per byte`);
  return { bytesPerSecond: 1 / slope, latency: Math.max(0, y - slope * x) };
}
