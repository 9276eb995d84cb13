/**
 * Losses, gradients, advantages and metrics against what TRL 1.13 computes (tests/fixtures/trl.json, made by calling
 * GRPOTrainer._compute_loss, its advantages and DPOTrainer._compute_loss in float64 on the batches of rl_losses*.json).
 * Beside golden.test.ts, this one goes through the plan of a step, so that weights, focus, truncation and metrics are
 * of the real code.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { weigh } from "../../rl/train/weights.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { type TokenRow, withColumns } from "../../rl/objective/columns.ts";
import type { AdvantageEstimator } from "../../rl/objective/estimator.ts";
import { centred, grpo } from "../../rl/objective/grpo.ts";
import { gdpo } from "../../methods/advantages/index.ts";
import { topEntropy } from "../../methods/tokenWeights.ts";
import { cispo, dpo, type DpoOptions, gspo, sapo, vespo } from "../../methods/losses/index.ts";
import { klEstimate } from "../../rl/objective/kl.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { updateMetrics } from "../../rl/train/report.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { preferenceMetrics, preferenceRows } from "../../methods/preference.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { columnsOf, entryOf, episodesOf, GOLDENS, type LossAndGrad, type Matrix } from "../support/rlGoldens.ts";
import { trajectoryOf } from "../support/rlToy.ts";

interface Case extends LossAndGrad {
  readonly metrics: Readonly<Record<string, number>>;
  readonly entropy_grad?: Matrix;
  readonly truncated?: number[];
}
type Part = Readonly<Record<string, Case>> & { readonly entropy: Matrix };
interface Advantages {
  readonly rewards: (number | null)[][];
  readonly weights: number[];
  readonly num_generations: number;
}
interface Pairs extends Readonly<Record<"mask" | "new" | "ref", Matrix>> {
  readonly beta: number;
}
const trl = JSON.parse(readFileSync(new URL("../fixtures/trl.json", import.meta.url), "utf8")) as {
  readonly rl_losses: Part;
  readonly rl_losses_wide: Part;
  readonly advantages: Advantages & Readonly<Record<string, { advantages: number[]; metrics: Record<string, number> }>>;
  readonly dpo: Pairs & Readonly<Record<"sigmoid" | "hinge" | "ipo", Case>>;
};

let device: Device;
beforeAll(async () => {
  device = await makeDevice("reference");
});
afterAll(() => device.dispose());

const near = (actual: number, expected: number): void => expect(Math.abs(actual - expected)).toBeLessThanOrEqual(1e-9);
const nearAll = (actual: readonly number[], expected: readonly number[]): void => {
  expect(actual.length).toBe(expected.length);
  actual.forEach((x, i) => expect(Math.abs(x - expected[i]!), `element ${i}`).toBeLessThanOrEqual(1e-9));
};
const flat = (rows: readonly ArrayLike<number>[]): Tensor =>
  tensor(Float64Array.from(rows.flatMap((row) => Array.from(row))), { device, dtype: device.float });

/** Σ wPolicy·ℓ of a plan and its gradient with respect to the log-probabilities; masked places hold wild values. */
async function policyTerm(
  rows: readonly TokenRow[],
  loss: PolicyLoss,
  columns: Record<"new" | "old" | "ref", Float64Array[]>,
): Promise<{ value: number; gradient: number[] }> {
  const ids = rows.flatMap(({ segment, advantages }, i) => Array.from(advantages, () => segment ?? i));
  const { value, grads } = scope(() =>
    valueAndGrad((logProbs: Tensor) => {
      const tokens = loss.tokenLoss({
        logProbs,
        oldLogProbs: flat(columns.old),
        refLogProbs: flat(columns.ref),
        advantages: flat(rows.map((row) => row.advantages)),
        mask: flat(rows.map((row) => row.mask)),
        segments: { ids: tensor(Int32Array.from(ids), { device }), count: Math.max(...ids) + 1 },
      });
      return sum(mul(flat(rows.map((row) => row.wPolicy)), tokens));
    })(flat(columns.new)),
  );
  return { value: await value.item(), gradient: [...(await grads.read())] };
}

