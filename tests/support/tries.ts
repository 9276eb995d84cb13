/**
 * How often a test tries what it draws anew each time (tasks of an environment, shapes, random numbers): all its tries
 * in `npm run test:long`, a quarter in `npm test`, which is run again and again and has five minutes.
 */
import process from "node:process";

/** Whether this run has all tries. */
export const isThorough: boolean = process.env["WORLDGRAD_TRIES"] === "all";

/** The files whose tests ask `tries`: `test:thorough` runs them once more (vitest.config.ts, project `thorough`). */
export const THOROUGH = [
  "tests/environments/*.test.ts",
  "tests/run/methods.test.ts",
  "tests/kernels/wasm-*.test.ts",
  "tests/pretrained/families.test.ts",
  "tests/ops/reduce.test.ts",
  "tests/distribute/asyncQueue.test.ts",
  "tests/distribute/asyncThreads.test.ts",
  "tests/methods/hardWorlds.test.ts",
  "tests/methods/properties.test.ts",
  "tests/methods/smoke.test.ts",
  "tests/methods/truncationDrift.test.ts",
];

/** `all` tries in a thorough run; else a quarter of them. */
export const tries = (all: number): number => (isThorough ? all : Math.ceil(all / 4));

/** `all` of them in a thorough run; else every fourth, beginning with the first. */
export const some = <T>(all: readonly T[]): readonly T[] => (isThorough ? all : all.filter((_, i) => i % 4 === 0));
