/**
 * Policy losses and KL penalties against numbers that papers and other projects' tests state for small inputs, beyond
 * what the fixtures hold. Advantages: advantageVectors.test.ts; weights of tokens: weightVectors.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { cispo, clipCov, dppoKl, gspo, klCov, reinforce, sapo, vespo, webrl } from "../../methods/losses/index.ts";
import { type KL_ESTIMATORS, klPenalty } from "../../rl/objective/kl.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { expectNear, sumOf, tokenLosses } from "../support/rlVectors.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("reference");
});
afterAll(() => device.dispose());

describe("losses", () => {
  const advantages = [1, -1, -4];
  const old = [-1, -1, -3];
  const lp = [-1 + Math.log(0.5), -1, -3 + Math.log(10)];

  it("dual clip, ratios .5, 1, 10: [−.5, 1, 12] (SkyRL)", async () => {
    expectNear(await tokenLosses(device, ppoClip({ dualClip: 3 }), lp, old, advantages), [-0.5, 1, 12]);
    expectNear(await tokenLosses(device, ppoClip(), lp, old, advantages), [-0.5, 1, 40]);
  });

  it("CISPO, caps .2 and .2: sum −2.9930 (SkyRL, with its rounded log-probabilities)", async () => {
    const rounded = [-1.69315, -1, -0.69741];
    const losses = await tokenLosses(device, cispo({ epsilon: 0.2, epsilonHigh: 0.2 }), rounded, old, advantages);
    expect(sumOf(losses)).toBeCloseTo(0.8 * 1.69315 - 1 - 4 * 1.2 * 0.69741, 9);
    expect(sumOf(losses)).toBeCloseTo(-2.993, 4);
  });

  it("PPO, ratios .5, 1, 1.5: mean −.6333; REINFORCE .8333 (NeMo-RL)", async () => {
    const logRatios = [0.5, 1, 1.5].map(Math.log);
    const clipped = await tokenLosses(device, ppoClip(), logRatios, [0, 0, 0], [1, -1, 2]);
    expect(sumOf(clipped) / 3).toBeCloseTo(-0.6333, 4);
    const plain = await tokenLosses(device, reinforce(), [-0.5, -1, -1.5], [0, 0, 0], [1, -1, 2]);
    expect(sumOf(plain) / 3).toBeCloseTo(0.8333, 4);
  });

  it("GSPO of the same ratios: .9086, loss −.6057 (NeMo-RL)", async () => {
    const logRatios = [0.5, 1, 1.5].map(Math.log);
    const advantages = [1, -1, 2];
    const losses = await tokenLosses(
      device,
      gspo({ epsilon: 0.2, epsilonHigh: 0.2 }),
      logRatios,
      [0, 0, 0],
      advantages,
    );
    const ratios = Array.from(losses, (loss, i) => -loss / advantages[i]!);
    expectNear(ratios, [0.9086, 0.9086, 0.9086], 4);
    expect(sumOf(losses) / 3).toBeCloseTo(-0.6057, 4);
  });

  it("WebRL: Σlp −1, Σref −1.2, A .5 costs .09, and a masked token nothing", async () => {
    const [lp, ref] = [
      [-0.4, -7, -0.6],
      [-0.5, -1, -0.7],
    ];
    const losses = (beta: number): ReturnType<typeof tokenLosses> =>
      tokenLosses(device, webrl({ beta }), lp, [-1, -1, -1], [0.5, NaN, 0.5], [1, 0, 1], ref);
    expectNear(await losses(1), [0.09, 0, 0.09]);
    expectNear(await losses(2.5), [0, 0, 0]); // the optimum: β·Σ(lp − ref) is A
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
    expectNear(await tokenLosses(device, sapo({ temperatureNegative: 1 }), [-1, -1], [-1, -1], [1, -1]), [-2, 2]);
  });

  it("bounds: GSPO's ln s at 10, VESPO's ln w in [ln 1e-8, 20], DPPO's rest of the probability at 1e-8", async () => {
    const far = await tokenLosses(device, gspo(), [-0.1, -0.1], [-300, -300], [-1, -1]);
    expectNear(far, [Math.exp(10), Math.exp(10)], 6);
    // φ = exp(λ + k·ln w − λ·w): at the lower bound e^(2 + 3·ln 1e-8), at the upper one exactly 0.
    const lowest = await tokenLosses(device, vespo(), [-200, -200], [-1, -1], [-1, -1]);
    expectNear(lowest, [-200e-24 * Math.exp(2), -200e-24 * Math.exp(2)], 27);
    const highest = await tokenLosses(device, vespo(), [-1, -1], [-200, -200], [1, 1]);
    expectNear(highest, [0, 0]);
    const column = (x: number): Tensor => tensor([x], { device });
    const segments = { ids: tensor(new Int32Array(1), { device }), count: 1 };
    const slope = grad((logProbs: Tensor) =>
      sum(dppoKl().tokenLoss({ logProbs, oldLogProbs: column(-1), advantages: column(1), mask: column(1), segments })),
    );
    expectNear(await slope(column(0)).read(), [0]); // p = 1: too far in the advantage's direction
    expectNear(await slope(column(-0.8)).read(), [-Math.exp(0.2)]);
  });

  it("KL, lp −1, ref [0, −15, −30], plain and clamped at 20 and 10 (NeMo-RL)", async () => {
    const logProbs = tensor([-1, -1, -1], { device });
    const reference = tensor([0, -15, -30], { device });
    const mask = tensor([1, 1, 1], { device });
    const penalties = (
      estimator: (typeof KL_ESTIMATORS)[number],
      clamp?: { logRatio: number; value: number },
    ): Promise<ArrayLike<number>> => klPenalty(estimator, logProbs, reference, mask, clamp).read();
    expectNear(await penalties("k1"), [-1, 14, 29]);
    expectNear(await penalties("k2"), [0.5, 98, 420.5]);
    expectNear(await penalties("k3"), [Math.E - 2, 13, 28], 5);
    const clamp = { logRatio: 20, value: 10 };
    expectNear(await penalties("k1", clamp), [-1, 10, 10]);
    expectNear(await penalties("k2", clamp), [0.5, 10, 10]);
    expectNear(await penalties("k3", clamp), [Math.E - 2, 10, 10], 5);
  });

  it("−∞ behind the mask stays there, and an empty mask gives exactly 0 (NeMo-RL)", async () => {
    const wild = [-Infinity, NaN, 1e30];
    for (const loss of [ppoClip(), gspo(), cispo(), reinforce()]) {
      expectNear(await tokenLosses(device, loss, wild, [0, -Infinity, 0], [1, 1, NaN], [0, 0, 0]), [0, 0, 0]);
    }
  });
});
