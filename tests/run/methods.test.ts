/**
 * Methods on the command line: the default is what it always was, names that do not fit together are one line, and
 * every method and every environment gets from the run what it needs (in `npm test`, every fourth method). Whole runs
 * are in methods.long.test.ts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TrainingState } from "../../run/trainingState.ts";
import { Experiment } from "../../run/experiment.ts";
import { objectiveFor } from "../../run/methods.ts";
import { UsageError } from "../../run/usage.ts";
import type { Preset } from "../../run/preset.ts";
import { presetOf } from "../../run/presets.ts";
import { longestCompletion } from "../../run/template.ts";
import { createRun } from "../../run/node/runFolder.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/checkpoint.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { echo } from "../../rl/objective/echo.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { METHODS } from "../../methods/choice.ts";
import { type Objective, worldsOf } from "../../rl/objective/objective.ts";
import { Template } from "../../rl/episode/template.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";
import { lake, small } from "../support/lake.ts";
import { randomBatch, weighStep } from "../support/rlBatches.ts";
import { some } from "../support/tries.ts";
import { unwatched } from "../support/tinyRun.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-methods-"));
let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const objectiveOfFlags = (...args: string[]): Objective => {
  const preset = presetOfFlags(...args);
  return objectiveFor(preset.rl, longestCompletion(preset));
};

describe("settings", () => {
  test("without flags: GRPO and ECHO with the numbers that the main job has always had", () => {
    expect(presetOfFlags()).toMatchObject({
      env: "terminal",
      model: { hiddenSize: 64, layers: 3, maxPositions: 192 },
      rl: { method: "grpo_token+echo", aggregation: "token-mean", groups: 24 },
      rollout: { temperature: 1, maxTurns: 5, maxActionTokens: 32, maxObservationTokens: 48 },
    });
    expect(presetOfFlags().tasks).toBeUndefined();
    const written: Objective = {
      advantage: grpo(),
      policyLoss: ppoClip({ epsilon: 0.2, epsilonHigh: 0.28 }),
      aggregation: "token-mean",
      world: echo({ lambda: 0.05 }),
    };
    const batch = randomBatch(2);
    for (const flags of [[], ["--method", "grpo_token+echo"], ["--lambda", "0.05"]]) {
      const objective = objectiveOfFlags(...flags);
      expect(weighStep(objective, batch, 0)).toEqual(weighStep(written, batch, 0));
      expect(objective.policyLoss.clip).toEqual(written.policyLoss.clip);
      expect(Object.keys(objective).toSorted()).toEqual(Object.keys(written).toSorted());
    }
    // Without the suffix, and for an add-on alone, GRPO is the paper's: one clip, the mean over sequences.
    for (const flags of [
      ["--method", "echo"],
      ["--method", "grpo+echo"],
    ]) {
      expect(objectiveOfFlags(...flags)).toMatchObject({ aggregation: "seq-mean-token-mean" });
      expect(objectiveOfFlags(...flags).policyLoss.clip).toEqual({ low: 0.8, high: 1.2 });
    }
  });

  test("an environment's own steps and levels; --steps is said last", () => {
    expect(presetOfFlags()).toMatchObject({ sft: { steps: 900 }, rl: { steps: 160 } });
    const calculator = {
      sft: { steps: 600, noviceShare: 0.2 },
      rl: { groups: 24, lr: 3e-4 },
      tasks: { levels: [1, 3] },
    };
    expect(presetOfFlags("--env", "calculator")).toMatchObject({ ...calculator, rl: { ...calculator.rl, steps: 60 } });
    expect(presetOfFlags("--env", "calculator", "--steps", "7").rl.steps).toBe(7);
  });

  test("methods are what their names say", () => {
    const dapo = objectiveOfFlags("--method", "dapo+actfocus");
    expect([dapo.aggregation, dapo.dropConstantGroups, dapo.tokenWeights!.name, worldsOf(dapo)]).toEqual([
      "token-mean",
      true,
      "actfocus",
      [],
    ]);
    const mixed = objectiveOfFlags(
      "--method",
      "gspo+echo",
      "--advantage",
      "rloo",
      "--lambda",
      "0.5",
      "--loss",
      "cispo",
      "--aggregation",
      "dapo",
    );
    expect([mixed.advantage.name, mixed.policyLoss.name, mixed.aggregation]).toEqual(["rloo", "cispo", "token-mean"]);
    const sum = (rows: readonly Float64Array[]): number =>
      rows.reduce((s, row) => s + row.reduce((a, b) => a + b, 0), 0);
    const weightOf = (lambda: string): number =>
      sum(worldsOf(objectiveOfFlags("--lambda", lambda))[0]!.weights(randomBatch(1), 0));
    expect(weightOf("0.5") / weightOf("0.05")).toBeCloseTo(10, 10);
    expect(objectiveOfFlags("--method", "dr_grpo").maxLength).toBe(5 * 32);
    expect(objectiveOfFlags("--method", "ppo", "--kl", "0.1").kl).toEqual({
      beta: 0.1,
      estimator: "k3",
      in: "loss",
      importance: false,
    });
  });

  test("config.json records the names, and is enough to make the method again; without one it is refused", () => {
    const preset = presetOfFlags("--method", "paw+actfocus", "--loss", "sapo", "--env", "shop");
    const saved = JSON.parse(JSON.stringify(preset)) as Preset;
    expect(saved.rl).toMatchObject({ method: "paw+actfocus", loss: "sapo" });
    const own = mkdtempSync(join(folder, "config-"));
    const again = presetOf(createRun(join(own, "names"), { preset: saved }));
    expect(again).toEqual(preset);
    const { method: _, ...nameless } = preset.rl;
    const without = createRun(join(own, "nameless"), { preset: { ...preset, rl: nameless } });
    expect(() => presetOf(without)).toThrow(/nameless: its config\.json: rl: method must be text, got missing/);
    const broken = createRun(join(own, "broken"), { preset: { ...preset, rl: { ...preset.rl, method: "ecko" } } });
    expect(() => presetOf(broken)).toThrow(UsageError);
  });

  test.each([
    [["--method", "ecko"], '--method: unknown name "ecko"; did you mean "echo"?'],
    [["--method", ""], "--method: the name is empty"],
    [["--method", "grpo+dapo"], "names 2 presets, grpo and dapo; one is possible"],
    [["--method", "echo+echo"], '"echo" is there twice'],
    [["--method", "actfocus+top_entropy"], "one token weighting is possible"],
    [["--loss", "pppo"], '--loss: unknown name "pppo"; did you mean "ppo"?'],
    [["--advantage", "rlo"], '--advantage: unknown name "rlo"; did you mean "rloo"?'],
    [["--aggregation", "mean"], '--aggregation: unknown name "mean"'],
    [["--env", "gridword"], '--env: unknown name "gridword"; did you mean "gridworld"?'],
    [["--env", "toString"], '--env: unknown name "toString"; expected home, castle, terminal'],
    [
      ["--method", "ppo", "--advantage", "rloo"],
      "--method ppo has a critic, which --advantage rloo does not read: choose one of gae",
    ],
    [["--method", "dpo"], "dpo learns from pairs, and the main job from rewards"],
    [["--loss", "dpo_ipo"], "dpo_ipo learns from pairs"],
    [["--loss", "sft"], "sft learns from demonstrations"],
    [["--method", "dapo", "--lambda", "0.1"], "--lambda: echo is no part of --method dapo, whose parts are grpo, ppo"],
    [["--kl-target", "0.1"], "--kl-target is about --kl X; add it"],
    [["--kl", "-1"], "--kl must be ≥ 0, got -1"],
  ])("%j is one clear line", (args, message) => {
    expect(() => presetOfFlags(...args)).toThrow(UsageError);
    expect(() => presetOfFlags(...args)).toThrow(message);
  });
});

async function collect(steps: AsyncGenerator<StepReport>): Promise<StepReport[]> {
  const reports: StepReport[] = [];
  for await (const report of steps) reports.push(report);
  return reports;
}

/** Names of metrics that are not finite. */
const wrong = ({ metrics }: StepReport): string[] =>
  Object.keys(metrics).filter((name) => !Number.isFinite(metrics[name]));

