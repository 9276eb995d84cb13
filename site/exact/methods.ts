/**
 * The methods that the page compares, made by the library from the names that the command line takes. They are listed
 * so that neighbours differ by one thing: the baseline, the division by the deviation, the mean over an episode's
 * tokens, the correction for an older policy.
 */
import { rae } from "../../methods/advantages/outcome.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { objectiveOf } from "../../methods/presets.ts";
import type { MethodChoice } from "../../methods/choice.ts";
import { MAX_OWN_TOKENS } from "./task.ts";

export interface PageMethod {
  readonly name: string;
  readonly label: string;
  /** A, the weight of a token, and ℓ, as far as the method differs from REINFORCE. */
  readonly about: string;
  /**
   * Whether the gradient of a step is Σ over its episodes of |A|·(a vector that only the episode and the sign of A
   * decide), where A depends on the rewards of its group only. Then its moments can be computed exactly (moments.ts).
   */
  readonly isExact: boolean;
  /** For a method that is not: an exact one that does nearly the same with the same episodes (a control variate). */
  readonly like?: string;
  readonly choice: MethodChoice;
  /** Whether the policy's expected reward is subtracted from every reward. */
  readonly hasConstantBaseline?: true;
}

const SUM = { aggregation: "seq-mean-token-sum" } as const;

export const PAGE_METHODS: readonly PageMethod[] = [
  {
    name: "reinforce",
    label: "REINFORCE",
    about: "A = R; no baseline (Williams 1992)",
    isExact: true,
    choice: { method: "rloo", advantage: "rae", ...SUM },
  },
  {
    name: "constant",
    label: "REINFORCE, constant baseline",
    about: "A = R − b, b the policy's expected reward over all tasks, which only this page knows",
    isExact: true,
    choice: { method: "rloo", advantage: "rae", ...SUM },
    hasConstantBaseline: true,
  },
  {
    name: "rloo",
    label: "RLOO",
    about: "A = R − mean of the others in the group (arXiv 2402.14740)",
    isExact: true,
    choice: { method: "rloo" },
  },
  {
    name: "centred",
    label: "R − mean",
    about: "A = R − mean of the group, the episode itself included (Dr. GRPO's advantage, arXiv 2503.20783)",
    isExact: true,
    choice: { method: "dr_grpo", ...SUM },
  },
  {
    name: "dr_grpo",
    label: "Dr. GRPO",
    about: `R − mean; a sum over tokens, divided by the longest length, ${MAX_OWN_TOKENS} (arXiv 2503.20783)`,
    isExact: true,
    choice: { method: "dr_grpo", maxLength: MAX_OWN_TOKENS },
  },
  {
    name: "grpo_length",
    label: "GRPO without std",
    about: "A = R − mean; each episode is a mean over its own tokens, so that short ones weigh more per token",
    isExact: true,
    choice: { method: "grpo", advantage: "centred" },
  },
  {
    name: "grpo_sum",
    label: "GRPO, sum over tokens",
    about: "A = (R − mean)/(std + 1e-4): groups of little spread count as much as those of much",
    isExact: true,
    choice: { method: "grpo", ...SUM },
  },
  {
    name: "grpo",
    label: "GRPO",
    about: "(R − mean)/(std + 1e-4), and a mean over each episode's tokens (arXiv 2402.03300)",
    isExact: true,
    choice: { method: "grpo" },
  },
  {
    name: "max_rl",
    label: "MaxRL",
    about: "A = (R − mean)/mean: rare successes weigh more (arXiv 2602.02710)",
    isExact: true,
    choice: { method: "max_rl", ...SUM },
  },
  {
    name: "pass_at_k",
    label: "pass@k",
    about: "only the best of a group is trained, by its margin over the second (arXiv 2503.19595)",
    isExact: true,
    choice: { method: "pass_at_k", ...SUM },
  },
  {
    name: "grpo_token",
    label: "GRPO, mean over tokens",
    about: "(R − mean)/(std + 1e-4), and one mean over all tokens of the step",
    isExact: false,
    like: "grpo",
    choice: { method: "grpo_token" },
  },
  {
    name: "dapo",
    label: "DAPO",
    about: "as GRPO with a mean over tokens; groups without spread do not count in it (arXiv 2503.14476)",
    isExact: false,
    like: "grpo",
    choice: { method: "dapo" },
  },
  {
    name: "reinforce++",
    label: "REINFORCE++",
    about: "A = R, scaled to mean 0 and deviation 1 over the step (arXiv 2501.03262)",
    isExact: false,
    like: "constant",
    choice: { method: "reinforce++" },
  },
  {
    name: "rloo_ratio",
    label: "RLOO, ratio per token",
    about: "RLOO with ℓ = −ρA, ρ = π/μ of the token alone; it differs from RLOO where an older policy μ plays",
    isExact: true,
    choice: { method: "rloo", loss: "importance_sampling" },
  },
  {
    name: "rloo_clip",
    label: "RLOO, PPO's clip",
    about: "RLOO with ℓ = −min(ρA, clip(ρ, 0.8, 1.2)A) (arXiv 1707.06347)",
    isExact: true,
    choice: { method: "rloo", loss: "ppo" },
  },
  {
    name: "rloo_tis",
    label: "RLOO, TIS per token",
    about: "RLOO, each token weighed by min(π/μ, 2), as truncated importance sampling is by default",
    isExact: true,
    choice: { method: "rloo", importanceCorrection: { level: "token" } },
  },
  {
    name: "rloo_sequence",
    label: "RLOO, ratio per episode",
    about: "RLOO, each episode weighed by the product of all its π/μ, without a bound",
    isExact: true,
    choice: { method: "rloo", importanceCorrection: { level: "sequence", max: 1e30 } },
  },
];

/** The method of this name. @throws if there is none */
export function methodByName(name: string): PageMethod {
  const found = PAGE_METHODS.find((method) => method.name === name);
  if (found === undefined) throw new Error(`expected a method among ${NAMES.join(", ")}, got "${name}"`);
  return found;
}

const NAMES = PAGE_METHODS.map(({ name }) => name);

/**
 * The library's objective of a method.
 * @param lambda weight of the world-model loss (ECHO); 0: none
 * @param expected the policy's expected reward, for the constant baseline
 */
export function objectiveFor({ choice, hasConstantBaseline }: PageMethod, lambda: number, expected: number): Objective {
  const method = lambda > 0 ? `${choice.method}+echo` : choice.method;
  const options = { ...choice.options, ...(lambda > 0 ? { echo: { lambda } } : {}) };
  const objective = objectiveOf({ ...choice, ...(method ? { method } : {}), options });
  if (!hasConstantBaseline) return objective;
  // `rae` subtracts what it remembers of each environment, and learns it in `observe`, which nobody calls here.
  const advantage = rae();
  advantage.restore!({ cups: { mean: expected, lowest: 0 } });
  return { ...objective, advantage };
}
