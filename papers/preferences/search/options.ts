/** The options of a tree search: their defaults and checks. */
import { check } from "../../../engine/errors.ts";
import { number, oneOf, options, type OptionsOf } from "../../../engine/optionTable.ts";
import type { Rng } from "../../../engine/index.ts";
import type { Template } from "../../../rl/episode/template.ts";
import { COUNT, ROLLOUT } from "../../../rl/play/rollout.ts";
import type { Actor } from "./actor.ts";
import type { ActionCritic, LeafValue } from "./critic.ts";
import type { PositionLimits } from "./position.ts";

const { maxTurns, maxTokens, maxObservationTokens, timeout, signal } = ROLLOUT.fields;

export const SEARCH = options("treeSearch", {
  candidates: number(5, "K, actions that are drawn at a node; equal ones become one", COUNT),
  iterations: number(32, "simulations per tree", COUNT),
  parallel: number(1, "simulations that are selected at once; more decode faster and select worse", COUNT),
  exploration: number(1, "c of UCT, in units of the return", { min: 0 }),
  /** Default 0.5, and 1 without a critic. */
  alpha: number(undefined, "α, the weight of the search's own value in Q", { min: 0, max: 1 }),
  maxTurns,
  /** Default and upper bound: what the actor can read. */
  maxTokens,
  maxObservationTokens,
  maxDrawnTokens: number(Infinity, "drawn tokens after which no further round begins", { min: 1, infinite: true }),
  timeout,
  signal,
  chance: oneOf(
    ["fresh", "repeat"],
    "fresh",
    "whether clones draw the environment's chance anew, or repeat it: then the search sees the future",
  ),
});

/**
 * Options of `treeSearch` and `treeSearches`: who proposes actions, how large a tree gets, how actions are selected
 * (UCT) and valued, and the limits of an episode.
 */
export interface SearchOptions extends OptionsOf<typeof SEARCH> {
  readonly actor: Actor;
  readonly template: Template;
  /** Scores actions; its weight in Q is 1 − α. */
  readonly critic?: ActionCritic;
  /** Estimates values in place of simulations. */
  readonly leafValue?: LeafValue;
  readonly rng: Rng;
}

/** The reason that a search ended: it had its iterations, drew its tokens, was aborted, or every action failed. */
export type SearchStop = "iterations" | "tokens" | "aborted" | "failed";

/** The options with their defaults filled in. */
export interface SearchSettings extends PositionLimits {
  readonly actor: Actor;
  readonly candidates: number;
  readonly iterations: number;
  readonly parallel: number;
  readonly exploration: number;
  readonly alpha: number;
  readonly critic: ActionCritic | undefined;
  readonly leafValue: LeafValue | undefined;
  readonly maxDrawnTokens: number;
  readonly chance: "fresh" | "repeat";
}

/** Fills in the defaults. @throws on invalid options */
export function settle(given: SearchOptions): SearchSettings {
  const { actor, template, critic, leafValue, rng: _, ...plain } = given;
  const settled = SEARCH.read(plain);
  const { alpha = critic ? 0.5 : 1, maxTokens: most = actor.maxTokens } = settled;
  check(critic !== undefined || alpha === 1, () => `treeSearch: alpha ${alpha} mixes in a critic, and there is none`);
  check(
    most <= actor.maxTokens,
    () => `treeSearch: maxTokens must be in [1, ${actor.maxTokens}], what the actor reads, got ${most}`,
  );
  return { ...settled, actor, template, critic, leafValue, alpha, maxTokens: most, temperature: actor.temperature };
}