describe.each(GOLDENS)("$name", ({ name, golden }) => {
  const part = trl[name as "rl_losses"];
  const { fixture } = golden;
  const columns = { new: columnsOf(fixture.new), old: columnsOf(fixture.old), ref: columnsOf(fixture.ref) };
  for (const row of Object.values(columns).flat()) row[0] = -99; // the prompt's token
  const entropy = columnsOf(part.entropy);
  const given: AdvantageEstimator = {
    name: "given",
    estimate: (trajectories) => ({
      perToken: trajectories.map(({ stream }, i) => Float64Array.from(stream.ids, () => fixture.adv_per_seq[i]!)),
      fracRewardZeroStd: 0,
    }),
  };
  const clip = { epsilon: 0.2, epsilonHigh: 0.28 };
  const plain: Objective = {
    advantage: given,
    policyLoss: ppoClip(clip),
    aggregation: "token-mean",
    maxLength: fixture.mask[0]!.length,
  };
  const seqMean = { ...plain, aggregation: "seq-mean-token-mean" } as const;
  const cases: Record<string, Objective> = {
    grpo: seqMean,
    dapo: plain,
    bnpo: plain,
    dr_grpo: { ...plain, aggregation: "seq-mean-token-sum-norm" },
    "grpo_delta1.1": { ...seqMean, policyLoss: ppoClip({ ...clip, delta: 1.1 }) },
    "dapo_beta0.04": { ...plain, kl: { beta: 0.04, estimator: "k3" } },
    grpo_sequence: { ...seqMean, policyLoss: gspo({ epsilon: 0.02, epsilonHigh: 0.03 }) },
    "cispo_eps_high1.1": { ...plain, policyLoss: cispo({ cap: "absolute", epsilonHigh: 1.1 }) },
    "dapo_entropy0.01": { ...plain, entropy: 0.01 },
    "dapo_top_entropy0.4": { ...plain, tokenWeights: topEntropy({ share: 0.4 }) },
    sapo: { ...seqMean, policyLoss: sapo() },
    vespo: { ...plain, policyLoss: vespo() },
    dapo_mask_truncated: { ...plain, maskTruncated: true },
    dr_grpo_mask_truncated: { ...plain, aggregation: "seq-mean-token-sum-norm", maskTruncated: true },
    grpo_mask_truncated: { ...seqMean, maskTruncated: true },
  };

  it("no entry is left out", () =>
    expect(Object.keys(cases).toSorted()).toEqual(
      Object.keys(part)
        .filter((k) => k !== "entropy")
        .toSorted(),
    ));

  it.each(Object.entries(cases))("%s: loss, gradient, metrics", async (key, objective) => {
    const expected = part[key]!;
    const { truncated = [] } = expected;
    const episodes = episodesOf(golden).map((t, i) => ({
      ...t,
      stopReason: truncated.includes(i) ? ("max_tokens" as const) : ("completed" as const),
    }));
    const statistics = { refLogProbs: columns.ref, entropy };
    const advantages = advantagesOf(objective, episodes, 0, statistics);
    const rows = withColumns(weigh(objective, episodes, advantages, 0, statistics), { oldLogProbs: columns.old });
    const { value, gradient } = await policyTerm(rows, objective.policyLoss, columns);

    // Terms with weights of their own, from the rows' weights.
    const total = (weights: readonly (Float64Array | undefined)[], of: (i: number, t: number) => number): number =>
      weights.reduce(
        (s, row = new Float64Array(0), i) => s + row.reduce((r, w, t) => r + (w === 0 ? 0 : w * of(i, t)), 0),
        0,
      );
    const klLoss = total(
      rows.map((e) => e.wKl),
      (i, t) => klEstimate("k3", columns.new[i]![t]!, columns.ref[i]![t]!),
    );
    const entropyLoss = -total(
      rows.map((e) => e.wEntropy),
      (i, t) => entropy[i]![t]!,
    );

    // With a row masked, TRL still divides by all rows where it averages rows; ours by those that are trained.
    const share =
      key === "grpo_mask_truncated" || key === "dr_grpo_mask_truncated"
        ? (episodes.length - truncated.length) / episodes.length
        : 1;
    near((value + klLoss + entropyLoss) * share, expected.loss);
    const own = gradient.filter((_, k) => k % columns.new[0]!.length !== 0); // less the prompt's token
    if (objective.kl === undefined)
      nearAll(
        own.map((g) => g * share),
        expected.grad.flat(),
      );
    for (const [i, row] of (expected.entropy_grad ?? []).entries()) {
      row.forEach((g, t) => near(-rows[i]!.wEntropy[t + 1]!, g));
    }

    const passes = [
      {
        logProbs: columns.new,
        entropy,
        terms: { policy: value, world: 0, kl: klLoss, entropy: entropyLoss },
        gradNorm: 1,
      },
    ];
    const metrics = updateMetrics(rows, objective, passes, advantages, "recorded");
    near(metrics["entropy"]!, expected.metrics["entropy"]!);
    if (objective.kl) near(metrics["kl"]!, expected.metrics["kl"]!);
    if (expected.metrics["policy_loss"] !== undefined) near(metrics["policy_loss"]!, expected.metrics["policy_loss"]);
    // With delta TRL counts what delta has already cut; CISPO's cap is counted under another name.
    const counted = key.includes("delta") ? ["low_mean"] : ["low_mean", "high_mean", "region_mean"];
    for (const kind of counted) {
      const theirs = expected.metrics[`clip_ratio/${kind}`];
      if (theirs !== undefined) near(metrics[`clip_ratio/${kind}`]!, theirs);
    }
    if (key.startsWith("cispo")) near(metrics["clip_ratio/high_mean"]!, expected.metrics["cispo_clip_ratio"]!);
  });

  it("verl.vanilla_dual_clip, actor/pg_clipfrac", () => {
    const objective = { ...plain, policyLoss: ppoClip({ ...clip, dualClip: 3 }) };
    const advantages = advantagesOf(objective, episodesOf(golden), 0);
    const rows = withColumns(weigh(objective, episodesOf(golden), advantages, 0), { oldLogProbs: columns.old });
    const passes = [{ logProbs: columns.new, entropy, terms: { policy: 0, world: 0 }, gradNorm: 1 }];
    const { metrics } = entryOf(golden, "verl.vanilla_dual_clip") as Case;
    const share = updateMetrics(rows, objective, passes, advantages, "recorded")["clip_ratio/region_mean"]!;
    expect(share).toBeCloseTo(metrics["actor/pg_clipfrac"]!, 8);
  });
});

