/**
 * Monte-Carlo tree search over the actions of a language agent, as in Agent Q (Putta et al. 2024, arXiv 2408.07199,
 * after Kocsis & Szepesvári 2006): candidates for the next action are drawn from the policy itself, a critic may score
 * them before they are tried, and the value of an action is the mean return of simulations that the policy plays to the
 * end of the episode.
 *
 * A round of a search selects leaves by UCT, draws candidates where there are none, plays the selected actions in
 * clones of the environment, simulates, and adds the returns to all nodes up to the root. Several trees do their rounds
 * together, so that the actions of all their leaves are drawn in one decode; no tree depends on the others.
 *
 * Differs from the paper: a node gets its candidates at its second visit, so none are drawn for nodes that are visited
 * once; each simulation is one visit, and the first simulation of a node starts at the node itself. If the environment
 * is random, a played action has one outcome in the tree, the one that was drawn; simulations after it draw new
 * outcomes.
 */
import { check } from "../../../engine/errors.ts";
import type { Rng } from "../../../engine/index.ts";
import type { Trajectory } from "../../../rl/episode/stream.ts";
import { withTruncatedReward } from "../../../rl/tasks/truncated.ts";
import type { LeafValue } from "./critic.ts";
import { SearchTree } from "./grow.ts";
import { type SearchOptions, type SearchSettings, type SearchStop, settle } from "./options.ts";
import { playAction, type Position, returnOf, type SearchStart } from "./position.ts";
import { type SearchNode, searchValue } from "./tree.ts";

export type { SearchOptions, SearchStop } from "./options.ts";

/** Result of `treeSearch`: the tree with the values of its actions, and the episodes that simulations played. */
export interface SearchResult {
  readonly start: SearchStart;
  /** The root of the tree. Its positions no longer have environments. */
  readonly root: SearchNode;
  /**
   * The episodes that were played to the end, each once. Filtered by `filterRollouts` they are demonstrations. There
   * are none if a `leafValue` replaces simulations.
   */
  readonly episodes: readonly Trajectory[];
  /** The episode with the highest return; on a tie the shortest. */
  readonly best: Trajectory | undefined;
  readonly alpha: number;
  readonly stats: SearchStats;
}

/** Counts of a search. */
export interface SearchStats {
  readonly stop: SearchStop;
  /** The number of simulations that were begun. The root's visits count those that ended. */
  readonly iterations: number;
  /** The number of simulations whose environment failed, or gave no score. */
  readonly failures: number;
  /** The number of calls of the critic that threw. */
  readonly criticFailures: number;
  /** The number of actions that were played as nodes of the tree. */
  readonly nodes: number;
  readonly maxDepth: number;
  readonly drawnTokens: number;
  /** The mean return of all simulations. */
  readonly value: number;
}

/** Searches from one start. @throws on invalid options, or if the environment cannot be cloned */
export async function treeSearch(start: SearchStart, options: SearchOptions): Promise<SearchResult> {
  return (await searchFrom([start], options, () => options.rng))[0]!;
}

/**
 * Searches from each start independently; only the decoding is shared. Tree i is the same as from `treeSearch` with
 * `rng.split(i)`. The given environments are cloned and never stepped, reset or closed.
 */
export function treeSearches(starts: readonly SearchStart[], options: SearchOptions): Promise<SearchResult[]> {
  return searchFrom(starts, options, (i) => options.rng.split(i));
}

async function searchFrom(
  starts: readonly SearchStart[],
  options: SearchOptions,
  rngOf: (tree: number) => Rng,
): Promise<SearchResult[]> {
  const settings = settle(options);
  check(starts.length > 0, () => "treeSearch: expected at least one start, got none");
  check(
    !("history" in options.template.options),
    () => "treeSearch: it reads whole episodes, expected a template without history",
  );
  const trees: SearchTree[] = [];
  try {
    for (const [i, start] of starts.entries()) trees.push(new SearchTree(start, settings, rngOf(i)));
    for (;;) {
      const going = trees.filter((tree) => tree.stop === undefined);
      if (going.length === 0) break;
      await round(going, settings);
    }
  } finally {
    for (const tree of trees) tree.close();
  }
  return trees.map((tree) => resultOf(tree, settings));
}

