/**
 * The tree of a search over the actions of an episode: its nodes, the selection of the next node, and the counting of a
 * finished simulation. It knows neither models nor the rules of environments.
 *
 * Selection is UCT (Kocsis & Szepesvári 2006) in the form of Agent Q (Putta et al. 2024, arXiv 2408.07199):
 *
 *     argmax_a  Q(h, a) + c·√(ln N(h) / (1 + N(h, a))),     Q = α·Q̃ + (1 − α)·Q̂
 *
 * where Q̃ is the mean return of the simulations through a (0 before the first) and Q̂ a critic's score of a.
 * Simulations that are selected together differ because N also counts pending simulations (WU-UCT, Liu et al. 2020,
 * arXiv 1810.11755).
 */
import type { DrawnAction, Position } from "./position.ts";

/**
 * `untried`: proposed but not played yet. `open`: played, and the episode goes on. `ended`: the episode is over.
 * `failed`: the environment threw, took too long or gave no score, here or in all children; the node is never visited
 * again.
 */
export type NodeStatus = "untried" | "open" | "ended" | "failed";

/** A node: an action, the position after it, and what the search has learnt about it. */
export interface SearchNode {
  /** The number of the node, in the order in which nodes were proposed; the root is 0. */
  readonly id: number;
  readonly parent: SearchNode | undefined;
  /** The number of actions from the root. */
  readonly depth: number;
  /** The action that led here; undefined at the root. */
  readonly action: DrawnAction | undefined;
  /** The number of drawn candidates that were this action; equal ones are one node. */
  readonly draws: number;
  status: NodeStatus;
  /** The position after the action and its answer; undefined before it is played. */
  position: Position | undefined;
  /** The candidates that were proposed here; undefined before that. */
  children: SearchNode[] | undefined;
  /** The number of simulations that went through this node and ended. */
  visits: number;
  /** The sum of their returns. */
  total: number;
  /** The highest of their returns; −∞ if there are none. */
  best: number;
  /** The number of simulations through this node that have not ended. */
  pending: number;
  /** Q̂: the critic's score of the action; NaN without one. */
  critic: number;
}

/** A new node without children and visits. */
export function makeNode(
  fields: Pick<SearchNode, "id" | "parent" | "action" | "draws" | "status" | "position">,
): SearchNode {
  return {
    ...fields,
    depth: fields.parent ? fields.parent.depth + 1 : 0,
    children: undefined,
    visits: 0,
    total: 0,
    best: -Infinity,
    pending: 0,
    critic: NaN,
  };
}

/** Q̃, the mean return of the simulations through a node; 0 before the first. */
export const searchValue = ({ visits, total }: SearchNode): number => (visits === 0 ? 0 : total / visits);

/** Q = α·Q̃ + (1 − α)·Q̂, or Q̃ if there is no critic's score. */
export const mixedValue = (node: SearchNode, alpha: number): number =>
  Number.isNaN(node.critic) ? searchValue(node) : alpha * searchValue(node) + (1 - alpha) * node.critic;

/**
 * The score of a child that selection maximises.
 * @param exploration c
 * @param alpha α
 */
export function uctScore(parent: SearchNode, child: SearchNode, exploration: number, alpha: number): number {
  const visits = parent.visits + parent.pending;
  const bonus = Math.sqrt(Math.log(Math.max(1, visits)) / (1 + child.visits + child.pending));
  return mixedValue(child, alpha) + exploration * bonus;
}

/**
 * The child with the highest score; a tie goes to the one that was drawn most often, then to the first. Undefined if
 * all children have failed.
 */
export function selectChild(node: SearchNode, exploration: number, alpha: number): SearchNode | undefined {
  let [best, bestScore] = [undefined as SearchNode | undefined, -Infinity];
  for (const child of node.children ?? []) {
    if (child.status === "failed") continue;
    const score = uctScore(node, child, exploration, alpha);
    if (best === undefined || score > bestScore || (score === bestScore && child.draws > best.draws)) {
      [best, bestScore] = [child, score];
    }
  }
  return best;
}

/** The node and its ancestors; the root comes last. */
export function* ancestry(node: SearchNode): Generator<SearchNode, void, void> {
  for (let at: SearchNode | undefined = node; at !== undefined; at = at.parent) yield at;
}

/** Adds the return of a simulation to `node` and all its ancestors. */
export function backpropagate(node: SearchNode, value: number): void {
  for (const at of ancestry(node)) {
    at.visits++;
    at.total += value;
    at.best = Math.max(at.best, value);
  }
}

/** Marks a node as failed, and its ancestors as long as all their children have failed. */
export function markFailed(node: SearchNode): void {
  for (const at of ancestry(node)) {
    if (at !== node && at.children!.some((child) => child.status !== "failed")) return;
    at.status = "failed";
  }
}

/** All nodes of a tree, parents before children. */
export function* nodesOf(root: SearchNode): Generator<SearchNode, void, void> {
  yield root;
  for (const child of root.children ?? []) yield* nodesOf(child);
}

/** The most visited line: from the root, always the child with most visits; a tie goes to the higher mean return. */
export function principalLine(root: SearchNode): SearchNode[] {
  const line: SearchNode[] = [];
  for (let node: SearchNode | undefined = root; node !== undefined;) {
    const tried: SearchNode[] = (node.children ?? []).filter((child) => child.visits > 0);
    node = tried.toSorted((a, b) => b.visits - a.visits || searchValue(b) - searchValue(a))[0];
    if (node) line.push(node);
  }
  return line;
}
