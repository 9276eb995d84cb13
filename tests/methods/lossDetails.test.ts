/**
 * Losses where goldens and random batches do not look: defaults, bounds, the small and the exact cases. Each of these
 * was found by `npm run mutate`: before it was here, an edit of that place went unnoticed.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { AdaptiveEntropy } from "../../methods/entropy.ts";
import { KL_ESTIMATORS, klEstimate, klPenalty } from "../../rl/objective/kl.ts";
import { AdaptiveKl } from "../../methods/kl.ts";
import { cispo, clipCov, dpo, dppoKl, gspo, klCov, m2po, POLICY_LOSSES, vespo } from "../../methods/losses/index.ts";
import { clippedValueLoss } from "../../rl/objective/value.ts";
import type { PolicyLoss, StepView } from "../../rl/objective/policyLoss.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { clippedErrorLoss } from "../../methods/paw.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { KL_ROWS } from "../support/rlMethods.ts";
import { type Drawn, run } from "../support/rlTokens.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("reference");
});
afterAll(() => device.dispose());

const column = (...values: number[]): Tensor => tensor(values, { device });
const near = (actual: number, expected: number, relative: number): void =>
  expect(Math.abs(actual - expected)).toBeLessThanOrEqual(relative * Math.abs(expected));

describe("defaults are those that the options say", () => {
  /** Ratios on both sides of every clip, each with an advantage of either sign. */
  const rows = [0.1, 0.45, 0.55, 0.7, 0.9, 0.9996, 1.0005, 1.1, 1.25, 1.5, 1.8, 2, 3, 5.5, 7].flatMap((ratio) =>
    [1, -1].map((advantage): Drawn[] => [
      {
        masked: false,
        lp: -0.3 + Math.min(0, Math.log(ratio)),
        old: -0.3 - Math.max(0, Math.log(ratio)),
        advantage,
        ref: -2,
      },
    ]),
  );
  it.each<[name: string, options: Readonly<Record<string, number>>, fixed?: object]>([
    ["ppo", { epsilon: 0.2, epsilonHigh: 0.2 }],
    ["dual_clip", { dualClip: 3 }],
    ["sapo", { temperaturePositive: 1, temperatureNegative: 1.05 }],
    ["kl_cov", { coefficient: 1 }],
    ["gspo", { epsilon: 3e-4, epsilonHigh: 4e-4 }],
    ["gmpo", { epsilon: 0.4, epsilonHigh: 0.4 }],
    ["vespo", { kPos: 2, lambdaPos: 3, kNeg: 3, lambdaNeg: 2 }],
    ["cispo", { epsilon: 0.2, epsilonHigh: 0.28 }],
    ["cispo", { epsilonHigh: 5 }, { cap: "absolute" }],
    ["dro", { beta: 0.05 }],
    ["dppo_tv", { epsilon: 0.2, epsilonHigh: 0.28 }],
    ["dppo_kl", { epsilon: 0.2, epsilonHigh: 0.28 }],
    ["prime_rl", { threshold: 0.2, klTau: 1e-3 }],
    ["webrl", { beta: 1 }],
    ["dpo", { beta: 0.1 }],
  ])("%s: %o", async (name, options, fixed = {}) => {
    const of = (given: object): ReturnType<typeof run> => run(device, POLICY_LOSSES[name]!.make(given), rows);
    const plain = await of(fixed);
    expect(await of({ ...fixed, ...options })).toEqual(plain);
    for (const [key, value] of Object.entries(options)) {
      expect(await of({ ...fixed, ...options, [key]: 1.3 * value }), key).not.toEqual(plain);
    }
  });

  it("one epsilon is both, unless there are two", async () => {
    for (const name of ["ppo", "gspo", "gmpo", "clip_cov"]) {
      const of = (given: object): ReturnType<typeof run> => run(device, POLICY_LOSSES[name]!.make(given), rows);
      expect(await of({ epsilon: 0.3 }), name).toEqual(await of({ epsilon: 0.3, epsilonHigh: 0.3 }));
    }
  });

  it("where clip_ratio/* counts a ratio as clipped", () => {
    const bounds = { epsilon: 0.1, epsilonHigh: 0.3 };
    for (const loss of [ppoClip(bounds), gspo(bounds), cispo(bounds), clipCov(bounds)]) {
      expect(loss.clip).toMatchObject({ low: 0.9, high: 1.3 });
    }
    expect(cispo({ cap: "absolute", epsilonHigh: 2 }).clip).toEqual({ low: 0, high: 2 });
  });
});

