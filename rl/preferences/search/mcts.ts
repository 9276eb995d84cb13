/**
 * Monte-Carlo tree search over the actions of a language agent, as in Agent Q (Putta et al. 2024, arXiv 2408.07199, after Kocsis &
 * Szepesvári 2006): candidates for the next action are drawn from the policy itself, a critic may score them before they are
 * tried, and what an action is worth is the mean return of simulations that the policy plays to the end of the episode.
 *
 * A round of a search: choose leaves by UCT; draw candidates where there are none; play the chosen actions in clones of the
 * environment; simulate; count the returns on the way up. Several trees go round together, so that the actions of all their leaves
 * are drawn in one decode; no tree depends on its company.
 *
 * Not the paper's: a point gets its candidates at its second visit, which spares those of points that are never seen again; one simulation
 * is one visit, and the first of each point is a play from the point itself. Chance: a played action has one outcome in the tree, the one
 * that was drawn; simulations behind it draw fresh ones.
 */
import { check } from "../../../engine/errors.ts";
import type { Rng } from "../../../engine/index.ts";
import type { Trajectory } from "../../episode/stream.ts";
import type { LeafValue } from "./critic.ts";
import { SearchTree } from "./grow.ts";
import { type SearchOptions, type SearchSettings, type SearchStop, settle } from "./options.ts";
import { playAction, type Position, returnOf, type SearchStart } from "./position.ts";
import { type SearchNode, searchValue } from "./tree.ts";

export type { SearchOptions, SearchStop } from "./options.ts";

export interface SearchResult {
  readonly start: SearchStart;
  /** Its positions hold no environments any more. */
  readonly root: SearchNode;
  /** What was played to the end, each once: demonstrations, if filtered (`filterRollouts`). Nothing if a `leafValue` took their place. */
  readonly episodes: readonly Trajectory[];
  /** The one of them with the highest return; of several the shortest. */
  readonly best: Trajectory | undefined;
  readonly alpha: number;
  readonly stats: SearchStats;
}

export interface SearchStats {
  readonly stop: SearchStop;
  /** Simulations that were begun; those that ended are the root's visits. */
  readonly iterations: number;
  /** Of them, those whose environment failed. */
  readonly failures: number;
  /** Calls of the critic that threw. */
  readonly criticFailures: number;
  /** Actions that were played as nodes of the tree. */
  readonly nodes: number;
  readonly maxDepth: number;
  readonly drawnTokens: number;
  /** Mean return of all simulations. */
  readonly value: number;
}

/** @throws on options that make no sense, or an environment that cannot be cloned */
export async function treeSearch(start: SearchStart, options: SearchOptions): Promise<SearchResult> {
  return (await searchFrom([start], options, () => options.rng))[0]!;
}

/**
 * Searches from each start by itself; only the decoding is shared: tree i is what `treeSearch` grows with `rng.split(i)`. The
 * environments given are cloned, never stepped, reset or closed.
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
  check(starts.length > 0, () => "treeSearch: there is nothing to search");
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

/** A simulation: the node that it begins at, and where it has come. */
interface Simulation {
  readonly tree: SearchTree;
  readonly node: SearchNode;
  readonly rng: Rng;
  position: Position;
  /** Its return, if it is not to be played to the end. */
  value: number | undefined;
}

async function round(trees: readonly SearchTree[], settings: SearchSettings): Promise<void> {
  // 1. Selection. A leaf is an action to be tried, a point without candidates, or the end of an episode.
  const leaves = trees.flatMap((tree) => tree.select().map((node) => ({ tree, node })));

  // 2. Expansion.
  const bare = leaves.filter(({ tree, node }) => tree.wantsCandidates(node));
  const requests = bare.map(({ tree, node }) => tree.candidateRequest(node));
  const drawn = requests.length > 0 ? await settings.actor.act(requests) : [];
  await Promise.all(bare.map(({ tree, node }, i) => tree.expand(node, drawn[i]!)));

  // 3. The actions to be tried are played.
  const reached = await Promise.all(leaves.map(async ({ tree, node }) => ({ tree, node: await tree.visit(node) })));

  // 4. What the reached points are worth, counted on the way up.
  const simulations = reached.map(({ tree, node }): Simulation => {
    const rng = tree.simulationRng();
    return { tree, node, rng, position: tree.simulationStart(node, rng), value: undefined };
  });
  try {
    const going = simulations.filter(({ position }) => position.stop === undefined);
    await (settings.leafValue ? estimate(going, settings.leafValue) : simulate(going, settings));
    for (const { tree, node, position, value } of simulations) tree.count(node, position, value);
  } finally {
    for (const { position } of simulations) position.env?.close?.(); // of those that were not played to the end
  }
}

/** All simulations together, action by action, to the end of their episodes. */
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

/** What is there and what is still to come, by somebody who knows. */
async function estimate(simulations: readonly Simulation[], leafValue: LeafValue): Promise<void> {
  if (simulations.length === 0) return;
  const values = await leafValue(simulations.map((s) => s.position), simulations.map((s) => s.tree.start)); // prettier-ignore
  simulations.forEach((simulation, i) => {
    check(Number.isFinite(values[i]), () => `treeSearch: the value of a leaf must be finite, got ${values[i]}`);
    simulation.value = returnOf(simulation.position) + values[i]!;
  });
}

function resultOf(tree: SearchTree, { alpha }: SearchSettings): SearchResult {
  const { start, root, episodes, iterations, failures, criticFailures, nodes, maxDepth, drawnTokens } = tree;
  const best = episodes.reduce<Trajectory | undefined>((a, b) => {
    if (a === undefined || b.reward !== a.reward) return a === undefined || b.reward > a.reward ? b : a;
    return b.stepRewards.length < a.stepRewards.length ? b : a;
  }, undefined);
  const stats = { stop: tree.stop!, iterations, failures, criticFailures, nodes, maxDepth, drawnTokens, value: searchValue(root) }; // prettier-ignore
  return { start, root, episodes, best, alpha, stats };
}
