/**
 * Which numbers of tests/fixtures/rl_losses*.json each method is held against. tests/rl/golden*.test.ts run these
 * lists, and docs/methods.md names them; a test says that no entry of the files is left out.
 */
import { readFileSync } from "node:fs";
import type { AdvantageEstimator } from "../../rl/objective/estimator.ts";
import { centred, grpo } from "../../rl/objective/grpo.ts";
import {
  gae,
  gpg,
  opo,
  optimalTokenBaseline,
  passAtK,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  remax,
  rloo,
} from "../../methods/advantages/index.ts";
import type { Aggregation } from "../../rl/objective/aggregation.ts";
import type { ImportanceCorrectionOptions } from "../../methods/importanceCorrection.ts";
import {
  cispo,
  dppoKl,
  dppoTv,
  dro,
  gmpo,
  gspo,
  klCov,
  primeRl,
  reinforce,
  sapo,
  vespo,
} from "../../methods/losses/index.ts";
import type { KlClamp, KlEstimator } from "../../rl/objective/kl.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { trajectoryOf } from "./rlToy.ts";

export type Matrix = number[][];
export interface LossAndGrad {
  readonly loss: number;
  readonly grad: Matrix;
}
type Entries = Readonly<Record<string, unknown>>;
export interface Golden {
  readonly fixture: Record<"mask" | "old" | "new" | "ref" | "sampler", Matrix> & { readonly adv_per_seq: number[] };
  readonly verl: Entries & {
    readonly adv_inputs: { readonly token_level_rewards: Matrix; readonly values: Matrix; readonly group: string[] };
  };
  readonly trl: Entries;
  readonly prime_rl: Entries;
  readonly [part: string]: unknown;
}

/** `near` the policy, and `wide` of it: ratios from .15 to 6. */
export const GOLDENS: readonly { readonly name: string; readonly isWide: boolean; readonly golden: Golden }[] = [
  "rl_losses",
  "rl_losses_wide",
].map((name) => ({
  name,
  isWide: name.endsWith("wide"),
  golden: JSON.parse(readFileSync(new URL(`../fixtures/${name}.json`, import.meta.url), "utf8")) as Golden,
}));

/** An entry by its path, as in `verl.gspo`; the name of a TRL entry may have dots of its own. */
export function entryOf(golden: Golden, path: string): unknown {
  const [part, ...rest] = path.split(".");
  return (golden[part!] as Entries)[rest.join(".")];
}

/** A loss and its gradient with respect to the new log-probabilities. */
export interface LossCase {
  readonly method: string;
  readonly entry: string;
  readonly loss: (isWide: boolean) => PolicyLoss;
  readonly aggregation: Aggregation;
  /** Which log-probabilities are the recorded ones; default `old`. */
  readonly behaviour?: "old" | "sampler";
  readonly kl?: { readonly beta: number; readonly importance?: boolean };
}

const DAPO_CLIP = { epsilon: 0.2, epsilonHigh: 0.28 };
const clipped = (): PolicyLoss => ppoClip(DAPO_CLIP);
const thresholds = (isWide: boolean): typeof DAPO_CLIP => (isWide ? { epsilon: 0.05, epsilonHigh: 0.05 } : DAPO_CLIP);

const lossCase = (
  method: string,
  entry: string,
  loss: (isWide: boolean) => PolicyLoss,
  aggregation: Aggregation = "token-mean",
  more: Partial<LossCase> = {},
): LossCase => ({ method, entry, loss, aggregation, ...more });

