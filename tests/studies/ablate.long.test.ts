/**
 * An ablation as a person runs it, in real processes: to its end, with one job or two; killed in the middle of a cell
 * and continued, with the same results to the last byte; stopped by Ctrl-C; and with trials of its arms.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Results } from "../../studies/ablate/results.ts";
import type { Preset } from "../../run/preset.ts";
import { openRun } from "../../run/node/runFolder.ts";
import { type Job, startFromSourceIn, startIn, until } from "../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-ablate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ENVS = ["terminal", "calculator"];
const WORDS = ["terminal", "calculator=calculator[levels=1-2]"];
const ARMS = ["grpo", "told=grpo+echo+actfocus[lambda=0.2,rl.lr=1e-3]"];
const LABELS = ["grpo", "told"];
/** One seed: more of them are more of the same, and what is said over seeds is tested in ablateStatistics.test.ts. */
const SIZE = [
  "--quick",
  "--env",
  WORDS.join(),
  "--arms",
  ARMS.join(),
  "--seeds",
  "1",
  "--set",
  "sft.steps=4",
  "--episodes",
  "4",
  "--pass-at",
  "2",
];
const WARM_STEPS = 4;

const start = (args: readonly string[]): Job => startIn(folder, "studies/ablate/main.ts", args);
const fileOf = (name: string, file: string): string => readFileSync(join(folder, "runs", name, file), "utf8");

/** Folders of all cells of an ablation, from its folder. */
const CELLS = ENVS.flatMap((env) => LABELS.map((arm) => join(env, arm, "seed0")));

/**
 * What a kill may not lose: the checkpoint of a cell that is in the middle of RL, and the lines of its log until then.
 */
function cellUnderWay(name: string): { cell: string; log: Buffer } | null {
  for (const cell of CELLS) {
    const path = join(folder, "runs", name, cell);
    if (!existsSync(path) || existsSync(join(path, "summary.json"))) continue;
    const run = openRun(path);
    if ((run.listCheckpoints().at(-1) ?? 0) < WARM_STEPS + 2) continue;
    const { metricsEnd } = run.loadLatestCheckpoint()!;
    return { cell, log: readFileSync(join(path, "metrics.jsonl")).subarray(0, metricsEnd) };
  }
  return null;
}

test("all arms of a seed begin alike; killed and continued, or with one job, the bytes are the same", async () => {
  const whole = start([...SIZE, "--name", "whole", "--jobs", "2"]);
  expect(await whole.done, whole.seen()).toBe(0);
  expect(whole.seen()).not.toContain("\u001b");
  expect(whole.seen()).toContain("calculator: world-model loss on held-out observations");
  expect(whole.seen()).toContain("All 2 environments together");
  const results = JSON.parse(fileOf("whole", "results.json")) as Results;
  expect(results.cells.map(({ env, arm, seed }) => `${env} ${arm} ${seed}`)).toEqual(
    ENVS.flatMap((env) => LABELS.map((arm) => `${env} ${arm} 0`)),
  );
  for (const env of ENVS) {
    const [a, b] = results.cells.filter((cell) => cell.env === env);
    expect(a!.points[0]).toEqual(b!.points[0]);
    expect(a!.points.map(({ step }) => step)).toEqual([0, 2, 4]);
    expect(a!.points.at(-1)).not.toEqual(b!.points.at(-1)); // and then they learn differently
    expect(a!.points.at(-1)!.envSteps).toBeGreaterThan(0);
    expect(Object.keys(a!.warm.passAt!)).toEqual(["1", "2"]);
  }
  for (const cell of CELLS)
    expect(readdirSync(join(folder, "runs/whole", cell))).toEqual(
      expect.arrayContaining(["report.html", "summary.json"]),
    );

  // The parent alone is killed, its children are in groups of their own: they must end by themselves, and not write
  // into what the next one takes over.
  const first = start([...SIZE, "--name", "killed", "--jobs", "1"]);
  let found: ReturnType<typeof cellUnderWay> = null;
  while (found === null || !first.seen().includes("(1 of 4)")) {
    expect(first.child.exitCode, `ended before it was killed:\n${first.seen()}`).toBe(null);
    await new Promise((next) => setTimeout(next, 10));
    found = cellUnderWay("killed");
  }
  process.kill(-first.child.pid!, "SIGKILL");
  await first.done;
  const finished = CELLS.map((cell) => join(folder, "runs/killed", cell, "summary.json")).filter((path) =>
    existsSync(path),
  );
  const before = finished.map((path) => statSync(path).mtimeMs);
  const second = start([...SIZE, "--name", "killed", "--jobs", "2"]);
  expect(await second.done, second.seen()).toBe(0);
  expect(finished.length).toBeGreaterThan(0);
  expect(second.seen()).toContain(`(${finished.length} finished already)`);
  expect(finished.map((path) => statSync(path).mtimeMs)).toEqual(before);
  // Times are in these lines: had the steps been played again, they would differ.
  const log = readFileSync(join(folder, "runs/killed", found.cell, "metrics.jsonl"));
  expect(log.subarray(0, found.log.length).equals(found.log)).toBe(true);
  for (const file of ["results.json", "success.svg"]) expect(fileOf("killed", file)).toBe(fileOf("whole", file));

  // Nothing is left to do; another threshold needs no training.
  const again = start([...SIZE, "--name", "killed", "--threshold", "0.01"]);
  expect(await again.done, again.seen()).toBe(0);
  expect(again.seen()).toContain("4 cells, 2 at a time (4 finished already): 0 steps");
  // Sizes are those of the folder.
  const other = start([...SIZE, "--name", "killed", "--steps", "5"]);
  expect(await other.done).toBe(2);
  expect(other.seen()).toContain(
    "was trained with other settings (rl.steps 4, now 5); give the same flags, or another --name",
  );
}, 480_000);

