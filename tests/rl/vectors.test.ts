/** Numbers that papers and other projects' tests state for small inputs, beyond what the fixtures hold. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { gae, gigpo, grpo, maxRl, milestone, passAtK, rloo, vapo, vtrace } from "../../rl/methods/advantages/index.ts";
import { aggregationWeights } from "../../rl/methods/aggregation.ts";
import { importanceCorrection } from "../../rl/methods/importanceCorrection.ts";
import { actFocus, uncertaintyWeights, quantile, topEntropy } from "../../rl/methods/tokenWeights.ts";
import { AdaptiveKl, cispo, clipCov, clippedErrorLoss, dppoKl, gspo, KL_ESTIMATORS, klCov, klPenalty, type PolicyLoss, ppoClip, reinforce, sapo, vespo } from "../../rl/methods/losses/index.ts"; // prettier-ignore
import { actionEntropy, paw, pawLambda, transitionsOf } from "../../rl/methods/world/paw.ts";
import type { TokenStatistics } from "../../rl/methods/tokenStatistics.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { episode, trajectoryOf } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("reference");
});
afterAll(() => device.dispose());

const near = (actual: ArrayLike<number>, expected: readonly number[], digits = 9): void => {
  expect(actual.length).toBe(expected.length);
  expected.forEach((x, i) => expect(actual[i]!).toBeCloseTo(x, digits));
};
/** The loss of each token of one sequence. */
async function perToken(
  loss: PolicyLoss,
  lp: number[],
  old: number[],
  A: number[],
  mask = lp.map(() => 1),
): Promise<ArrayLike<number>> {
  // prettier-ignore
  const column = (values: number[]): Tensor => tensor(values, { device });
  const segments = { ids: tensor(new Int32Array(lp.length), { device }), count: 1 };
  return loss
    .tokenLoss({ logProbs: column(lp), oldLogProbs: column(old), advantages: column(A), mask: column(mask), segments })
    .read();
}
const sumOf = (values: ArrayLike<number>): number => Array.from(values).reduce((a, b) => a + b, 0);