describe("kl_cov and clip_cov choose tokens", () => {
  const view = (tokens: readonly { lp?: number; rho?: number; A: number }[], step = 0): StepView => {
    const all = (of: (token: { lp?: number; rho?: number; A: number }) => number): Float64Array[] => [
      Float64Array.from(tokens, of),
    ];
    const lp = (t: { lp?: number }): number => t.lp ?? -1;
    return {
      logProbs: all(lp),
      oldLogProbs: all((t) => lp(t) - Math.log(t.rho ?? 1)),
      advantages: all((t) => t.A),
      masks: [tokens.map(() => true)],
      step,
    };
  };
  const marks = (loss: PolicyLoss, of: StepView): number[] => [...loss.prepare!(of)[0]!];
  const all = { low: -1e9, high: 1e9, ratio: 1 };

  it("not those that PPO's clip has silenced: ρ above and A > 0, or ρ below and A < 0", () => {
    const tokens = [
      [1.3, 1],
      [1.3, -1],
      [1.3, 0],
      [1.1, 1],
      [0.7, -1],
      [0.7, 1],
      [0.7, 0],
      [0.9, -1],
    ].map(([rho, A]) => ({ rho: rho!, A: A! }));
    expect(marks(clipCov({ ...all, epsilon: 0.2, epsilonHigh: 0.25 }), view(tokens))).toEqual([1, 0, 0, 0, 1, 0, 0, 0]);
    // A ratio exactly on the bound is not beyond it.
    const edge = [
      [2, 1],
      [0.5, -1],
    ].map(([rho, A]) => ({ rho: rho!, A: A! }));
    expect(marks(clipCov({ ...all, epsilon: 0.5, epsilonHigh: 1 }), view(edge))).toEqual([0, 0]);
  });

  it("of covariances 3 and −3, strictly between the bounds; by default between 1 and 5", () => {
    const tokens = [-1, -1, -4, -4].flatMap((lp, i) => [{ lp, A: [2, -2][i % 2]! }]); // means −2.5 and 0: ±3
    expect(marks(clipCov({ ratio: 1, low: 3, high: 9 }), view(tokens))).toEqual([1, 1, 1, 1]);
    expect(marks(clipCov({ ratio: 1, low: 0, high: 3 }), view(tokens))).toEqual([1, 1, 1, 1]);
    expect(marks(clipCov({ ratio: 1 }), view(tokens))).toEqual([0, 1, 1, 0]);
    const spread = [0.5, 1.5, 5.5].flatMap((c) => [
      { lp: -10 + c, A: 1 },
      { lp: -10 - c, A: -1 },
    ]);
    expect(marks(clipCov({ ratio: 1 }), view(spread))).toEqual([1, 1, 0, 0, 1, 1]);
  });

  it("a share of all tokens, rounded down, and at least one; by default 0.0002", () => {
    const tokens = Array.from({ length: 8 }, (_, i) => ({ lp: -1 - i, A: 1 + i }));
    const chosen = (ratio: number): number =>
      marks(clipCov({ ...all, ratio }), view(tokens)).filter((m) => m === 0).length;
    expect([0, 0.2, 0.3, 0.5, 1].map(chosen)).toEqual([1, 1, 2, 4, 8]);
    const many = view(Array.from({ length: 10_000 }, (_, i) => ({ lp: -(i % 97), A: i % 89 })));
    expect(marks(klCov(), many).filter((m) => m === 1).length).toBe(2);
    expect(marks(clipCov({ low: -1e9, high: 1e9 }), many).filter((m) => m === 0).length).toBe(2);
  });

  it("M2PO: second moments of mean .05 are above its default bound, of mean .03 below", () => {
    for (const [moment, kept] of [
      [0.1, 0],
      [0.06, 1],
    ] as const) {
      const tokens = [0, Math.sqrt(moment)].map((x) => ({ rho: Math.exp(x), A: 1 }));
      expect(marks(m2po(), view(tokens))).toEqual([1, kept]);
    }
  });

  it("clip_cov draws: others at another step or seed, the same again; seed 0 by default", () => {
    const tokens = Array.from({ length: 40 }, (_, i) => ({ lp: -1 - (i % 7), A: 1 + (i % 5) }));
    const at = (step: number, seed?: number): string =>
      marks(clipCov({ ...all, ratio: 0.3, ...(seed === undefined ? {} : { seed }) }), view(tokens, step)).join("");
    expect(at(3)).toBe(at(3, 0));
    expect(new Set([at(3), at(4), at(3, 1)]).size).toBe(3);
    expect(at(3)).not.toBe("0".repeat(12) + "1".repeat(28)); // not the first ones
  });

  it("what clip_cov marks with 0 has neither loss nor gradient", async () => {
    const rows = [
      [-1, 2],
      [-2, -1],
      [-1.5, 1],
    ].map(([lp, advantage]): Drawn[] => [{ masked: false, lp: lp!, old: lp!, advantage: advantage!, ref: 0 }]);
    const { perToken, gradient } = await run(device, clipCov({ ...all, ratio: 0.4 }), rows);
    expect(perToken.filter((x) => x === 0).length).toBe(1);
    expect(gradient.map((g) => g === 0)).toEqual(perToken.map((x) => x === 0));
  });
});

