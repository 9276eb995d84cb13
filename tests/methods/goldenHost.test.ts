/**
 * Advantages, importance weights and metrics, which are computed on the host, and VESPO's weights, against what verl,
 * TRL, verl-agent and RAGEN compute.
 */
import { moments } from "../../rl/episode/groups.ts";
import { describe, expect, it } from "vitest";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { biLevelGae, gae, gigpo, optimalTokenBaseline, reinforcePlusPlus } from "../../methods/advantages/index.ts";
import { whitening } from "../../rl/objective/estimator.ts";
import { importanceCorrection, offPolicyMetrics } from "../../methods/importanceCorrection.ts";
import { klEstimate } from "../../rl/objective/kl.ts";
import { vespo } from "../../methods/losses/index.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import {
  ADVANTAGE_CASES,
  columnsOf,
  CORRECTION_CASES,
  entryOf,
  episodesOf,
  type Golden,
  GOLDENS,
  KL_CASES,
  LOSS_CASES,
  type Matrix,
  NOT_RESULTS,
  OTHER_CASES,
} from "../support/rlGoldens.ts";
import { reference } from "../support/rlExecutors.ts";
import { trajectoryOf } from "../support/rlToy.ts";

const near = (actual: number, expected: number, tolerance = 1e-6): void =>
  expect(Math.abs(actual - expected)).toBeLessThanOrEqual(tolerance);

/** Compares under the mask; row and column of the fixture. */
function nearMatrix(actual: readonly Float64Array[], expected: Matrix, mask: Matrix): void {
  mask.forEach((row, i) =>
    row.forEach((m, t) => {
      if (m) near(actual[i]![t + 1]!, expected[i]![t]!);
    }),
  );
}

