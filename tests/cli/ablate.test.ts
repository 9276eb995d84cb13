/**
 * An ablation as a person runs it, in real processes: to its end, with one job or two; killed in the middle of a cell and continued,
 * with the same results to the last byte; and with wrong flags.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseAblate, type AblateOptions } from "../../cli/ablate/options.ts";
import { planOf } from "../../cli/ablate/plan.ts";
import type { Results } from "../../cli/ablate/results.ts";
import { UsageError } from "../../cli/options.ts";
import { openRun } from "../../cli/runFolder.ts";
import { type Job, startIn, until } from "../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-ablate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ENVS = ["terminal", "calculator"];
const METHODS = ["grpo", "grpo+echo+actfocus"];
/** One seed: more of them are more of the same, and what is said over seeds is tested in ablateStatistics.test.ts. */
const SIZE = ["--quick", "--env", ENVS.join(), "--methods", METHODS.join(), "--seeds", "1", "--warm-steps", "4", "--episodes", "4"]; // prettier-ignore
const WARM_STEPS = 4;

const start = (args: readonly string[]): Job => startIn(folder, "cli/ablate.ts", args);
const fileOf = (name: string, file: string): string => readFileSync(join(folder, "runs", name, file), "utf8");

/** Folders of all cells of an ablation, from its folder. */
const CELLS = ENVS.flatMap((env) => METHODS.map((method) => join(env, method.replaceAll("+", "-"), "seed0")));

/** What a kill may not lose: the checkpoint of a cell that is in the middle of RL, and the lines of its log until then. */
function cellUnderWay(name: string): { cell: string; log: Buffer } | null {
  for (const cell of CELLS) {
    const path = join(folder, "runs", name, cell);
    if (!existsSync(path) || existsSync(join(path, "summary.json"))) continue;
    const run = openRun(path);
    if ((run.listCheckpoints().at(-1) ?? 0) < WARM_STEPS + 2) continue;
    const { metricsBytes } = run.loadLatestCheckpoint()!;
    return { cell, log: readFileSync(join(path, "metrics.jsonl")).subarray(0, metricsBytes) };
  }
  return null;
}

test("all methods of a seed begin in one place; killed and continued, or with one job, it comes to the same bytes", async () => {
  const whole = start([...SIZE, "--name", "whole", "--jobs", "2"]);
  expect(await whole.done, whole.seen()).toBe(0);
  expect(whole.seen()).not.toContain("\u001b");
  expect(whole.seen()).toContain("calculator: world-model loss on held-out observations");
  expect(whole.seen()).toContain("All 2 environments together");
  const results = JSON.parse(fileOf("whole", "results.json")) as Results;
  expect(results.cells.map(({ env, method, seed }) => `${env} ${method} ${seed}`)).toEqual(
    ENVS.flatMap((env) => METHODS.map((method) => `${env} ${method} 0`)),
  );
  for (const env of ENVS) {
    const [a, b] = results.cells.filter((cell) => cell.env === env);
    expect(a!.points[0]).toEqual(b!.points[0]);
    expect(a!.points.map(({ step }) => step)).toEqual([0, 2, 4]);
    expect(a!.points.at(-1)).not.toEqual(b!.points.at(-1)); // and then they learn differently
    expect(a!.points.at(-1)!.envSteps).toBeGreaterThan(0);
  }
  for (const cell of CELLS) expect(readdirSync(join(folder, "runs/whole", cell))).toEqual(expect.arrayContaining(["report.html", "summary.json"])); // prettier-ignore

  // The parent alone is killed, its children are in groups of their own: they must end by themselves, and not write into what the next one takes over.
  const first = start([...SIZE, "--name", "killed", "--jobs", "1"]);
  let found: ReturnType<typeof cellUnderWay> = null;
  while (found === null || !first.seen().includes("(1 of 4)")) {
    expect(first.child.exitCode, `ended before it was killed:\n${first.seen()}`).toBe(null);
    await new Promise((next) => setTimeout(next, 10));
    found = cellUnderWay("killed");
  }
  process.kill(-first.child.pid!, "SIGKILL");
  await first.done;
  const finished = CELLS.map((cell) => join(folder, "runs/killed", cell, "summary.json")).filter((path) => existsSync(path)); // prettier-ignore
  const before = finished.map((path) => statSync(path).mtimeMs);
  const second = start([...SIZE, "--name", "killed", "--jobs", "2"]);
  expect(await second.done, second.seen()).toBe(0);
  expect(finished.length).toBeGreaterThan(0);
  expect(second.seen()).toContain(`(${finished.length} finished already)`);
  expect(finished.map((path) => statSync(path).mtimeMs)).toEqual(before);
  // Times are in these lines: had the steps been played again, they would differ.
  const log = readFileSync(join(folder, "runs/killed", found.cell, "metrics.jsonl"));
  expect(log.subarray(0, found.log.length).equals(found.log)).toBe(true);
  expect(fileOf("killed", "results.json")).toBe(fileOf("whole", "results.json"));

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
}, 240_000);