export const LOSS_CASES: readonly LossCase[] = [
  lossCase("dual_clip", "verl.vanilla_dual_clip", () => ppoClip({ ...DAPO_CLIP, dualClip: 3 })),
  lossCase("ppo", "trl.grpo", clipped, "seq-mean-token-mean"),
  lossCase("ppo", "trl.bnpo", clipped),
  lossCase("ppo", "trl.dapo", clipped),
  lossCase("ppo", "trl.dr_grpo", clipped, "seq-mean-token-sum-norm"),
  lossCase("ppo", "trl.grpo_delta1.1", () => ppoClip({ ...DAPO_CLIP, delta: 1.1 }), "seq-mean-token-mean"),
  lossCase("k3", "trl.grpo_beta0.04", clipped, "seq-mean-token-mean", { kl: { beta: 0.04 } }),
  lossCase("k3", "trl.grpo_beta0.04_biascorr", clipped, "seq-mean-token-mean", {
    kl: { beta: 0.04, importance: true },
  }),
  lossCase("gspo", "verl.gspo", () => gspo(DAPO_CLIP), "seq-mean-token-mean"),
  lossCase(
    "gspo",
    "trl.grpo_sequence(gspo)_eps3e-4_4e-4",
    (isWide) => gspo(isWide ? WIDE_GSPO : { epsilon: 3e-4, epsilonHigh: 4e-4 }),
    "seq-mean-token-mean",
  ),
  lossCase("gspo", "trl.luspo_sequence", () => gspo(DAPO_CLIP), "seq-mean-token-sum"),
  lossCase("sapo", "verl.sapo", () => sapo(), "seq-mean-token-mean"),
  lossCase("sapo", "trl.sapo", () => sapo(), "seq-mean-token-mean"),
  lossCase("reinforce", "verl.gpg", () => reinforce()),
  lossCase("cispo", "verl.cispo", () => cispo({ cap: "offset", ...DAPO_CLIP })),
  lossCase("cispo", "trl.cispo_eps_high5", () => cispo({ cap: "absolute", epsilonHigh: 5 })),
  lossCase("cispo", "trl.cispo_eps_high1.1", () => cispo({ cap: "absolute", epsilonHigh: 1.1 })),
  lossCase("gmpo", "verl.geo_mean_gmpo", () => gmpo(), "seq-mean-token-mean"),
  lossCase("dppo_tv", "verl.dppo_tv", (isWide) => dppoTv(thresholds(isWide))),
  lossCase("dppo_kl", "verl.dppo_kl", (isWide) => dppoKl(thresholds(isWide))),
  lossCase("dro", "verl.dro", () => dro()),
  lossCase("kl_cov", "verl.kl_cov", () => klCov({ ratio: 0.2 })),
  lossCase("vespo", "trl.vespo", () => vespo({ detached: false })),
  lossCase("prime_rl", "prime_rl.default_dppo_kl", () => primeRl(), "token-mean", { behaviour: "sampler" }),
  lossCase("prime_rl", "prime_rl.ipo", () => primeRl({ symmetric: true }), "token-mean", { behaviour: "sampler" }),
];
const WIDE_GSPO = { epsilon: 3e-4, epsilonHigh: 4e-4 };

/** Estimators of KL: values under the mask, and the gradient of their sum. */
export const KL_CASES: readonly { method: KlEstimator; entry: string; clamp?: KlClamp }[] = [
  { method: "k1", entry: "verl.kl_k1" },
  { method: "k2", entry: "verl.kl_k2" },
  { method: "k3", entry: "verl.kl_k3" },
  { method: "k3", entry: "verl.kl_low_var_kl", clamp: { logRatio: 20, value: 10 } },
  { method: "abs", entry: "verl.kl_abs" },
  { method: "k3+", entry: "verl.kl_k3+" },
];

/** Advantages, and what a critic is trained towards. verl's deviations have eps 1e-6. */
export const ADVANTAGE_CASES: readonly { method: string; entry: string; estimator: AdvantageEstimator }[] = [
  { method: "grpo", entry: "verl.grpo", estimator: grpo({ eps: 1e-6 }) },
  { method: "centred", entry: "verl.grpo_nostd", estimator: centred() },
  { method: "rloo", entry: "verl.rloo", estimator: rloo() },
  { method: "opo", entry: "verl.opo", estimator: opo() },
  { method: "pass_at_k", entry: "verl.grpo_passk", estimator: passAtK({ eps: 1e-6 }) },
  { method: "reinforce++", entry: "verl.rf++_g0.9", estimator: reinforcePlusPlus({ gamma: 0.9 }) },
  { method: "reinforce++-baseline", entry: "verl.rf++_baseline", estimator: reinforcePlusPlusBaseline() },
  { method: "remax", entry: "verl.remax", estimator: remax() },
  { method: "gae", entry: "verl.gae_g0.9_l0.8", estimator: gae({ gamma: 0.9, lambda: 0.8 }) },
  { method: "gpg", entry: "verl.gpg.adv", estimator: gpg() },
  { method: "optimal_token_baseline", entry: "verl.tir_optimal_token_baseline", estimator: optimalTokenBaseline() },
];