describe.each(GOLDENS)("$name", ({ golden, isWide }) => {
  const { fixture, verl } = golden;
  const signals = {
    values: columnsOf(verl.adv_inputs.values),
    logProbs: columnsOf(fixture.old),
    collision: columnsOf(fixture.mask.map((row) => row.map(() => 0.5))),
  };
  const advantages = columnsOf(fixture.adv_per_seq.map((a) => fixture.mask[0]!.map(() => a)));

  it.each(ADVANTAGE_CASES)("$entry is $method", ({ entry, estimator }) => {
    const { perToken, returns, fracRewardZeroStd } = estimator.estimate(episodesOf(golden), signals);
    const expected =
      entry === "verl.gpg.adv"
        ? (entryOf(golden, "verl.gpg") as { adv: { advantages: Matrix; returns: Matrix } }).adv
        : (entryOf(golden, entry) as { advantages: Matrix; returns: Matrix });
    nearMatrix(perToken, expected.advantages, fixture.mask);
    perToken.forEach((row, i) => row.forEach((a, t) => t > 0 && fixture.mask[i]![t - 1] === 0 && expect(a).toBe(0)));
    if (returns) nearMatrix(returns, expected.returns, fixture.mask);
    expect(fracRewardZeroStd).toBe(0);
  });

  it("verl.optimal_token_baseline aligns rollouts by column, gaps too: ours before the first gap", () => {
    const { perToken } = optimalTokenBaseline().estimate(episodesOf(golden), signals);
    const expected = (entryOf(golden, "verl.optimal_token_baseline") as { advantages: Matrix }).advantages;
    let compared = 0;
    for (const group of ["p", "q"]) {
      const rows = verl.adv_inputs.group.flatMap((g, i) => (g === group ? [i] : []));
      // Up to the first gap of any of the group's rows that goes on after it.
      const isGap = (i: number, t: number): boolean =>
        fixture.mask[i]![t] === 0 && fixture.mask[i]!.slice(t).includes(1);
      const end = fixture.mask[0]!.findIndex((_, t) => rows.some((i) => isGap(i, t)));
      const longest = Math.max(...rows.map((i) => fixture.mask[i]!.filter(Boolean).length));
      const second = rows.map((i) => fixture.mask[i]!.filter(Boolean).length).toSorted((a, b) => b - a)[1]!;
      for (const i of rows) {
        for (let t = 0; t < Math.min(end, second, longest); t++) {
          near(perToken[i]![t + 1]!, expected[i]![t]!);
          compared++;
        }
      }
    }
    expect(compared).toBeGreaterThan(isWide ? 1 : 3);
  });

  it.each(CORRECTION_CASES)("$entry is $method", ({ entry, options }) => {
    const factors = importanceCorrection(options).weights(episodesOf(golden), signals, advantages);
    const expected = entryOf(golden, entry) as { weights?: Matrix; mask?: Matrix };
    nearMatrix(factors, (expected.weights ?? expected.mask)!, fixture.mask);
  });

  it.each(CORRECTION_CASES.filter(({ entry }) => /is_(tis|icepop)_token/.test(entry)))(
    "$entry, metrics of its factors",
    ({ entry, options }) => {
      // verl looks at them before it normalises.
      const factors = importanceCorrection({ ...options, normalize: false }).weights(
        episodesOf(golden),
        signals,
        advantages,
      );
      const own = fixture.mask.flatMap((row, i) => row.flatMap((m, t) => (m ? [factors[i]![t + 1]!] : [])));
      const { mean, std } = moments(own, 0);
      const { metrics } = entryOf(golden, entry) as { metrics: Record<string, number> };
      near(mean, metrics["rollout_is_mean"]!);
      near(std, metrics["rollout_is_std"]!);
      near(Math.min(...own), metrics["rollout_is_min"]!);
      near(Math.max(...own), metrics["rollout_is_max"]!);
      near(
        mean ** 2 /
          moments(
            own.map((w) => w * w),
            0,
          ).mean,
        metrics["rollout_is_eff_sample_size"]!,
      );
    },
  );

  it("verl's actor/ppo_kl: the mean of k1 from the old policy to the new; kl_cov has its absolute value there", () => {
    const between = (estimator: "k1" | "abs"): number => {
      const kl = fixture.mask.flatMap((row, i) =>
        row.flatMap((m, t) => (m ? [klEstimate(estimator, fixture.old[i]![t]!, fixture.new[i]![t]!)] : [])),
      );
      return kl.reduce((a, b) => a + b, 0) / kl.length;
    };
    const stated = Object.entries(verl).flatMap(([entry, value]) => {
      const kl = (value as { metrics?: Record<string, number> }).metrics?.["actor/ppo_kl"];
      return kl === undefined ? [] : [{ entry, kl }];
    });
    expect(stated).toHaveLength(9);
    for (const { entry, kl } of stated) near(between(entry === "kl_cov" ? "abs" : "k1"), kl);
  });

  it("trl.seq_is_ratio", () => {
    const factors = importanceCorrection({ level: "sequence", max: 100 }).weights(
      episodesOf(golden),
      signals,
      advantages,
    );
    const expected = entryOf(golden, "trl.seq_is_ratio") as number[];
    nearMatrix(
      factors,
      fixture.mask.map((row, i) => row.map(() => expected[i]!)),
      fixture.mask,
    );
  });

  it("trl.off_policy_mask_thr0.1: rollouts with A < 0 that the policy has left behind", () => {
    const options = { mode: "none", offPolicyMask: 0.1 } as const;
    const factors = importanceCorrection(options).weights(
      episodesOf(golden),
      { logProbs: columnsOf(fixture.new) },
      advantages,
    );
    const expected = entryOf(golden, "trl.off_policy_mask_thr0.1") as number[];
    nearMatrix(
      factors,
      fixture.mask.map((row, i) => row.map(() => expected[i]!)),
      fixture.mask,
    );
  });

  it("verl.offpolicy_metrics", () => {
    const metrics = offPolicyMetrics(episodesOf(golden), columnsOf(fixture.old));
    const expected = entryOf(golden, "verl.offpolicy_metrics") as Record<string, number>;
    expect(Object.keys(metrics).length).toBe(Object.keys(expected).length);
    for (const [name, value] of Object.entries(expected)) near(metrics[`rollout_corr/${name}`]!, value, 2e-6);
  });

  it("verl.masked_whiten", () => {
    const kept = fixture.new.flatMap((row, i) => row.filter((_, t) => fixture.mask[i]![t]));
    const whiten = whitening(kept);
    const expected = entryOf(golden, "verl.masked_whiten") as Matrix;
    fixture.new.forEach((row, i) => row.forEach((x, t) => near(whiten(x), expected[i]![t]!, 1e-5))); // up to 21, in f32
  });

  it("trl.gamma_weights_phi: the weights of VESPO's tokens, as its loss has them", async () => {
    const expected = entryOf(golden, "trl.gamma_weights_phi") as number[];
    const device = await reference.open();
    const flat = (rows: Matrix): Tensor => tensor(Float64Array.from(rows.flat()), { device, dtype: device.float });
    const segments = {
      ids: tensor(Int32Array.from(fixture.mask.flatMap((row, i) => row.map(() => i))), { device }),
      count: fixture.mask.length,
    };
    const perSequence = fixture.mask.map((row, i) => row.map(() => fixture.adv_per_seq[i]!));
    const columns = {
      oldLogProbs: flat(fixture.old),
      advantages: flat(perSequence),
      mask: flat(fixture.mask),
      segments,
    };
    // ℓ = −φ·A·lp with a φ that has no gradient: it is read off the slope, −φ·A, and the value must be that of the same
    // φ.
    const { value, grads } = valueAndGrad((logProbs: Tensor) => sum(vespo().tokenLoss({ ...columns, logProbs })))(
      flat(fixture.new),
    );
    const slopes = [...(await grads.read())];
    const at = (i: number, t: number): number => slopes[i * fixture.mask[0]!.length + t]!;
    let loss = 0;
    fixture.mask.forEach((row, i) =>
      row.forEach((m, t) => {
        if (m === 0) return expect(at(i, t)).toBe(0);
        near(at(i, t) / -fixture.adv_per_seq[i]!, expected[i]!);
        loss -= expected[i]! * fixture.adv_per_seq[i]! * fixture.new[i]![t]!;
      }),
    );
    near((await value.read())[0]!, loss, 1e-5); // a sum of some twenty
    device.dispose();
  });
});

