/**
 * The training loops on a toy world: metrics, exact resumption, several passes, a reference model, memory, and what
 * goes wrong.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/checkpoint.ts";
import { optimizerToFiles, restoreOptimizer } from "../../nn/optimizerFiles.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { Model } from "../../nn/transformer.ts";
import { withColumns } from "../../rl/objective/columns.ts";
import { weigh } from "../../rl/train/weights.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { remax } from "../../methods/advantages/index.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { demonstrate } from "../../data/demonstrations.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { score } from "../../rl/train/score.ts";
import { optimizerStep } from "../../rl/train/step.ts";
import { type PassResult, type StepReport, updateMetrics } from "../../rl/train/report.ts";
import { reinforce } from "../../methods/losses/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { weighStep } from "../support/rlBatches.ts";
import { sftRows, type SftOptions, trainSft } from "../../methods/sft.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { readAll } from "../support/rlExecutors.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { type Act, endingModel, episode, letters, randomEpisode, toySpec, toyTemplate } from "../support/rlToy.ts";

const demonstrationsOf = (count: number): Promise<Trajectory[]> =>
  Promise.all(Array.from({ length: count }, (_, seed) => demonstrate(toySpec(letters(2)), {}, seed, toyTemplate)));

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

describe("trainSft", () => {
  const sftOptions = (
    model: Model,
    demonstrations: readonly Trajectory[],
    overrides: Partial<SftOptions> = {},
  ): SftOptions => {
    const { template, optimizer, lr } = toyRlOptions(model);
    return { model, template, optimizer, lr, demonstrations, batchSize: 4, steps: 8, rng: new Rng(1), ...overrides };
  };

  it("learns the demonstrations", async () => {
    const model = endingModel(device);
    const reports = await reportsOf(trainSft(sftOptions(model, await demonstrationsOf(4), { steps: 25 })));
    const losses = reports.map(({ metrics }) => metrics["loss"]!);
    expect(losses.at(-1)!).toBeLessThan(0.3 * losses[0]!);
    expect(reports.map(({ step }) => step)).toEqual(Array.from({ length: 25 }, (_, i) => i));
    for (const { metrics } of reports) {
      expect(Object.keys(metrics)).toEqual(["loss", "grad_norm", "learning_rate", "step_tokens"]);
      expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
    }
    expect(reports[0]!.metrics["learning_rate"]).toBe(0.005);
  });

  it("trains the agent's tokens only, each with weight 1/N", async () => {
    const [demonstration] = await demonstrationsOf(1);
    const rows = sftRows([demonstration!, demonstration!]);
    const { roles } = demonstration!.stream;
    const N = 2 * roles.filter((role) => role === "action").length;
    for (const { wWorld } of rows) expect([...wWorld]).toEqual(roles.map((r) => (r === "action" ? 1 / N : 0)));
  });

  it("needs demonstrations", async () => {
    await expect(reportsOf(trainSft(sftOptions(endingModel(device), [])))).rejects.toThrow(
      "there are no demonstrations",
    );
  });
});

describe("trainRl", () => {
  it("reports finite metrics under TRL's names", async () => {
    const reports = await reportsOf(trainRl(toyRlOptions(endingModel(device))));
    expect(reports.length).toBe(3);
    for (const { metrics, rows, scores } of reports) {
      for (const name of [
        "reward",
        "reward_std",
        "frac_reward_zero_std",
        "completions/mean_length",
        "completions/min_length",
        "completions/max_length",
        "completions/clipped_ratio",
        "tools/call_frequency",
        "rewards/toy/mean",
        "policy_loss",
        "world_loss",
        "entropy",
        "clip_ratio/low_mean",
        "clip_ratio/high_mean",
        "clip_ratio/region_mean",
        "grad_norm",
        "step_tokens",
        "learning_rate",
        "sampling/sampling_logp_difference/mean",
        "sampling/sampling_logp_difference/max",
        "sampling/importance_sampling_ratio/min",
        "sampling/importance_sampling_ratio/mean",
        "sampling/importance_sampling_ratio/max",
      ])
        expect(metrics[name], name).toSatisfy(Number.isFinite);
      expect(metrics["clip_ratio/region_mean"]).toBe(0);
      expect(metrics["sampling/sampling_logp_difference/max"]).toBeLessThan(1e-5);
      expect(metrics["world_loss"]).toBeGreaterThan(0);
      expect(metrics["step_tokens"]).toBe(rows.reduce((n, e) => n + e.trajectory.stream.ids.length, 0));
      rows.forEach(({ trajectory, wPolicy, wWorld }, i) =>
        trajectory.stream.ids.forEach((_, t) =>
          expect(Number.isFinite(scores.logProbs[i]![t])).toBe(wPolicy[t] !== 0 || wWorld[t] !== 0),
        ),
      );
    }
  });

  it("members of a group try one task, groups different ones, every step others", async () => {
    const reports = await reportsOf(trainRl(toyRlOptions(endingModel(device), { groups: 3 })));
    const seeds = reports.map(({ rows }) => rows.map((e) => e.trajectory.seed));
    for (const row of seeds) for (let g = 0; g < 3; g++) expect(new Set(row.slice(3 * g, 3 * g + 3)).size).toBe(1);
    expect(new Set(seeds.flat()).size).toBe(9);
  });

  it("resumes bitwise: 4 steps are 2 steps, files, a fresh device, 2 steps", async () => {
    const whole = endingModel(device);
    const wholeReports = await reportsOf(trainRl(toyRlOptions(whole, { steps: 4 })));

    const half = toyRlOptions(endingModel(device), { steps: 2 });
    await reportsOf(trainRl(half));
    const files = {
      ...(await modelToFiles(half.model)),
      ...(await optimizerToFiles(half.model.config, half.optimizer)),
    };

    const elsewhere = await makeDevice("wasm");
    const model = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, elsewhere);
    const resumed = toyRlOptions(model, { steps: 4, startStep: 2 });
    restoreOptimizer(model.config, resumed.optimizer, files["optimizer.safetensors"] as Uint8Array);
    expect(resumed.optimizer.state.step).toBe(2);
    const reports = await reportsOf(trainRl(resumed));
    expect(reports.map(({ metrics }) => metrics)).toEqual(wholeReports.slice(2).map(({ metrics }) => metrics));
    expect(await paramsOf(model)).toEqual(await paramsOf(whole));
    expect(await paramsOf(model)).not.toEqual(await paramsOf(half.model));
    elsewhere.dispose();
  });

  it("several passes: ratios refer to the policy before the first one", async () => {
    const lr = (): number => 0.05;
    const model = endingModel(device);
    const [report] = await reportsOf(trainRl(toyRlOptions(model, { steps: 1, iterations: 2, lr })));
    expect(report!.metrics["clip_ratio/region_mean"]).toBeGreaterThan(0);

    // The same by hand.
    const hand = endingModel(device);
    const weighted = weighStep(
      toyObjective,
      report!.rows.map((e) => e.trajectory),
      0,
    );
    const packing = { padId: toyTemplate.padId, maxTokens: 40 };
    const { logProbs } = await score(hand, weighted, packing);
    const rows = withColumns(weighted, { oldLogProbs: logProbs });
    const optimizer = new AdamW(hand.params, { clipNorm: 1 });
    const options = { ...packing, lr: 0.05, ratios: "before" } as const;
    const passes = [
      await optimizerStep(hand, optimizer, rows, toyObjective, options),
      await optimizerStep(hand, optimizer, rows, toyObjective, options),
    ];
    expect(await paramsOf(model)).toEqual(await paramsOf(hand));
    expect(passes[1]!.terms["policy"]).not.toBe(passes[0]!.terms["policy"]);
    expect(optimizer.state.step).toBe(2);
  });

  it("clip ratios by hand: low below 1 − εl with A < 0, high above 1 + εh with A > 0, the mean over the passes", () => {
    const trajectories = [1, -1].map((reward) =>
      episode(
        [
          ["prompt", [1]],
          ["action", [2, 3, 4]],
        ],
        { reward },
      ),
    );
    const advantages = advantagesOf(toyObjective, trajectories, 0);
    const old = [0, 0].map(() => new Float64Array(4).fill(-1));
    const rows = withColumns(weigh(toyObjective, trajectories, advantages, 0), { oldLogProbs: old });
    const pass = (ratios: number[]): PassResult => {
      const logProbs = [0, 0].map(() => Float64Array.of(NaN, ...ratios.map((r) => -1 + Math.log(r))));
      return { logProbs, entropy: logProbs, terms: { policy: 0, world: 0 }, gradNorm: 0 };
    };
    const ratiosOf = (passes: PassResult[]): number[] => {
      const metrics = updateMetrics(rows, toyObjective, passes, advantages, "before");
      return ["low_mean", "high_mean", "region_mean"].map((name) => metrics[`clip_ratio/${name}`]!);
    };
    expect(ratiosOf([pass([1, 1, 1])])).toEqual([0, 0, 0]);
    expect(ratiosOf([pass([0.7, 0.9, 1.1])])).toEqual([1 / 6, 0, 1 / 6]);
    expect(ratiosOf([pass([1.3, 1.5, 1.1])])).toEqual([0, 2 / 6, 2 / 6]);
    expect(ratiosOf([pass([1, 1, 1]), pass([1.3, 0.5, 0.6])])).toEqual([2 / 12, 1 / 12, 3 / 12]);
    expect(
      updateMetrics(rows, toyObjective, [pass([1.3, 0.5, 0.6])], advantages, "exact")["clip_ratio/region_mean"],
    ).toBe(0); // on-policy
  });

  it("a KL penalty: 0 at the reference itself, positive later, and it holds the policy back", async () => {
    const distance = async (beta: number): Promise<number> => {
      const model = endingModel(device);
      const reports = await reportsOf(
        trainRl(
          toyRlOptions(model, {
            steps: 4,
            reference: endingModel(device),
            objective: { ...toyObjective, kl: { beta, estimator: "k3" } },
          }),
        ),
      );
      const kl = reports.map(({ metrics }) => metrics["kl"]!);
      expect(Math.abs(kl[0]!)).toBeLessThan(1e-9);
      expect(kl.slice(1).every((x) => x > 0)).toBe(true);
      return kl.at(-1)!;
    };
    expect(await distance(100)).toBeLessThan(await distance(0.01));
  });

  it("a whole loop with rollouts leaves no memory behind", async () => {
    const options = toyRlOptions(endingModel(device), {
      steps: 12,
      iterations: 2,
      reference: endingModel(device),
      objective: { ...toyObjective, kl: { beta: 0.1, estimator: "k2" } },
    });
    const live: number[] = [];
    for await (const _ of trainRl(options)) live.push(device.backend.stats().liveBytes);
    expect(new Set(live).size).toBe(1);
  });
});

describe("ReMax", () => {
  /** Two groups of three, then their greedy rollouts; `act` knows which of the eight episodes it is in. */
  const counted = (act: (n: number, action: string, turn: number) => ReturnType<Act>): EnvironmentSpec => {
    let made = 0;
    return {
      ...toySpec(),
      make: (o) => {
        const n = made++;
        return toySpec((action, turn) => act(n, action, turn)).make(o);
      },
    };
  };
  const objective: Objective = { ...toyObjective, advantage: remax(), policyLoss: reinforce() };

  it("a greedy rollout that fails takes its own group out of the policy term, and nothing else", async () => {
    const act = letters(2);
    const env = counted((n, action, turn) => {
      if (n === 6) throw new Error("the environment of the first group's baseline broke");
      return act(action, turn);
    });
    const model = endingModel(device);
    const before = await paramsOf(model);
    const [report] = await reportsOf(trainRl(toyRlOptions(model, { steps: 1, env, objective })));
    const { metrics, rows } = report!;
    expect(metrics["remax/failed_baselines"]).toBe(1);
    expect(Object.entries(metrics).filter(([, value]) => !Number.isFinite(value))).toEqual([]);
    expect(metrics["grad_norm"]).toBeGreaterThan(0);
    expect(await paramsOf(model)).not.toEqual(before);
    const [broken, whole] = [0, 1].map((group) => rows.filter((e) => e.trajectory.group === group));
    expect(broken!.every((e) => e.advantages.every((a) => a === 0))).toBe(true);
    expect(broken!.some((e) => e.wWorld.some((w) => w > 0))).toBe(true); // ECHO reads it all the same
    expect(whole!.some((e) => e.advantages.some((a) => a !== 0))).toBe(true);
    const [healthy] = await reportsOf(trainRl(toyRlOptions(endingModel(device), { steps: 1, objective })));
    expect(healthy!.metrics["remax/failed_baselines"]).toBe(0);
    expect(healthy!.rows.slice(3)).toEqual(whole);
  });

  it("a step that is stopped during its baseline is not learnt from", async () => {
    const stop = new AbortController();
    const act = letters(2);
    const env = counted((n, action, turn) => (n === 6 && stop.abort(), act(action, turn)));
    const options = { env, objective, rollout: { maxActionTokens: 5, maxTurns: 3, signal: stop.signal } };
    expect(await reportsOf(trainRl(toyRlOptions(endingModel(device), options)))).toEqual([]);
  });
});

