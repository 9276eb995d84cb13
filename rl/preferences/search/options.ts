/** The options of a tree search: their defaults and checks. */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Rng } from "../../../engine/index.ts";
import { checkRange } from "../../methods/tokenStatistics.ts";
import type { Template } from "../../episode/template.ts";
import type { Actor } from "./actor.ts";
import type { ActionCritic, LeafValue } from "./critic.ts";
import type { PositionLimits } from "./position.ts";

/**
 * Options of `treeSearch` and `treeSearches`: who proposes actions, how large a tree gets, how actions are selected
 * (UCT) and valued, and the limits of an episode.
 */
export interface SearchOptions {
  readonly actor: Actor;
  readonly template: Template;
  /** K, the number of candidates that are drawn at a node; equal ones become one. Default 5. */
  readonly candidates?: number;
  /** The number of simulations per tree; default 32. */
  readonly iterations?: number;
  /**
   * How many simulations are selected at once; default 1. More make decoding more efficient and the selection worse.
   */
  readonly parallel?: number;
  /** c of UCT, in units of the return; default 1. */
  readonly exploration?: number;
  /** α, the weight of the search's own value in Q; the critic has the rest. Default 0.5, and 1 without a critic. */
  readonly alpha?: number;
  readonly critic?: ActionCritic;
  /** Estimates values in place of simulations. */
  readonly leafValue?: LeafValue;
  /** The largest number of actions in an episode; default 8. */
  readonly maxTurns?: number;
  /** The largest number of tokens in an episode; default and upper bound: what the actor can read. */
  readonly maxTokens?: number;
  /** The largest number of tokens in one answer; longer answers are cut in the middle. Default 96. */
  readonly maxObservationTokens?: number;
  /** The number of drawn tokens after which no further round of a tree begins. Default: no bound. */
  readonly maxDrawnTokens?: number;
  /** How many milliseconds an environment may take for one step; default 10,000. */
  readonly timeout?: number;
  /** Ends the search early, with the results so far. */
  readonly signal?: AbortSignal;
  /**
   * The chance of the environment: `fresh` (default) draws it anew in every clone; `repeat` repeats it, which lets the
   * search see the future.
   */
  readonly chance?: "fresh" | "repeat";
  readonly rng: Rng;
}
const SEARCH_KEYS = [
  "actor",
  "template",
  "candidates",
  "iterations",
  "parallel",
  "exploration",
  "alpha",
  "critic",
  "leafValue",
  "maxTurns",
  "maxTokens",
  "maxObservationTokens",
  "maxDrawnTokens",
  "timeout",
  "signal",
  "chance",
  "rng",
] as const;

/** Why a search ended: it had its iterations, drew its tokens, was aborted, or every action failed. */
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
export function settle(options: SearchOptions): SearchSettings {
  checkKeys("treeSearch", options, SEARCH_KEYS);
  const { actor, template, candidates = 5, iterations = 32, parallel = 1, exploration = 1 } = options;
  const { critic, leafValue, signal } = options;
  const { maxTurns = 8, maxTokens = actor.maxTokens, maxObservationTokens = 96, timeout = 10_000 } = options;
  const { alpha = critic ? 0.5 : 1, maxDrawnTokens = Infinity, chance = "fresh" } = options;
  for (const [name, value] of Object.entries({ candidates, iterations, parallel, maxTurns, maxObservationTokens })) {
    check(Number.isInteger(value) && value >= 1, () => `treeSearch: ${name} must be an integer ≥ 1, got ${value}`);
  }
  checkRange("treeSearch", "exploration", exploration, 0);
  checkRange("treeSearch", "alpha", alpha, 0, 1);
  check(critic !== undefined || alpha === 1, () => `treeSearch: alpha ${alpha} mixes in a critic, and there is none`);
  check(maxDrawnTokens >= 1, () => `treeSearch: maxDrawnTokens must be ≥ 1, got ${maxDrawnTokens}`);
  check(
    maxTokens >= 1 && maxTokens <= actor.maxTokens,
    () => `treeSearch: maxTokens must be in [1, ${actor.maxTokens}], what the actor reads, got ${maxTokens}`,
  );
  check(timeout > 0, () => `treeSearch: timeout must be > 0 milliseconds, got ${timeout}`);
  check(
    chance === "fresh" || chance === "repeat",
    () => `treeSearch: chance must be "fresh" or "repeat", got "${String(chance)}"`,
  );
  const { temperature } = actor;
  const limits = { template, maxTurns, maxTokens, maxObservationTokens, timeout, signal, temperature };
  const search = { actor, candidates, iterations, parallel, exploration, alpha, critic, leafValue };
  return { ...limits, ...search, maxDrawnTokens, chance };
}
