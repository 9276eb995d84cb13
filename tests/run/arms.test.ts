/**
 * Arms of a comparison: from a word to a run's settings; what is wrong is one line that names the arm. And what is no
 * RL runs as arms do.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseArms, parseWords, presetOfArm } from "../../run/arms.ts";
import { createDisplay } from "../../run/display/display.ts";
import { Experiment } from "../../run/experiment.ts";
import { definedOf } from "../support/mainJob.ts";
import { UsageError } from "../../run/usage.ts";
import { parseStart, withFiles } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import type { Summary } from "../../run/records.ts";
import { Run } from "../../run/run.ts";
import { createRun, openRun, type RunFolder } from "../../run/node/runFolder.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Template } from "../../rl/episode/template.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-arms-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** In the terminal, where nothing else is said. */
const base = (...args: string[]): StartOptions => ({ env: "terminal", ...definedOf(parseStart(args) as StartOptions) });
const presetsOf = (text: string, ...args: string[]): Preset[] =>
  parseArms(text).map((arm) => presetOfArm(arm, base(...args)));

describe("a list of arms", () => {
  test("is split at commas outside brackets; an arm has a label and a folder", () => {
    const arms = parseArms(
      "grpo, echo=grpo+echo[lambda=0.2,train.levels=1-2],grpo[kl=0.05],one more=grpo[expert-prefix]",
    );
    expect(arms.map(({ label, slug }) => [label, slug])).toEqual([
      ["grpo", "grpo"],
      ["echo", "echo"],
      ["grpo[kl=0.05]", "grpo-kl-0.05"],
      ["one more", "one-more"],
    ]);
    expect(arms[1]).toMatchObject({ method: "grpo+echo", settings: { lambda: "0.2", "train.levels": "1-2" } });
    expect(arms[3]!.settings).toEqual({ "expert-prefix": undefined });
  });

  test("a schedule keeps its commas", () => {
    const [arm] = parseArms("grpo+echo[echo.lambda=0:0.2,50:0.05,kl=0.1,temperature=0:1,10:0.8]");
    expect(arm!.settings).toEqual({ "echo.lambda": "0:0.2,50:0.05", kl: "0.1", temperature: "0:1,10:0.8" });
    const [preset] = presetsOf("grpo+echo[echo.lambda=0:0.2,50:0.05,kl=0.1]");
    expect(preset!.rl).toMatchObject({
      kl: { beta: 0.1 },
      options: {
        echo: {
          lambda: {
            at: [
              [0, 0.2],
              [50, 0.05],
            ],
          },
        },
      },
    });
  });

  test("is what npm start would run with the same flags, on top of what all arms have", () => {
    const [arm] = presetsOf(
      "grpo+echo[lambda=0.2,rl.lr=1e-3,steps=7,train.levels=1,replay=2,expert-prefix]",
      "--set",
      "rl.lr=5",
      "--set",
      "sft.steps=60",
      "--seed",
      "3",
    );
    const flags = [
      "--method",
      "grpo+echo",
      "--lambda",
      "0.2",
      "--steps",
      "7",
      "--replay",
      "2",
      "--expert-prefix",
      "--seed",
      "3",
    ];
    const sets = ["rl.lr=1e-3", "train.levels=1", "sft.steps=60"].flatMap((text) => ["--set", text]);
    expect(arm).toEqual(presetFor(base(...flags, ...sets)));
    expect(arm!.tasks).toBe(undefined);
    expect(arm!.trainTasks).toEqual({ levels: [1, 1] });
  });

  test("shared options that are about RL are about the methods; baselines alone refuse them", () => {
    const shared = base("--reward", "prm", "--set", "ppo.epsilon=0.3", "--set", "rl.lr=1e-3", "--set", "rl.entropy=1");
    const [grpo, ...baselines] = parseArms("grpo,sft,expert,random").map((arm) => presetOfArm(arm, shared));
    expect(grpo!.rl).toMatchObject({ reward: { name: "prm" }, entropy: 1 });
    for (const { rl, rewardFile } of baselines) {
      expect(Object.keys(rl).filter((key) => ["reward", "entropy"].includes(key))).toEqual([]);
      expect(rewardFile).toBe(undefined);
    }
    expect(baselines[0]).toEqual(presetOfArm(parseArms("sft")[0]!, base("--set", "rl.lr=1e-3")));
    for (const arm of parseArms("sft,random"))
      expect(() => presetOfArm(arm, shared)).toThrow(`arm ${arm.label}: --reward is about RL, which --method`);
    // The tasks are the same for all.
    const tasks = base(
      "--set",
      "env.levels=1",
      "--set",
      "train.size=2",
      "--set",
      "demo.size=3",
      "--set",
      "rl.entropy=1",
    );
    for (const { tasks: env, trainTasks, demoTasks } of parseArms("grpo,sft,random").map((a) => presetOfArm(a, tasks)))
      expect({ env, trainTasks, demoTasks }).toEqual({
        env: { levels: [1, 1] },
        trainTasks: { size: 2 },
        demoTasks: { size: 3 },
      });
    // An option that nothing has is no option of the others.
    for (const arm of parseArms("grpo,sft"))
      expect(() => presetOfArm(arm, base("--set", "rl.entropi=1"))).toThrow("did you mean");
    // The tasks of self-play are those of the warm start, which a baseline cannot leave to the others.
    const [, sft] = parseArms("grpo,sft");
    expect(() => presetOfArm(sft!, base("--set", "selfPlay.name=absolute-zero"))).toThrow("is about RL");
  });

  test("an arm may be a file of TRL's GRPOConfig, where there are files", () => {
    const path = join(folder, "trl.json");
    writeFileSync(path, '{ "num_generations": 4, "epsilon": 0.3 }');
    const [arm] = parseArms(`trl=grpo[grpo-config=${path}]`);
    expect(presetOfArm(arm!, base(), withFiles).rl).toMatchObject({ groupSize: 4 });
    expect(() => presetOfArm({ ...arm!, settings: { "grpo-config": "none.json" } }, base(), withFiles)).toThrow(
      "arm trl: --grpo-config: none.json: ENOENT",
    );
  });

  test.each([
    ["grpo,grppo", 'arm grppo: --method: unknown name "grppo"; did you mean "grpo"?'],
    ["grpo[lambda=0.2]", "arm grpo[lambda=0.2]: --lambda: echo is no part of --method grpo, whose parts are grpo, ppo"],
    ["a=echo[lamda=0.2]", 'arm a: unknown setting "lamda"; did you mean "lambda"?'],
    ["a=echo[seed=2]", 'arm a: unknown setting "seed"; expected PART.OPTION or one of steps, loss'],
    ["a=echo[sft.lr=1]", "arm a: sft.lr belongs to the warm start, which all arms share"],
    ["a=echo[env.levels=1]", "arm a: env.levels belongs to the tasks that all arms are evaluated on; train.… changes"],
    ["a=echo[train.sise=2]", "arm a: --set train: terminal: unknown option 'sise'; did you mean 'size'?"],
    ["a=echo[expert-prefix=2]", 'arm a: --expert-prefix: expected no value, got "2"'],
    ["echo[lambda]", "arm echo[lambda]: --lambda: expected a value"],
    ["echo[lambda=.2", "--arms: the brackets do not match"],
    ["echo]", "--arms: the brackets do not match"],
    ["grpo,,echo", '--arms: expected [NAME=]METHOD[SETTING,…] with commas between them, got ""'],
    ["grpo,grpo", '--arms: "grpo" is there twice'],
    ["a b=grpo,a-b=echo", "--arms: a b and a-b would have one folder; give one a NAME="],
    ["echo[lambda=1,lambda=2]", "--arms: echo[lambda=1,lambda=2]: lambda is there twice"],
    ["echo[=1]", '--arms: echo[=1]: expected SETTING=VALUE, got "=1"'],
    ["dpo", "arm dpo: dpo learns from pairs, and the main job from rewards"],
    ["sft+echo", "arm sft+echo: --method sft+echo: sft is no RL and takes no add-ons"],
    ["sft[kl=0.1]", "arm sft[kl=0.1]: --kl is about RL, which --method sft is not"],
    ["expert[replay=2]", "arm expert[replay=2]: --replay is about RL, which --method expert is not"],
    [
      "expert[rl.expertsOnly=true]",
      "arm expert[rl.expertsOnly=true]: --set rl.expertsOnly is about RL, which --method expert is not",
    ],
    ["random[rl.entropy=1]", "arm random[rl.entropy=1]: --set rl.entropy is about RL, which --method random is not"],
    ["sft[echo.lambda=1]", "arm sft[echo.lambda=1]: --set echo.lambda is about RL, which --method sft is not"],
    ["grpo[rl.expertsOnly=true]", "arm grpo[rl.expertsOnly=true]: --set rl.expertsOnly is about --method sft"],
    [
      "grpo[rl.rewardFrom=5]",
      "arm grpo[rl.rewardFrom=5]: --set rl.rewardFrom: before that step nothing is learnt but a world model",
    ],
    ["echo[rl.rewardFrom=-1]", "arm echo[rl.rewardFrom=-1]: --set rl.rewardFrom must be an integer ≥ 0, got -1"],
  ])("%s is one clear line", (text, message) => {
    expect(() => presetsOf(text)).toThrow(UsageError);
    expect(() => presetsOf(text)).toThrow(message);
  });

  test("environments are words of the same kind", () => {
    expect(parseWords("env", "terminal,easy=calculator[levels=1-2,sft.steps=60]")).toEqual([
      { label: "terminal", slug: "terminal", head: "terminal", settings: {} },
      { label: "easy", slug: "easy", head: "calculator", settings: { levels: "1-2", "sft.steps": "60" } },
    ]);
  });
});

