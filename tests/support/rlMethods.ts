/**
 * The table of methods: each with its formula written out once more in plain Math, and with the properties that it
 * cannot have, and why. tests/rl/methods.test.ts runs every property on every row; docs/methods.md is made of the same
 * rows. rlOtherMethods.ts has the rest of the table.
 */
import { ADVANTAGES, type AdvantageEstimator, gigpo } from "../../rl/methods/advantages/index.ts";
import { clipCov, klCov, type KlEstimator, POLICY_LOSSES, type PolicyLoss } from "../../rl/methods/losses/index.ts";

export const LOSS_PROPERTIES = {
  masked: "values at masked positions have no influence on loss and gradient, whatever they are",
  gap: "masked tokens can be deleted: the others keep loss and gradient",
  order: "the order of sequences does not matter",
  slope: "plain Math has the same value, and by differences the same gradient",
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
  gigpo: "gap: with an `anchor` of its own; the default anchor *is* the observation",
};

/** A test by its file and the beginning of its title. */
export type TestName = readonly [file: string, title: string];

/** What is there beside losses, penalties and estimators, with the tests that hold it. */
export interface OtherRow {
  readonly formula: string;
  readonly source: string;
  readonly tests: readonly TestName[];
}
const VECTORS = "tests/rl/weightVectors.test.ts";
const OBJECTIVE_TERMS = "tests/rl/objectiveTerms.test.ts";
const SUPERVISED = "tests/rl/supervised.test.ts";
const ECHO = "tests/rl/echo.test.ts";
const HOST = "tests/rl/goldenHost.test.ts";
const SPLIT_AND_FORK: TestName = ["tests/rl/methods.test.ts", "split and fork"];
const REWARDS = "tests/rl/rewards.test.ts";
const ROLLOUT = "tests/rl/rollout.test.ts";
const ROLLOUT_ENDS = "tests/rl/rolloutEnds.test.ts";
const COMPONENTS = "tests/rl/components.test.ts";
const STEP_PARTS = "tests/rl/stepParts.test.ts";
const GRADIENTS = "tests/rl/gradients.test.ts";
const DATA = "tests/rl/data.test.ts";
const DATA_LOOP = "tests/rl/dataLoop.test.ts";
const KEPT = "tests/rl/dataReplay.test.ts";
const SEARCH = "tests/rl/search.test.ts";
const SEARCH_TRAINING = "tests/rl/searchTraining.test.ts";
const SELF_REWARD = "tests/rl/selfReward.test.ts";

const row = (formula: string, source: string, ...tests: readonly TestName[]): OtherRow => ({ formula, source, tests });

