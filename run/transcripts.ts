/** The records of trained episodes, which transcripts.jsonl keeps and the report shows. */
import type { Model } from "../nn/index.ts";
import { score } from "../rl/train/score.ts";
import { expectedAnswers } from "../data/expectation.ts";
import { rowOf, type TokenRow } from "../rl/objective/columns.ts";
import { familiesOf } from "../rl/episode/groups.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { isAgentToken, type Trajectory, turnCount } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { Phase, Transcript } from "./records.ts";

const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Scores every token of the given episodes with the current `model`, and describes the episodes token by token.
 * @param among the episodes that were played with them, which give the family of one that was cut off at once
 */
export async function describeEpisodes(
  model: Model,
  template: Template,
  rows: readonly TokenRow[],
  phase: Phase,
  step: number,
  among: readonly Trajectory[] = [],
): Promise<Transcript[]> {
  const families = familiesOf([...rows.map(({ trajectory }) => trajectory), ...among]);
  const { logProbs, entropy } = await score(model, rows, { padId: template.padId, scored: () => true });
  return rows.map(({ trajectory, advantages, wPolicy, wWorld, weights }, i) => {
    const { stream } = trajectory;
    const clipped = weights["paw"];
    return {
      step,
      phase,
      env: trajectory.env,
      family: families[i] ?? "",
      task: trajectory.task,
      group: trajectory.group,
      reward: trajectory.reward,
      success: succeeded(trajectory),
      stopReason: trajectory.stopReason,
      turns: turnCount(trajectory),
      tokens: stream.ids.map((id, t) => ({
        id,
        // Decoded from its bytes: `decode` drops the space that some tokenizers put before a text, in every token.
        text: UTF8.decode(template.tokenizer.decodeBytes([id])),
        role: stream.roles[t]!,
        turn: stream.turns[t]!,
        ...(t > 0 ? { logProb: logProbs[i]![t]!, surprise: -logProbs[i]![t]!, entropy: entropy[i]![t]! } : {}),
        ...(isAgentToken(stream.roles[t]!) ? { oldLogProb: stream.oldLogProbs[t]! } : {}),
        advantage: advantages[t]!,
        wPolicy: wPolicy[t]!,
        wWorld: wWorld[t]!,
        ...(clipped ? { wClipped: clipped[t]! } : {}),
      })),
    };
  });
}

/** As `describeEpisodes`, for held-out episodes, which are not trained on, with the answers that the model expected. */
export async function describeHeldOut(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
  step: number,
  maxAnswerTokens: number,
  among: readonly Trajectory[] = [],
): Promise<Transcript[]> {
  const rows = trajectories.map((trajectory) => rowOf(trajectory));
  const records = await describeEpisodes(model, template, rows, "eval", step, among);
  const expected = await expectedAnswers(model, template, trajectories, maxAnswerTokens);
  return records.map((record, i) => ({ ...record, expected: expected[i]! }));
}

/** A successful and a failed episode of a step, as far as there are such, to show. */
export function pickEpisodes(rows: readonly TokenRow[]): TokenRow[] {
  const counted = rows.filter(({ trajectory }) => !trajectory.masked);
  const success = counted.find(({ trajectory }) => succeeded(trajectory));
  const failure = counted.find(({ trajectory }) => !succeeded(trajectory));
  return [success, failure].filter((row) => row !== undefined);
}
