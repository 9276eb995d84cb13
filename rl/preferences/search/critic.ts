/**
 * Critics of a search: what an action is worth before it has been tried, and what a position is worth without playing on. Agent Q
 * (arXiv 2408.07199) has the policy rank its own proposals, and mixes what follows from the ranking with the values of the search.
 */
import { check } from "../../../engine/errors.ts";
import type { Model, ValueHead } from "../../../nn/index.ts";
import { type Judge, majorityVote, verdictReward } from "../../rewards/judge.ts";
import { tokenStatistics } from "../../train/score.ts";
import type { TokenStream } from "../../episode/stream.ts";
import type { Template } from "../../episode/template.ts";
import { episodeOf, type Position, type SearchStart, withAction } from "./position.ts";

/** The actions that were proposed at one point. */
export interface Candidates {
  readonly task: string;
  /** Everything so far, the tag that asks for the action last. */
  readonly history: TokenStream;
  /** Different from each other, in the order in which they were drawn. */
  readonly actions: readonly string[];
}

/** @returns a score for each action, in units of the return; NaN for no opinion. A critic that throws has none. */
export type ActionCritic = (candidates: Candidates, signal?: AbortSignal) => Promise<readonly number[]>;

/** @returns the return that is still to come at each position. Takes the place of simulations. */
export type LeafValue = (positions: readonly Position[], starts: readonly SearchStart[]) => Promise<readonly number[]>;

/**
 * Agent Q's critic: a ranking of the candidates, turned into scores from 1 for the first to 0 for the last, evenly spaced. (The
 * paper does not say how a rank becomes a value.)
 * @param rank the places of the actions in the list, best first
 */
export function rankCritic(
  rank: (candidates: Candidates, signal?: AbortSignal) => Promise<readonly number[]>,
): ActionCritic {
  return async (candidates, signal) => {
    const order = await rank(candidates, signal);
    const n = candidates.actions.length;
    const isPermutation =
      order.length === n && new Set(order).size === n && order.every((i) => Number.isInteger(i) && i >= 0 && i < n);
    check(isPermutation, () => `rankCritic: expected the places 0 to ${n - 1}, each once, got ${order.join(", ")}`);
    return candidates.actions.map((_, i) => (n === 1 ? 1 : 1 - order.indexOf(i) / (n - 1)));
  };
}

/** What a judge is asked about an action. */
export interface ActionQuestion extends Omit<Candidates, "actions"> {
  readonly action: string;
}

/** A vote of judges on each action by itself: 1, 0, or no opinion. */
export function judgeCritic(judges: readonly Judge<ActionQuestion>[]): ActionCritic {
  return ({ actions, ...question }, signal) =>
    Promise.all(
      actions.map(async (action) => verdictReward(await majorityVote(judges, { ...question, action }, signal ? { signal } : {}))), // prettier-ignore
    );
}

/**
 * The value head of a critic, asked where the next action would begin, as it was trained (rl/methods/advantages/critic.ts): values are
 * read where an action's first token is predicted, so each history gets one that nobody drew.
 */
export function headLeafValue(model: Model, head: ValueHead, { padId, endId }: Template): LeafValue {
  return async (positions, starts) => {
    const none = { ids: [endId], logProbs: [0], complete: true };
    const rows = positions.map((position, i) => {
      const stream = withAction(position.stream, position.turns, none, 1);
      return { ...episodeOf({ ...position, stream, stop: "max_turns" }, starts[i]!), masked: false };
    });
    const { values } = await tokenStatistics({ model, head }, ["values"], rows, { padId });
    return values!.map((row) => row.at(-1)!);
  };
}
