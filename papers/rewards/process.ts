/**
 * Process rewards, from the success of completions of a step (Math-Shepherd, Wang et al. 2023, arXiv 2312.08935):
 * labels of steps, the reward of each step in RL, the score of a solution and the weighted vote of several.
 */
import { check } from "../../engine/errors.ts";

/** Labels of a step from its tries: 1 if any succeeded, else 0 (`hard`); or the share that succeeded (`soft`). */
export const STEP_LABELS = ["hard", "soft"] as const;

/**
 * The label of each step, in [0, 1]; NaN for a step that was not tried.
 * @param kind the paper's hard or soft estimate
 */
export const stepLabels = (
  steps: readonly { readonly successes: number; readonly tries: number }[],
  kind: (typeof STEP_LABELS)[number],
): number[] =>
  steps.map(({ successes, tries }) =>
    tries === 0 ? NaN : kind === "hard" ? Number(successes > 0) : successes / tries,
  );

/** Forms of the rewards that `processRewards` makes from the values of an episode's steps. */
export const PROCESS_FORMS = ["difference", "min", "sum"] as const;

/**
 * The reward of each step, from the values v_k of the steps 1 … K, each the probability that the episode will succeed.
 * Estimators of whole episodes read the sum, those of turns or tokens each step's own.
 *
 * - `difference`: v_k − v_{k−1} with v_0 = 0, the form of potential-based shaping with γ = 1 (Ng et al. 1999). The sum
 *   is v_K, where shaping would end at 0.
 * - `min`: the lowest value at its step, the first of equal ones, and 0 elsewhere, PURE's credit (arXiv 2504.15275) at
 *   temperature 0. The sum is `solutionScore`.
 * - `sum`: v_k, as in Math-Shepherd's PPO. The sum grows with every step, so that long episodes are paid for.
 */
export function processRewards(values: readonly number[], form: (typeof PROCESS_FORMS)[number]): number[] {
  if (form === "sum") return [...values];
  const lowest = values.indexOf(solutionScore(values));
  return values.map((v, k) => (form === "difference" ? v - (values[k - 1] ?? 0) : k === lowest ? v : 0));
}

/** The score of a solution: the lowest value of its steps; 0 without steps. */
export const solutionScore = (values: readonly number[]): number => (values.length === 0 ? 0 : Math.min(...values));

/**
 * The answer with the highest sum of scores, argmax_a Σ 1[a_i = a]·score_i; on a tie the first to occur. With equal
 * scores it is the vote of the majority (self-consistency).
 */
export function weightedVote(answers: readonly string[], scores: readonly number[]): string {
  check(
    answers.length > 0 && answers.length === scores.length,
    () => `weightedVote: expected a score for each of at least one answer, got ${scores.length} for ${answers.length}`,
  );
  const sumOf = (answer: string): number => scores.filter((_, i) => answers[i] === answer).reduce((a, b) => a + b);
  return answers.reduce((best, answer) => (sumOf(answer) > sumOf(best) ? answer : best));
}
