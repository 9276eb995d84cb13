/**
 * Critics of a search: the value of an action before it has been tried, and the value of a position without playing on.
 * In Agent Q (arXiv 2408.07199) the policy ranks its own proposals, and scores made from the ranking are mixed with the
 * values of the search.
 */
import { check } from "../../../engine/errors.ts";
import type { Model, ValueHead } from "../../../nn/index.ts";
import { type Judge, majorityVote, verdictReward } from "../../rewards/judge.ts";
import { tokenStatistics } from "../../../rl/train/score.ts";
import type { TokenStream } from "../../../rl/episode/stream.ts";
import type { Template } from "../../../rl/episode/template.ts";
import { episodeOf, type Position, type SearchStart, withAction } from "./position.ts";

/** The actions that were proposed at one position. */
export interface Candidates {
  readonly task: string;
  /** All tokens so far; the last is the tag that asks for the action. */
  readonly history: TokenStream;
  /** The distinct actions, in the order in which they were drawn. */
  readonly actions: readonly string[];
}

/**
 * Scores proposed actions.
 * @returns a score for each action, in units of the return; NaN for no opinion. If a critic throws it has no opinion
 */
export type ActionCritic = (candidates: Candidates, signal?: AbortSignal) => Promise<readonly number[]>;

/** Estimates values in place of simulations. @returns the return that is still to come at each position */
export type LeafValue = (positions: readonly Position[], starts: readonly SearchStart[]) => Promise<readonly number[]>;

/**
 * Agent Q's critic: a ranking of the candidates, turned into evenly spaced scores from 1 for the first to 0 for the
 * last. (The paper does not say how a rank becomes a value.)
 * @param rank returns the indices of the actions, best first
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

/** The question that a judge is asked about an action. */
export interface ActionQuestion extends Omit<Candidates, "actions"> {
  readonly action: string;
}

/** A critic whose judges vote on each action separately: 1, 0, or no opinion. */
export function judgeCritic(judges: readonly Judge<ActionQuestion>[]): ActionCritic {
  return ({ actions, ...question }, signal) =>
    Promise.all(
      actions.map(async (action) => {
        const vote = await majorityVote(judges, { ...question, action }, signal ? { signal } : {});
        return verdictReward(vote);
      }),
    );
}

/**
 * Values from the value head of a critic. The head was trained at the positions that predict an action's tokens
 * (methods/advantages/critic.ts), so each history is extended by one action token that was never drawn, and the value
 * is read where that token is predicted.
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
