/**
 * Configuration of the tests of scripts/mutate.ts: one process, one file after another, instrumented modules, no GPU.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { type Job, JOB_VARIABLE } from "./job.ts";

const job = JSON.parse(readFileSync(process.env[JOB_VARIABLE]!, "utf8")) as Job;

class InOrder extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number =>
      job.tests.findIndex((path) => moduleId === join(job.root, path));
    return Promise.resolve(files.toSorted((a, b) => place(a) - place(b)));
  }
}

const config: ViteUserConfig = defineConfig({
  root: job.root,
  plugins: [
    {
      name: "mutants",
      enforce: "pre",
      load: (id: string) => job.modules[id],
    },
  ],
  test: {
    include: [...job.tests],
    runner: fileURLToPath(new URL("runner.ts", import.meta.url)),
    pool: "forks",
    isolate: false,
    maxWorkers: 1,
    env: { WORLDGRAD_THREADS: "1", WORLDGRAD_GPU: "off", WORLDGRAD_TRIES: "all" },
    testTimeout: 0, // none; runner.ts finds tests that hang
    hookTimeout: 0,
    // Formulas are equal on every executor, so the reference suffices.
    testNamePattern: /^(?!.*\bwasm\b)/,
    sequence: { sequencer: InOrder },
    silent: true,
    // A mutant may leave a promise that rejects.
    dangerouslyIgnoreUnhandledErrors: true,
  },
});

export default config;