test("Ctrl-C is heard within a step, in the warm start too; what was learnt is saved and no process stays", async () => {
  const run = start(["--quick", "--env", "terminal", "--seeds", "1", "--warm-steps", "100000", "--name", "stopped"]);
  await until(run, "loss");
  process.kill(-run.child.pid!, "SIGINT");
  expect(await run.done, run.seen()).toBe(130);
  expect(run.seen()).toContain("the same command goes on");
  const path = join(folder, "runs/stopped/warm/terminal/seed0");
  expect(openRun(path).loadLatestCheckpoint()!.step).toBe(openRun(path).readMetrics().length);
  expect(existsSync(`${path}.pid`)).toBe(false);
}, 60_000);

test("--list is printed; a mistake is one line, exit code 2, and no folder", async () => {
  const [list, wrong] = [start(["--list"]), start(["--methods", "grpo,grppo", "--name", "mistake"])];
  expect(await list.done).toBe(0);
  expect(list.seen()).toMatch(/^ {2}actfocus +\S/m);
  expect(await wrong.done).toBe(2);
  expect(wrong.seen().trim().split("\n").filter((line) => !line.startsWith("npm "))).toEqual([
    'worldgrad: --method: unknown name "grppo"; did you mean "grpo"?',
  ]); // prettier-ignore
  expect(existsSync(join(folder, "runs/mistake"))).toBe(false);
}, 60_000);

test.each([
  [["--method", "grpo"], "unknown flag --method; did you mean --methods?"],
  [["--methods", "grpo,grppo"], '--method: unknown name "grppo"; did you mean "grpo"?'],
  [["--methods", "grpo,,echo"], '--methods: expected names with commas between them, got "grpo,,echo"'],
  [["--methods", "grpo,grpo"], '--methods: "grpo" is there twice'],
  [["--env", "terminal,calc"], '--env: unknown name "calc"'],
  [["--env", "calculator:9"], "--env calculator:9: "],
  [["--env", "calculator:x"], '--env: expected levels as in calculator:1-2, got "calculator:x"'],
  [["--seeds", "0"], '--seeds: expected an integer ≥ 1, got "0"'],
  [["--threshold", "60"], '--threshold: expected a number in (0, 1], got "60"'],
  [["--model", "huge"], '--model: expected tiny, small, base, got "huge"'],
  [["--warm-steps", "30"], "--warm-steps: expected more than the 50 in which the rate rises, got 30"],
  [["--methods", "grpo+echo,grpo-echo"], '--method: unknown name "grpo-echo"'],
  [["--methods", "dpo"], "dpo learns from pairs, and the main job from rewards"],
  [["--jobs", "-1"], '--jobs: expected an integer ≥ 1, got "-1"'],
  [["--name", "../x"], '--name: expected letters, digits, ".", "_" and "-", got "../x"'],
])("%j is one clear line", (args, message) => {
  const plan = (): unknown => planOf(parseAblate(args) as AblateOptions);
  expect(plan).toThrow(UsageError);
  expect(plan).toThrow(message);
});