test("Ctrl-C stops within a step, in the warm start too; the state is saved and no process stays", async () => {
  const flags = ["--quick", "--seeds", "1", "--set", "sft.steps=100000", "--name", "stopped"];
  const run = startFromSourceIn(folder, "studies/ablate/main.ts", flags);
  await until(run, "loss");
  process.kill(-run.child.pid!, "SIGINT");
  expect(await run.done, run.seen()).toBe(130);
  expect(run.seen()).toContain("the same command goes on");
  const path = join(folder, "runs/stopped/warm/terminal/seed0");
  expect(openRun(path).loadLatestCheckpoint()!.step).toBe(openRun(path).readMetrics().length);
  expect(existsSync(`${path}.pid`)).toBe(false);
});

test(
  "every arm has as many trials; the best of each is chosen on seeds of their own, and the comparison goes on " +
    "with it",
  async () => {
    const flags = [
      "--quick",
      "--steps",
      "2",
      "--arms",
      "grpo,grpo+echo,random",
      "--seeds",
      "7-7",
      "--episodes",
      "4",
      "--set",
      "sft.steps=4",
      "--tune",
      "lambda=0.05|0.2,rl.lr=1e-3",
      "--tune-for",
      "grpo=rl.lr=1e-3|1e-2",
      "--tune-seeds",
      "100-100",
      "--name",
      "tuned",
    ];
    const early = start([...flags, "--report"]);
    expect(await early.done, early.seen()).toBe(0);
    expect(early.seen()).toContain("the trials are not finished yet, and nothing is chosen");
    const run = start(flags);
    expect(await run.done, run.seen()).toBe(0);
    expect(run.seen()).toContain("4 trials, 2 at a time");
    const { tuning, cells } = JSON.parse(fileOf("tuned", "results.json")) as Results;
    expect(tuning.map(({ arm, trials }) => [arm, ...trials.map(({ settings }) => settings)])).toEqual([
      ["grpo", "rl.lr=1e-3", "rl.lr=1e-2"],
      ["grpo+echo", "lambda=0.05, rl.lr=1e-3", "lambda=0.2, rl.lr=1e-3"],
    ]);
    expect(cells.map(({ arm, seed }) => [arm, seed])).toEqual([
      ["grpo", 7],
      ["grpo+echo", 7],
      ["random", 7],
    ]);
    for (const { arm, trials, chosen } of tuning) {
      const best = Math.max(...trials.map((trial) => trial.mean));
      expect(trials.find(({ settings }) => settings === chosen)!.mean).toBe(best);
      const { preset } = openRun(join(folder, "runs/tuned/terminal", arm.replace("+", "-"), "seed7")).config as {
        preset: Preset;
      };
      if (arm === "grpo") expect(chosen).toBe(`rl.lr=1e-${preset.rl.lr === 1e-3 ? 3 : 2}`);
      else expect(chosen).toBe(`lambda=${preset.rl.options!["echo"]!["lambda"] as number}, rl.lr=1e-3`);
    }
    expect(
      existsSync(join(folder, "runs/tuned/tune/terminal/grpo-echo/lambda-0.2-rl.lr-1e-3/seed100/summary.json")),
    ).toBe(true);
    // Nothing is tried again.
    const again = start([...flags, "--show", "entropy"]);
    expect(await again.done, again.seen()).toBe(0);
    expect(again.seen()).toContain("4 trials, 2 at a time (4 finished already): 0 steps");
    const { shown, environments } = JSON.parse(fileOf("tuned", "results.json")) as Results;
    expect(shown).toEqual(["entropy"]);
    expect(environments[0]!.arms[0]!.curve.shown["entropy"]!.at(-1)!.value).toBeGreaterThan(0);
  },
  480_000,
);
