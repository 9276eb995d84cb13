/** What an ablation makes of its flags, and what it says of wrong ones. Whole ablations are in ablate.long.test.ts. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseAblate, type AblateOptions } from "../../studies/ablate/options.ts";
import { planOf, tuningOf } from "../../studies/ablate/plan.ts";
import { UsageError } from "../../run/usage.ts";
import { type Job, startIn } from "../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-ablate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = (args: readonly string[]): Job => startIn(folder, "studies/ablate/main.ts", args);

test("--list is printed; a mistake is one line, exit code 2, and no folder", async () => {
  const [list, wrong] = [start(["--list"]), start(["--arms", "grpo,grppo", "--name", "mistake"])];
  expect(await list.done).toBe(0);
  expect(list.seen()).toMatch(/^ {2}actfocus +\S/m);
  expect(await wrong.done).toBe(2);
  expect(
    wrong
      .seen()
      .trim()
      .split("\n")
      .filter((line) => !line.startsWith("npm ")),
  ).toEqual(['worldgrad: arm grppo: --method: unknown name "grppo"; did you mean "grpo"?']);
  expect(existsSync(join(folder, "runs/mistake"))).toBe(false);
}, 60_000);

test("arms may take different numbers of steps; settings of an environment are its own", () => {
  const options = parseAblate([
    "--arms",
    "grpo,long=grpo[steps=200],grpo[rl.lr=1e-3]",
    "--env",
    "terminal,easy=calculator[levels=1,sft.steps=70,rl.lr=9e-4]",
    "--set",
    "rl.lr=7e-4",
    "--seeds",
    "3-4",
  ]) as AblateOptions;
  const { cells, warmStarts } = planOf(options);
  expect(
    cells.map(({ env, arm, seed, preset }) => `${env} ${arm} ${seed} ${preset.rl.steps} ${preset.rl.lr}`).slice(0, 6),
  ).toEqual([
    "terminal grpo 3 160 0.0007",
    "terminal long 3 200 0.0007",
    "terminal grpo[rl.lr=1e-3] 3 160 0.001",
    "easy grpo 3 60 0.0009",
    "easy long 3 200 0.0009",
    "easy grpo[rl.lr=1e-3] 3 60 0.001",
  ]);
  expect(cells.at(-1)!.seed).toBe(4);
  expect(warmStarts.map(({ path, preset }) => [path, preset.sft.steps, preset.tasks])).toEqual([
    ["runs/ablate/warm/terminal/seed3", 900, undefined],
    ["runs/ablate/warm/easy/seed3", 70, { levels: [1, 1] }],
    ["runs/ablate/warm/terminal/seed4", 900, undefined],
    ["runs/ablate/warm/easy/seed4", 70, { levels: [1, 1] }],
  ]);
});

const TUNE = ["--arms", "grpo,grpo+echo", "--tune"];

test.each([
  [["--method", "grpo"], "unknown flag --method"],
  [["--methods", "grpo"], "unknown flag --methods"],
  [["--arms", "grpo,grppo"], 'arm grppo: --method: unknown name "grppo"; did you mean "grpo"?'],
  [["--arms", "grpo,,echo"], '--arms: expected [NAME=]METHOD[SETTING,…] with commas between them, got ""'],
  [["--env", "terminal,calc"], '--env: unknown name "calc"'],
  [["--env", "calculator[levels=9]"], "--set env: calculator: no family of"],
  [["--env", "calculator[levels=x]"], '--set env.levels: expected levels as in 1-2, got "x"'],
  [["--env", "calculator:1-2"], '--env: unknown name "calculator:1-2"'],
  [["--env", "warm=terminal"], '--env: "warm" is the name of another folder'],
  [["--seeds", "0"], '--seeds: expected how many seeds, or FIRST-LAST, got "0"'],
  [["--seeds", "5-3"], '--seeds: expected the lower one first, got "5-3"'],
  [["--threshold", "60"], '--threshold: expected a number in (0, 1], got "60"'],
  [["--model", "huge"], '--model: expected tiny, small, base, got "huge"'],
  [["--set", "sft.steps=30"], "--set sft.steps: expected more than sft.warmup, 50, in which the rate rises, got 30"],
  [["--pass-at", "1"], '--pass-at: expected an integer ≥ 2, got "1"'],
  [["--jobs", "-1"], '--jobs: expected an integer ≥ 1, got "-1"'],
  [["--name", "../x"], '--name: expected letters, digits, ".", "_" and "-", got "../x"'],
  [["--tune-seeds", "100"], "--tune-seeds is about --tune; add --tune SETTINGS"],
  [["--tune-for", "grpo=rl.lr=1"], "--tune-for is about --tune; add --tune SETTINGS"],
  [[...TUNE, "rl.lr=1e-3", "--tune-seeds", "3-5"], "--tune-seeds: seed 3 is one of --seeds"],
  [[...TUNE, "rl.lr=1|"], '--tune: expected rl.lr=VALUE|VALUE, got "1|"'],
  [[...TUNE, "beta=1|2"], 'no arm has beta; arm grpo+echo: unknown setting "beta"'],
  [
    [...TUNE, "paw.alpha=1|2"],
    "no arm has paw.alpha; arm grpo+echo: --set paw.alpha: paw is no part of --method grpo+echo",
  ],
  [
    [...TUNE, "lambda=0.1|0.2,rl.lr=1e-3|2e-3"],
    "--tune: all arms need the same number of trials, but grpo+echo has 4 (lambda, rl.lr) and grpo has 2 (rl.lr); " +
      'give --tune-for "grpo=SETTING=VALUE|VALUE" with 4 combinations',
  ],
  [[...TUNE, "rl.lr=1e-3|0"], "arm grpo: --set rl.lr must be > 0, got 0"],
  [
    [...TUNE, "rl.lr=1e-3", "--tune-for", "rloo=rl.lr=1"],
    "--tune-for: expected ARM=SETTING=VALUE|VALUE with one of the arms grpo, grpo+echo",
  ],
])("%j is one clear line", (args, message) => {
  const plan = (): unknown => {
    const options = parseAblate(args) as AblateOptions;
    return [tuningOf(options), planOf(options)];
  };
  expect(plan).toThrow(UsageError);
  expect(plan).toThrow(message);
});