describe("what RL is measured against", () => {
  let device: Device;
  beforeAll(async () => void (device = await makeDevice("wasm")));
  afterAll(() => device.dispose());
  const quiet = createDisplay({ stream: { write: () => true }, isTTY: false });
  const presetWith = (text: string): Preset => {
    const [preset] = presetsOf(text, "--quick", "--env", "calculator", "--set", "sft.steps=20", "--set", "rl.lr=3e-3");
    return { ...preset!, checkpointEvery: 1 };
  };
  const start = async (method: string): Promise<{ folder: RunFolder; summary: Summary }> => {
    const [path, preset] = [join(folder, method), presetWith(method)];
    const run = new Run(createRun(path, { preset }), preset, device, quiet, new AbortController().signal);
    const summary = await run.run(false);
    run.dispose();
    return { folder: openRun(path), summary: summary! };
  };
  const started = new Map<string, ReturnType<typeof start>>();
  /** The run of a method, which is made once. */
  const runOf = (method: string): ReturnType<typeof start> => {
    if (!started.has(method)) started.set(method, start(method));
    return started.get(method)!;
  };

  test.each(["sft", "expert"])("%s learns as many steps as RL, and is saved and reported as it is", async (method) => {
    const { folder: own, summary } = await runOf(method);
    const lines = own.readMetrics();
    const learnt = lines.filter(({ phase }) => phase === "rl");
    expect(learnt.length).toBe(4);
    for (const line of learnt) {
      expect(Object.keys(line)).toEqual([
        "step",
        "phase",
        "loss",
        "grad_norm",
        "learning_rate",
        "step_tokens",
        "step_time",
        "tokens_per_second",
      ]);
      expect(line["grad_norm"]).toBeGreaterThan(0);
    }
    expect(Number(learnt.at(-1)!["loss"])).toBeLessThan(Number(learnt[0]!["loss"]));
    expect(lines.filter(({ phase }) => phase === "eval").map(({ step }) => step)).toEqual([20, 22, 24]);
    expect(summary.after.label).toBe("after imitation");
    expect(summary.facts!["method"]).toBe(method);
    expect(own.listCheckpoints().at(-1)).toBe(24);
    expect(own.readTranscripts().length).toBeGreaterThan(0);
  });

  test("sft is stopped and resumed to the same lines", async () => {
    const preset = presetWith("sft");
    const { folder: whole } = await runOf("sft");
    const stop = new AbortController();
    const stopping = {
      ...quiet,
      phase: (name: string): void => void (inArm = name.startsWith("imitation")),
      update: (step: number): void => void (inArm && step === 2 && stop.abort()),
    };
    let inArm = false;
    const stopped = createRun(join(folder, "sft-stopped"), { preset });
    const first = new Run(stopped, preset, device, stopping, stop.signal);
    expect(await first.run(false)).toBe(null);
    first.dispose();
    const second = new Run(openRun(stopped.path), preset, device, quiet, new AbortController().signal);
    expect(await second.run(true)).not.toBe(null);
    second.dispose();
    const times = ["step_time", "tokens_per_second"];
    const lines = (of: RunFolder): unknown[] =>
      of.readMetrics().map((line) => Object.entries(line).filter(([name]) => !times.includes(name)));
    expect(lines(openRun(stopped.path))).toEqual(lines(whole));
  });

  test("sft without novices leaves theirs out; the expert's tasks are those that RL draws", async () => {
    const episodesOf = async (text: string): Promise<{ seeds: Set<number>; failed: number }> => {
      const preset = presetWith(text);
      const experiment = await Experiment.of({
        ...preset,
        sft: { ...preset.sft, demonstrations: 30, noviceShare: 0.5 },
      });
      const tokenizer = await experiment.trainTokenizer();
      const template = new Template(tokenizer);
      const model = experiment.newModel(tokenizer, device);
      const learner = { model, template, optimizer: experiment.rlOptimizer(model) };
      const played: { seed: number; success: boolean }[] = [];
      for await (const { rows } of experiment.rl(learner)) {
        for (const { trajectory } of rows)
          played.push({ seed: trajectory.seed, success: trajectory.info["success"] === true });
      }
      return {
        seeds: new Set(played.map(({ seed }) => seed)),
        failed: played.filter(({ success }) => !success).length,
      };
    };
    expect((await episodesOf("sft")).failed).toBeGreaterThan(0);
    expect((await episodesOf("sft[rl.expertsOnly=true]")).failed).toBe(0);
    const [expert, rl] = [await episodesOf("expert"), await episodesOf("grpo")];
    expect(expert.failed).toBe(0);
    expect([...expert.seeds].filter((seed) => !rl.seeds.has(seed))).toEqual([]);
    expect(expert.seeds.size).toBeGreaterThan(rl.seeds.size / 2);
  });

  test("random plays the held-out tasks and trains nothing", async () => {
    const { folder: own, summary } = await runOf("random");
    const lines = own.readMetrics();
    expect(lines.filter(({ phase }) => phase === "rl")).toEqual([]);
    expect(lines.filter(({ phase }) => phase === "eval").map(({ step }) => step)).toEqual([20, 24]);
    expect(summary.after.label).toBe("random play");
    expect(summary.after.worldLoss).toBe(summary.before.worldLoss); // the model is the warm start's
    expect(summary.after.worldLossOnPolicy).not.toBe(summary.before.worldLossOnPolicy); // the episodes are not
  });
});
