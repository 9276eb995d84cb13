/** The options of a tree search, checked and filled in. */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Rng } from "../../../engine/index.ts";
import { checkRange } from "../../methods/tokenStatistics.ts";
import type { Template } from "../../episode/template.ts";
import type { Actor } from "./actor.ts";
import type { ActionCritic, LeafValue } from "./critic.ts";
import type { PositionLimits } from "./position.ts";

export interface SearchOptions {
  readonly actor: Actor;
  readonly template: Template;
  /** Candidates that are drawn at a point, K; equal ones become one. Default 5. */
  readonly candidates?: number;
  /** Simulations of a tree; default 32. */
  readonly iterations?: number;
  /** Of these, how many are chosen at once; default 1. More fill the decode better and choose worse. */
  readonly parallel?: number;
  /** c of UCT, in units of the return; default 1. */
  readonly exploration?: number;
  /** Share of the search in Q, the rest is the critic's; default 0.5, and 1 without a critic. */
  readonly alpha?: number;
  readonly critic?: ActionCritic;
  /** Instead of simulations. */
  readonly leafValue?: LeafValue;
  /** Actions at most in an episode; default 8. */
  readonly maxTurns?: number;
  /** Tokens at most in an episode; default and upper bound: what the actor can read. */
  readonly maxTokens?: number;
  readonly maxObservationTokens?: number;
  /** Tokens that may be drawn for a tree; no round begins beyond. Default: no bound. */
  readonly maxDrawnTokens?: number;
  /** Milliseconds that an environment may take for one step; default 10,000. */
  readonly timeout?: number;
  /** Ends the search early, with what there is. */
  readonly signal?: AbortSignal;
  /** What is left to chance in a world: drawn afresh by every clone (default), or repeated, which lets the search see the future. */
  readonly chance?: "fresh" | "repeat";
  readonly rng: Rng;
}
const SEARCH_KEYS: readonly string[] = ["actor", "template", "candidates", "iterations", "parallel", "exploration", "alpha", "critic", "leafValue", "maxTurns", "maxTokens", "maxObservationTokens", "maxDrawnTokens", "timeout", "signal", "chance", "rng"]; // prettier-ignore

/** Why a search ended: it had its iterations, drew its tokens, was told to, or every action failed. */
export type SearchStop = "iterations" | "tokens" | "aborted" | "failed";

/** The options with everything filled in. */
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

/** @throws on options that make no sense */
export function settle(options: SearchOptions): SearchSettings {
  checkKeys("treeSearch", options, SEARCH_KEYS);
  const { actor, template, candidates = 5, iterations = 32, parallel = 1, exploration = 1, critic, leafValue, signal } = options; // prettier-ignore
  const { maxTurns = 8, maxTokens = actor.maxTokens, maxObservationTokens = 96, timeout = 10_000 } = options;
  const { alpha = critic ? 0.5 : 1, maxDrawnTokens = Infinity, chance = "fresh" } = options;
  for (const [name, value] of Object.entries({ candidates, iterations, parallel, maxTurns, maxObservationTokens })) {
    check(Number.isInteger(value) && value >= 1, () => `treeSearch: ${name} must be an integer ≥ 1, got ${value}`);
  }
  checkRange("treeSearch", "exploration", exploration, 0);
  checkRange("treeSearch", "alpha", alpha, 0, 1);
  check(critic !== undefined || alpha === 1, () => `treeSearch: alpha ${alpha} mixes in a critic, and there is none`);
  check(maxDrawnTokens >= 1, () => `treeSearch: maxDrawnTokens must be ≥ 1, got ${maxDrawnTokens}`);
  check(maxTokens >= 1 && maxTokens <= actor.maxTokens, () => `treeSearch: maxTokens must be in [1, ${actor.maxTokens}], what the actor reads, got ${maxTokens}`); // prettier-ignore
  check(timeout > 0, () => `treeSearch: timeout must be > 0 milliseconds, got ${timeout}`);
  check(chance === "fresh" || chance === "repeat", () => `treeSearch: chance must be "fresh" or "repeat", got "${String(chance)}"`); // prettier-ignore
  const { temperature } = actor;
  return { actor, template, candidates, iterations, parallel, exploration, alpha, critic, leafValue, maxTurns, maxTokens, maxObservationTokens, maxDrawnTokens, timeout, signal, chance, temperature }; // prettier-ignore
}