describe("losses", () => {
  const [A, old, lp] = [[1, -1, -4], [-1, -1, -3], [-1 + Math.log(0.5), -1, -3 + Math.log(10)]]; // prettier-ignore

  it("dual clip, ratios .5, 1, 10: [−.5, 1, 12] (SkyRL)", async () => {
    near(await perToken(ppoClip({ dualClip: 3 }), lp, old, A), [-0.5, 1, 12]);
    near(await perToken(ppoClip(), lp, old, A), [-0.5, 1, 40]);
  });

  it("CISPO, caps .2 and .2: sum −2.9930 (SkyRL, with its rounded log-probabilities)", async () => {
    const rounded = [-1.69315, -1, -0.69741];
    const loss = await perToken(cispo({ epsilon: 0.2, epsilonHigh: 0.2 }), rounded, old, A);
    expect(sumOf(loss)).toBeCloseTo(0.8 * 1.69315 - 1 - 4 * 1.2 * 0.69741, 9);
    expect(sumOf(loss)).toBeCloseTo(-2.993, 4);
  });

  it("PPO, ratios .5, 1, 1.5: mean −.6333; REINFORCE .8333 (NeMo-RL)", async () => {
    const ratio = [0.5, 1, 1.5].map(Math.log);
    expect(sumOf(await perToken(ppoClip(), ratio, [0, 0, 0], [1, -1, 2])) / 3).toBeCloseTo(-0.6333, 4); // prettier-ignore
    expect(sumOf(await perToken(reinforce(), [-0.5, -1, -1.5], [0, 0, 0], [1, -1, 2])) / 3).toBeCloseTo(0.8333, 4);
  });

  it("GSPO of the same ratios: .9086, loss −.6057 (NeMo-RL)", async () => {
    const ratio = [0.5, 1, 1.5].map(Math.log);
    const loss = await perToken(gspo({ epsilon: 0.2, epsilonHigh: 0.2 }), ratio, [0, 0, 0], [1, -1, 2]);
    near(Array.from(loss, (x, i) => -x / [1, -1, 2][i]!), [0.9086, 0.9086, 0.9086], 4); // prettier-ignore
    expect(sumOf(loss) / 3).toBeCloseTo(-0.6057, 4);
  });

  it("kl-cov and clip-cov mark tokens by (lp − mean)(A − mean) over the whole step", () => {
    const column = (...values: number[]): Float64Array[] => [Float64Array.from(values)];
    const view = {
      logProbs: column(-1, -1, -1, -4, -4, -4),
      oldLogProbs: column(-1, -1, -1, -3.5, -4, -4), // the fourth: A < 0 and ρ = e^−.5, clipped by PPO already
      advantages: column(2, 0, -2, -2, 0, 2),
      masks: [Array<boolean>(6).fill(true)],
      step: 0,
    };
    const marks = (loss: PolicyLoss): number[] => [...loss.prepare!(view)[0]!];
    expect(marks(klCov({ ratio: 0.48 }))).toEqual([1, 0, 0, 1, 0, 0]); // covariances 3, 0, −3, 3, 0, −3; ⌊2.88⌋ of them
    expect(marks(klCov({ ratio: 0 }))).toEqual([1, 0, 0, 0, 0, 0]); // at least one
    expect(marks(clipCov({ ratio: 1 }))).toEqual([0, 1, 1, 1, 1, 1]);
    expect(marks(clipCov({ ratio: 1, high: 2.9 }))).toEqual([1, 1, 1, 1, 1, 1]);
    expect(marks(clipCov({ ratio: 1, low: 3.1 }))).toEqual([1, 1, 1, 1, 1, 1]);
  });

  it("SAPO's gate is 2/τ at ratio 1: A = 1 costs −2 (AReaL)", async () => {
    near(await perToken(sapo({ temperatureNegative: 1 }), [-1, -1], [-1, -1], [1, -1]), [-2, 2]);
  });

  it("bounds: GSPO's ln s at 10, VESPO's ln w in [ln 1e-8, 20], DPPO's rest of the probability at 1e-8", async () => {
    near(await perToken(gspo(), [-0.1, -0.1], [-300, -300], [-1, -1]), [Math.exp(10), Math.exp(10)], 6);
    // φ = exp(λ + k·ln w − λ·w): at the lower bound e^(2 + 3·ln 1e-8), at the upper one exactly 0.
    near(
      await perToken(vespo(), [-200, -200], [-1, -1], [-1, -1]),
      [-200e-24 * Math.exp(2), -200e-24 * Math.exp(2)],
      27,
    );
    near(await perToken(vespo(), [-1, -1], [-200, -200], [1, 1]), [0, 0]);
    const column = (x: number): Tensor => tensor([x], { device });
    const slope = grad(
      (logProbs: Tensor) =>
      sum(dppoKl().tokenLoss({ logProbs, oldLogProbs: column(-1), advantages: column(1), mask: column(1), segments: { ids: tensor(new Int32Array(1), { device }), count: 1 } })), // prettier-ignore
    );
    near(await slope(column(0)).read(), [0]); // p = 1: too far in the advantage's direction
    near(await slope(column(-0.8)).read(), [-Math.exp(0.2)]);
  });

  it("KL, lp −1, ref [0, −15, −30], plain and clamped at 20 and 10 (NeMo-RL)", async () => {
    const [at, ref, mask] = [[-1, -1, -1], [0, -15, -30], [1, 1, 1]].map((x) => tensor(x, { device })); // prettier-ignore
    const of = async (k: (typeof KL_ESTIMATORS)[number], clamp?: { logRatio: number; value: number }): Promise<number[]> => [...(await klPenalty(k, at!, ref!, mask!, clamp).read())]; // prettier-ignore
    near(await of("k1"), [-1, 14, 29]);
    near(await of("k2"), [0.5, 98, 420.5]);
    near(await of("k3"), [Math.E - 2, 13, 28], 5);
    const clamp = { logRatio: 20, value: 10 };
    near(await of("k1", clamp), [-1, 10, 10]);
    near(await of("k2", clamp), [0.5, 10, 10]);
    near(await of("k3", clamp), [Math.E - 2, 10, 10], 5);
  });

  it("−∞ behind the mask stays there, and an empty mask gives exactly 0 (NeMo-RL)", async () => {
    const wild = [-Infinity, NaN, 1e30];
    for (const loss of [ppoClip(), gspo(), cispo(), reinforce()]) {
      near(await perToken(loss, wild, [0, -Infinity, 0], [1, 1, NaN], [0, 0, 0]), [0, 0, 0]);
    }
  });
});

