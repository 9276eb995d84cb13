/** Titles and explanations of the loss's terms. A term without an entry goes by its own name. */
import type { LossParts } from "../rl/train/loss.ts";

export interface TermWords {
  readonly title: string;
  readonly about: string;
  /** The symbol of its weight. */
  readonly weight: string;
}

/** Explanations of the policy losses. The sources are in POLICY_LOSSES (methods/losses). */
export const POLICY_ABOUT: Readonly<Record<string, string>> = {
  ppo: "PPO's clip: a token is no longer pushed once its ratio has left the bounds on the side that A pushes to.",
  dual_clip: "PPO's clip; where A < 0 the loss is at most −cA, so that a huge ratio cannot dominate.",
  sapo: "A smooth gate in the place of the clip: the further the ratio has moved, the smaller the push.",
  reinforce: "The policy gradient itself: likelier if A is above 0, less likely if below.",
  importance_sampling: "The policy gradient, weighed by the ratio, so that older samples count right.",
  cispo: "The clipped ratio is a weight without a gradient, so that every token keeps its own.",
  dro: "Regression: the log-ratio is drawn towards the advantage over β; right for old samples, too.",
  dppo_tv: "The policy gradient, until the token's probability has moved by more than ε towards A.",
  dppo_kl: "The policy gradient, until the KL of “this token or another” has moved by more than ε towards A.",
  prime_rl: "The weighed policy gradient on tokens whose probability has not moved far, and a pull back on all.",
  kl_cov: "The weighed policy gradient; the few tokens that cost most entropy (M = 1) are held back.",
  clip_cov: "PPO's clip; some of the tokens that cost most entropy are left out (M = 0).",
  m2po: "The weighed policy gradient without the tokens whose ratio has moved most (M = 0).",
  gspo: "PPO's clip of the sequence's ratio s; each token has the derivative of its own log p.",
  gmpo: "One ratio per sequence, the geometric mean of its tokens' ratios, each clipped on the side that A pushes to.",
  vespo: "The policy gradient, weighed by a smooth function φ of the ratio of the whole sequence.",
  webrl: "Regression: the log-ratio of the whole sequence to the reference is drawn to the advantage over β.",
  sft: "Imitation: every token is made likelier.",
  dft: "Imitation in which likely tokens count more, as under a reward of 1 for the shown token.",
  dpo: "Of two answers the better one is made likelier than the worse one; h is by how much it is already.",
  dpo_ipo: "The difference of the two answers is drawn to 1/(2β), and no further.",
  dpo_hinge: "Of two answers the better one is made likelier until h is 1/β.",
};

/** Explanations of the KL estimators. */
export const KL_ABOUT: Readonly<Record<string, string>> = {
  k1: "Right on average, of either sign at a single token.",
  k2: "Never negative; its value is biased, its gradient is right.",
  k3: "Never negative and right on average; its gradient is that of the other KL.",
  abs: "How far apart the two log-probabilities are.",
  "k3+": "The value of k3 with the gradient of k2: both are right.",
};

/** Title, symbol of the weight, and explanation of each term. */
const TERMS: Readonly<Record<string, readonly [string, string, string]>> = {
  world: ["world model", "w_world", "What the environment wrote is made likelier: the agent learns to predict it."],
  imitation: ["imitation", "w_imitation", "The token is made likelier: it is part of a success or a demonstration."],
  paw: [
    "world model (PaW)",
    "w_world",
    "The error of a token that was not expected; 0 if it is likelier than the bound.",
  ],
  kl: ["KL penalty", "w_KL", "Keeps the policy near the reference."],
  entropy: ["entropy bonus", "w_H", "Rewards an even distribution at this place, whichever token was drawn."],
  value: ["critic", "w_value", "The critic's error, of the value or of one moved by ε at most, whichever is larger."],
  return_prediction: ["return prediction", "w_return", "A head's error about what the episode will have earned."],
};

/** @param policy the name of the policy loss in the table @param kl the penalty, if there is one */
export function termWords(name: string, policy: string, kl: LossParts["kl"]): TermWords {
  const own = name === "policy" ? (["policy", "w_policy", POLICY_ABOUT[policy] ?? ""] as const) : TERMS[name];
  const [title, weight, about] = own ?? [name, "w", ""];
  return { title, weight, about: name === "kl" && kl ? `${about} ${KL_ABOUT[kl.estimator]}` : about };
}

/** Meanings of the symbols in the formulas of weights. */
export const WEIGHT_SYMBOLS: Readonly<Record<string, string>> = {
  N: "trained tokens of the step",
  S: "episodes with a trained token",
  L_max: "the longest completion",
  N_sequence: "trained tokens of this episode",
  G: "tasks with a trained token",
  N_task: "trained tokens of this task",
  n: "tokens of the term in this step",
  u: "the token's own weight",
  c: "importance correction",
  E: "the reference's uncertainty at this token",
  λ: "weight of the world model",
  "|O|": "observation tokens of this episode",
  "|O_trained|": "observation tokens that are trained",
};
