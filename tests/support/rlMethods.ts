/**
 * The table of methods: each with its formula written out once more in plain Math, and with the properties that it
 * cannot have, and why. tests/methods/methods.test.ts runs every property on every row; docs/methods.md is made of the
 * same rows. rlOtherMethods.ts has the rest of the table.
 */
import { ADVANTAGES, gigpo } from "../../methods/advantages/index.ts";
import type { AdvantageEstimator } from "../../rl/objective/estimator.ts";
import { clipCov, klCov, POLICY_LOSSES } from "../../methods/losses/index.ts";
import type { KlEstimator } from "../../rl/objective/kl.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";

export const LOSS_PROPERTIES = {
  masked: "values at masked positions have no influence on loss and gradient, whatever they are",
  gap: "masked tokens can be deleted: the others keep loss and gradient",
  order: "the order of sequences does not matter",
  slope: "plain Math has the same value, and by differences the same gradient",
  start:
    "where the policy, the recorded one and the reference coincide, as in a first step, so has it, and the second " +
    "derivative, on every executor",
  reward: "averaged over an enumerated vocabulary at ρ = 1, the gradient is that of the expected reward",
  split: "micro-batches change neither value nor gradient",
  fork: "a rollout forked into two rows has the same gradient",
} as const;
export type LossProperty = keyof typeof LOSS_PROPERTIES;

/** The trained tokens of one sequence (of a pair: of both its sides). `fixed` is lp where no gradient flows. */
export interface PlainTokens {
  readonly lp: readonly number[];
  readonly fixed: readonly number[];
  readonly old: readonly number[];
  readonly advantage: readonly number[];
  readonly ref: readonly number[];
  readonly prepared: readonly number[];
}

export interface LossRow {
  readonly make: () => PolicyLoss;
  /** The loss of each token. */
  readonly plain: (tokens: PlainTokens) => number[];
  readonly exceptions?: Partial<Record<LossProperty, string>>;
}

const clamp = (x: number, low: number, high: number): number => Math.min(high, Math.max(low, x));
const total = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

interface PlainToken {
  readonly lp: number;
  readonly old: number;
  readonly A: number;
  /** ρ, and ρ without its gradient */
  readonly rho: number;
  readonly fixedRho: number;
  readonly fixed: number;
  readonly prepared: number;
}

/** A loss of each token by itself. */
const each =
  (f: (token: PlainToken) => number): LossRow["plain"] =>
  ({ lp, fixed, old, advantage, prepared }) =>
    lp.map((x, t) =>
      f({
        lp: x,
        old: old[t]!,
        A: advantage[t]!,
        rho: Math.exp(x - old[t]!),
        fixedRho: Math.exp(fixed[t]! - old[t]!),
        fixed: fixed[t]!,
        prepared: prepared[t]!,
      }),
    );
const ppo = (rho: number, A: number, low: number, high: number): number =>
  Math.max(-rho * A, -clamp(rho, 1 - low, 1 + high) * A);
const binaryKl = (mu: number, pi: number): number => mu * Math.log(mu / pi) + (1 - mu) * Math.log((1 - mu) / (1 - pi));
/** Whether the policy has not moved further than ε in the direction of A. */
const isKept = (distance: number, moved: number, A: number, low: number, high: number): number =>
  Number(!((A > 0 && moved > 0 && distance > high) || (A < 0 && moved < 0 && distance > low)));

const UNREWARDED = "it looks at no reward";
const pair = "a pair is no rollout: it has two sides and a reference, and no reward";
const PREFERENCE = { reward: pair, split: "see the test of preference pairs", fork: pair };

/** ±(lp − ref) over the pair. */
const margin = ({ lp, ref, advantage }: PlainTokens): number => total(lp.map((x, t) => advantage[t]! * (x - ref[t]!)));