describe("advantages", () => {
  const group = (rewards: number[], groups = rewards.map(() => 0)): Trajectory[] =>
    rewards.map((reward, i) => episode([["prompt", [1]], ["action", [2]]], { reward, group: groups[i]!, stepRewards: [reward] })); // prettier-ignore
  const first = (estimate: { perToken: readonly Float64Array[] }): number[] => estimate.perToken.map((row) => row[1]!);

  it("RLOO [3, −3, −3, 3, 0] (SkyRL); MaxRL [3, −1, −1, −1] (prime-rl)", () => {
    near(first(rloo().estimate(group([6, 3, 3, 6, 9], [0, 0, 1, 1, 2]))), [3, -3, -3, 3, 0]);
    near(first(maxRl().estimate(group([1, 0, 0, 0]))), [3, -1, -1, -1]);
    near(first(maxRl().estimate(group([-1, 0]))), [0, 0]);
    // Leave-one-out baselines [2.5, 2, 1.5] and [5.5, 5, 4.5], and ±.7071 (NeMo-RL).
    near(first(rloo().estimate(group([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1]))), [-1.5, 0, 1.5, -1.5, 0, 1.5]);
    near(first(grpo({ eps: 0 }).estimate(group([0, 1]))), [-Math.SQRT1_2, Math.SQRT1_2]);
  });

  it("pass@k without the deviation: the margin itself", () => {
    near(first(passAtK({ std: false }).estimate(group([1, 0.25, 0]))), [0.75, 0, 0]);
    near(first(passAtK({ std: false }).estimate(group([1, 1, 0]))), [0, 0, 0]);
  });

  it("a batch's deviation: R − group mean over the std of all rewards", () => {
    const batch = group([1, 0, 5, 1], [0, 0, 1, 1]);
    const std = Math.sqrt([1, 0, 5, 1].reduce((s, r) => s + (r - 1.75) ** 2, 0) / 3);
    near(first(grpo({ scale: "batch", eps: 0 }).estimate(batch)), [0.5, -0.5, 2, -2].map((x) => x / std)); // prettier-ignore
  });

  const row = (rewards: number[], turnOf: (k: number) => number = () => 0): Trajectory => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    rewards.forEach((_, k) => append(stream, "action", turnOf(k), [1], { oldLogProbs: [-1] }));
    return trajectoryOf(stream, { reward: sumOf(rewards), tokenRewards: [0, ...rewards] });
  };
  const signals = (values: number[], logProbs: number[] = values.map(() => -1)): TokenStatistics => ({
    values: [Float64Array.of(NaN, ...values)],
    logProbs: [Float64Array.of(NaN, ...logProbs)],
  });
  const own = ([, ...tokens]: Float64Array): number[] => tokens;

  it("GAE, r [1, 2, 3], v [.5, 1, 1.5]: returns by γ and λ (SkyRL)", () => {
    const of = (gamma: number, lambda: number): number[] =>
      own(gae({ gamma, lambda }).estimate([row([1, 2, 3])], signals([0.5, 1, 1.5])).returns![0]!);
    near(of(1, 1), [6, 5, 3]);
    near(of(0.5, 1), [2.75, 3.5, 3]);
    near(of(1, 0.5), [3.625, 4.25, 3]);
  });

  it("GAE with λ 0 looks one step ahead: v [1, 2, 3], R 5 → [2, 3, 5]", () => {
    const { returns } = gae({ lambda: 0 }).estimate([row([0, 0, 5])], signals([1, 2, 3]));
    near(own(returns![0]!), [2, 3, 5]);
  });

  it("one value a turn: γ and λ act between turns, and the critic is asked at a turn's first token", () => {
    const turns = row([0, 1, 0, 2], (k) => (k < 2 ? 0 : 1));
    const { perToken: A, returns } = gae({ gamma: 0.5, lambda: 1, level: "step", whiten: false }).estimate([turns], signals([0.5, 9, 1, 9])); // prettier-ignore
    near(own(A[0]!), [1.5, 1.5, 1, 1]); // 1 + .5·2 − .5, and 2 − 1
    expect(own(returns![0]!)).toEqual([2, NaN, 2, NaN]);
    // α counts turns there: λ = 1 − 1/2.
    const adaptive = gae({ alpha: 1, level: "step", whiten: false }).estimate([row([0, 0, 0, 1], (k) => Number(k > 1))], signals([0.2, 9, 0.4, 9])); // prettier-ignore
    near(own(adaptive.perToken[0]!), [0.5, 0.5, 0.6, 0.6]);
  });

  it("VAPO: λ_policy = 1 − 1/(α·len), λ_value = 1, clamped for short answers", () => {
    const long = Array.from({ length: 40 }, (_, k) => (k === 39 ? 1 : 0));
    const values = long.map((_, k) => 0.1 + k / 100);
    const { perToken: A, returns } = vapo({ alpha: 0.05, whiten: false }).estimate([row(long)], signals(values));
    const byHand = gae({ lambda: 0.5, whiten: false }).estimate([row(long)], signals(values));
    near(own(A[0]!), own(byHand.perToken[0]!));
    near(own(returns![0]!), long.map(() => 1)); // prettier-ignore
    // 1 − 1/(.05·2) < 0: λ is 0.
    const short = vapo({ whiten: false }).estimate([row([0, 1])], signals([0.2, 0.4]));
    near(own(short.perToken[0]!), [0.2, 0.6]);
  });

  it("V-trace on its own policy is GAE's target, and A looks one step ahead of it", () => {
    const [rewards, values] = [[1, 0, 2], [0.5, -1, 0.25]]; // prettier-ignore
    for (const lambda of [1, 0.7]) {
      const trace = vtrace({ gamma: 0.9, lambda }).estimate([row(rewards)], signals(values));
      const target = own(gae({ gamma: 0.9, lambda }).estimate([row(rewards)], signals(values)).returns![0]!);
      near(own(trace.returns![0]!), target);
      near(own(trace.perToken[0]!), rewards.map((r, k) => r + 0.9 * (target[k + 1] ?? 0) - values[k]!)); // prettier-ignore
    }
  });

  it("V-trace off its policy: ρ and c are capped, by hand", () => {
    // π/μ = 2 and 1/2: ρ = [1.5, .5], c = [1, .5].
    const off = signals([1, 2], [-1 + Math.log(2), -1 + Math.log(0.5)]);
    const { perToken: A, returns } = vtrace({ gamma: 0.5, rhoBar: 1.5, cBar: 1 }).estimate([row([1, 3])], off);
    const v1 = 2 + 0.5 * (3 - 2);
    const v0 = 1 + 1.5 * (1 + 0.5 * 2 - 1) + 0.5 * 1 * (v1 - 2);
    near(own(returns![0]!), [v0, v1]);
    near(own(A[0]!), [1.5 * (1 + 0.5 * v1 - 1), 0.5 * (3 - 2)]);
  });

  it("GiGPO: the default anchor is what was observed before; a state seen once gives 0", () => {
    const of = (seen: number, stepRewards: number[]): Trajectory =>
      episode([["prompt", [1]], ["action", [2]], ["observation", [seen]], ["action", [3]]], { stepRewards, reward: sumOf(stepRewards) }); // prettier-ignore
    const last = (batch: Trajectory[]): number[] => gigpo({ gamma: 1 }).estimate(batch).perToken.map((r) => r[3]!); // prettier-ignore
    near(last([of(7, [0, 1]), of(7, [0, 0])]), [1, -1]); // ½ of the episode, ½ of the step
    near(last([of(7, [0, 1]), of(8, [0, 0])]), [0.5, -0.5]);
  });

  it("milestones: R·γ^(t_k − t) within a segment, against those in the same segment", () => {
    const of = (stepRewards: number[]): Trajectory =>
      episode(stepRewards.flatMap((_, turn) => [["action", [2, 2]], ["observation", [turn]]] as const), { stepRewards, reward: sumOf(stepRewards) }); // prettier-ignore
    const [a, b] = [of([0, 1]), of([0, 0])];
    const { perToken: A } = milestone({ gamma: 0.5, lambda: 2 }).estimate([a, b]);
    // Values .5, 1 and 0, 0 in the first segment: mean .375; episodes ±.5. Tokens 0 of a row are never trained.
    near(A[0]!, [0, 0.5 + 2 * 0.125, 0, 0.5 + 2 * 0.625, 0.5 + 2 * 0.625, 0]);
    near(A[1]!, [0, -0.5 - 2 * 0.375, 0, -0.5 - 2 * 0.375, -0.5 - 2 * 0.375, 0]);
  });
});

