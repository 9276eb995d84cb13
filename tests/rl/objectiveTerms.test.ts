/**
 * What an objective adds to the policy loss, in steps that train: KL penalties, entropy bonuses, critics, groups that
 * are left out, episodes of an older policy, greedy baselines. Each term by plain Math: learner.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { isAgentToken } from "../../rl/episode/stream.ts";
import { centred } from "../../rl/objective/grpo.ts";
import { gae } from "../../methods/advantages/index.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { klEstimate } from "../../rl/objective/kl.ts";
import { AdaptiveKl } from "../../methods/kl.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { reinforce } from "../../methods/losses/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { trainRl } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { lossAndGradient, madeUpSignals, randomBatch, toyStep, trainOn, weighStep } from "../support/rlBatches.ts";
import { readAll, relativeError } from "../support/rlExecutors.ts";
import { fullRlOptions, reportsOf } from "../support/rlRuns.ts";
import { endingModel, toyModel } from "../support/rlToy.ts";

let device: Device;
let exact: Device;
beforeAll(async () => {
  [device, exact] = [await makeDevice("wasm"), await makeDevice("reference")];
});
afterAll(() => [device, exact].forEach((d) => d.dispose()));

describe("penalties, bonuses, critics", () => {
  const base: Objective = { advantage: centred(), policyLoss: reinforce(), aggregation: "token-mean" };

  it("a KL in the reward: R − β Σ kl, from the recorded log-probabilities", () => {
    const batch = randomBatch(3);
    const signals = madeUpSignals(batch);
    const objective: Objective = { ...base, kl: { beta: 0.3, estimator: "k1", in: "reward" } };
    const rows = weighStep(objective, batch, 0, signals);
    const shaped = batch.map((trajectory, i) => {
      const { roles, oldLogProbs } = trajectory.stream;
      const kl = roles.map((role, t) =>
        isAgentToken(role) ? klEstimate("k1", oldLogProbs[t]!, signals.refLogProbs![i]![t]!) : 0,
      );
      return { ...trajectory, reward: trajectory.reward - 0.3 * kl.reduce((a, b) => a + b, 0) };
    });
    const expected = centred().estimate(shaped).perToken;
    rows.forEach(({ advantages, wKl }, i) => {
      expect(relativeError(advantages, expected[i]!)).toBeLessThan(1e-12);
      expect(wKl.every((w) => w === 0)).toBe(true);
    });
    // A group without spread in its outcomes is counted as such, although the penalty still pulls.
    const constant = batch.map((t) => ({ ...t, reward: 1, stepRewards: [] }));
    const still = weighStep(objective, constant, 0, signals);
    expect(advantagesOf(objective, constant, 0, signals).fracRewardZeroStd).toBe(1);
    expect(still.some(({ advantages }) => advantages.some((a) => a !== 0))).toBe(true);
  });

  it("an adaptive coefficient moves with the KL", async () => {
    const beta = new AdaptiveKl({ beta: 0.1, target: 1e-9, horizon: 60 });
    const objective: Objective = { ...base, kl: { beta, estimator: "k2" } };
    const reports = await reportsOf(trainRl(fullRlOptions(endingModel(device), objective, { steps: 3 })));
    expect(beta.beta).toBeGreaterThan(0.1);
    expect(reports.at(-1)!.metrics["kl_beta"]).toBeGreaterThan(0.09);
  });

  it("an adaptive coefficient with a horizon below a step's episodes goes on, as the first KL is 0", async () => {
    const beta = new AdaptiveKl({ beta: 0.1, target: 0.1, horizon: 1 });
    const objective: Objective = { ...base, kl: { beta, estimator: "k3" } };
    const options = fullRlOptions(endingModel(device), objective, { steps: 3, lr: () => 0 });
    const reports = await reportsOf(trainRl({ ...options, reference: endingModel(device) }));
    const betas = reports.map(({ metrics }) => metrics["kl_beta"]!);
    [0.1, 0.08, 0.064].forEach((expected, i) => expect(betas[i]).toBeCloseTo(expected, 12));
  });

  it("a decaying coefficient falls with each step, and no other is given with it", async () => {
    const kl = { beta: 0.1, decay: 0.5, estimator: "k2" } as const;
    const objective: Objective = { ...base, kl: objectiveOf({ method: "grpo", kl }).kl! };
    const reports = await reportsOf(trainRl(fullRlOptions(endingModel(device), objective, { steps: 3 })));
    expect(reports.map(({ metrics }) => metrics["kl_beta"])).toEqual([0.1, 0.05, 0.025]);
    expect(typeof objectiveOf({ method: "grpo", kl: { beta: 0.1 } }).kl!.beta).toBe("number");
    expect(() => objectiveOf({ method: "grpo", kl: { ...kl, target: 1 } })).toThrow(
      "kl: target and decay both change beta; give one of them",
    );
  });

  it("a step of nothing but groups without spread changes nothing, if they are left out", async () => {
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const options = fullRlOptions(model, objectiveOf({ method: "dapo" }));
    const before = await readAll([model.params.embedding]);
    const constant = randomBatch(1).map((t) => ({ ...t, reward: 1 }));
    const { metrics } = await trainOn(options, constant, 0);
    expect(metrics["frac_reward_zero_std"]).toBe(1);
    expect(await readAll([model.params.embedding])).toEqual(before);
  });

  it("signals, a critic and two world models leave no memory behind", async () => {
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const objective = objectiveOf({ method: "vapo+echo+paw+actfocus" });
    const options = fullRlOptions(model, objective, { iterations: 2 });
    const live: number[] = [];
    for (let step = 0; step < 6; step++) {
      await trainOn(options, randomBatch(1), step);
      live.push(device.backend.stats().liveBytes);
    }
    expect(new Set(live.slice(1)).size).toBe(1);
  });

  it("groups without spread can be left out of the denominators; the world model still reads them", () => {
    const batch = randomBatch(4).map((t, i) => (i < 3 ? { ...t, reward: 1, stepRewards: [] } : t));
    const objective = objectiveOf({ method: "dapo+echo" });
    const rows = weighStep(objective, batch, 0);
    const kept = weighStep(objective, batch.slice(3), 0);
    rows.slice(0, 3).forEach((row) => expect(row.wPolicy.every((w) => w === 0)).toBe(true));
    rows.slice(3).forEach((row, i) => expect(row.wPolicy).toEqual(kept[i]!.wPolicy));
    expect(rows[0]!.wWorld.some((w) => w > 0)).toBe(true);
  });

  it("an entropy bonus raises the entropy that a plain gradient does not", async () => {
    const learner = toyStep(exact, { ...base, entropy: 1 });
    const batch = randomBatch(5).map((t) => ({ ...t, reward: 1 })); // no advantage: the bonus alone
    const negativeEntropy = async (): Promise<number> => (await lossAndGradient(learner, batch, 10_000)).value;
    const before = await negativeEntropy();
    expect(before).toBeLessThan(0);
    const optimizer = new AdamW(learner.model.params, { weightDecay: 0 });
    await trainOn({ ...learner, optimizer, lr: () => 0.02 }, batch, 0);
    expect(await negativeEntropy()).toBeLessThan(before);
  });

  it("a critic learns returns; with its trunk frozen the transformer feels nothing of it", async () => {
    const objective: Objective = { ...base, advantage: gae({ gamma: 1, lambda: 1 }) };
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const head = initValueHead(model.config, device);
    expect(await readAll([head.weight, head.bias])).toEqual([new Array(8).fill(0), [0]]);
    const options = fullRlOptions(
      model,
      { ...objective, critic: { coefficient: 1, clip: 10 } },
      { heads: { value: { head, optimizer: new AdamW(head, { weightDecay: 0 }) } }, lr: () => 0.05 },
    );
    const batch = randomBatch(2);
    const losses: number[] = [];
    for (let step = 0; step < 30; step++) losses.push((await trainOn(options, batch, step)).metrics["value_loss"]!);
    expect(losses.at(-1)!).toBeLessThan(0.3 * losses[0]!);

    const policyLoss: Objective["policyLoss"] = { ...reinforce(), tokenLoss: ({ mask }) => mask }; // has no gradient
    const gradient = async (trunk: boolean): Promise<{ ofModel: number[]; ofHead: number[] }> => {
      const learner = toyStep(exact, { ...objective, policyLoss, critic: { trunk } });
      const { leaves } = await lossAndGradient(learner, batch, 10_000);
      return { ofModel: leaves.slice(0, -2).flat(), ofHead: leaves.slice(-2).flat() };
    };
    const [frozen, shared] = [await gradient(false), await gradient(true)];
    expect(frozen.ofModel.every((g) => g === 0)).toBe(true);
    expect(shared.ofModel.some((g) => g !== 0)).toBe(true);
    expect(frozen.ofHead.some((g) => g !== 0)).toBe(true);
  });

  it("episodes of an older policy: ratios to what was recorded, or weights instead", async () => {
    const batch = randomBatch(9);
    const stepOf = (objective: Objective, offPolicy: boolean): Promise<StepReport> =>
      trainOn({ ...toyStep(exact, objective), offPolicy, lr: () => 0 }, batch, 0);
    /** The policy's own probability of a token before the step, divided by the recorded one. */
    const ratioAt = ({ rows, scores }: StepReport, i: number, t: number): number =>
      Math.exp(scores.logProbs[i]![t]! - rows[i]!.trajectory.stream.oldLogProbs[t]!);
    /** Σ w·loss(A, ρ) over the trained tokens. */
    const byHand = (report: StepReport, loss: (A: number, rho: number) => number): number => {
      const terms = report.rows.flatMap(({ mask, advantages, wPolicy }, i) =>
        [...mask].map((own, t) => (own ? wPolicy[t]! * loss(advantages[t]!, ratioAt(report, i, t)) : 0)),
      );
      return terms.reduce((a, b) => a + b, 0);
    };
    const clipped: Objective = { ...base, policyLoss: ppoClip() };
    const ppo = (A: number, rho: number): number => Math.max(-rho * A, -Math.min(1.2, Math.max(0.8, rho)) * A);
    const [stale, fresh] = [await stepOf(clipped, true), await stepOf(clipped, false)];
    expect(stale.metrics["policy_loss"]).toBeCloseTo(byHand(stale, ppo), 12);
    const unclipped = byHand(fresh, (A) => -A);
    expect(fresh.metrics["policy_loss"]).toBeCloseTo(unclipped, 12);
    expect(stale.metrics["clip_ratio/region_mean"]).toBeGreaterThan(0);
    expect(fresh.metrics["clip_ratio/region_mean"]).toBe(0);

    const corrected = await stepOf({ ...clipped, importanceCorrection: importanceCorrection({ max: 1.5 }) }, true);
    expect(corrected.metrics["clip_ratio/region_mean"]).toBe(0);
    corrected.rows.forEach(({ wPolicy, mask }, i) =>
      wPolicy.forEach((w, t) => {
        const ratio = mask[t] ? ratioAt(corrected, i, t) : 0;
        expect(w).toBeCloseTo(fresh.rows[i]!.wPolicy[t]! * Math.min(1.5, ratio), 12);
      }),
    );
    expect(corrected.metrics["rollout_corr/kl"]).toSatisfy(Number.isFinite);
  });

  it("ReMax plays each task once more, greedily", async () => {
    const options = fullRlOptions(endingModel(device), objectiveOf({ method: "remax" }), { steps: 1 });
    const [report] = await reportsOf(trainRl(options));
    const baselines = report!.rows.map((row) => row.trajectory.greedyReward!);
    expect(baselines.every(Number.isFinite)).toBe(true);
    for (const group of [0, 1]) expect(new Set(baselines.slice(3 * group, 3 * group + 3)).size).toBe(1);
  });
});