export const LOSS_ROWS: Readonly<Record<string, LossRow>> = {
  ppo: {
    make: () => POLICY_LOSSES["ppo"]!.make({ epsilonHigh: 0.28 }),
    plain: each(({ rho, A }) => ppo(rho, A, 0.2, 0.28)),
  },
  dual_clip: {
    make: () => POLICY_LOSSES["dual_clip"]!.make(),
    plain: each(({ rho, A }) => (A < 0 ? Math.min(ppo(rho, A, 0.2, 0.2), -3 * A) : ppo(rho, A, 0.2, 0.2))),
  },
  sapo: {
    make: () => POLICY_LOSSES["sapo"]!.make(),
    plain: each(({ rho, A }) => {
      const tau = A > 0 ? 1 : 1.05;
      return (-A * 4) / tau / (1 + Math.exp(-tau * (rho - 1)));
    }),
  },
  reinforce: { make: () => POLICY_LOSSES["reinforce"]!.make(), plain: each(({ lp, A }) => -A * lp) },
  importance_sampling: {
    make: () => POLICY_LOSSES["importance_sampling"]!.make(),
    plain: each(({ rho, A }) => -rho * A),
  },
  cispo: {
    make: () => POLICY_LOSSES["cispo"]!.make(),
    plain: each(({ lp, fixedRho, A }) => -clamp(fixedRho, 0.8, 1.28) * A * lp),
  },
  dro: {
    make: () => POLICY_LOSSES["dro"]!.make(),
    plain: each(({ lp, old, A }) => -(A * lp - 0.025 * (lp - old) ** 2)),
  },
  dppo_tv: {
    make: () => POLICY_LOSSES["dppo_tv"]!.make(),
    plain: each(({ lp, fixed, fixedRho, old, A }) => {
      const moved = Math.exp(fixed) - Math.exp(old);
      return -isKept(Math.abs(moved), moved, A, 0.2, 0.28) * fixedRho * A * lp;
    }),
  },
  dppo_kl: {
    make: () => POLICY_LOSSES["dppo_kl"]!.make(),
    plain: each(({ lp, fixed, fixedRho, old, A }) => {
      const [pi, mu] = [Math.exp(fixed), Math.exp(old)];
      return -isKept(binaryKl(mu, pi), pi - mu, A, 0.2, 0.28) * fixedRho * A * lp;
    }),
  },
  prime_rl: {
    make: () => POLICY_LOSSES["prime_rl"]!.make(),
    plain: each(({ lp, fixed, rho, old, A }) => {
      const moved = Math.exp(fixed) - Math.exp(old);
      return -isKept(Math.abs(moved), moved, A, 0.2, 0.2) * rho * A + 1e-3 * (lp - old) ** 2;
    }),
  },
  kl_cov: {
    make: () => klCov({ ratio: 0.3, coefficient: 0.7 }),
    plain: each(({ rho, A, lp, old, prepared }) => -rho * A + (prepared ? 0.7 * Math.abs(lp - old) : 0)),
    exceptions: {
      start: "|lp − old| has its kink there; its slope is 0, as PyTorch's, and there is no second derivative",
    },
  },
  clip_cov: {
    make: () => clipCov({ ratio: 0.3, low: 0.01 }),
    plain: each(({ rho, A, prepared }) => prepared * ppo(rho, A, 0.2, 0.2)),
    exceptions: {
      reward: "it drops the gradient of some tokens on purpose",
      order: "which of the candidates are dropped is drawn in the order of the batch",
    },
  },
  m2po: {
    make: () => POLICY_LOSSES["m2po"]!.make(),
    plain: each(({ rho, A, prepared }) => (prepared ? -rho * A : 0)),
  },
  gspo: {
    make: () => POLICY_LOSSES["gspo"]!.make({ epsilon: 0.1, epsilonHigh: 0.2 }),
    plain: ({ lp, fixed, old, advantage }) => {
      const level = total(fixed.map((x, t) => x - old[t]!)) / lp.length;
      return lp.map((x, t) => ppo(Math.exp(x - fixed[t]! + level), advantage[t]!, 0.1, 0.2));
    },
  },
  gmpo: {
    make: () => POLICY_LOSSES["gmpo"]!.make(),
    plain: ({ lp, fixed, old, advantage }) => {
      const pulled = (x: number, t: number): number => {
        const [r, s] = [x - old[t]!, Math.sign(advantage[t]!)];
        return s * Math.min(s * r, s * clamp(r, -0.4, 0.4));
      };
      const level = total(fixed.map(pulled)) / lp.length;
      return lp.map((x, t) => -advantage[t]! * Math.exp(pulled(x, t) - pulled(fixed[t]!, t) + level));
    },
  },
  vespo: {
    make: () => POLICY_LOSSES["vespo"]!.make(),
    plain: ({ lp, fixed, old, advantage }) => {
      const logW = clamp(total(fixed.map((x, t) => x - old[t]!)), Math.log(1e-8), 20);
      return lp.map((x, t) => {
        const [k, lambda] = advantage[t]! >= 0 ? [2, 3] : [3, 2];
        return -Math.exp(lambda + k * logW - lambda * Math.exp(logW)) * advantage[t]! * x;
      });
    },
  },
  webrl: {
    make: () => POLICY_LOSSES["webrl"]!.make({ beta: 0.3 }),
    plain: ({ lp, ref, advantage }) => {
      const level = total(lp.map((x, t) => x - ref[t]!));
      return advantage.map((A) => (0.3 * level - A) ** 2);
    },
    exceptions: { reward: "a regression: its gradient is 2β(β·Σ(lp − ref) − A) times that of lp" },
  },
  sft: { make: () => POLICY_LOSSES["sft"]!.make(), plain: each(({ lp }) => -lp), exceptions: { reward: UNREWARDED } },
  dft: {
    make: () => POLICY_LOSSES["dft"]!.make(),
    plain: each(({ lp, fixed }) => -Math.exp(fixed) * lp),
    exceptions: { reward: UNREWARDED },
  },
  dpo: {
    make: () => POLICY_LOSSES["dpo"]!.make({ beta: 0.3 }),
    plain: (tokens) => tokens.lp.map(() => Math.log(1 + Math.exp(-0.3 * margin(tokens)))),
    exceptions: PREFERENCE,
  },
  dpo_ipo: {
    make: () => POLICY_LOSSES["dpo_ipo"]!.make({ beta: 0.3 }),
    plain: (tokens) => tokens.lp.map(() => (margin(tokens) - 1 / 0.6) ** 2),
    exceptions: PREFERENCE,
  },
  dpo_hinge: {
    make: () => POLICY_LOSSES["dpo_hinge"]!.make({ beta: 0.3 }),
    plain: (tokens) => tokens.lp.map(() => Math.max(0, 1 - 0.3 * margin(tokens))),
    exceptions: PREFERENCE,
  },
};