describe("PaW (arXiv 2606.02388)", () => {
  const p = [0.05, 0.19, 0.21, 0.9];

  it("ℓ = .44, and its gradient on the target's logit", async () => {
    const lp = tensor(p.map(Math.log), { device });
    const mask = tensor([1, 1, 1, 1], { device });
    const mean = (x: Tensor): Tensor => mul(sum(clippedErrorLoss(x, mask, 0.2)), 1 / 4);
    expect(await mean(lp).item()).toBeCloseTo(0.44, 12);
    const d = await grad(mean)(lp).read();
    near(
      [...d].map((g, i) => g * (1 - p[i]!)),
      [-0.011875, -0.038475, 0, 0],
      12,
    ); // d lp / d logit = 1 − p
  });

  it("entropy of sampled tokens .1970615560, mean over the action's", () => {
    const q = [0.9, 0.5, 0.05];
    const t = episode([["prompt", [1]], ["action", [2, 3, 4]], ["observation", [5]]], { old: (k) => Math.log(q[k - 1]!) }); // prettier-ignore
    const [transition] = transitionsOf([t]);
    expect(actionEntropy(transition!, "sampled", [t], {})).toBeCloseTo(0.197061556, 9);
    expect(actionEntropy(transition!, "full", [t], { entropy: [Float64Array.of(9, 1, 2, 6, 9)] })).toBe(3);
  });

  it("λ_g of R̄ 0, 2.5, 10, −.1 with R_max 10: 1, .75, 0, 1.01 before the clamp", () => {
    near([0, 2.5, 10, -0.1].map((r) => pawLambda([r], 10, null)), [1, 0.75, 0, 1.01], 12); // prettier-ignore
    near([0, 2.5, 10, -0.1].map((r) => pawLambda([r], 10, [0, 1])), [1, 0.75, 0, 1], 12); // prettier-ignore
  });

  /** One group or more; every action has one token of the given entropy, every answer two tokens and a warning. */
  const played = (entropies: number[], reward: number, group = 0): { t: Trajectory; entropy: Float64Array } => {
    const t = episode(
      [["prompt", [1]], ...entropies.flatMap(() => [["action", [2]], ["observation", [4, 5]], ["observation", [6], false]] as const)], // prettier-ignore
      { reward, group },
    );
    let k = 0;
    return { t, entropy: Float64Array.from(t.stream.roles, (role) => (role === "action" ? entropies[k++]! : NaN)) };
  };
  const weights = (batch: { t: Trajectory; entropy: Float64Array }[], options: object): number[][] =>
    paw(options)
      .weights(batch.map(({ t }) => t), 0, { entropy: batch.map(({ entropy }) => entropy) })
      .map((row, i) => [...row].filter((_, k) => batch[i]!.t.stream.targets[k])); // prettier-ignore

  it("selects over the whole update, averages within a group, weighs by 1 − R̄/R_max, full length below", () => {
    const batch = [played([3, 1], 0), played([2, 0.5], 1), played([4, 0.1], 0, 1)];
    // The top half of six: entropies 4, 3, 2. Group 0 has two of them and λ .5, group 1 one and λ 1; |o| = 3, two groups.
    const [a, b] = [0.5 / (2 * 2 * 3), 1 / (2 * 1 * 3)];
    near(weights(batch, { alpha: 0.5 }).flat(), [a, a, 0, 0, a, a, 0, 0, b, b, 0, 0], 15);
  });

  it("each switch by itself", () => {
    const batch = [played([3, 1], 0), played([2, 0.5], 1), played([4, 0.1], 0, 1)];
    const all = weights(batch, { selection: "all" }).flat();
    expect(all.every((w) => w > 0)).toBe(true);
    expect(all).toEqual(weights(batch, { alpha: 1 }).flat());
    expect(weights(batch, { alpha: 0 }).flat().every((w) => w === 0)).toBe(true); // prettier-ignore
    const constant = weights(batch, { alpha: 0.5, weight: "constant", coefficient: 2 }).flat();
    near(constant, [1 / 6, 1 / 6, 0, 0, 1 / 6, 1 / 6, 0, 0, 1 / 3, 1 / 3, 0, 0], 15);
    const random = weights(batch, { selection: "random", alpha: 0.5 }).flat();
    expect(random.filter((w) => w > 0).length).toBe(6);
    expect(paw().clip).toBe(0.2);
    expect(paw({ loss: "cross-entropy" }).clip).toBe(undefined);
    expect(paw().needs).toEqual(["entropy"]);
    for (const free of [{ entropy: "sampled" }, { selection: "all" }] as const) expect(paw(free).needs).toBe(undefined);
    // A group that succeeds always has no world loss; one that nothing is known of has none either.
    expect(weights([played([1], 1), played([2], 1)], {}).flat()).toEqual([0, 0, 0, 0]);
    expect(weights([played([1], NaN)], {}).flat()).toEqual([0, 0]);
  });
});

