/**
 * Preference pairs from a search: of two actions that were tried at the same position, the one that turned out better
 * is preferred (Agent Q, Putta et al. 2024, arXiv 2408.07199: step-level DPO on sibling actions whose Q differ by more
 * than a threshold).
 */
import { number, oneOf, options, type OptionsOf } from "../../../engine/optionTable.ts";
import type { Metrics } from "../../../rl/episode/metrics.ts";
import type { PreferencePair } from "../../../methods/preference.ts";
import { COUNT } from "../../../rl/play/rollout.ts";
import { pairUp, PAIRINGS } from "../loop.ts";
import { isAgentToken, type TokenStream, type Trajectory } from "../../../rl/episode/stream.ts";
import type { SearchResult } from "./mcts.ts";
import { SEARCH } from "./options.ts";
import { mixedValue, nodesOf, type SearchNode } from "./tree.ts";

const SEARCH_PAIRS = options("searchPairs", {
  threshold: number(0.2, "difference of Q, in units of the return, that a pair must exceed", { min: 0 }),
  /** Default: that of the search. */
  alpha: SEARCH.fields.alpha,
  minVisits: number(1, "simulations that an action needs to be compared", COUNT),
  pairing: oneOf(PAIRINGS, "all", "whether all pairs count, or only the best with the worst"),
});
/** Options of `searchPairs`: which sibling actions of a search tree make a preference pair. */
export type SearchPairOptions = OptionsOf<typeof SEARCH_PAIRS>;

/** A pair with its origin. */
export interface SearchPair extends PreferencePair {
  /** Q of the chosen action minus Q of the rejected one. */
  readonly difference: number;
  /** The number of actions from the root to the node at which the two actions were tried. */
  readonly depth: number;
}

/**
 * Pairs of sibling actions. Each row of a pair is the history with one action, without an answer. Agent tokens of the
 * history get the role `prompt`, so only the action in which the rows differ is trained.
 */
export function searchPairs(result: SearchResult, given?: SearchPairOptions): SearchPair[] {
  const { threshold, alpha = result.alpha, minVisits, pairing } = SEARCH_PAIRS.read(given);
  const pairs: SearchPair[] = [];
  for (const node of nodesOf(result.root)) {
    const children = (node.children ?? []).filter(({ status, visits }) => status !== "failed" && visits >= minVisits);
    // The best comes first; on a tie the one that was drawn first.
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

/** A row with the history before a node as prompt, and the node's action. */
function rowOf({ start, alpha }: SearchResult, node: SearchNode): Trajectory {
  const from = node.parent!.position!;
  // The node's stream has the action with its temperature; the answer after it is cut off.
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

/** The first `end` tokens; those before `begin` are turned into a history that is not trained. */
function asPrompt(stream: TokenStream, begin: number, end: number): TokenStream {
  const history = <T>(column: readonly T[], value: (x: T) => T): T[] =>
    column.slice(0, end).map((x, t) => (t < begin ? value(x) : x));
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
 * Metrics of several searches, as means. `search/value` (the mean return of the simulations) and `search/best` (their
 * highest return) are means over the searches in which at least one simulation ended, and are left out if there are
 * none.
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
