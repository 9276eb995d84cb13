/**
 * Weights of tokens against numbers that papers and other projects' tests state for small inputs, beyond what the
 * fixtures hold: PaW's world loss, ActFocus, importance corrections, and the adaptive coefficient of a KL penalty.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { aggregationWeights } from "../../rl/objective/aggregation.ts";
import { importanceCorrection, type ImportanceCorrectionOptions } from "../../methods/importanceCorrection.ts";
import { AdaptiveKl, DecayingKl } from "../../methods/kl.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { clippedErrorLoss, actionEntropy, paw, pawLambda, type PawOptions, transitionsOf } from "../../methods/paw.ts";
import { actFocus, uncertaintyWeights, quantile, topEntropy } from "../../methods/tokenWeights.ts";
import type { Role, Trajectory } from "../../rl/episode/stream.ts";
import { expectNear, tokenLosses } from "../support/rlVectors.ts";
import { episode, type Part } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("reference");
});
afterAll(() => device.dispose());

const task: Part = ["prompt", [1]];

describe("PaW (arXiv 2606.02388)", () => {
  const probabilities = [0.05, 0.19, 0.21, 0.9];

  it("ℓ = .44, and its gradient on the target's logit", async () => {
    const logProbs = tensor(probabilities.map(Math.log), { device });
    const mask = tensor([1, 1, 1, 1], { device });
    const mean = (x: Tensor): Tensor => mul(sum(clippedErrorLoss(x, mask, 0.2)), 1 / 4);
    expect(await mean(logProbs).item()).toBeCloseTo(0.44, 12);
    const gradient = [...(await grad(mean)(logProbs).read())];
    const onLogits = gradient.map((g, i) => g * (1 - probabilities[i]!)); // d lp / d logit = 1 − p
    expectNear(onLogits, [-0.011875, -0.038475, 0, 0], 12);
  });

  it("entropy of sampled tokens .1970615560, mean over the action's", () => {
    const sampled = [0.9, 0.5, 0.05];
    const played = episode([task, ["action", [2, 3, 4]], ["observation", [5]]], {
      old: (k) => Math.log(sampled[k - 1]!),
    });
    const [transition] = transitionsOf([played]);
    expect(actionEntropy(transition!, "sampled", [played], {})).toBeCloseTo(0.197061556, 9);
    expect(actionEntropy(transition!, "full", [played], { entropy: [Float64Array.of(9, 1, 2, 6, 9)] })).toBe(3);
  });

  it("λ_g of R̄ 0, 2.5, 10, −.1 with R_max 10: 1, .75, 0, 1.01 before the clamp", () => {
    const returns = [0, 2.5, 10, -0.1];
    const lambdas = (clamp: [number, number] | null): number[] => returns.map((R) => pawLambda([R], 10, clamp));
    expectNear(lambdas(null), [1, 0.75, 0, 1.01], 12);
    expectNear(lambdas([0, 1]), [1, 0.75, 0, 1], 12);
  });

  interface Played {
    readonly trajectory: Trajectory;
    readonly entropy: Float64Array;
  }
  /** Every action has one token of the given entropy, every answer two tokens and a warning. */
  const played = (entropies: number[], reward: number, group = 0): Played => {
    const turn: Part[] = [
      ["action", [2]],
      ["observation", [4, 5]],
      ["observation", [6], false],
    ];
    const trajectory = episode([task, ...entropies.flatMap(() => turn)], { reward, group });
    let k = 0;
    const entropy = trajectory.stream.roles.map((role) => (role === "action" ? entropies[k++]! : NaN));
    return { trajectory, entropy: Float64Array.from(entropy) };
  };
  /** The weights of all tokens that are targets, episode after episode. */
  const weightsOfTargets = (batch: readonly Played[], options: PawOptions): number[] => {
    const trajectories = batch.map(({ trajectory }) => trajectory);
    const weights = paw(options).weights(trajectories, 0, { entropy: batch.map(({ entropy }) => entropy) });
    return weights.flatMap((row, i) => [...row].filter((_, t) => trajectories[i]!.stream.targets[t]));
  };
  const threeEpisodes = [played([3, 1], 0), played([2, 0.5], 1), played([4, 0.1], 0, 1)];

  it("selects over the whole update, averages within a group, weighs by 1 − R̄/R_max, full length below", () => {
    // The top half of six: entropies 4, 3, 2. Group 0 has two of them and λ .5, group 1 one and λ 1; |o| = 3, two
    // groups.
    const [a, b] = [0.5 / (2 * 2 * 3), 1 / (2 * 1 * 3)];
    expectNear(weightsOfTargets(threeEpisodes, { alpha: 0.5 }), [a, a, 0, 0, a, a, 0, 0, b, b, 0, 0], 15);
  });

  it("each switch by itself", () => {
    const all = weightsOfTargets(threeEpisodes, { selection: "all" });
    expect(all.every((w) => w > 0)).toBe(true);
    expect(all).toEqual(weightsOfTargets(threeEpisodes, { alpha: 1 }));
    expect(weightsOfTargets(threeEpisodes, { alpha: 0 }).every((w) => w === 0)).toBe(true);
    const constant = weightsOfTargets(threeEpisodes, { alpha: 0.5, weight: "constant", coefficient: 2 });
    expectNear(constant, [1 / 6, 1 / 6, 0, 0, 1 / 6, 1 / 6, 0, 0, 1 / 3, 1 / 3, 0, 0], 15);
    const random = weightsOfTargets(threeEpisodes, { selection: "random", alpha: 0.5 });
    expect(random.filter((w) => w > 0).length).toBe(6);
    expect(paw().tokenLoss).toBeTypeOf("function");
    expect(paw({ loss: "cross-entropy" }).tokenLoss).toBe(undefined);
    expect(paw().needs).toEqual(["entropy"]);
    for (const free of [{ entropy: "sampled" }, { selection: "all" }] as const) expect(paw(free).needs).toBe(undefined);
    // A group that succeeds always has no world loss; one that nothing is known of has none either.
    expect(weightsOfTargets([played([1], 1), played([2], 1)], {})).toEqual([0, 0, 0, 0]);
    expect(weightsOfTargets([played([1], NaN)], {})).toEqual([0, 0]);
  });
});