describe("through the experiment", () => {
  let template: Template;
  let warm: Awaited<ReturnType<typeof modelToFiles>>;
  beforeAll(async () => {
    const experiment = await Experiment.of(lake());
    const tokenizer = await experiment.trainTokenizer();
    template = new Template(tokenizer);
    const model = experiment.newModel(tokenizer, device);
    const optimizer = experiment.sftOptimizer(model);
    const demonstrations = await experiment.demonstrations(template);
    await collect(experiment.sft({ model, template, optimizer, demonstrations }));
    warm = await modelToFiles(model);
  });

  const names = [...Object.keys(METHODS), "echo", "paw", "actfocus", "top_entropy", "echo+actfocus", "dapo+echo+paw"];
  test.each([
    ...some(names).map((name) => ["--method", name]),
    ["--method", "vapo+echo+actfocus", "--kl", "0.1"],
    ["--lambda", "0"],
  ])("%s %s trains with finite metrics", async (...flags) => {
    const experiment = await Experiment.of(lake(...flags));
    const model = modelFromFiles(warm["config.json"] as string, warm["model.safetensors"] as Uint8Array, device);
    const { reference, heads } = await TrainingState.ofWarmStart(experiment, model, template, unwatched());
    const objective = experiment.objective();
    expect(["value" in heads, reference !== undefined]).toEqual([
      /^(ppo|vapo|ragen|vtrace)/.test(experiment.preset.rl.method),
      /actfocus|webrl/.test(experiment.preset.rl.method),
    ]);
    const optimizer = experiment.rlOptimizer(model);
    const reports = await collect(experiment.rl({ model, template, optimizer, reference, heads }));
    expect(reports.length).toBe(2);
    // The same episodes for all: some succeed, so that there is something to learn.
    expect(reports[0]!.metrics["frac_reward_zero_std"]).toBeLessThan(1);
    // (The best of a group trains nothing if there are two of them.)
    if (objective.advantage.name !== "pass_at_k") {
      expect(reports[0]!.metrics["grad_norm"]).toBeGreaterThan(0);
      // Whether it learns to predict or not: then with ECHO's gradient.
      expect("grad_cosine/world_policy" in reports[0]!.metrics).toBe(true);
    }
    for (const report of reports) {
      expect(wrong(report)).toEqual([]);
      if (!objective.dropConstantGroups) expect("loss" in report.metrics).toBe(true);
      expect("value_loss" in report.metrics).toBe("value" in heads);
      expect("kl" in report.metrics).toBe(objective.kl !== undefined);
    }
  });

  test.each(Object.keys(ENVIRONMENTS))("%s: demonstrations fit, and a step of each phase is done", async (env) => {
    const experiment = await Experiment.of(small(presetOfFlags("--quick", "--env", env)));
    const { sft, rl } = experiment.preset;
    const short = await Experiment.of({ ...experiment.preset, sft: { ...sft, steps: 3 }, rl: { ...rl, steps: 1 } });
    const tokenizer = await short.trainTokenizer();
    const own = new Template(tokenizer);
    const demonstrations = await short.demonstrations(own);
    expect(demonstrations.length).toBe(sft.demonstrations); // none was too long
    const model = short.newModel(tokenizer, device);
    const learner = { model, template: own, optimizer: short.sftOptimizer(model) };
    const reports = await collect(short.sft({ ...learner, demonstrations }));
    reports.push(...(await collect(short.rl({ ...learner, optimizer: short.rlOptimizer(model) }))));
    expect(reports.map(wrong)).toEqual([[], [], [], []]);
    const score = await short.evaluate(model, own, 4);
    expect(score!.episodes).toBe(4);
    expect(score!.worldLoss).toBeGreaterThan(0);
    expect(score!.trajectories.filter((t) => t.masked)).toEqual([]);
  });
});

test("Dr. GRPO's constant is the length that an episode can have", () => {
  const preset = presetOfFlags("--method", "dr_grpo", "--model", "base");
  expect(objectiveFor(preset.rl, longestCompletion(preset)).maxLength).toBe(160);
});
