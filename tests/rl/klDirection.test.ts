/**
 * Where a KL penalty pulls, in a world without any reward: two actions, one logit, and the expected gradient by
 * enumeration. What is allowed pulls the policy to its reference, in the loss and in the reward.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { exp, mul, sub, sum, tensor, type Tensor } from "../../engine/index.ts";
import { gae } from "../../rl/methods/advantages/index.ts";
import { KL_ESTIMATORS, type KlEstimator, klEstimate, klPenalty, ppoClip } from "../../rl/methods/losses/index.ts";
import { checkObjective, type Objective } from "../../rl/methods/objective.ts";
import { objectiveOf } from "../../rl/methods/presets.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { episode } from "../support/rlToy.ts";

/** The probabilities of the first action: the policy's and the reference's. */
const PAIRS = [
  [0.9, 0.5],
  [0.6, 0.5],
  [0.5, 0.9],
  [0.99, 0.6],
  [0.3, 0.45],
] as const;
const both = (p: number): readonly [number, number] => [p, 1 - p];
/** d log π(a)/dθ, θ the logit of the first action. */
const scores = (p: number): readonly [number, number] => [1 - p, -p];
/** dKL(π ‖ ref)/dθ. */
const slopeOfKl = (p: number, q: number): number => p * (1 - p) * (Math.log(p / q) - Math.log((1 - p) / (1 - q)));
/** Σ_a π(a)·weight(a)·d log π(a)/dθ */
const expected = (p: number, weights: ArrayLike<number>): number =>
  both(p).reduce((total, probability, a) => total + probability * weights[a]! * scores(p)[a]!, 0);
/** The sign of a step from p to q. */
const towards = (p: number, q: number): number => Math.sign(q - p);

const objective = (estimator: KlEstimator, where: "loss" | "reward"): Objective => ({
  advantage: gae({ gamma: 0, lambda: 0, whiten: false }), // with values of 0: the rewards themselves
  critic: {},
  policyLoss: ppoClip(),
  aggregation: "token-mean",
  kl: { beta: 1, estimator, in: where },
});

describe("in the reward", () => {
  it("k1, the default, has the gradient of the KL", () => {
    expect(objectiveOf({ method: "rloo", kl: { beta: 1, in: "reward" } }).kl).toMatchObject({ estimator: "k1" });
    expect(objectiveOf({ method: "rloo", kl: { beta: 1 } }).kl).toMatchObject({ estimator: "k3" });
    for (const [p, q] of PAIRS) {
      const played = both(p).map((probability) =>
        episode(
          [
            ["prompt", [1]],
            ["action", [2]],
          ],
          { old: () => Math.log(probability) },
        ),
      );
      const statistics = {
        values: played.map(() => new Float64Array(2)),
        refLogProbs: both(q).map((probability) => Float64Array.of(0, Math.log(probability))),
      };
      const { perToken } = advantagesOf(objective("k1", "reward"), played, 0, statistics);
      const advantages = perToken.map((row) => row[1]!);
      expect(expected(p, advantages)).toBeCloseTo(-slopeOfKl(p, q), 12);
      expect(Math.sign(expected(p, advantages))).toBe(towards(p, q));
    }
  });

  it.each(KL_ESTIMATORS.filter((estimator) => estimator !== "k1"))("%s pulls away, and is refused", (estimator) => {
    for (const [p, q] of PAIRS.slice(0, 2)) {
      const penalties = both(p).map((own, a) => -klEstimate(estimator, Math.log(own), Math.log(both(q)[a]!)));
      expect(Math.sign(expected(p, penalties))).toBe(-towards(p, q));
    }
    expect(() => checkObjective(objective(estimator, "reward"))).toThrow(
      `kl: in the reward ${estimator} drives a policy away from a reference that is less sharp; ` +
        'use estimator: "k1" there (arXiv 2512.21852), or in: "loss"',
    );
    checkObjective(objective(estimator, "loss"));
  });

  it("names of verl's are judged by what they mean", () => {
    const of = (estimator: "kl" | "mse" | "low_var_kl") => () =>
      objectiveOf({ method: "grpo", kl: { beta: 1, estimator, in: "reward" } });
    expect(of("kl")().kl).toMatchObject({ estimator: "k1" });
    expect(of("mse")).toThrow("kl: in the reward k2 drives");
    expect(of("low_var_kl")).toThrow("kl: in the reward k3 drives");
  });
});

describe("in the loss", () => {
  let device: Device;
  beforeAll(async () => void (device = await makeDevice("reference")));
  afterAll(() => device.dispose());
  /** The expected step of θ, downhill. */
  const step = async (estimator: KlEstimator, p: number, q: number, importance = false): Promise<number> => {
    const column = (p: number): Tensor => tensor(both(p).map(Math.log), { device });
    const slopes = grad((logProbs: Tensor) => {
      const penalty = klPenalty(estimator, logProbs, column(q), tensor([1, 1], { device }));
      return sum(importance ? mul(penalty, exp(sub(logProbs, column(p)))) : penalty);
    });
    return -expected(p, await slopes(column(p)).read());
  };

  it.each(KL_ESTIMATORS.filter((estimator) => estimator !== "k1"))("%s pulls to the reference", async (estimator) => {
    for (const [p, q] of PAIRS) expect(Math.sign(await step(estimator, p, q))).toBe(towards(p, q));
  });

  it("k1 pulls nowhere on average; times the ratio it has the gradient of the KL", async () => {
    for (const [p, q] of PAIRS) {
      expect(await step("k1", p, q)).toBeCloseTo(0, 12);
      expect(await step("k1", p, q, true)).toBeCloseTo(-slopeOfKl(p, q), 12);
    }
  });
});