describe("what goes wrong", () => {
  it("every episode masked: the step reports itself and changes nothing", async () => {
    const env = toySpec(() => {
      throw new Error("down");
    });
    const model = endingModel(device);
    const before = await paramsOf(model);
    const options = toyRlOptions(model, { env, steps: 2 });
    // Actions that never reach the environment (too long) are no failures of it.
    const reports = await reportsOf(trainRl({ ...options, rollout: { maxActionTokens: 60, maxTokens: 64 } }));
    expect(reports.length).toBe(2);
    const allMasked = reports.every(({ rows }) => rows.every((e) => e.trajectory.masked));
    expect(allMasked).toBe(true);
    expect(await paramsOf(model)).toEqual(before);
    expect(options.optimizer.state.step).toBe(0);
    expect(reports[0]!.metrics["masked"]).toBe(6);
  });

  it("a group of one teaches the policy nothing; the world model still learns", async () => {
    // The other one of each group fails. Groups of one from the start are refused (guards.test.ts).
    let resets = 0;
    const half = toySpec(letters(2), (seed) => {
      if (resets++ % 2 > 0) throw new Error("down");
      return "ab"[seed % 2]!;
    });
    const options = toyRlOptions(endingModel(device), { env: half, groupSize: 2, groups: 4, steps: 1, warn() {} });
    const [report] = await reportsOf(trainRl(options));
    expect(report!.metrics["frac_reward_zero_std"]).toBe(1);
    expect(Math.abs(report!.metrics["policy_loss"]!)).toBe(0);
    expect(report!.metrics["grad_norm"]).toBeGreaterThan(0);
  });

  it("a stop signal ends the loop without a half step", async () => {
    const stop = new AbortController();
    const act = letters(2);
    let played = 0;
    const env = toySpec((action, turn) => {
      if (++played === 25) stop.abort();
      return act(action, turn);
    });
    const model = endingModel(device);
    const options = toyRlOptions(model, { env, steps: 100, rollout: { maxActionTokens: 5, signal: stop.signal } });
    const reports = await reportsOf(trainRl(options));
    expect(reports.length).toBeGreaterThan(0);
    expect(reports.length).toBeLessThan(100);
    expect(options.optimizer.state.step).toBe(reports.length);
  });

  it("a gradient that is not finite leaves parameters and moments as they were", async () => {
    const model = endingModel(device);
    const optimizer = new AdamW(model.params);
    const rows = sftRows([randomEpisode(new Rng(1))]);
    const spoilt = rows.map((row) => ({ ...row, wWorld: row.wWorld.map((w) => w * 1e38) }));
    const before = [await paramsOf(model), await readAll(treeLeaves(optimizer.state.m))];
    const options = { lr: 0.1, padId: toyTemplate.padId };
    const { gradNorm } = await optimizerStep(model, optimizer, spoilt, toyObjective, options);
    expect(Number.isFinite(gradNorm)).toBe(false);
    expect([await paramsOf(model), await readAll(treeLeaves(optimizer.state.m))]).toEqual(before);
    await optimizerStep(model, optimizer, rows, toyObjective, options);
    expect(await paramsOf(model)).not.toEqual(before[0]);
  });

  it("is said in one clear error", async () => {
    const model = endingModel(device);
    const once = (overrides: Partial<RlOptions>): Promise<StepReport[]> =>
      reportsOf(trainRl(toyRlOptions(model, { steps: 1, ...overrides })));
    await expect(once({ groups: 0 })).rejects.toThrow("groups and groupSize must be integers ≥ 1, got 0 and 3");
    await expect(once({ iterations: 0 })).rejects.toThrow("iterations must be an integer ≥ 1, got 0");
    // A correction is made once in a step: the second pass is off-policy with it, too.
    for (const own of [{}, { importanceCorrection: importanceCorrection() }]) {
      const objective = { ...toyObjective, policyLoss: reinforce(), ...own };
      await expect(once({ iterations: 4, objective })).rejects.toThrow(
        "reinforce has no ratio, and nothing else makes up for the passes before in a step of 4 iterations",
      );
    }
    await expect(once({ objective: { ...toyObjective, kl: { beta: 0.1, estimator: "k3" } } })).rejects.toThrow(
      "needs a reference model",
    );
    await expect(once({ objective: { ...toyObjective, agregation: "token-sum" } as Objective })).rejects.toThrow(
      "did you mean 'aggregation'?",
    );
    await expect(once({ gruops: 3 } as Partial<RlOptions>)).rejects.toThrow("did you mean 'groups'?");
    expect(() => weighStep(toyObjective, [], 0)).toThrow("advantagesOf: the list of episodes is empty");
    expect(() => sftRows([])).toThrow("sftRows: the list of episodes is empty");

    const outside = randomEpisode(new Rng(1));
    outside.stream.ids[2] = 999;
    const optimizer = new AdamW(model.params);
    const step = (t: Trajectory): Promise<unknown> =>
      optimizerStep(model, optimizer, sftRows([t]), toyObjective, { lr: 0.1, padId: 0 });
    const before = [await paramsOf(model), device.backend.stats().liveBytes];
    await expect(step(outside)).rejects.toThrow(/id 999 .*outside/);
    await expect(step({ ...randomEpisode(new Rng(1)), masked: true })).rejects.toThrow(
      "no token of the step has a weight",
    );
    expect([await paramsOf(model), device.backend.stats().liveBytes]).toEqual(before);
    expect(optimizer.state.step).toBe(0);
  });
});
