/** What the main job says to flags, as real processes. Runs to their ends are in main.long.test.ts. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ADVANTAGES } from "../../../methods/advantages/index.ts";
import { ENVIRONMENTS } from "../../../environments/index.ts";
import { REWARDS } from "../../../run/rewardOptions.ts";
import { CURRICULA } from "../../../data/curricula.ts";
import { RECIPES } from "../../../run/recipes.ts";
import { POLICY_LOSSES } from "../../../methods/losses/index.ts";
import { TERMS, TOKEN_WEIGHTS, WORLD } from "../../../methods/presets.ts";
import { METHODS } from "../../../methods/choice.ts";
import { SELF_PLAY_NAMES } from "../../../papers/selfplay/options.ts";
import { type Job, startFromSourceIn, startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-main-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = (script: string, args: readonly string[]): Job => startIn(folder, script, args);
const foldersMade = (): string[] => (existsSync(join(folder, "runs")) ? readdirSync(join(folder, "runs")) : []);

test("--list says in a line each what every method, reward, curriculum, environment … is, and where from", async () => {
  const before = foldersMade();
  const run = start("run/cli/main.ts", ["--list"]);
  expect(await run.done).toBe(0);
  const tables = { METHODS, WORLD, TOKEN_WEIGHTS, TERMS, POLICY_LOSSES, ADVANTAGES, ENVIRONMENTS, RECIPES, CURRICULA };
  const names = Object.values(tables).flatMap((table) => Object.keys(table));
  for (const name of [...names, ...REWARDS, ...SELF_PLAY_NAMES]) {
    const line = run
      .seen()
      .split("\n")
      .find((text) => text.startsWith(`  ${name} `));
    expect(line, name).toMatch(/^ {2}\S+ +\S.* \(.*\w.*\)$/);
  }
  expect(foldersMade()).toEqual(before);
});

test.each([
  [["runs/a"], 'unexpected argument "runs/a"; a value stands behind its flag (--help lists all)'],
  [["--learning_rate", "1e-4"], "unknown flag --learning_rate; did you mean --set rl.lr=VALUE?"],
  [["--num-generations", "8"], "unknown flag --num-generations; did you mean --set rl.groupSize=VALUE?"],
  [["--beta", "0.1"], "unknown flag --beta; did you mean --kl VALUE?"],
  [["--lora"], "unknown flag --lora; did you mean --set lora.r=VALUE?"],
  [["--lamda", "1"], "unknown flag --lamda; did you mean --lambda?"],
  [["--lr", "1"], "unknown flag --lr; did you mean --set rl.lr=VALUE?"], // of five parts with this option
  [["--top-p=0.9"], "unknown flag --top-p; did you mean --set rollout.topP=VALUE?"],
  [["--steps", "many"], '--steps must be an integer ≥ 0, got "many"'],
  [["--device", "tpu"], '--device: expected auto, wasm, webgpu, reference, got "tpu"'],
  [["--device", "wasm", "--tune"], "--tune measures a GPU; expected --device webgpu or auto beside it, got wasm"],
  [["--tune"], "--tune measures for one agent; name its method, as in --method grpo_token"],
  [["--resume", "nowhere", "--tune"], "--resume continues a run with its own settings; remove --tune"],
  [["--report-to", "csv,wandb"], '--report-to: expected tensorboard, csv, got "wandb"'],
  [["--lambda"], "worldgrad: --lambda expects a value"],
  [["--steps", "--seed"], "worldgrad: --steps expects a value"],
  [["--quick=3"], "worldgrad: Option '--quick' does not take an argument"],
  [["--lambda", "-1"], '--lambda: expected numbers ≥ 0: one, FROM..TO@STEPS or STEP:VALUE,STEP:VALUE, got "-1"'],
  [["--lambda=-.5"], '--lambda: expected numbers ≥ 0: one, FROM..TO@STEPS or STEP:VALUE,STEP:VALUE, got "-.5"'],
  [["-1"], "unknown flag -1"],
  [["--method", "ecko"], '--method: unknown name "ecko"; did you mean "echo"?'],
  [["--method", "ppo", "--advantage", "rloo"], "--method ppo has a critic, which --advantage rloo does not read"],
  [["--method", "dapo", "--lambda", "0.1"], "--lambda: echo is no part of --method dapo, whose parts are grpo, ppo"],
  [["--method", "rloo", "--replay", "4"], "reinforce has no ratio, and nothing else makes up for the older policies"],
  [["--loss", "dpo"], "dpo learns from pairs, and the main job from rewards"],
  [["--env", "gridword"], '--env: unknown name "gridword"; did you mean "gridworld"?'],
  [["--set", "paw.alpha=0.5"], "--set paw.alpha: paw is no part of --method grpo_token, whose parts are grpo, ppo"],
  [["--set", "ppo.epsilonHgh=0.3"], '--set ppo.epsilonHgh: unknown option "epsilonHgh"; did you mean "epsilonHigh"?'],
  [["--curriculum", "poools"], 'got "poools"; did you mean "pools"?'],
  [["--method", "ppo", "--method", "grpo"], "--method is there twice"],
  [["--resume", "nowhere"], "--resume: openRun: no folder nowhere"],
  [["--resume", "nowhere", "--seed", "1"], "--resume continues a run with its own settings; remove --seed"],
])(
  "a wrong flag is one line and exit code 2: %j",
  async (args, message) => {
    const before = foldersMade();
    const run = start("run/cli/main.ts", args);
    expect(await run.done).toBe(2);
    expect(run.seen()).toContain(message);
    expect(
      run
        .seen()
        .trim()
        .split("\n")
        .filter((line) => !line.startsWith("npm ")),
    ).toHaveLength(1);
    expect(foldersMade()).toEqual(before);
  },
  30_000,
);

test("serve and doctor refuse what cannot be before they load anything, and name no flag that is not", async () => {
  const serve = startFromSourceIn(folder, "connect/serve/main.ts", ["--model-path", "nowhere", "--port", "99999"]);
  const doctor = startFromSourceIn(folder, "studies/doctor/main.ts", ["nowhere"]);
  expect([await serve.done, await doctor.done]).toEqual([2, 2]);
  expect(serve.seen()).toContain('--port: expected an integer from 0 to 65535, got "99999"');
  expect(doctor.seen()).toContain("worldgrad: doctor: openRun: no folder nowhere");
});
