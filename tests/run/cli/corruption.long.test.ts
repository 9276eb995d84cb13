/**
 * Damaged runs, as a person resumes them: `npm start -- --resume NAME` refuses in one line that names the file, with
 * exit code 1 or 2, and leaves every byte as it was. All kinds of damage in all files: tests/run/node/corruption.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { device as makeDevice } from "../../../engine/device.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { parseStart } from "../../../run/node/commandLine.ts";
import { type Job, SUMMARY } from "../../../run/arms/jobs.ts";
import { trainJob } from "../../../run/arms/train.ts";
import { comparisonOf, createComparison } from "../../../run/compare/settings.ts";
import { startIn } from "../../support/mainJob.ts";
import { tried } from "../../support/tried.ts";
import { QUIET, tinyPreset } from "../../support/tinyRun.ts";

const base = mkdtempSync(join(tmpdir(), "worldgrad-damaged-"));
/** A comparison whose second agent is not trained yet. Its parts are runs, and are resumed as such, too. */
const WHOLE = join(base, "whole");

beforeAll(async () => {
  const options = parseStart(["--quick", "--env", "gridworld", "--arms", "grpo,grpo+echo"]) as StartOptions;
  const comparison = comparisonOf(WHOLE, options);
  createComparison(comparison, {});
  const device = await makeDevice("wasm");
  const [job, preset] = [{ device: "wasm" } as const, tinyPreset("--steps", "2")];
  const [first] = comparison.arms;
  const jobs: Job[] = [
    { ...job, preset, path: comparison.warm.path },
    { ...job, preset, path: first!.path, from: comparison.warm.path },
  ];
  for (const each of jobs) {
    mkdirSync(join(each.path, ".."), { recursive: true });
    await trainJob(each, device, QUIET, new AbortController().signal);
  }
  device.dispose();
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** Every file below a folder, with its bytes. */
const bytesIn = (folder: string): Record<string, string> =>
  Object.fromEntries(
    (readdirSync(folder, { recursive: true }) as string[])
      .filter((name) => statSync(join(folder, name)).isFile())
      .map((name) => [name, readFileSync(join(folder, name)).toString("base64")]),
  );

type Damage = (bytes: Buffer) => Buffer;
/** Another digit or letter in the middle, so that JSON stays JSON. */
const flipped: Damage = (bytes) => {
  const damaged = Buffer.from(bytes);
  let at = bytes.length >> 1;
  while (at < bytes.length - 1 && !/[1-8a-y]/.test(String.fromCharCode(bytes[at]!))) at++;
  damaged[at]!++;
  return damaged;
};
const cut: Damage = (bytes) => bytes.subarray(0, bytes.length >> 1);

test(
  "is refused in one line that names the file, and nothing is overwritten",
  { timeout: 600_000 },
  async (context) => {
    const arm = (readdirSync(WHOLE, { recursive: true }) as string[])
      .filter((name) => basename(name) === SUMMARY)
      .map((name) => name.slice(0, -SUMMARY.length - 1));
    expect(arm).toHaveLength(2);
    const run = arm.find((name) => readFileSync(join(WHOLE, name, SUMMARY), "utf8").includes('"after"'))!;
    const newest = join(
      "checkpoints",
      readdirSync(join(WHOLE, run, "checkpoints"))
        .sort()
        .at(-1)!,
    );
    const settings = readdirSync(WHOLE).find((name) => name.endsWith(".json"))!;
    const weights = join(newest, "model.safetensors");
    const ofRun = ["config.json", "metrics.jsonl", "transcripts.jsonl", weights, join(newest, "checkpoint.json")];
    /** What is resumed, and what of it is damaged. */
    const cases: (readonly [resumed: string, file: string, damage: Damage])[] = [
      ...ofRun.map((file) => [run, join(run, file), flipped] as const),
      [run, join(run, "config.json"), cut],
      [run, join(run, weights), cut],
      [".", settings, flipped],
      [".", settings, cut],
      ...arm.map((part) => [".", join(part, SUMMARY), flipped] as const),
      [".", join(run, SUMMARY), cut],
      [".", join(run, "metrics.jsonl"), flipped],
      [".", join(run, "config.json"), flipped],
    ];
    const wrong: string[] = [];
    const attempt = async ([resumed, file, damage]: (typeof cases)[number], k: number): Promise<void> => {
      const folder = join(base, `${k}`);
      cpSync(WHOLE, folder, { recursive: true });
      writeFileSync(join(folder, file), damage(readFileSync(join(folder, file))));
      const before = bytesIn(folder);
      const job = startIn(base, "run/cli/main.ts", ["--resume", join(`${k}`, resumed), "--device", "wasm"]);
      const code = await job.done;
      // What it has said of the executor and the folder is no part of the refusal.
      const [line = "", ...more] = job
        .seen()
        .trim()
        .split("\n")
        .filter((one) => !/^(executor|run folder): /.test(one));
      const isNamed = more.length === 0 && line.startsWith("worldgrad: ") && line.includes(basename(file));
      const isLeft = JSON.stringify(bytesIn(folder)) === JSON.stringify(before);
      if ((code !== 1 && code !== 2) || !isNamed || !isLeft)
        wrong.push(`${file}: code ${code}, ${isLeft ? "left" : "changed"}: ${job.seen()}`);
      rmSync(folder, { recursive: true });
    };
    const waiting = [...cases.entries()];
    const worker = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await attempt(next[1], next[0]);
    };
    await Promise.all([worker(), worker()]);
    tried(context, { "damaged runs": cases.length });
    expect(wrong).toEqual([]);
    // What is not damaged is resumed.
    const job = startIn(base, "run/cli/main.ts", ["--resume", join("whole", run), "--device", "wasm"]);
    expect(await job.done, job.seen()).toBe(0);
  },
);