/** A simulation: the node where it begins, and its current position. */
interface Simulation {
  readonly tree: SearchTree;
  readonly node: SearchNode;
  readonly rng: Rng;
  position: Position;
  /** The return of a simulation that is not played to the end. */
  value: number | undefined;
}

async function round(trees: readonly SearchTree[], settings: SearchSettings): Promise<void> {
  // 1. Selection: a leaf is an untried action, a node without candidates, or the end of an episode.
  const leaves = trees.flatMap((tree) => tree.select().map((node) => ({ tree, node })));

  // 2. Expansion: draw candidates where they are needed.
  const bare = leaves.filter(({ tree, node }) => tree.wantsCandidates(node));
  const requests = bare.map(({ tree, node }) => tree.candidateRequest(node));
  const drawn = requests.length > 0 ? await settings.actor.act(requests) : [];
  await Promise.all(bare.map(({ tree, node }, i) => tree.expand(node, drawn[i]!)));

  // 3. Play the untried actions.
  const reached = await Promise.all(leaves.map(async ({ tree, node }) => ({ tree, node: await tree.visit(node) })));

  // 4. Simulation and backpropagation: estimate the values of the reached nodes and add them up to the root.
  const simulations = reached.map(({ tree, node }): Simulation => {
    const rng = tree.simulationRng();
    return { tree, node, rng, position: tree.simulationStart(node, rng), value: undefined };
  });
  try {
    const going = simulations.filter(({ position }) => position.stop === undefined);
    await (settings.leafValue ? estimate(going, settings.leafValue) : simulate(going, settings));
    for (const { tree, node, position, value } of simulations) tree.count(node, position, value);
  } finally {
    for (const { position } of simulations) position.env?.close?.(); // simulations that ended have closed theirs
  }
}

/** Plays all simulations together, action by action, to the end of their episodes. */
async function simulate(simulations: readonly Simulation[], settings: SearchSettings): Promise<void> {
  for (let live = simulations; live.length > 0; live = live.filter(({ position }) => position.stop === undefined)) {
    if (settings.signal?.aborted) {
      for (const simulation of live) simulation.position = { ...simulation.position, stop: "aborted" };
      return;
    }
    const drawn = await settings.actor.act(
      live.map(({ position, rng }) => ({ ids: position.stream.ids, rngs: [rng] })),
    );
    await Promise.all(
      live.map(async (simulation, i) => {
        const action = drawn[i]![0]!;
        simulation.tree.drawnTokens += action.ids.length;
        const { position } = simulation;
        simulation.position = await playAction(position, position.env!, action, settings);
      }),
    );
  }
}

/** Sets the return of each simulation to the rewards so far plus the estimated rest. */
async function estimate(simulations: readonly Simulation[], leafValue: LeafValue): Promise<void> {
  if (simulations.length === 0) return;
  const positions = simulations.map(({ position }) => position);
  const starts = simulations.map(({ tree }) => tree.start);
  const values = await leafValue(positions, starts);
  simulations.forEach((simulation, i) => {
    check(Number.isFinite(values[i]), () => `treeSearch: the value of a leaf must be finite, got ${values[i]}`);
    simulation.value = returnOf(simulation.position) + values[i]!;
  });
}

function resultOf(tree: SearchTree, { alpha }: SearchSettings): SearchResult {
  const { start, root, iterations, failures, criticFailures, nodes, maxDepth, drawnTokens } = tree;
  const episodes = withTruncatedReward(tree.episodes);
  const best = episodes.reduce<Trajectory | undefined>((a, b) => {
    if (a === undefined || b.reward !== a.reward) return a === undefined || b.reward > a.reward ? b : a;
    return b.stepRewards.length < a.stepRewards.length ? b : a;
  }, undefined);
  const counts = { iterations, failures, criticFailures, nodes, maxDepth, drawnTokens };
  const stats = { stop: tree.stop!, ...counts, value: searchValue(root) };
  return { start, root, episodes, best, alpha, stats };
}
