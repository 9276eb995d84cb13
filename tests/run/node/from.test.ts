/**
 * What of a run goes on: the best checkpoint stays beside the newest ones, and another run begins with the weights of
 * any of them (sheeprl#295, torchforge#362, verl#4281, huggingface/transformers#21399).
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../../rl/environment.ts";
import { bestOf } from "../../../run/best.ts";
import type { Observer } from "../../../run/observer.ts";
import type { Preset } from "../../../run/preset.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import type { MetricsRecord } from "../../../run/records.ts";
import { Run } from "../../../run/run.ts";
import { HELD_OUT_SEEDS, rlNumbers } from "../../../run/scriptedPlayers.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { UsageError } from "../../../run/usage.ts";
import { addEnvironment } from "../../../run/worlds.ts";
import { checkpointNamed } from "../../../run/node/checkpoints.ts";
import { parseStart } from "../../../run/node/commandLine.ts";
import { fromRun, saveWeightsOf } from "../../../run/node/fromRun.ts";
import { createRun, openRun, type RunFolder } from "../../../run/node/runFolder.ts";
import { set } from "../../support/presetOfFlags.ts";
import { QUIET, tinyPreset } from "../../support/tinyRun.ts";

const work = mkdtempSync(join(tmpdir(), "worldgrad-from-"));
let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm", { threads: 1 })));
afterAll(() => {
  device.dispose();
  rmSync(work, { recursive: true });
});

/** How many of ten held-out tasks are solved after each step of RL: best at step 2, and again at step 4. */
const SOLVED = [1, 3, 8, 8, 8, 2, 5];
/** What they earn: the same at step 2 and 4, less at step 3. */
const EARNED = [0, 0, 0.5, 0.25, 0.5, 1, 1];
let step = 0;
const isHeldOut = (seed: number): boolean => seed >= HELD_OUT_SEEDS;