/** Importance weights between learner (`old`) and sampler. */
export const CORRECTION_CASES: readonly { method: string; entry: string; options: ImportanceCorrectionOptions }[] = [
  { method: "tis", entry: "verl.is_tis_token_1.05", options: { max: 1.05 } },
  { method: "tis", entry: "verl.is_tis_seq_1.05", options: { level: "sequence", max: 1.05 } },
  { method: "tis", entry: "verl.is_tis_token_2_batchnorm", options: { max: 2, normalize: true } },
  { method: "icepop", entry: "verl.is_icepop_token_0.95_1.1", options: { mode: "mask", min: 0.95, max: 1.1 } },
  {
    method: "rejection",
    entry: "verl.rs_token_k1",
    options: { mode: "none", reject: { level: "token", estimator: "k1", min: 0.95, max: 1.05 } },
  },
  {
    method: "rejection",
    entry: "verl.rs_token_k3",
    options: { mode: "none", reject: { level: "token", estimator: "k3", max: 0.002 } },
  },
  {
    method: "rejection",
    entry: "verl.rs_seq_mean_k1",
    options: { mode: "none", reject: { level: "mean", estimator: "k1", min: 0.99, max: 1.02 } },
  },
  {
    method: "rejection",
    entry: "verl.rs_seq_sum_k1",
    options: { mode: "none", reject: { level: "sum", estimator: "k1", min: 0.9, max: 1.1 } },
  },
  {
    method: "rejection",
    entry: "verl.rs_seq_max_k2",
    options: { mode: "none", reject: { level: "max", estimator: "k2", max: 0.005 } },
  },
];

/** Entries with a test of their own, by the method that they belong to. */
export const OTHER_CASES: Readonly<Record<string, string>> = {
  "verl.agg_loss": "aggregation",
  "verl.value_loss_clip0.1": "clipped value",
  "verl.masked_whiten": "whitening",
  "verl.offpolicy_metrics": "rejection",
  "verl.optimal_token_baseline": "optimal_token_baseline",
  "trl.seq_is_ratio": "tis",
  "trl.dapo_with_seq_is": "tis",
  "trl.off_policy_mask_thr0.1": "off-policy mask",
  "trl.gamma_weights_phi": "vespo",
  "trl.nanstd_1_nan_2_4": "grpo",
  "trl.selective_log_softmax": "log-probabilities",
  "trl.chunked_lm_head": "log-probabilities",
  "prime_rl.echo_alpha0.1": "echo",
  gigpo: "gigpo",
  ragen_bilevel: "bi_level_gae",
  divergence_interior_gaps: "gae",
  kl_sign_check: "k3",
};
/**
 * Entries of trl.json, which tests/methods/goldenTrl.test.ts runs through the plan of a step, by the method that they
 * belong to.
 */
export const TRL_CASES: Readonly<Record<string, string>> = {
  "trl.json: dpo.sigmoid": "dpo",
  "trl.json: dpo.hinge": "dpo_hinge",
  "trl.json: dpo.ipo (average)": "dpo_ipo",
  "trl.json: normalize_then_sum": "gdpo",
  "trl.json: sum_then_normalize_group": "grpo",
  "trl.json: sum_then_normalize_none": "centred",
  "trl.json: dapo_top_entropy0.4": "top_entropy",
  "trl.json: dapo_entropy0.01": "entropy bonus",
  "trl.json: dapo_mask_truncated": "truncated rollouts",
  "trl.json: vespo": "vespo",
};
/** Inputs and remarks. */
export const NOT_RESULTS: readonly string[] = ["fixture", "verl.adv_inputs", "trl.k3_note"];

/**
 * The fixture's rows as episodes: a prompt token, then the completion, in which the masked-in tokens are actions. A
 * turn ends with each token that has a reward.
 */
export function episodesOf({ fixture, verl }: Golden, observed?: Matrix): Trajectory[] {
  const { token_level_rewards, group } = verl.adv_inputs;
  return fixture.mask.map((row, i) => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    const stepRewards: number[] = [];
    row.forEach((m, t) => {
      const role = m ? "action" : observed?.[i]![t] ? "observation" : "scaffold";
      append(stream, role, stepRewards.length, [0], m ? { oldLogProbs: [fixture.sampler[i]![t]!] } : {});
      const reward = token_level_rewards[i]![t]!;
      if (reward !== 0) stepRewards.push(reward);
    });
    const index = "pq".indexOf(group[i]!);
    const reward = stepRewards.reduce((a, b) => a + b, 0);
    return trajectoryOf(stream, { reward, stepRewards, group: index, greedyReward: index === 0 ? 0.5 : 0.25 });
  });
}

/** A matrix of the fixture as a column of those episodes: the prompt's token has none. */
export const columnsOf = (rows: Matrix): Float64Array[] => rows.map((row) => Float64Array.of(NaN, ...row));