describe("ActFocus (arXiv 2605.14558)", () => {
  const E = [-20, -18, -16, -22];
  const expected = [1.1950117313, 1.3049882687, 1.3963798192, 1.1036201808];
  const t = episode([["prompt", [1]], ["thought", [2, 3]], ["action", [4, 5, 6, 7]]]); // prettier-ignore
  const refEnergy = [Float64Array.of(NaN, NaN, NaN, ...E)];

  it("weights of four action tokens, and of the thoughts before them", () => {
    near(uncertaintyWeights(E, 0.5), expected);
    near(actFocus().weights([t], { refEnergy })[0]!.slice(1), [0.1, 0.1, ...expected]);
  });

  it("weighted loss .0986363949, uniform −.2133333333", async () => {
    const ratios = [1.5, 0.5, 1.1, 0.7, 1.3, 1];
    const loss = await perToken(ppoClip({ epsilonHigh: 0.28 }), ratios.map(Math.log), ratios.map(() => 0), [1, 1, 1, 1, -1, -1]); // prettier-ignore
    const mask = [[false, true, true, true, true, true, true]];
    const of = (alpha: number, beta: number): number => {
      const importance = actFocus({ alpha, beta }).weights([t], { refEnergy });
      const [weights] = aggregationWeights(mask, "token-mean", { importance });
      return ratios.reduce((s, _, k) => s + weights![k + 1]! * loss[k]!, 0);
    };
    expect(of(0.1, 0.5)).toBeCloseTo(0.0986363949, 9);
    expect(of(1, 0)).toBeCloseTo(-0.2133333333, 9);
  });

  it("uniform is no weighting at all; the other signals are read where they are named", () => {
    const masks = [[false, true, true, true, true, true, true]];
    const importance = actFocus({ alpha: 1, beta: 0 }).weights([t], {});
    expect(aggregationWeights(masks, "token-mean", { importance })).toEqual(aggregationWeights(masks, "token-mean"));
    expect(actFocus({ alpha: 1, beta: 0 }).needs).toEqual([]);
    for (const [signal, name] of [["entropy", "refEntropy"], ["nll", "refNll"]] as const) {
      near(actFocus({ uncertainty: signal }).weights([t], { [name]: refEnergy })[0]!.slice(3), expected);
    } // prettier-ignore
    const kl = actFocus({ uncertainty: "kl" });
    expect(kl.needs).toEqual(["logProbs", "refLogProbs"]);
    const [lp, ref] = [[NaN, -1, -1, -1, -2, -1, -1], [NaN, -1, -1, -1.5, -1, -1, -3]].map((x) => [Float64Array.from(x)]); // prettier-ignore
    const k3 = lp![0]!.slice(3).map((x, k) => Math.expm1(ref![0]![k + 3]! - x) - (ref![0]![k + 3]! - x));
    near(kl.weights([t], { logProbs: lp!, refLogProbs: ref! })[0]!.slice(3), uncertaintyWeights([...k3], 0.5));
    expect(() => actFocus().weights([t], {})).toThrow(
      'actFocus: needs the token statistic "refEnergy", which a reference model gives',
    );
  });

  it("top entropy: from the quantile upwards, and the denominators count all", () => {
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(quantile([3], 0.2)).toBe(3);
    const entropy = [Float64Array.of(9, 1, 2, 3, 4, 5, 6)];
    near(topEntropy({ share: 0.5 }).weights([t], { entropy })[0]!.slice(1), [0, 0, 0, 1, 1, 1]);
  });
});