/** A world that says what was solved, whatever is done in it. */
class Fixed extends SingleUseEnvironment {
  readonly name = "fixed";
  info = {};
  #seed = 0;
  protected begin(seed: number): string {
    this.#seed = seed;
    this.info = { success: isHeldOut(seed) && seed - HELD_OUT_SEEDS < SOLVED[step]! };
    return `task ${seed % 97}`;
  }
  protected act(): StepResult {
    return { observation: "b", reward: isHeldOut(this.#seed) ? EARNED[step]! : 0, done: true, info: this.info };
  }
}
const fixed: EnvironmentSpec = {
  name: "fixed",
  description: "says what was solved",
  families: [],
  make: () => new Fixed(),
  expert: () => "a",
  random: () => "b",
};
addEnvironment(fixed, "tests/run/node/from.test.ts");
const COUNTING: Observer = { ...QUIET, update: (done) => void (step = done) };

/** The smallest run in that world, whose evaluations fall on every step, and whose checkpoints on every third. */
const inFixed = (): Preset => {
  const { tasks: _, trainTasks: __, demoTasks: ___, ...preset } = tinyPreset();
  return {
    ...preset,
    env: "fixed",
    sft: { ...preset.sft, steps: 0, warmup: 0 },
    rl: { ...preset.rl, steps: 6 },
    evaluation: { every: 1, episodes: 10, finalEpisodes: 10 },
    checkpointEvery: 3,
  };
};

async function train(folder: RunFolder, observer = COUNTING, stop = new AbortController()): Promise<void> {
  step = 0;
  const run = new Run(folder, presetOf(folder), device, observer, stop.signal);
  try {
    await run.run(true);
  } finally {
    run.dispose();
  }
}

describe("the best checkpoint", () => {
  const line = (step: number, success: number, reward?: number): MetricsRecord => ({
    step,
    phase: "eval",
    success,
    ...(reward === undefined ? {} : { reward }),
  });

  it("is that of the highest success, then of the highest reward, then the earliest", () => {
    const steps = [0, 1, 2, 3, 4];
    expect(bestOf([line(0, 0.5), line(1, 0.75), line(2, 0.25)], steps)?.step).toBe(1);
    expect(bestOf([line(0, 0.5), line(1, 0.5)], steps)?.step).toBe(0);
    expect(bestOf([line(0, 0, -3), line(1, 0, -2), line(2, 0, -2)], steps)?.step).toBe(1);
    expect(bestOf([line(0, NaN), line(1, 0)], steps)?.step).toBe(1);
    expect(bestOf([line(0, 0.5), line(7, 1), { step: 1, phase: "rl", success: 1 }], steps)?.step).toBe(0);
    expect(bestOf([line(0, NaN)], steps)).toBeUndefined();
    expect(bestOf([], [])).toBeUndefined();
  });

  it(
    "stays beside the two newest, also in a run that was stopped after any of its steps and resumed",
    { timeout: 60_000 },
    async () => {
      const whole = createRun(join(work, "whole"), { preset: inFixed() });
      await train(whole);
      const evaluated = whole.readMetrics().filter(({ phase }) => phase === "eval");
      expect(evaluated.map(({ success }) => success)).toEqual(SOLVED.map((n) => n / 10));
      // Step 3 and 6 are due, 1 and 2 were the best of their time; step 4 is no better than step 2.
      expect(whole.listCheckpoints()).toEqual([2, 3, 6]);
      expect(checkpointNamed("run", whole, "best").step).toBe(2);
      expect(checkpointNamed("run", whole).step).toBe(6);
      expect(checkpointNamed("run", whole, "3").step).toBe(3);
      expect(() => checkpointNamed("run", whole, "4")).toThrow('got "4"; it has those of 2, 3, 6');
      for (const last of [1, 2, 4]) {
        const folder = createRun(join(work, `stopped-${last}`), { preset: inFixed() });
        const stop = new AbortController();
        const observer: Observer = {
          ...COUNTING,
          update(done) {
            step = done;
            if (done === last) stop.abort(new Error("stopped"));
          },
        };
        await train(folder, observer, stop);
        await train(folder, {
          ...COUNTING,
          note: (text) => void (step = Number(/step (\d+)/.exec(text)?.[1] ?? step)),
        });
        expect(folder.listCheckpoints()).toEqual([2, Math.max(3, last), 6]); // it is also saved where it was stopped
        for (const at of [2, 6])
          expect(folder.loadCheckpoint(at).files["model.safetensors"]).toEqual(
            whole.loadCheckpoint(at).files["model.safetensors"],
          );
      }
    },
  );
});

/** A run of the command line in the smallest sizes. */
async function trained(name: string, ...flags: string[]): Promise<RunFolder> {
  const preset = tinyPreset("--steps", "2", ...flags);
  const folder = createRun(join(work, name), { preset: { ...preset, rollout: { ...preset.rollout, maxTurns: 1 } } });
  await train(folder, QUIET);
  return folder;
}

/** The settings of a run from these flags, and what makes its folder. */
async function begun(...flags: string[]): Promise<{ preset: Preset; begin: (name: string) => Promise<RunFolder> }> {
  const options = parseStart(flags) as StartOptions;
  const earlier = await fromRun(options);
  const preset = presetFor(options, undefined, earlier);
  const begin = async (name: string): Promise<RunFolder> => {
    const folder = createRun(join(work, name), { preset });
    await saveWeightsOf(earlier!, folder, device);
    return folder;
  };
  return { preset, begin };
}

const evaluationsOf = (folder: RunFolder): unknown[] =>
  folder.readMetrics().flatMap((line) => (line.phase === "eval" ? [{ ...line, step: 0 }] : []));

describe("a run that begins with another", () => {
  let source: RunFolder;
  beforeAll(async () => void (source = await trained("source", "--method", "ppo", ...set("ppo.epsilonHigh=0.3"))));

  it("speaks its language: it is evaluated as the other was at its end, and --steps 0 does only that", async () => {
    const { preset, begin } = await begun("--from", source.path, "--steps", "0");
    const folder = await begin("evaluated");
    await train(folder, QUIET);
    expect(evaluationsOf(folder)).toEqual([evaluationsOf(source).at(-1)]);
    expect(folder.loadLatestCheckpoint()!.files["model.safetensors"]).toEqual(
      source.loadLatestCheckpoint()!.files["model.safetensors"],
    );
    expect(preset.from).toEqual({ path: source.path, step: 4, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  });

  it("trains on other tasks, and resumed after a kill it ends with the same bits", async () => {
    const { preset, begin } = await begun("--from", source.path, "--steps", "3", ...set("rl.lr=1e-2"));
    expect(rlNumbers(preset).int(2 ** 31)).not.toBe(rlNumbers(presetOf(source)).int(2 ** 31));
    const [whole, killed] = [await begin("more"), await begin("killed")];
    await train(whole, QUIET);
    const stop = new AbortController();
    const observer = { ...QUIET, update: (done: number) => void (done === 2 && stop.abort(new Error("killed"))) };
    await train(killed, observer, stop);
    await train(killed, QUIET);
    const timeless = (folder: RunFolder): string =>
      readFileSync(join(folder.path, "metrics.jsonl"), "utf8").replaceAll(
        /"\w*(time|seconds|per_second)\w*":[^,}]+/g,
        "",
      );
    expect(timeless(killed)).toBe(timeless(whole));
    expect(killed.loadLatestCheckpoint()!.files["model.safetensors"]).toEqual(
      whole.loadLatestCheckpoint()!.files["model.safetensors"],
    );
    expect(whole.loadLatestCheckpoint()!.files["model.safetensors"]).not.toEqual(
      source.loadLatestCheckpoint()!.files["model.safetensors"],
    );
  });

  it("has the other's settings where nothing else is said", async () => {
    const was = presetOf(source);
    const { preset } = await begun("--from", source.path);
    const { from: _, sft, ...rest } = preset;
    const { sft: sftBefore, ...before } = was;
    expect(rest).toEqual(before);
    expect(sft).toEqual({ ...sftBefore, steps: 0, warmup: 0 });
    const changed = (await begun("--from", source.path, "--steps", "9", ...set("rl.lr=0.1", "rollout.maxTurns=3")))
      .preset;
    expect(changed.rl).toEqual({ ...was.rl, steps: 9, lr: 0.1 });
    expect(changed.rollout).toEqual({ ...was.rollout, maxTurns: 3 });
    // A method that is named comes without the settings of the other.
    const other = (await begun("--from", source.path, "--method", "grpo", "--seed", "5")).preset;
    expect(other.rl).toMatchObject({ method: "grpo", groups: was.rl.groups, lr: was.rl.lr });
    expect(other.rl).not.toHaveProperty("options");
    expect(other.seed).toBe(5);
    const elsewhere = (await begun("--from", source.path, "--env", "calculator")).preset;
    expect(elsewhere).toMatchObject({ env: "calculator", model: was.model, rl: { method: "ppo" } });
    expect(elsewhere.tasks).toEqual({ levels: [1, 3] });
  });

  it("may begin with the best checkpoint, and with an adapter, which is merged", async () => {
    const adapted = await trained("adapted", "--method", "grpo", ...set("lora.r=2", "rl.lr=0.1"));
    const { preset, begin } = await begun("--from", adapted.path, "--checkpoint", "best", "--steps", "0");
    expect(preset.from!.step).toBe(checkpointNamed("from", adapted, "best").step);
    const files = (await begin("merged")).loadLatestCheckpoint()!.files;
    expect(Object.keys(files).toSorted()).toEqual(["config.json", "model.safetensors", "state.json", "tokenizer.json"]);
    await train(openRun(join(work, "merged")), QUIET);
  });

  it.each([
    [["--from", "PATH", "--lambda", "0.1"], "--lambda: echo is no part of --method ppo, whose parts are gae, ppo"],
    [["--from", "PATH", ...set("tokenizer.vocabSize=300")], "is about a tokenizer that is made, and the run begins"],
    [["--from", "PATH", "--model", "small"], "--from begins with the model of a run; leave --model out"],
    [["--from", "PATH", "--checkpoint", "9"], 'newest, best, or the step of a checkpoint of PATH, got "9"'],
    [["--from", "PATH", ...set("rollout.maxTokens=9999")], "--set rollout.maxTokens: the run's episodes had"],
    [["--from", "nowhere"], "--from: openRun: no folder nowhere"],
    [["--checkpoint", "best"], "--checkpoint names a checkpoint of --from, and there is none"],
    [["--resume", "PATH", "--steps", "80"], "or begin another run with its weights: --from PATH --steps"],
  ])("%j is one line", async (flags, text) => {
    const real = (words: string): string => words.replace("PATH", source.path);
    const making = begun(...flags.map(real));
    await expect(making).rejects.toThrow(UsageError);
    await expect(making).rejects.toThrow(real(text));
  });

  it("without its first checkpoint it is no run, and no random model takes its place", async () => {
    const { preset } = await begun("--from", source.path, "--steps", "1");
    const folder = createRun(join(work, "empty"), { preset });
    await expect(train(folder, QUIET)).rejects.toThrow(/are in no checkpoint; begin it anew/);
  });
});
