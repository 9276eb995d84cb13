/**
 * `npm run evaluate`: equal to the run's own evaluation where the tasks are the same, and different where the flags say
 * so. The world pays by the first letter of an action, so that a model that knows nothing solves some of its tasks.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { number } from "../../../engine/optionTable.ts";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { type EnvironmentOptions, type EnvironmentSpec, SingleUseEnvironment } from "../../../rl/environment.ts";
import type { StepResult } from "../../../rl/environment.ts";
import { COMMON_OPTIONS } from "../../../environments/index.ts";
import { wilson } from "../../../run/figures/statistics.ts";
import type { Preset } from "../../../run/preset.ts";
import { Run } from "../../../run/run.ts";
import { HELD_OUT_SEEDS } from "../../../run/scriptedPlayers.ts";
import { addEnvironment } from "../../../run/worlds.ts";
import { type EvaluateFlags, evaluateRun, prepareEvaluation, type RunScore } from "../../../run/node/evaluateRun.ts";
import { createRun, type RunFolder } from "../../../run/node/runFolder.ts";
import { QUIET, tinyPreset } from "../../support/tinyRun.ts";

const work = mkdtempSync(join(tmpdir(), "worldgrad-evaluate-"));
let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm", { threads: 1 })));
afterAll(() => {
  device.dispose();
  rmSync(work, { recursive: true });
});

/** The seeds and options of what was played. */
const played: { readonly seed: number; readonly split: unknown; readonly bonus: unknown }[] = [];
/** The first actions, by the seeds of their tasks. */
const acted = new Map<number, string>();