describe("by hand-made batches", () => {
  const { golden } = GOLDENS[0]!;

  it("verl-agent GiGPO, both norms", () => {
    const expected = golden["gigpo"] as { mean_norm: number[]; mean_std_norm: number[]; anchor: string[] };
    const row = (stepRewards: number[], group = 0): Trajectory => {
      const stream = emptyStream();
      append(stream, "prompt", 0, [1]);
      stepRewards.forEach((_, turn) => append(stream, "action", turn, [2]));
      return trajectoryOf(stream, { stepRewards, reward: stepRewards.reduce((a, b) => a + b, 0), group });
    };
    const batch = [row([0, 1]), row([0, 0])];
    const anchor = (trajectory: Trajectory, turn: number): string =>
      expected.anchor[2 * batch.indexOf(trajectory) + turn]!;
    const of = (options: object): number[] =>
      gigpo({ gamma: 0.9, anchor, ...options })
        .estimate(batch)
        .perToken.flatMap(([, ...values]) => values);
    of({}).forEach((a, k) => near(a, expected.mean_norm[k]!));
    of({ std: true, stats: "row" }).forEach((a, k) => near(a, expected.mean_std_norm[k]!));
    // Per rollout the deviation is that of [1, 0], not of [1, 1, 0, 0].
    near(of({ std: true })[0]!, 0.5 / Math.SQRT1_2 + expected.mean_std_norm[0]! - expected.mean_std_norm[1]!, 1e-5);
  });

  const rowOf = (rewards: number[], isTurnEnd: (t: number) => boolean): Trajectory => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    let turn = 0;
    rewards.forEach((_, t) => {
      append(stream, "action", turn, [1]);
      if (isTurnEnd(t)) turn++;
    });
    const stepRewards = rewards.filter((_, t) => isTurnEnd(t));
    return trajectoryOf(stream, { stepRewards, reward: stepRewards.reduce((a, b) => a + b, 0) });
  };

  it("RAGEN's bi-level GAE, and a row without any reward, on which RAGEN fails", () => {
    const { rewards, values, advantages, returns } = golden["ragen_bilevel"] as Record<string, Matrix>;
    const estimate = (row: Trajectory) =>
      biLevelGae({ gammaTurn: 0.95, gamma: 1, lambda: 1 }).estimate([row], { values: columnsOf(values!) });
    const result = estimate(rowOf(rewards![0]!, (t) => rewards![0]![t] !== 0));
    advantages![0]!.forEach((a, t) => near(result.perToken[0]![t + 1]!, a, 1e-5)); // computed in f32
    returns![0]!.forEach((R, t) => near(result.returns![0]![t + 1]!, R, 1e-5));
    const silent = estimate(
      rowOf(
        rewards![0]!.map(() => 0),
        (t) => t === 4,
      ),
    );
    expect(silent.returns![0]!.slice(1)).toEqual(new Float64Array(10));
    expect(silent.perToken[0]!.every(Number.isFinite)).toBe(true);
  });

  it("interior gaps: the ground truth is the row with the gap deleted; neither SkyRL's numbers nor OpenRLHF's", () => {
    const d = golden["divergence_interior_gaps"] as Record<string, Matrix> & {
      inputs: { mask: Matrix; rewards: Matrix; values: Matrix; gamma: number; lam: number };
    };
    const { mask, rewards, values, gamma, lam } = d.inputs;
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    mask[0]!.forEach((m) => append(stream, m ? "action" : "observation", 0, [1]));
    const row = trajectoryOf(stream, { reward: 1, tokenRewards: [0, ...rewards[0]!] });
    const { returns } = gae({ gamma, lambda: lam }).estimate([row], { values: columnsOf(values) });
    const own = [...returns![0]!].filter((R) => !Number.isNaN(R));
    own.forEach((R, k) => near(R, d["ground_truth_compact_gae_returns"]![0]![k]!));
    for (const other of ["skyrl_gae_returns", "openrlhf_gae_returns"]) {
      expect(Math.abs(own[0]! - d[other]![0]![0]!)).toBeGreaterThan(0.05);
    }
    // REINFORCE++ before whitening: every token before the gap gets the return behind it.
    const shifted = trajectoryOf(stream, { reward: 0, tokenRewards: new Float64Array(7) });
    const { perToken } = reinforcePlusPlus().estimate([row, shifted]);
    const raw = [...perToken[0]!].map((a, t) => (mask[0]![t - 1] ? Number(a > 0) : 0)).slice(1);
    expect(raw).toEqual(d["verl_rf++_returns"]![0]);
  });

  it("verl: returns carry over a gap, γ .5, mask [1, 1, 0, 0, 1], R 2", () => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    [1, 1, 0, 0, 1].forEach((m) => append(stream, m ? "action" : "observation", 0, [1]));
    const zero = trajectoryOf(stream, { reward: 0 });
    const { perToken } = reinforcePlusPlus({ gamma: 0.5 }).estimate([trajectoryOf(stream, { reward: 2 }), zero]);
    const G = [0.5, 1, 2];
    const whiten = whitening([...G, 0, 0, 0]);
    expect([...perToken[0]!]).toEqual([0, whiten(0.5), whiten(1), 0, 0, whiten(2)]);
  });

  it("kl_sign_check: k3 averages to KL(π ‖ ref), with this sign of the ratio", () => {
    const c = golden["kl_sign_check"] as Record<string, number>;
    expect(c["E_pi_standard_k3"]).toBe(c["true_KL_pi_ref"]);
    const [p, q] = [[0.7, 0.2, 0.1].map(Math.log), [0.3, 0.3, 0.4].map(Math.log)];
    const mean = (f: (lp: number, ref: number) => number): number =>
      p.reduce((s, lp, v) => s + Math.exp(lp) * f(lp, q[v]!), 0);
    const kl = mean((lp, ref) => lp - ref);
    for (const estimator of ["k1", "k3", "k3+"] as const)
      near(
        mean((lp, ref) => klEstimate(estimator, lp, ref)),
        kl,
        1e-14,
      );
    expect(Math.abs(mean((lp, ref) => klEstimate("k3", ref, lp)) - kl)).toBeGreaterThan(0.03); // the sign trap
  });

  it("whitening adds its 1e-8 to the variance, which matters where it is as small", () => {
    near(whitening([0, 1e-4])(1e-4), 5e-5 / Math.sqrt(5e-9 + 1e-8), 1e-12);
  });

  it("trl.nanstd_1_nan_2_4: ddof 1", () => {
    near(moments([1, 2, 4], 1).std, entryOf(golden, "trl.nanstd_1_nan_2_4") as number, 1e-9);
  });
});

describe("no entry is left out", () => {
  const named = new Set([
    ...[...LOSS_CASES, ...KL_CASES, ...ADVANTAGE_CASES, ...CORRECTION_CASES].map((c) =>
      c.entry.replace("gpg.adv", "gpg"),
    ),
    ...Object.keys(OTHER_CASES),
    ...NOT_RESULTS,
  ]);
  const entriesOf = (golden: Golden): string[] =>
    Object.keys(golden).flatMap((part) =>
      ["verl", "trl", "prime_rl"].includes(part)
        ? Object.keys(golden[part] as object).map((k) => `${part}.${k}`)
        : [part],
    );

  it.each(GOLDENS)("of $name", ({ golden }) => {
    expect(entriesOf(golden).filter((entry) => !named.has(entry))).toEqual([]);
    expect([...named].filter((entry) => !entriesOf(golden).includes(entry))).toEqual([]);
  });
});