describe("corrections and controllers", () => {
  it("IcePop keeps [.5, 5]: ratios .4, .8, 6 → 0, .8, 0 (verl); TIS caps at 2", () => {
    const t = episode([["prompt", [1]], ["action", [2, 3, 4]]]); // prettier-ignore
    const logProbs = [Float64Array.of(NaN, ...[0.4, 0.8, 6].map((r) => -1 + Math.log(r)))];
    const of = (options: object): ArrayLike<number> => importanceCorrection(options).weights([t], { logProbs }, [new Float64Array(4)])[0]!.slice(1); // prettier-ignore
    near(of({ mode: "mask", min: 0.5, max: 5 }), [0, 0.8, 0]);
    near(of({ max: 2 }), [0.4, 0.8, 2]);
    near(of({ max: 2, normalize: true }), [0.4, 0.8, 2].map((w) => w / (3.2 / 3))); // prettier-ignore
    near(of({ level: "sequence", max: 5 }), [1.92, 1.92, 1.92]);
  });

  it("TIS of ln ratios .5, −.5, 1: [1.6487, .6065, 2], by sequence 2.7183, 4.4817 without the second (SkyRL)", () => {
    const [whole, masked] = [["action", "action", "action"], ["action", "observation", "action"]] .map((roles) => episode([["prompt", [1]], ...roles.map((r) => [r as "action", [2]] as const)])); // prettier-ignore
    const logProbs = [Float64Array.of(NaN, -0.5, -1.5, 0)];
    const of = (t: Trajectory, options: object): number => importanceCorrection(options).weights([t], { logProbs }, [new Float64Array(4)])[0]![1]!; // prettier-ignore
    near([...importanceCorrection({ max: 2 }).weights([whole!], { logProbs }, [new Float64Array(4)])[0]!], [1, 1.6487, 0.6065, 2], 4); // prettier-ignore
    near([of(whole!, { level: "sequence", max: 5 }), of(masked!, { level: "sequence", max: 5 })], [2.7183, 4.4817], 4);
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
});