class Letters extends SingleUseEnvironment {
  readonly name = "letters";
  info = {};
  readonly #options: EnvironmentOptions & { readonly bonus?: number };
  #seed = 0;
  constructor(options: EnvironmentOptions = {}) {
    super();
    this.#options = options;
  }
  protected begin(seed: number): string {
    played.push({ seed, split: this.#options.split, bonus: this.#options.bonus });
    this.#seed = seed;
    this.info = { family: seed % 2 === 0 ? "even" : "odd" };
    return `task ${seed % 7}`;
  }
  protected act(action: string): StepResult {
    acted.set(this.#seed, action);
    const isSolved = action.charCodeAt(0) % 3 !== 0;
    const reward = Number(isSolved) * 0.7 + (this.#options.bonus ?? 0);
    return { observation: "b", reward, done: true, info: { ...this.info, success: isSolved } };
  }
}
let lessons = 0;
const letters: EnvironmentSpec = {
  name: "letters",
  description: "pays by the first letter",
  families: ["even", "odd"].map((family) => ({ name: family, level: 1, description: "seeds" })),
  options: { ...COMMON_OPTIONS, bonus: number(0, "paid for any action") },
  make: (options) => new Letters(options),
  expert: () => "abcdefgh"[lessons++ % 8]!,
  random: (rng) => "abcdefgh"[rng.int(8)]!,
};
addEnvironment(letters, "tests/run/node/evaluateRun.test.ts");

/** Enough for most actions to end. */
const WARM_STEPS = 40;
const LAST = WARM_STEPS + 3;

/** A finished run in that world. */
async function finished(name: string, change: (preset: Preset) => Preset = (preset) => preset): Promise<RunFolder> {
  const { tasks: _, trainTasks: __, demoTasks: ___, ...tiny } = tinyPreset();
  const preset = change({
    ...tiny,
    env: "letters",
    seed: 5,
    sft: { ...tiny.sft, demonstrations: 40, steps: WARM_STEPS, batchSize: 8, lr: 0.03 },
    rl: { ...tiny.rl, steps: 3, lr: 0.01 },
    rollout: { ...tiny.rollout, maxActionTokens: 6 },
    evaluation: { every: 2, episodes: 20, finalEpisodes: 30 },
  });
  const folder = createRun(join(work, name), { preset });
  const run = new Run(folder, preset, device, QUIET, new AbortController().signal);
  await run.run(false);
  run.dispose();
  return folder;
}

async function evaluated(flags: EvaluateFlags, how: Parameters<typeof evaluateRun>[2] = {}): Promise<RunScore> {
  return evaluateRun(await prepareEvaluation(flags), device, how);
}

/** The line of metrics of a step's evaluation, as the result has it. */
function lineOf(folder: RunFolder, step: number): Partial<RunScore> {
  const line = folder.readMetrics().findLast((one) => one.phase === "eval" && one.step === step)!;
  const { success, episodes, reward: meanReward, reward_std: rewardStd, "num_turns/mean": meanTurns } = line;
  return { success, episodes, meanReward, rewardStd, meanTurns } as Partial<RunScore>;
}

it("equals the run's last evaluation, of its newest checkpoint and of an earlier one", async () => {
  const folder = await finished("own");
  const own = await evaluated({ run: folder.path });
  expect(own).toMatchObject({
    ...lineOf(folder, LAST),
    run: folder.path,
    checkpoint: LAST,
    env: "letters",
    split: "heldout",
  });
  expect(own.successes).toBeGreaterThan(0);
  expect(own.successes).toBeLessThan(own.episodes);
  expect(await evaluated({ run: folder.path, checkpoint: String(WARM_STEPS + 2) }, { episodes: 20 })).toMatchObject(
    lineOf(folder, WARM_STEPS + 2),
  );
  // It is the same twice, and the first tasks are the same however many follow.
  expect(await evaluated({ run: folder.path })).toEqual(own);
  const { low, high } = wilson(own.successes, own.episodes);
  expect(own.interval).toEqual([low, high]);
  expect(Object.keys(own.families)).toEqual(["even", "odd"]);
  const both = Object.values(own.families).reduce((sum, { successes }) => sum + successes, 0);
  expect(both).toBe(own.successes);
  const returns = Object.values(own.families).reduce((sum, one) => sum + one.episodes * one.meanReward!, 0);
  expect(returns / own.episodes).toBeCloseTo(own.meanReward!, 12);
  expect(own.meanLength).toBeGreaterThan(1);
});

it("of a run with several tries, an adapter, or random play equals theirs", async () => {
  const tries = await finished("tries", (preset) => ({
    ...preset,
    evaluation: { ...preset.evaluation, finalEpisodes: 12, tries: 3 },
  }));
  const line = tries.readMetrics().at(-1)!;
  const found = await evaluated({ run: tries.path });
  expect(found).toMatchObject(lineOf(tries, LAST));
  expect(found.passAt).toEqual({ 1: line["pass@1"], 2: line["pass@2"], 3: line["pass@3"] });
  const adapter = await finished("adapter", (preset) => ({ ...preset, lora: { r: 2 } }));
  expect(await evaluated({ run: adapter.path })).toMatchObject(lineOf(adapter, LAST));
  const random = await finished("random", (preset) => ({ ...preset, rl: { ...preset.rl, method: "random" } }));
  expect(await evaluated({ run: random.path })).toMatchObject(lineOf(random, LAST));
});

it("plays training tasks, with other options, another seed, or greedily", async () => {
  const folder = await finished("flags");
  const run = folder.path;
  played.length = 0;
  const train = await evaluated({ run, set: ["env.bonus=0.5"] }, { split: "train", episodes: 4 });
  expect(played).toEqual([0, 1, 2, 3].map((i) => ({ seed: HELD_OUT_SEEDS + i, split: "train", bonus: 0.5 })));
  expect(train.split).toBe("train");
  /** What it does in the first ten tasks. */
  const actionsOf = async (flags: Partial<EvaluateFlags>, episodes = 30): Promise<string> => {
    acted.clear();
    await evaluated({ run, ...flags }, { episodes });
    return Array.from({ length: 10 }, (_, i) => acted.get(HELD_OUT_SEEDS + i) ?? "none").join();
  };
  expect(await actionsOf({}, 10)).toBe(await actionsOf({}));
  expect(await actionsOf({ seed: "5" })).toBe(await actionsOf({}));
  expect(await actionsOf({ seed: "6" })).not.toBe(await actionsOf({}));
  const greedy = await evaluated({ run }, { temperature: 0 });
  expect(greedy.temperature).toBe(0);
  expect(await evaluated({ run, seed: "6" }, { temperature: 0 })).toEqual({ ...greedy, seed: 6 });
  // Another world has limits of its own; the run's method and data do not matter there.
  const elsewhere = await evaluated({ run, env: "gridworld", set: ["rollout.maxTurns=2"] }, { episodes: 2 });
  expect(elsewhere).toMatchObject({ env: "gridworld", episodes: 2 });
  expect(elsewhere.meanTurns).toBeLessThanOrEqual(2);
});

it("names what is missing in a line", async () => {
  const folder = await finished("errors");
  const run = folder.path;
  const prepared = (flags: Partial<EvaluateFlags>): Promise<unknown> => prepareEvaluation({ run, ...flags });
  await expect(prepared({ run: "nowhere" })).rejects.toThrow("--run: openRun: no folder nowhere");
  await expect(prepared({ checkpoint: "700" })).rejects.toThrow(
    "--checkpoint: expected newest, best, or the step of a checkpoint of",
  );
  await expect(prepared({ env: "gridword" })).rejects.toThrow(
    '--env: unknown name "gridword"; did you mean "gridworld"?',
  );
  await expect(prepared({ set: ["rollout.maxTurn=2"] })).rejects.toThrow('did you mean "maxTurns"?');
  for (const [idle, name] of [
    ["rl.lr=0.1", "rl.lr"],
    ["demo.levels=1", "demo"],
    ["sft.steps=3", "sft.steps"],
  ] as const)
    await expect(prepared({ set: ["env.levels=1", idle] })).rejects.toThrow(
      `--set ${name}: an evaluation trains nothing; expected an option of env, train, rollout, evaluation, history`,
    );
  await expect(prepared({ seed: "x" })).rejects.toThrow('--seed: expected an integer ≥ 0, got "x"');
  const empty = createRun(join(work, "empty"), { preset: tinyPreset() });
  await expect(prepared({ run: empty.path })).rejects.toThrow(`--run: ${empty.path} has no checkpoint yet`);
});