const { masked, slope, split, fork } = LOSS_PROPERTIES;

export type KlProperty = "masked" | "slope" | "expectation" | "gradient";
export const KL_PROPERTIES: Readonly<Record<KlProperty, string>> = {
  masked,
  slope,
  expectation: "averaged over an enumerated vocabulary, the value is the true KL",
  gradient: "averaged over an enumerated vocabulary, the gradient is that of the true KL",
};
export interface KlRow {
  readonly formula: string;
  /** Value, and the function whose slope the gradient is. d = ref − lp. */
  readonly value: (d: number) => number;
  readonly slopeOf?: (d: number) => number;
  readonly exceptions?: Partial<Record<KlProperty, string>>;
}
const k3 = (d: number): number => Math.expm1(d) - d;
export const KL_ROWS: Readonly<Record<KlEstimator, KlRow>> = {
  k1: {
    formula: "lp − ref",
    value: (d) => -d,
    exceptions: { gradient: "the gradient of a sample of k1 is that of lp, whose mean is 0" },
  },
  k2: { formula: "½(lp − ref)²", value: (d) => 0.5 * d * d, exceptions: { expectation: "the value is biased" } },
  k3: {
    formula: "exp(ref − lp) − (ref − lp) − 1, by its series below .03",
    value: k3,
    exceptions: { gradient: "unbiased in value, its gradient is that of KL(ref ‖ π)" },
  },
  abs: {
    formula: "abs(lp − ref)",
    value: Math.abs,
    exceptions: { expectation: "it is another distance", gradient: "it is another distance" },
  },
  "k3+": { formula: "value of k3, gradient of k2", value: k3, slopeOf: (d) => 0.5 * d * d },
};

export type AdvantageProperty = "gap" | "order" | "groups" | "constant" | "unscorable" | "split" | "fork";
export const ADVANTAGE_PROPERTIES: Readonly<Record<AdvantageProperty, string>> = {
  gap: "a gap of observations changes nothing: delete it, estimate, scatter back",
  order: "the order of a group does not matter",
  groups: "groups do not influence each other",
  constant: "equal rewards and single members get exactly 0",
  unscorable: "a NaN reward or a masked rollout gets 0 and shifts nobody",
  split,
  fork,
};
export interface AdvantageRow {
  readonly make: () => AdvantageEstimator;
  readonly exceptions?: Partial<Record<AdvantageProperty, string>>;
}
const NO_GROUP = "no group is compared: one rollout of a task is enough";
const WHITENED = "mean and deviation are those of the whole batch";
const byName = (name: string, exceptions: AdvantageRow["exceptions"] = {}): AdvantageRow => ({
  make: () => ADVANTAGES[name]!.make(),
  exceptions,
});
export const ADVANTAGE_ROWS: Readonly<Record<string, AdvantageRow>> = {
  grpo: byName("grpo"),
  centred: byName("centred"),
  rloo: byName("rloo"),
  opo: byName("opo"),
  max_rl: byName("max_rl"),
  pass_at_k: byName("pass_at_k", { order: "of equally good ones only the first is trained" }),
  gpg: byName("gpg", { groups: "the factor counts the rewards of the whole batch" }),
  none: byName("none"),
  "trr++": byName("trr++", { groups: "compared is a family of tasks, and of what groups have is the same" }),
  "reinforce++": byName("reinforce++", { constant: NO_GROUP, groups: WHITENED }),
  "reinforce++-baseline": byName("reinforce++-baseline", { groups: WHITENED }),
  remax: byName("remax", { constant: NO_GROUP }),
  optimal_token_baseline: byName("optimal_token_baseline"),
  gae: byName("gae", { constant: NO_GROUP, groups: WHITENED }),
  vapo: byName("vapo", { constant: NO_GROUP, groups: WHITENED }),
  bi_level_gae: byName("bi_level_gae", { constant: NO_GROUP, groups: WHITENED }),
  vtrace: byName("vtrace", { constant: NO_GROUP }),
  // By itself the anchor is the observation; a state that is known otherwise survives its deletion.
  gigpo: { make: () => gigpo({ anchor: (_, turn) => `state ${turn % 2}` }) },
  milestone: byName("milestone"),
  gdpo: byName("gdpo", { groups: WHITENED }),
  rae: byName("rae", { constant: NO_GROUP }),
  rft: byName("rft", { constant: NO_GROUP }),
};
export const ADVANTAGE_NOTES: Readonly<Record<string, string>> = {
  gigpo:
    "gap: with an `anchor` of its own; the default anchor *is* the observation; constant: where the returns of steps " +
    "are equal, too",
  milestone: "constant: where the steps are as far from their milestone, too",
};
