/** The state that an objective keeps from earlier steps, for a checkpoint. */
import { AdaptiveEntropy } from "../methods/entropy.ts";
import type { Objective } from "../rl/objective/objective.ts";
import type { Memory } from "../distribute/worker/index.ts";

/** An adaptive KL coefficient, an adaptive entropy bonus and an advantage that keeps numbers, by their files' names. */
export function objectiveMemories({ advantage, kl, entropy }: Objective): Readonly<Record<string, Memory>> {
  const beta = typeof kl?.beta === "object" ? kl.beta : undefined;
  const parts: Record<string, Memory> = {};
  if (beta) {
    const restore = (saved: unknown): void => beta.resume((saved as { beta: number }).beta);
    parts["kl"] = { state: () => ({ beta: beta.beta }), restore };
  }
  if (entropy instanceof AdaptiveEntropy) {
    const restore = (saved: unknown): void => entropy.restore(saved as ReturnType<AdaptiveEntropy["state"]>);
    parts["entropy"] = { state: () => entropy.state(), restore };
  }
  if (advantage.state) {
    parts["advantage"] = { state: () => advantage.state!(), restore: (saved) => advantage.restore!(saved) };
  }
  return parts;
}