describe("advantages of rewards with several components", () => {
  const { rewards, weights, num_generations: n } = trl.advantages;
  const names = weights.map((_, k) => `r${k}`);
  const episodes = rewards.map((row, i): Trajectory => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    append(stream, "action", 0, [1]);
    const scored = row.some((r) => r !== null);
    const reward = scored ? row.reduce<number>((s, r, k) => s + weights[k]! * (r ?? 0), 0) : NaN;
    const rewardParts = Object.fromEntries(row.map((r, k) => [names[k]!, r ?? NaN]));
    return trajectoryOf(stream, { reward, rewardParts, group: Math.floor(i / n) });
  });
  const byName = Object.fromEntries(names.map((name, k) => [name, weights[k]!]));

  it.each([
    ["sum_then_normalize_group", grpo()],
    ["sum_then_normalize_none", centred()],
    ["normalize_then_sum", gdpo({ weights: byName })],
  ] as const)("%s", (key, estimator) => {
    const { perToken, fracRewardZeroStd } = estimator.estimate(episodes);
    nearAll(
      perToken.map((row) => row[1]!),
      trl.advantages[key]!.advantages,
    );
    // TRL's GDPO looks at the deviation of the whole batch instead of the groups'.
    if (key !== "normalize_then_sum")
      expect(fracRewardZeroStd).toBeCloseTo(trl.advantages[key]!.metrics["frac_reward_zero_std"]!, 6);
    else expect(fracRewardZeroStd).toBe(1 / 3);
  });

  it("reward, reward_std, rewards/…/mean", () => {
    const metrics = rolloutMetrics(episodes);
    const expected = trl.advantages["sum_then_normalize_group"]!.metrics;
    for (const name of ["reward", "reward_std", ...names.map((r) => `rewards/${r}/mean`)])
      near(metrics[name]!, expected[name]!);
  });
});

describe("preference pairs", () => {
  const { mask, beta, ...logProbs } = trl.dpo;
  const answers = mask.map((row): Trajectory => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    row.forEach((m) => append(stream, m ? "action" : "scaffold", 0, [1]));
    return trajectoryOf(stream, { reward: 0 });
  });
  const half = answers.length / 2;
  const order = Array.from({ length: half }, (_, k) => [k, k + half]).flat(); // theirs: all chosen, then all rejected
  const inOrder = (matrix: Matrix): Float64Array[] => order.map((i) => Float64Array.of(-99, ...matrix[i]!));
  const rows = preferenceRows(
    Array.from({ length: half }, (_, k) => ({ chosen: answers[k]!, rejected: answers[k + half]! })),
  );
  const columns = { new: inOrder(logProbs.new), old: inOrder(logProbs.new), ref: inOrder(logProbs.ref) };

  it.each([
    ["sigmoid", {}],
    ["hinge", {}],
    ["ipo", { average: true }],
  ] as const satisfies readonly (readonly [string, DpoOptions])[])(
    "%s: loss, gradient, metrics",
    async (loss, more) => {
      const expected = trl.dpo[loss];
      const policyLoss = dpo({ loss, beta, ...more });
      const { value, gradient } = await policyTerm(rows, policyLoss, columns);
      near(value, expected.loss);
      nearAll(
        gradient,
        order.flatMap((i) => [0, ...expected.grad[i]!]),
      );
      const metrics = preferenceMetrics(withColumns(rows, { refLogProbs: columns.ref }), columns.new, policyLoss.beta!);
      expect(Object.keys(metrics).toSorted()).toEqual(Object.keys(expected.metrics).toSorted());
      for (const [name, theirs] of Object.entries(expected.metrics)) expect(metrics[name]).toBeCloseTo(theirs, 7);
    },
  );
});