describe("vespo", () => {
  const token = (more: Partial<Drawn>): Drawn => ({ masked: false, lp: -1, old: -1, advantage: 1, ref: 0, ...more });

  it("keeps ln w below 20, which shows where λ is 0", async () => {
    const options = { kPos: 0.5, lambdaPos: 0 };
    const { perToken } = await run(device, vespo(options), [[token({ old: -31 })]]);
    expect(perToken[0]).toBeCloseTo(Math.exp(10), 6);
  });

  it("with its gradient through φ, what a masked token has changes nothing", async () => {
    const of = (advantage: number): ReturnType<typeof run> =>
      run(device, vespo({ detached: false }), [[token({ old: -1.2 }), token({ masked: true, advantage })]]);
    const clean = await of(0);
    expect(clean.gradient[0]).not.toBe(0);
    for (const advantage of [NaN, Infinity]) {
      const { gradient } = await of(advantage);
      expect(gradient.map((x) => x + 0)).toEqual(clean.gradient.map((x) => x + 0));
    }
  });
});

describe("KL", () => {
  const tensorOf = async (
    estimator: (typeof KL_ESTIMATORS)[number],
    d: number,
    clamp?: { logRatio: number; value: number },
  ): Promise<number> => (await klPenalty(estimator, column(-4), column(-4 + d), column(1), clamp).read())[0]!;

  it.each(KL_ESTIMATORS)("%s: on the host and as a tensor, far from the reference and very near", async (estimator) => {
    for (const d of [-2, -0.5, -0.05, 0.05, 0.5, 2]) {
      near(klEstimate(estimator, -4, -4 + d), KL_ROWS[estimator].value(-4 + d - -4), 1e-7);
      near(await tensorOf(estimator, d), KL_ROWS[estimator].value(-4 + d - -4), 1e-7);
    }
    if (estimator.startsWith("k3")) expect(klEstimate(estimator, 0, 0.03)).toBe(Math.expm1(0.03) - 0.03);
    // Near 0 the series takes over from e^d − d − 1; it is cut off behind d⁴.
    for (const d of [-0.029, 0.029, 0.01]) near(klEstimate(estimator, 0, d), KL_ROWS[estimator].value(d), 1e-6);
    if (estimator.startsWith("k3")) near(klEstimate(estimator, 0, 1e-12), 5e-25, 1e-6); // e^d − d − 1 has no digit
  });

  it.each(KL_ESTIMATORS)("%s, clamped: the log-ratio before, the value after", async (estimator) => {
    const { value } = KL_ROWS[estimator];
    for (const d of [3, -3])
      near(await tensorOf(estimator, d, { logRatio: 1, value: 100 }), value(Math.sign(d)), 1e-12);
    near(Math.abs(await tensorOf(estimator, 3, { logRatio: 20, value: 0.25 })), 0.25, 1e-12);
  });

  /** verl, core_algos.kl_penalty: the log-ratio within ±20, then the estimate within ±10. */
  it("verl's low_var_kl is k3 with verl's clamps, as a tensor and on the host; k3 has none", async () => {
    const klOf = (estimator: "k3" | "low_var_kl") => objectiveOf({ method: "grpo", kl: { beta: 1, estimator } }).kl!;
    const { estimator, clamp } = klOf("low_var_kl");
    expect([klOf("k3").clamp, clamp, estimator]).toEqual([undefined, { logRatio: 20, value: 10 }, "k3"]);
    for (const [d, value] of [
      [24.9, 10],
      [99.9, 10],
      [-5, Math.exp(-5) + 5 - 1],
      [-99.9, 10], // e^−20 + 20 − 1 = 19, within ±10
      [2, Math.exp(2) - 2 - 1],
      [0, 0],
    ] as const) {
      near(await tensorOf(estimator, d, clamp), value, 1e-12);
      near(klEstimate(estimator, -4, -4 + d, clamp), value, 1e-12);
    }
    expect(klEstimate("k3", -100, -0.1)).toBeGreaterThan(1e43);
  });

  it("the adaptive coefficient moves by at most a fifth of n/horizon, down as well as up", () => {
    const kl = new AdaptiveKl({ beta: 1, target: 2, horizon: 100 });
    kl.update(0, 50);
    expect(kl.beta).toBeCloseTo(0.9, 12);
    kl.update(1e6, 50);
    expect(kl.beta).toBeCloseTo(0.99, 12);
  });

  it("a step of more episodes than the horizon changes the coefficient by a fifth; it stays above 0", () => {
    for (const horizon of [64, 10, 1, 1e-3]) {
      const kl = new AdaptiveKl({ beta: 1, target: 0.1, horizon });
      kl.update(0, 64);
      expect(kl.beta).toBeCloseTo(0.8, 12);
      kl.update(1e6, 64);
      expect(kl.beta).toBeCloseTo(0.96, 12);
      for (let step = 0; step < 100; step++) kl.update(0, 64);
      expect(kl.beta).toBeGreaterThan(0);
    }
  });
});

