/** `npm run metrics`, as a real process, on runs of some lines. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createRun } from "../../../run/node/runFolder.ts";
import { tinyPreset } from "../../support/tinyRun.ts";
import { startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-metrics-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function metrics(...args: readonly string[]): Promise<{ readonly code: number | null; readonly said: string }> {
  const job = startIn(folder, "run/cli/metrics.ts", args);
  return { code: await job.done, said: job.seen() };
}

const made = (name: string): string[] =>
  readdirSync(join(folder, name)).filter((file) => /^(events\.out\.tfevents\.|metrics\.csv)/.test(file));

test("writes files of one run, or of all runs in a folder", async () => {
  for (const name of ["all/a", "all/b"]) {
    const run = createRun(join(folder, name), { preset: tinyPreset() });
    run.appendMetrics({ step: 0, phase: "rl", reward: 0.5 });
  }
  mkdirSync(join(folder, "all/notes"));
  expect(await metrics("--run", "all/a", "--report-to", "csv")).toEqual({
    code: 0,
    said: "all/a: 1 lines for csv\n",
  });
  expect(readFileSync(join(folder, "all/a/metrics.csv"), "utf8")).toBe("step,phase,reward\n0,rl,0.5\n");
  const both = await metrics("--run", "all", "--report-to", "tensorboard, csv");
  expect(both).toMatchObject({ code: 0, said: expect.stringContaining("all/b: 1 lines for tensorboard and csv\n") });
  expect(made("all/a")).toHaveLength(2);
  expect(made("all/b")).toHaveLength(2);
});

test("names in a line what is missing, and what a run that is being trained needs", async () => {
  expect(await metrics("--report-to", "csv")).toEqual({
    code: 2,
    said: "worldgrad: --run: expected the path of a run folder, as in --run runs/NAME\n",
  });
  expect(await metrics("all/a", "--report-to", "csv")).toEqual({
    code: 2,
    said: 'worldgrad: unexpected argument "all/a"; did you mean --run all/a? (--help lists all)\n',
  });
  expect(await metrics("--run", "all/a")).toEqual({
    code: 2,
    said: "worldgrad: --report-to: expected tensorboard, csv or both, a comma between\n",
  });
  expect(await metrics("--run", "all/a", "--report-to", "wandb")).toEqual({
    code: 2,
    said: 'worldgrad: --report-to: expected tensorboard, csv, got "wandb"\n',
  });
  expect(await metrics("--run", "nowhere", "--report-to", "csv")).toMatchObject({
    code: 2,
    said: "worldgrad: --run: openRun: no folder nowhere\n",
  });
  writeFileSync(join(folder, "all/a.pid"), JSON.stringify({ pid: process.pid, began: "", host: "elsewhere" }));
  expect(await metrics("--run", "all/a", "--report-to", "csv")).toMatchObject({
    code: 1,
    said: expect.stringMatching(/^worldgrad: all\/a is being trained by process \d+ on elsewhere; wait for it/),
  });
});
