/** Losses that a run measures beside those it trains: of demonstrations, and of a world beyond what can be known. */
import type { Model } from "../nn/index.ts";
import type { WorldLoss, WorldLossOptions } from "../rl/evaluate.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { tokenStatistics } from "../rl/train/score.ts";

/** Mean of −lp over the agent's tokens of demonstrations, in nats per token. */
export async function answerLoss(
  model: Model,
  template: Template,
  demonstrations: readonly Trajectory[],
  options: Pick<WorldLossOptions, "maxTokens"> = {},
): Promise<number> {
  const { logProbs } = await tokenStatistics({ model }, ["logProbs"], demonstrations, {
    padId: template.padId,
    ...options,
  });
  const scored = logProbs!.flatMap((row) => [...row].filter((lp) => !Number.isNaN(lp)));
  return -scored.reduce((sum, lp) => sum + lp, 0) / scored.length;
}

/**
 * The world-model loss minus the entropy of the answers themselves (`answerEntropy` in the info): (Σ −lp − Σ H) /
 * tokens, in nats per token. A model that knows the world and uses all of its context has a mean of about 0, with noise
 * in both directions because answers are drawn at random. The end of an answer counts in its entropy but is not a
 * target (`<|end|>` is written by the template), so a perfect model is below 0 by that amount: 0.28 nats for a number
 * from 2 to 98 written digit by digit, nothing for a word.
 *
 * Only episodes whose answers were read and scored completely count. Failed episodes are left out, and those with an
 * answer of `maxObservationTokens` or more (it may have been cut), with an answer that did not fit, with an answer
 * before the first action, or with warnings.
 *
 * @param losses `worldModelLosses` of the trajectories
 * @returns undefined if no such episode has an answer, or if the environment does not report the entropy of its answers
 */
export function worldLossExcess(
  losses: readonly WorldLoss[],
  trajectories: readonly Trajectory[],
  maxObservationTokens: number,
): number | undefined {
  let [nats, tokens] = [0, 0];
  for (const [i, { stream, info, stopReason }] of trajectories.entries()) {
    const { answerEntropy } = info;
    const lengths = new Map<number, number>();
    stream.roles.forEach((role, t) => {
      if (role === "observation") lengths.set(stream.turns[t]!, (lengths.get(stream.turns[t]!) ?? 0) + 1);
    });
    const all = [...lengths.values()];
    const isWhole = all.every((n) => n < maxObservationTokens) && all.reduce((a, b) => a + b, 0) === losses[i]!.tokens;
    if (typeof answerEntropy !== "number" || !isWhole || stopReason === "context_overflow") continue;
    nats += losses[i]!.nats - answerEntropy;
    tokens += losses[i]!.tokens;
  }
  return tokens > 0 ? nats / tokens : undefined;
}
