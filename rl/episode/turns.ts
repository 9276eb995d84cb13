/**
 * An episode as text, for rewards that read it. The text is decoded from the token ids for reading only and is never
 * tokenised again.
 */
import { isAgentToken, type Trajectory } from "./stream.ts";
import type { Template } from "./template.ts";

/** A turn of an episode as text: the action that the environment got, and its answer. */
export interface Turn {
  readonly action: string;
  /** The environment's answer as the agent read it: with the marker if it was cut, without any warning. */
  readonly observation: string;
  /** The number of tokens that the model sampled for the action. */
  readonly tokens: number;
}

/** The turns in which the agent acted, in order. */
export function turnsOf({ stream }: Trajectory, template: Template): Turn[] {
  const last = stream.turns.at(-1) ?? -1;
  return Array.from({ length: last + 1 }, (_, turn) => {
    const idsWhere = (belongs: (t: number) => boolean): number[] =>
      stream.ids.filter((_id, t) => stream.turns[t] === turn && belongs(t));
    const action = idsWhere((t) => isAgentToken(stream.roles[t]!));
    // A warning stands behind the last target, the marker of a cut answer before it.
    const end = stream.targets.findLastIndex((isTarget, t) => isTarget && stream.turns[t] === turn);
    const observation = idsWhere((t) => stream.roles[t] === "observation" && t <= end);
    return {
      action: template.actionText(action),
      observation: template.tokenizer.decode(observation),
      tokens: action.length,
    };
  }).filter(({ tokens }) => tokens > 0);
}