describe("ActFocus (arXiv 2605.14558)", () => {
  const energies = [-20, -18, -16, -22];
  const expected = [1.1950117313, 1.3049882687, 1.3963798192, 1.1036201808];
  const batch = [episode([task, ["thought", [2, 3]], ["action", [4, 5, 6, 7]]])];
  const mask = [[false, true, true, true, true, true, true]];
  const refEnergy = [Float64Array.of(NaN, NaN, NaN, ...energies)];

  it("weights of four action tokens, and of the thoughts before them", () => {
    expectNear(uncertaintyWeights(energies, 0.5), expected);
    expectNear(actFocus().weights(batch, { refEnergy })[0]!.slice(1), [0.1, 0.1, ...expected]);
  });

  it("weighted loss .0986363949, uniform −.2133333333", async () => {
    const logRatios = [1.5, 0.5, 1.1, 0.7, 1.3, 1].map(Math.log);
    const advantages = [1, 1, 1, 1, -1, -1];
    const losses = await tokenLosses(device, ppoClip({ epsilonHigh: 0.28 }), logRatios, [0, 0, 0, 0, 0, 0], advantages);
    const weightedLoss = (alpha: number, beta: number): number => {
      const importance = actFocus({ alpha, beta }).weights(batch, { refEnergy });
      const [weights] = aggregationWeights(mask, "token-mean", { importance });
      return Array.from(losses).reduce((total, loss, k) => total + weights![k + 1]! * loss, 0);
    };
    expect(weightedLoss(0.1, 0.5)).toBeCloseTo(0.0986363949, 9);
    expect(weightedLoss(1, 0)).toBeCloseTo(-0.2133333333, 9);
  });

  it("uniform is no weighting at all; the other signals are read where they are named", () => {
    const uniform = actFocus({ alpha: 1, beta: 0 });
    const importance = uniform.weights(batch, {});
    expect(aggregationWeights(mask, "token-mean", { importance })).toEqual(aggregationWeights(mask, "token-mean"));
    expect(uniform.needs).toEqual([]);
    const byEntropy = actFocus({ uncertainty: "entropy" }).weights(batch, { refEntropy: refEnergy });
    expectNear(byEntropy[0]!.slice(3), expected);
    const byNll = actFocus({ uncertainty: "nll" }).weights(batch, { refNll: refEnergy });
    expectNear(byNll[0]!.slice(3), expected);
    const kl = actFocus({ uncertainty: "kl" });
    expect(kl.needs).toEqual(["logProbs", "refLogProbs"]);
    const logProbs = Float64Array.of(NaN, -1, -1, -1, -2, -1, -1);
    const refLogProbs = Float64Array.of(NaN, -1, -1, -1.5, -1, -1, -3);
    const k3 = [3, 4, 5, 6].map((t) => {
      const logRatio = refLogProbs[t]! - logProbs[t]!;
      return Math.expm1(logRatio) - logRatio;
    });
    const byKl = kl.weights(batch, { logProbs: [logProbs], refLogProbs: [refLogProbs] });
    expectNear(byKl[0]!.slice(3), uncertaintyWeights(k3, 0.5));
    expect(() => actFocus().weights(batch, {})).toThrow(
      'actFocus: needs the token statistic "refEnergy", which a reference model gives',
    );
  });

  it("top entropy: from the quantile upwards, and the denominators count all", () => {
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(quantile([3], 0.2)).toBe(3);
    const entropy = [Float64Array.of(9, 1, 2, 3, 4, 5, 6)];
    expectNear(topEntropy({ share: 0.5 }).weights(batch, { entropy })[0]!.slice(1), [0, 0, 0, 1, 1, 1]);
  });
});

