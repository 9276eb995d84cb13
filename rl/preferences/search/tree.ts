/**
 * The tree of a search over the actions of an episode: what a node knows, how the next one to try is chosen, how a finished
 * simulation is counted. Nothing here knows of models or environments' rules.
 *
 * Selection is UCT (Kocsis & Szepesvári 2006) in the form of Agent Q (Putta et al. 2024, arXiv 2408.07199):
 *
 *     argmax_a  Q(h, a) + c·√(ln N(h) / (1 + N(h, a))),     Q = α·Q̃ + (1 − α)·Q̂
 *
 * with Q̃ the mean return of the simulations through a, 0 before the first, and Q̂ a critic's score of a. Simulations that are
 * chosen together, before the first of them has ended, are told apart by counting those under way (WU-UCT, Liu et al. 2020,
 * arXiv 1810.11755).
 */
import type { DrawnAction, Position } from "./position.ts";

/**
 * `untried`: proposed, not played yet. `open`: played, the episode goes on. `ended`: the episode is over. `failed`: the environment threw or took
 * too long, or all that was tried from here did; never visited again.
 */
export type NodeStatus = "untried" | "open" | "ended" | "failed";

/** An action in its place: a point of the episode, and what the search has learnt of it. */
export interface SearchNode {
  /** Numbers the nodes of a tree in the order in which they were proposed; the root is 0. */
  readonly id: number;
  readonly parent: SearchNode | undefined;
  /** Actions from the root; 0 at the root. */
  readonly depth: number;
  /** What led here; undefined at the root. */
  readonly action: DrawnAction | undefined;
  /** How many of the drawn candidates were this action: equal ones are one node. */
  readonly draws: number;
  status: NodeStatus;
  /** Where the episode stands after the action and its answer; undefined before it is played. */
  position: Position | undefined;
  /** Candidates that were proposed here; undefined before. */
  children: SearchNode[] | undefined;
  /** Simulations that went through here and ended. */
  visits: number;
  /** Sum of their returns. */
  total: number;
  /** The highest of their returns; −∞ without any. */
  best: number;
  /** Simulations under way. */
  pending: number;
  /** Q̂: the critic's score of the action; NaN without one. */
  critic: number;
}

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

/** Q = α·Q̃ + (1 − α)·Q̂; without a critic's score Q̃ alone. */
export const mixedValue = (node: SearchNode, alpha: number): number =>
  Number.isNaN(node.critic) ? searchValue(node) : alpha * searchValue(node) + (1 - alpha) * node.critic;

/** What selection maximises, for a child of a node. @param exploration c @param alpha share of the search in Q */
export function uctScore(parent: SearchNode, child: SearchNode, exploration: number, alpha: number): number {
  const visits = parent.visits + parent.pending;
  const bonus = Math.sqrt(Math.log(Math.max(1, visits)) / (1 + child.visits + child.pending));
  return mixedValue(child, alpha) + exploration * bonus;
}

/** The child to go to; of equal ones the one that was drawn most often, then the first. Undefined if all have failed. */
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

/** The node and all above it, the root last. */
export function* ancestry(node: SearchNode): Generator<SearchNode, void, void> {
  for (let at: SearchNode | undefined = node; at !== undefined; at = at.parent) yield at;
}

/** Counts the return of a simulation that went through `node`, there and in all nodes above. */
export function backpropagate(node: SearchNode, value: number): void {
  for (const at of ancestry(node)) {
    at.visits++;
    at.total += value;
    at.best = Math.max(at.best, value);
  }
}

/** The node is not to be visited again, nor what has no other child left. */
export function markFailed(node: SearchNode): void {
  for (const at of ancestry(node)) {
    if (at !== node && at.children!.some((child) => child.status !== "failed")) return;
    at.status = "failed";
  }
}

/** All nodes, parents before children. */
export function* nodesOf(root: SearchNode): Generator<SearchNode, void, void> {
  yield root;
  for (const child of root.children ?? []) yield* nodesOf(child);
}

/** From the root's child on, the child with most visits each time; of equal ones the one with the higher mean return. */
export function principalLine(root: SearchNode): SearchNode[] {
  const line: SearchNode[] = [];
  for (let node: SearchNode | undefined = root; node !== undefined;) {
    const tried: SearchNode[] = (node.children ?? []).filter((child) => child.visits > 0);
    node = tried.toSorted((a, b) => b.visits - a.visits || searchValue(b) - searchValue(a))[0];
    if (node) line.push(node);
  }
  return line;
}
