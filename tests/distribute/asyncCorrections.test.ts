/**
 * What asynchronous training makes of stale data, on this thread: TIS and V-trace are their formulas with π/μ, and
 * without a correction the ratio of the loss is that of the learner to the sampler.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { rewardsOfTokens, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import type { AdvantageEstimator, Advantages } from "../../rl/objective/estimator.ts";
import { vtrace } from "../../methods/advantages/index.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { reinforce } from "../../methods/losses/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import { toyAsyncOptions } from "../support/rlAsync.ts";
import { weighStep } from "../support/rlBatches.ts";
import { reportsOf, toyObjective } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000 }); // whole runs, on a machine that may be busy

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** π/μ of a token: its probability by the learner before the step, divided by the recorded one. */
const ratioOf = (logProbs: readonly Float64Array[], { stream }: Trajectory, row: number, t: number): number =>
  Math.exp(logProbs[row]![t]! - stream.oldLogProbs[t]!);
const isStale = (ratio: number): boolean => Math.abs(ratio - 1) > 0.01;

/** v_s = V_s + Σ_{t≥s} (Π_{s≤i<t} c_i) δ_t with c = ρ, written out (V-trace, arXiv 1802.01561, eq. 1). */
function vtraceTargets(values: readonly number[], rewards: readonly number[], rho: readonly number[]): number[] {
  const delta = values.map((value, t) => rho[t]! * (rewards[t]! + (values[t + 1] ?? 0) - value));
  return values.map((value, s) => {
    let [sum, product] = [value, 1];
    for (let t = s; t < values.length; t++) {
      sum += product * delta[t]!;
      product *= rho[t]!;
    }
    return sum;
  });
}

describe("with staleness", () => {
  it("TIS on stale data: each token's weight times min(π/μ, max), π before the step, μ as recorded", async () => {
    const objective: Objective = { ...toyObjective, importanceCorrection: importanceCorrection({ max: 1.05 }) };
    const options = toyAsyncOptions(
      endingModel(device),
      { steps: 6, objective, groups: 3 },
      { maxStaleness: 2, schedule: "fixed" },
    );
    let [stale, capped] = [0, 0];
    for (const { step, rows, scores, metrics } of await reportsOf(trainRlAsync(options))) {
      const trajectories = rows.map((row) => row.trajectory);
      const uncorrected = weighStep(toyObjective, trajectories, step);
      rows.forEach(({ trajectory, wPolicy }, i) =>
        wPolicy.forEach((w, t) => {
          const own = uncorrected[i]!.wPolicy[t]!;
          if (own === 0) return expect(w).toBe(0);
          const ratio = ratioOf(scores.logProbs, trajectory, i, t);
          expect(w).toBeCloseTo(own * Math.min(ratio, 1.05), 6);
          stale += Number(isStale(ratio));
          capped += Number(ratio > 1.05);
        }),
      );
      expect(metrics["rollout_corr/kl"]).toSatisfy(Number.isFinite);
      expect(metrics["clip_ratio/region_mean"]).toBe(0); // the ratio of the loss is 1: nothing is corrected twice
    }
    expect(stale).toBeGreaterThan(20);
    expect(capped).toBeGreaterThan(5);
  });

  it("V-trace on stale data: its recursion with π/μ, and a loss without a ratio of its own", async () => {
    const seen: { trajectories: readonly Trajectory[]; statistics: TokenStatistics; result: Advantages }[] = [];
    const inner = vtrace();
    const advantage: AdvantageEstimator = {
      ...inner,
      estimate(trajectories, statistics = {}) {
        const result = inner.estimate(trajectories, statistics);
        seen.push({ trajectories, statistics, result });
        return result;
      },
    };
    const model = endingModel(device);
    const head = initValueHead(model.config, device);
    const heads = { value: { head, optimizer: new AdamW(head) } };
    const objective: Objective = { ...toyObjective, advantage, policyLoss: reinforce(), critic: {} };
    const options = toyAsyncOptions(model, { steps: 6, objective, heads }, { maxStaleness: 2, schedule: "fixed" });
    const reports = await reportsOf(trainRlAsync(options));
    let stale = 0;
    seen.forEach(({ trajectories, statistics, result }, n) => {
      for (const rollout of rolloutsOf(trajectories)) {
        const { tokens } = rollout;
        const values = tokens.map(({ row, t }) => statistics.values![row]![t]!);
        const ratios = tokens.map(({ row, t }) => ratioOf(statistics.logProbs!, trajectories[row]!, row, t));
        const rewards = rewardsOfTokens(rollout, trajectories);
        const rho = ratios.map((ratio) => Math.min(1, ratio));
        const targets = vtraceTargets(values, rewards, rho);
        tokens.forEach(({ row, t }, k) => {
          const ahead = rewards[k]! + (targets[k + 1] ?? 0) - values[k]!;
          expect(result.perToken[row]![t]).toBeCloseTo(rho[k]! * ahead, 9);
          expect(result.returns![row]![t]).toBeCloseTo(targets[k]!, 9);
          stale += Number(isStale(ratios[k]!));
        });
      }
      // μ is what was recorded, π what the learner scored before the step.
      const { scores, rows } = reports[n]!;
      rows.forEach(({ wPolicy }, i) =>
        wPolicy.forEach((w, t) => {
          if (w !== 0) expect(scores.logProbs[i]![t]).toBeCloseTo(statistics.logProbs![i]![t]!, 4);
        }),
      );
    });
    expect(seen.length).toBe(6);
    expect(stale).toBeGreaterThan(20);
    for (const x of treeLeaves(head)) x.dispose();
  });

  it("a step with nothing to train, as no group has spread, has no ratios to report and ends no run", async () => {
    const reward = (): { reward: number; parts: Record<string, number> } => ({ reward: 1, parts: {} });
    const objective = { ...toyObjective, dropConstantGroups: true, world: [] };
    const options = toyAsyncOptions(
      endingModel(device),
      { reward, objective, steps: 3 },
      { maxStaleness: 1, schedule: "fixed" },
    );
    const reports = await reportsOf(trainRlAsync(options));
    expect(reports.map(({ metrics }) => metrics["frac_reward_zero_std"])).toEqual([1, 1, 1]);
    for (const { metrics, rows, scores } of reports) {
      expect(metrics).not.toHaveProperty("rollout_corr/kl");
      expect(scores.logProbs.map((row) => row.length)).toEqual(rows.map((row) => row.mask.length));
    }
  });

  it("without a correction the ratio of the loss is that of the learner to the sampler", async () => {
    const objective: Objective = { ...toyObjective, policyLoss: ppoClip({ epsilon: 0.01 }) };
    const options = toyAsyncOptions(
      endingModel(device),
      { steps: 5, objective },
      { maxStaleness: 1, schedule: "fixed" },
    );
    const reports = await reportsOf(trainRlAsync(options));
    const clipped = reports.map(({ metrics }) => metrics["clip_ratio/region_mean"]!);
    expect(clipped[0]).toBe(0);
    expect(Math.max(...clipped)).toBeGreaterThan(0.1);
    for (const { metrics } of reports.slice(1)) expect(metrics["rollout_corr/k3_kl"]).toBeGreaterThan(0);
  });
});
