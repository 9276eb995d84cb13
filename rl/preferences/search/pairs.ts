/**
 * What a search teaches: where two actions were tried from the same point and one turned out better, it is preferred (Agent Q, Putta
 * et al. 2024, arXiv 2408.07199: step-level DPO on sibling actions whose Q differ by more than a threshold).
 */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Metrics } from "../../episode/metrics.ts";
import type { PreferencePair } from "../../train/supervised.ts";
import { pairUp, type Pairing, PAIRINGS } from "../loop.ts";
import { checkRange } from "../../methods/tokenStatistics.ts";
import { isAgentToken, type TokenStream, type Trajectory } from "../../episode/stream.ts";
import type { SearchResult } from "./mcts.ts";
import { mixedValue, nodesOf, type SearchNode } from "./tree.ts";

export interface SearchPairOptions {
  /** Least difference of Q, exclusive; default 0.2, in units of the return. */
  readonly threshold?: number;
  /** Share of the search's mean return in Q, the rest is the critic's; default: as the search had it. */
  readonly alpha?: number;
  /** Simulations that an action needs to be compared; default 1. */
  readonly minVisits?: number;
  /** Of each point `all` pairs that differ enough (the paper's), or only its `best-worst`; default `all`. */
  readonly pairing?: Pairing;
}

/** A pair with where it comes from. */
export interface SearchPair extends PreferencePair {
  /** Q of the chosen action minus Q of the rejected one. */
  readonly difference: number;
  /** Actions from the root to the point at which the two part. */
  readonly depth: number;
}

/**
 * Pairs of sibling actions. Both rows of a pair are the history and one action, without an answer. The history has the role `prompt`
 * throughout: only the tokens of the action in which the rows differ are trained.
 */
export function searchPairs(result: SearchResult, options: SearchPairOptions = {}): SearchPair[] {
  checkKeys("searchPairs", options, ["threshold", "alpha", "minVisits", "pairing"]);
  const { threshold = 0.2, alpha = result.alpha, minVisits = 1, pairing = "all" } = options;
  checkRange("searchPairs", "threshold", threshold, 0);
  checkRange("searchPairs", "alpha", alpha, 0, 1);
  check(Number.isInteger(minVisits) && minVisits >= 1, () => `searchPairs: minVisits must be an integer ≥ 1, got ${minVisits}`); // prettier-ignore
  check(PAIRINGS.includes(pairing), () => `searchPairs: pairing must be one of ${PAIRINGS.join(", ")}, got "${String(pairing)}"`); // prettier-ignore
  const pairs: SearchPair[] = [];
  for (const node of nodesOf(result.root)) {
    const children = (node.children ?? []).filter(({ status, visits }) => status !== "failed" && visits >= minVisits);
    // Best first; of equal ones the first drawn.
    const ranked = children.toSorted((a, b) => mixedValue(b, alpha) - mixedValue(a, alpha));
    for (const [better, worse] of pairUp(ranked, pairing)) {
      const difference = mixedValue(better, alpha) - mixedValue(worse, alpha);
      if (!(difference > threshold)) continue;
      const [chosen, rejected] = [rowOf(result, better), rowOf(result, worse)];
      pairs.push({ chosen, rejected, difference, depth: node.depth });
    }
  }
  return pairs;
}

/** The history of a node's point as prompt, and the node's action. */
function rowOf({ start, alpha }: SearchResult, node: SearchNode): Trajectory {
  const from = node.parent!.position!;
  // The node's own stream has the action's tokens at the right temperature; what follows them, the answer, is cut off.
  const { stream } = node.position!;
  const end = from.stream.ids.length + node.action!.ids.length;
  return {
    stream: asPrompt(stream, from.stream.ids.length, end),
    group: start.group,
    reward: mixedValue(node, alpha),
    stepRewards: [],
    stopReason: "completed",
    masked: false,
    env: start.env.name,
    task: start.task,
    seed: start.seed,
    info: { visits: node.visits },
  };
}

/** The first `end` tokens, those before `begin` without anything to train. */
function asPrompt(stream: TokenStream, begin: number, end: number): TokenStream {
  const history = <T>(column: readonly T[], value: (x: T) => T): T[] => column.slice(0, end).map((x, t) => (t < begin ? value(x) : x)); // prettier-ignore
  return {
    ids: stream.ids.slice(0, end),
    turns: stream.turns.slice(0, end),
    versions: history(stream.versions, () => -1),
    roles: history(stream.roles, (role) => (isAgentToken(role) ? "prompt" : role)),
    oldLogProbs: history(stream.oldLogProbs, () => 0),
    temperatures: history(stream.temperatures, () => 1),
    targets: history(stream.targets, () => false),
  };
}

/**
 * What a number of searches found, as means for metrics. `search/value` (mean return of the simulations) and `search/best` (their
 * highest) are of the searches in which some simulation ended, and are left out if there is none.
 */
export function searchMetrics(results: readonly SearchResult[]): Metrics {
  const mean = (some: readonly SearchResult[], of: (result: SearchResult) => number): number =>
    some.reduce((sum, r) => sum + of(r), 0) / some.length;
  const valued = results.filter(({ root }) => root.visits > 0);
  const metrics: Metrics = {
    "search/value": mean(valued, ({ stats }) => stats.value),
    "search/best": mean(valued, ({ root }) => root.best),
    "search/nodes": mean(results, ({ stats }) => stats.nodes),
    "search/depth": mean(results, ({ stats }) => stats.maxDepth),
    "search/drawn_tokens": mean(results, ({ stats }) => stats.drawnTokens),
    "search/failures": mean(results, ({ stats }) => stats.failures),
  };
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
}