describe("corrections and controllers", () => {
  /** The weights of an episode of four tokens. */
  const corrections = (
    options: ImportanceCorrectionOptions,
    trajectory: Trajectory,
    logProbs: Float64Array,
  ): Float64Array =>
    importanceCorrection(options).weights([trajectory], { logProbs: [logProbs] }, [new Float64Array(4)])[0]!;

  it("IcePop keeps [.5, 5]: ratios .4, .8, 6 → 0, .8, 0 (verl); TIS caps at 2", () => {
    const played = episode([task, ["action", [2, 3, 4]]]);
    const logProbs = Float64Array.of(NaN, ...[0.4, 0.8, 6].map((ratio) => -1 + Math.log(ratio)));
    const ofAction = (options: ImportanceCorrectionOptions): Float64Array =>
      corrections(options, played, logProbs).slice(1);
    const capped = [0.4, 0.8, 2];
    const normalized = capped.map((w) => w / (3.2 / 3));
    expectNear(ofAction({ mode: "mask", min: 0.5, max: 5 }), [0, 0.8, 0]);
    expectNear(ofAction({ max: 2 }), capped);
    expectNear(ofAction({ max: 2, normalize: true }), normalized);
    expectNear(ofAction({ level: "sequence", max: 5 }), [1.92, 1.92, 1.92]);
  });

  it("TIS of ln ratios .5, −.5, 1: [1.6487, .6065, 2], by sequence 2.7183, 4.4817 without the second (SkyRL)", () => {
    const played = (...roles: Role[]): Trajectory => episode([task, ...roles.map((role): Part => [role, [2]])]);
    const whole = played("action", "action", "action");
    const masked = played("action", "observation", "action");
    const logProbs = Float64Array.of(NaN, -0.5, -1.5, 0);
    expectNear(corrections({ max: 2 }, whole, logProbs), [1, 1.6487, 0.6065, 2], 4);
    const bySequence = [whole, masked].map((t) => corrections({ level: "sequence", max: 5 }, t, logProbs)[1]!);
    expectNear(bySequence, [2.7183, 4.4817], 4);
  });

  it("the adaptive coefficient: .2 → .204 at a KL far above its target (SkyRL)", () => {
    const kl = new AdaptiveKl({ beta: 0.2, target: 6, horizon: 10_000 });
    kl.update(60, 1000);
    expect(kl.beta).toBeCloseTo(0.204, 12);
    kl.update(6, 1000);
    expect(kl.beta).toBeCloseTo(0.204, 12);
    kl.update(5.4, 10_000); // 10 % below
    expect(kl.beta).toBeCloseTo(0.204 * 0.9, 12);
    kl.update(NaN, 1000);
    expect(kl.beta).toBeCloseTo(0.204 * 0.9, 12);
    kl.resume(0.1);
    expect(kl.beta).toBe(0.1);
  });

  it("the decaying coefficient: .2 · .9995^1000 = .1213 (VPT)", () => {
    const kl = new DecayingKl({ beta: 0.2, decay: 0.9995 });
    expect(kl.beta).toBe(0.2);
    for (let step = 0; step < 1000; step++) kl.update();
    expect(kl.beta).toBeCloseTo(0.1213, 4);
    kl.resume(0.1);
    kl.update();
    expect(kl.beta).toBeCloseTo(0.1 * 0.9995, 12);
    expect(() => kl.resume(-1)).toThrow("DecayingKl");
  });
});