export const OTHER_ROWS: Readonly<Record<string, Readonly<Record<string, OtherRow>>>> = {
  "World models and token weights": {
    echo: row("λ·mean over episodes of −(1/abs(O))·Σ lp over the targets; `full-observation`, `selected`, `token-mean`", "arXiv 2605.24517", [ECHO, "test vector"], [ECHO, "on a target's logit is λ(p − 1)"], SPLIT_AND_FORK), // prettier-ignore
    "echo, λ schedules": row("constant, linear, step", "arXiv 2605.24517", [ECHO, "constant, linear, step"]),
    "echo, verifier-free": row("the λ term alone: advantage `none`", "arXiv 2605.24517", ["tests/rl/properties.test.ts", "zero advantage is the next-observation language model"]), // prettier-ignore
    paw: row("E_g[λ_g·mean over selected transitions of Σ 1[p ≤ ρ]·(1 − p)/abs(o)], λ_g = 1 − R̄_g/R_max", "arXiv 2606.02388", [VECTORS, "ℓ = .44"], [VECTORS, "selects over the whole update"], SPLIT_AND_FORK), // prettier-ignore
    "paw, selection": row("top α by action entropy, `full` or `sampled`; `random`; `all`", "arXiv 2606.02388", [VECTORS, "entropy of sampled tokens"], [VECTORS, "each switch by itself"]), // prettier-ignore
    "paw, weight": row("1 − R̄/R_max, clamped to [0, 1] or not; `constant`", "arXiv 2606.02388", [
      VECTORS,
      "λ_g of R̄ 0",
    ]),
    actfocus: row("w = α on thoughts, 1 + β·sigmoid((E − μ)/σ) on actions; −(1/Σw)Σ w·ℓ", "arXiv 2605.14558", [VECTORS, "weights of four action tokens"], [VECTORS, "weighted loss .0986363949"], SPLIT_AND_FORK), // prettier-ignore
    "actfocus, uncertainty": row("energy, entropy, nll, kl of the frozen reference", "arXiv 2605.14558", [VECTORS, "uniform is no weighting"], ["tests/rl/tokenStatistics.test.ts", "are what a plain forward pass says"]), // prettier-ignore
    top_entropy: row("1 from the (1 − share) quantile of the entropy upwards, 0 below", "arXiv 2506.01939; TRL", [VECTORS, "top entropy"], SPLIT_AND_FORK), // prettier-ignore
  },
  "Around the loss": {
    aggregation: row("token-mean, token-sum, seq-mean-token-sum, seq-mean-token-sum-norm, seq-mean-token-mean, prompt-mean-token-mean", "verl; TRL `loss_type`; SkyRL", ["tests/rl/golden.test.ts", "verl agg_loss"], [COMPONENTS, "prompt-mean-token-mean"], SPLIT_AND_FORK), // prettier-ignore
    "KL in the reward": row("r̃_t = r_t − β·kl_t on the agent's tokens", "Ziegler et al. 2019, arXiv 1909.08593", [OBJECTIVE_TERMS, "a KL in the reward"]), // prettier-ignore
    "adaptive KL": row("β ← β·(1 + clip(kl/target − 1, ±.2)·n/horizon)", "arXiv 1909.08593", [VECTORS, "the adaptive coefficient"], [OBJECTIVE_TERMS, "an adaptive coefficient moves"]), // prettier-ignore
    "entropy bonus": row("−coefficient·H, H over the whole vocabulary", "Williams & Peng 1991", [OBJECTIVE_TERMS, "an entropy bonus raises"], SPLIT_AND_FORK), // prettier-ignore
    "entropy bonus, adaptive": row("c ± Δ as the entropy is at most or above a target, applied only where it is at most", "Skywork-OR1, arXiv 2505.22312; TRL `use_adaptive_entropy`", [STEP_PARTS, "a bonus that follows the entropy"]), // prettier-ignore
    "positive-example NLL": row("+ μ·mean of −lp over the tokens of successful rollouts, μ = .1", "VAPO, arXiv 2504.05118, eq. 10", [STEP_PARTS, "successes are imitated"]), // prettier-ignore
    "explained variance": row("1 − Var(R − V)/Var(R), `critic/vf_explained_var`", "verl; CleanRL", [STEP_PARTS, "the explained variance"]), // prettier-ignore
    "world and policy gradients": row("cosine and ratio of norms before the sum: `grad_cosine/world_policy`, `grad_ratio/world_policy`", "ActObs, arXiv 2609.20715", [GRADIENTS, "two gradients taken apart"]), // prettier-ignore
    "singleton groups": row("0, or R/(1 + eps) with `singleton: raw`", "verl", [STEP_PARTS, "a group of one"]),
    "rollout filter": row("groups by the deviation of their rewards: top_p (linear, softmax), top_k, min_p", "RAGEN, arXiv 2504.20073", [STEP_PARTS, "RAGEN's filter"]), // prettier-ignore
    "clipped value": row("½·max((v − R)², (clip(v, v_old ± ε) − R)²)", "PPO, arXiv 1707.06347", ["tests/rl/golden.test.ts", "verl.value_loss_clip0.1"], [OBJECTIVE_TERMS, "a critic learns returns"]), // prettier-ignore
    tis: row("min(π/μ, max), per token or the product over a sequence; normalised by its mean or not", "Yao et al. 2025; verl", [HOST, "trl.seq_is_ratio"], [VECTORS, "IcePop keeps"], SPLIT_AND_FORK), // prettier-ignore
    icepop: row("π/μ within [min, max], else 0", "arXiv 2510.18855", [VECTORS, "IcePop keeps"], SPLIT_AND_FORK),
    rejection: row("drop by k1, k2 or k3 of a token, or their sum, mean or maximum over the sequence", "verl rollout correction", [HOST, "$entry is $method"]), // prettier-ignore
    "off-policy mask": row("drop sequences with A < 0 and mean ln(μ/π) > δ", "DeepSeek-V3.2, arXiv 2512.02556", [HOST, "trl.off_policy_mask_thr0.1"]), // prettier-ignore
    whitening: row("(x − mean)/√(var + 1e-8), ddof 1", "verl", [HOST, "verl.masked_whiten"]),
    "dynamic sampling, denominators": row("groups without spread do not count in the policy term", "DAPO, arXiv 2503.14476", [OBJECTIVE_TERMS, "groups without spread can be left out"]), // prettier-ignore
    "truncated rollouts": row("left out of the policy term; in the statistics and the world model", "TRL `mask_truncated_completions`", [COMPONENTS, "rollouts that ran out of tokens"]), // prettier-ignore
    GRPOConfig: row("TRL's field names", "TRL", ["tests/rl/grpoConfig.test.ts", "gives an objective"]),
  },
  "Preference and supervised": {
    "dpo, ipo, hinge": row("a pair is a segment; weights of its tokens sum to 1/pairs", "arXiv 2305.18290, 2310.12036, 2305.10425", [SUPERVISED, "DPO, %s: prefers"], [SUPERVISED, "a pair's loss is the same in any micro-batch"]), // prettier-ignore
    "sft with masks": row("−lp on the agent's tokens that are to be imitated", "Agent-FLAN, arXiv 2403.12881", [SUPERVISED, "SFT leaves out"]), // prettier-ignore
    dft: row("−sg(p)·lp", "arXiv 2508.05629", [SUPERVISED, "SFT leaves out"]),
    "dpo, imitation": row("+ weight·(−lp of the chosen answer), a mean over its tokens", "RPO, arXiv 2404.19733", [SEARCH_TRAINING, "imitation is the gradient"]), // prettier-ignore
    "tree search": row("argmax Q + c·√(ln N(h)/(1 + N(h, a))), Q = α·Q̃ + (1 − α)·Q̂ over clones of the environment", "Agent Q, arXiv 2408.07199; WU-UCT, arXiv 1810.11755", [SEARCH, "is Q + c·√"], [SEARCH, "finds the optimum"], [SEARCH, "visits add up"]), // prettier-ignore
    "agent q": row("DPO on sibling actions whose Q differ by more than a threshold; the history is prompt", "Agent Q, arXiv 2408.07199", [SEARCH, "are siblings whose Q differ"], [SEARCH_TRAINING, "raises the better action's"], [SEARCH_TRAINING, "improves what the simulations earn"]), // prettier-ignore
    "self-rewarding": row("best and worst of a group by an ensemble of judges, DPO against the policy before; `hacking/gap` = win rate before the judges − in truth", "arXiv 2401.10020", [SELF_REWARD, "majority: each two"], [SELF_REWARD, "learns the task from a truthful judge"], [SELF_REWARD, "with a corrupt judge"]), // prettier-ignore
  },
  Rewards: {
    code: row("weighted share of unit tests that pass, in a process without permissions", "APPS, arXiv 2105.09938", ["tests/rl/codeReward.test.ts", "gives the weighted share"], ["tests/node/sandbox.test.ts", "find nothing of Node"]), // prettier-ignore
    "end states": row("the environment says whether its goal is reached", "–", ["tests/environments/contract.ts", "the expert solves it"], ["tests/environments/contract.ts", "no reward without success"]), // prettier-ignore
    "reward parts": row("components kept apart, weights and names in the metrics", "TRL `reward_weights`", [COMPONENTS, "components come from the option reward"]), // prettier-ignore
    maths: row("exact equality after normalisation", "–", ["tests/rl/rewards-outcome.test.ts", "numbers are exact"]),
    "patch similarity": row("mean over files of the similarity of sequences", "SWE-RL, arXiv 2502.18449", ["tests/rl/rewards-outcome.test.ts", "is the mean over the files"]), // prettier-ignore
    composite: row("Σ weight·component, 1 : .2 : .1, shaping capped", "–", [REWARDS, "never lets shaping outweigh"]),
    format: row("share of well-formed actions", "–", [REWARDS, "is the share of well-formed"]),
    repetition: row("share of repeated n-grams", "TRL", [REWARDS, "is the share of repeated n-grams"]),
    length: row("linear, sigmoid, soft overlong (piecewise linear), cosine", "DAPO, arXiv 2503.14476; TRL", [REWARDS, "soft overlong"], [REWARDS, "linear: nothing up to the target"]), // prettier-ignore
    "tool efficiency": row("−.05 per consecutive duplicate, −.3 per unknown tool, capped", "–", [
      REWARDS,
      "takes other costs",
    ]),
    subgoals: row("each paid once; potential-based shaping", "Ng et al. 1999", [REWARDS, "pays each once"], [REWARDS, "potential-based shaping"]), // prettier-ignore
    hindsight: row("another task in front of the same tokens", "HER, arXiv 1707.01495", [REWARDS, "puts another task"]),
    judges: row("majority vote, abstentions, a quorum", "–", [REWARDS, "counts votes"]),
  },
  Rollouts: {
    "the loop": row("who wrote what, in which turn; stop reasons", "–", [ROLLOUT, "the columns"], [ROLLOUT_ENDS, "completed"], [ROLLOUT_ENDS, "max_turns"], [ROLLOUT_ENDS, "context_overflow"]), // prettier-ignore
    "recorded log-probabilities": row("at the sampling temperature, over the full vocabulary; truncation never enters", "–", [ROLLOUT, "sampled log-probabilities are the full forward's"], [ROLLOUT, "truncation (top-k, top-p)"]), // prettier-ignore
    "failing environments": row("an environment that throws or takes too long masks its own episode", "–", [ROLLOUT_ENDS, "tool_error"], [ROLLOUT_ENDS, "timeout"]), // prettier-ignore
    "strict templates": row("no action between the tags: `parse_error`, and the environment hears nothing", "tinker's stop reasons", ["tests/rl/thoughts.test.ts", "a strict template ends"]), // prettier-ignore
    "malformed actions": row("never throw: the error is the answer, and is counted", "–", ["tests/environments/contract.ts", "takes any text as an action"]), // prettier-ignore
    sampling: row("temperature, top-k, top-p, min-p", "Holtzman et al. 2020; Nguyen et al. 2024", ["tests/nn/sampler.test.ts", "frequencies and both log-probabilities"], [ROLLOUT, "truncation (top-k, top-p)"]), // prettier-ignore
    "thoughts and actions": row("tokens of the action's span, tags included, are action; other sampled text is thought", "ActFocus, arXiv 2605.14558; RAGEN", ["tests/rl/thoughts.test.ts", "tags around the action"], ["tests/rl/thoughts.test.ts", "ActFocus weighs thoughts by α"], ["tests/rl/thoughts.test.ts", "ActFocus with α = 0"]), // prettier-ignore
    "long answers": row("cut in the middle, with a marker", "–", [ROLLOUT_ENDS, "an empty answer"]),
    "greedy baseline": row("each task once more at temperature 0", "ReMax, arXiv 2310.10505", [OBJECTIVE_TERMS, "ReMax plays each task once more"]), // prettier-ignore
    "forked rows": row("a rewritten history starts a new row; statistics per rollout", "–", SPLIT_AND_FORK),
  },
  Data: {
    "dynamic sampling": row("groups without spread are left out of the policy term and refilled, at most `maxRefills` times; the world model learns from them", "DAPO, arXiv 2503.14476", [DATA, "draws until enough groups have spread"], [DATA_LOOP, "refills, drops constant groups"]), // prettier-ignore
    "ε-tool exploration": row("with probability ε the action is a tool chooser's; its tokens are prompt, outside the policy mask", "ε-soft policies; Sutton & Barto, §5.4", [DATA, "forces an action with probability ε"], [DATA_LOOP, "the chooser's actions are prompt"]), // prettier-ignore
    "temperature schedule": row("linear, cosine, exponential; each token is scored at the temperature that it was drawn at", "–", [DATA, "begin and end where they should"], [DATA_LOOP, "follows its schedule"]), // prettier-ignore
    learnability: row("Pr(k) = floor/K + (1 − floor)·p(1 − p)/Σ over families or levels, p a running success rate", "arXiv 2304.12877, 2502.12272", [DATA, "probabilities sum to 1"], [DATA, "draws with these probabilities"], [DATA, "follows a learner"], [DATA, "continues from its JSON"]), // prettier-ignore
    "failed tasks": row("a share of the groups tries tasks again at which a whole group failed, until they are solved", "WebRL, arXiv 2411.02337", [DATA, "come back until they are solved"], [DATA, "are tried with their share"]), // prettier-ignore
    "difficulty pools": row("tasks in pools by success rate; a pool by weight, then a task of it", "prime-rl", [DATA, "sort tasks by their success"], [DATA, "a retired pool"]), // prettier-ignore
    replay: row("earlier groups with spread, oldest or highest mean reward first; bounds on size, age, uses; ratios against the recorded log-probabilities", "TRL `GRPOWithReplayBuffer`; Schaul et al. 2015, arXiv 1511.05952", [KEPT, "is bounded in size, age and uses"], [KEPT, "fifo: oldest first"], [DATA_LOOP, "earlier groups come back"]), // prettier-ignore
    expertPrefix: row("a group without a success is played again with the shortest prefix of expert actions that helps; the prefix is prompt", "after ActGuide-RL, arXiv 2605.12004", [DATA, "tries 1, 2, … actions"], [DATA_LOOP, "are played again from the expert's first action on"]), // prettier-ignore
    "rewarded predictions": row("reward 1[d(ŝ, s) < τ] for generated answers ŝ to the agent's own actions, d the edits per token; the guesses at one answer are a group", "RWML, arXiv 2602.05842 (d there is another)", ["tests/rl/predictions.test.ts", "pay where the edits per token"], ["tests/rl/predictions.test.ts", "are learnt"]), // prettier-ignore
    rft: row("SFT on the successes, the shortest `perTask` of each task, no duplicates", "arXiv 2308.01825, 2304.06767", [KEPT, "keep the shortest successes"], [DATA_LOOP, "filtered rollouts are demonstrations"]), // prettier-ignore
  },
};