it("the coefficient that follows the entropy: 0 at first, .005 a step, within 0 and 1", () => {
  const of = (options: object): AdaptiveEntropy => new AdaptiveEntropy({ target: 1, ...options });
  const after = (controller: AdaptiveEntropy, ...entropies: number[]): number[] =>
    entropies.map((entropy) => {
      controller.update(entropy);
      return controller.state().value;
    });
  expect(of({}).coefficient).toBe(0);
  expect(after(of({}), 0.5, 0.5, 2)).toEqual([0.005, 0.01, 0.005]);
  expect(after(of({}), 2)).toEqual([0]);
  expect(after(of({ coefficient: 0.999 }), 0.5, 0.5)).toEqual([1, 1]);
  // strands-labs/robots#2455: the bounds hold where it starts, too, and where a run goes on
  expect(of({ min: 0.1 }).coefficient).toBe(0.1);
  expect(() => of({ coefficient: 5 })).toThrow("coefficient must be at most max, 1, got 5");
  expect(() => of({}).restore({ value: 5, last: null })).toThrow("value must be in [0, 1], got 5");
});

describe("losses that no policy loss is", () => {
  it("the clipped value loss: the worse of the two errors, both bounds, exactly 0 behind the mask", async () => {
    const loss = clippedValueLoss(
      column(0, 2, 0, 5),
      column(1, 1, 0, 5),
      column(-1, 3, 0.1, 5),
      column(1, 1, 1, 0),
      0.2,
    );
    const values = [...(await loss.read())];
    // v 0 held at .8 is 1.8 from −1; v 2 held at 1.2 is 1.8 from 3; v 0 is not held.
    [0.5 * 1.8 ** 2, 0.5 * 1.8 ** 2, 0.5 * 0.1 ** 2].forEach((x, i) => expect(values[i]).toBeCloseTo(x, 12));
    expect(values[3]).toBe(0);
  });

  it("PaW's clipped error at p = ρ still counts, above it does not", async () => {
    const values = await clippedErrorLoss(
      column(Math.log(0.25), Math.log(0.26), Math.log(0.1)),
      column(1, 1, 0),
      Math.exp(Math.log(0.25)),
    ).read();
    expect([...values]).toEqual([0.75, 0, 0]);
  });

  it("DPPO's binary KL takes the rest of the probability as at least 1e-8", async () => {
    // π = 1, μ = 1/e: KL = −μ + (1 − μ)(ln(1 − μ) − ln 1e-8) = 10.98…
    const mu = Math.exp(-1);
    const distance = -mu + (1 - mu) * (Math.log(1 - mu) - Math.log(1e-8));
    const lossAt = async (epsilonHigh: number): Promise<number> =>
      (await run(device, dppoKl({ epsilonHigh }), [[{ masked: false, lp: 0, old: -1, advantage: 1, ref: 0 }]]))
        .gradient[0]!;
    expect(Math.abs(await lossAt(distance - 0.01))).toBe(0);
    expect(await lossAt(distance + 0.01)).not.toBe(0);
  });

  it("DPO with averages: β times the difference of the two means, whatever the lengths", async () => {
    const side = (advantage: number, lps: readonly number[], masked = false): Drawn[] =>
      lps.map((lp) => ({ masked, lp, old: 0, advantage, ref: -2 }));
    const pair = [
      ...side(1, [-1, -1.5, -1.1]),
      ...side(1, [-9], true),
      ...side(-1, [-3, -2.5]),
      ...side(-1, [-9, -9], true),
    ];
    const h = 0.8 - -0.75; // means of lp − ref
    const { perToken, gradient } = await run(device, dpo({ beta: 0.5, average: true }), [pair], () => 1);
    const slope = -0.5 / (1 + Math.exp(0.5 * h)); // of each token's loss by h; five tokens have it
    pair.forEach(({ masked, advantage }, i) => {
      expect(perToken[i]).toBeCloseTo(masked ? 0 : Math.log(1 + Math.exp(-0.5 * h)), 12);
      expect(gradient[i]).toBeCloseTo(masked ? 0 : 5 * slope * (advantage > 0 ? 1 / 3 : -1 / 2), 12);
    });
  });
});
