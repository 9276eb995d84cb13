/** From a trained episode to the record that transcripts.jsonl keeps and the report shows. */
import type { Model } from "../../nn/index.ts";
import { score } from "../../rl/train/loss.ts";
import { unweighted } from "../../rl/evaluate.ts";
import { expectedAnswers } from "../../rl/play/expectation.ts";
import type { TokenPlan } from "../../rl/methods/objective.ts";
import { isAgentToken, type Trajectory, turnCount } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";
import type { Phase, Transcript } from "../records.ts";

/** Scores every token of the given episodes under `model` (what it now thinks of each) and describes them token by token. */
export async function describeEpisodes(
  model: Model,
  template: Template,
  plans: readonly TokenPlan[],
  phase: Phase,
  step: number,
): Promise<Transcript[]> {
  const { logProbs, entropy } = await score(model, plans, { padId: template.padId, scored: () => true });
  return plans.map(({ trajectory, advantages, wPolicy, wWorld, wClipped }, i) => {
    const { stream, info } = trajectory;
    return {
      step,
      phase,
      env: trajectory.env,
      family: String(info["family"] ?? ""),
      task: trajectory.task,
      group: trajectory.group,
      reward: trajectory.reward,
      success: info["success"] === true,
      stopReason: trajectory.stopReason,
      turns: turnCount(trajectory),
      tokens: stream.ids.map((id, t) => ({
        id,
        text: template.tokenizer.decode([id]),
        role: stream.roles[t]!,
        turn: stream.turns[t]!,
        ...(t > 0 ? { logProb: logProbs[i]![t]!, surprise: -logProbs[i]![t]!, entropy: entropy[i]![t]! } : {}),
        ...(isAgentToken(stream.roles[t]!) ? { oldLogProb: stream.oldLogProbs[t]! } : {}),
        advantage: advantages[t]!,
        wPolicy: wPolicy[t]!,
        wWorld: wWorld[t]!,
        ...(wClipped ? { wClipped: wClipped[t]! } : {}),
      })),
    };
  });
}

/** The same for held-out episodes, which nobody is trained on, with what the model expected to be answered. */
export async function describeHeldOut(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
  step: number,
  maxAnswerTokens: number,
): Promise<Transcript[]> {
  const records = await describeEpisodes(model, template, trajectories.map(unweighted), "eval", step);
  const expected = await expectedAnswers(model, template, trajectories, maxAnswerTokens);
  return records.map((record, i) => ({ ...record, expected: expected[i]! }));
}

/** A success and a failure of a step where there are both, to look at. */
export function pickEpisodes(plans: readonly TokenPlan[]): TokenPlan[] {
  const counted = plans.filter((p) => !p.trajectory.masked);
  const success = counted.find((p) => p.trajectory.info["success"] === true);
  const failure = counted.find((p) => p.trajectory.info["success"] !== true);
  return [success, failure].filter((p) => p !== undefined);
}
