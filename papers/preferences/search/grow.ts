/**
 * A growing search tree: it selects leaves, plays actions and counts results. The rounds of a search are in mcts.ts.
 */
import { check } from "../../../engine/errors.ts";
import type { Rng } from "../../../engine/index.ts";
import type { Environment } from "../../../rl/environment.ts";
import { isCutShort, type Trajectory } from "../../../rl/episode/stream.ts";
import { worstBeside } from "../../../rl/tasks/truncated.ts";
import type { ActionRequest } from "./actor.ts";
import type { SearchSettings, SearchStop } from "./options.ts";
import {
  cloneOf,
  type DrawnAction,
  episodeOf,
  isFailure,
  playAction,
  type Position,
  returnOf,
  type SearchStart,
} from "./position.ts";
import { ancestry, backpropagate, makeNode, markFailed, nodesOf, type SearchNode, selectChild } from "./tree.ts";

/** One search tree with its counters. */
export class SearchTree {
  readonly start: SearchStart;
  readonly root: SearchNode;
  readonly episodes: Trajectory[] = [];
  iterations = 0;
  failures = 0;
  criticFailures = 0;
  nodes = 0;
  maxDepth = 0;
  drawnTokens = 0;
  readonly #settings: SearchSettings;
  readonly #rng: Rng;
  #proposed = 1;
  #simulations = 0;
  /** All counted returns, as they were played, and their nodes. */
  readonly #results: { readonly node: SearchNode; readonly value: number; readonly isCut: boolean }[] = [];
  /** The current return of simulations that were cut short. */
  #worst = 0;

  constructor(start: SearchStart, settings: SearchSettings, rng: Rng) {
    const { length } = start.stream.ids;
    check(
      length < settings.maxTokens,
      () => `treeSearch: the history takes ${length} tokens, only ${settings.maxTokens} fit`,
    );
    this.start = start;
    this.#settings = settings;
    this.#rng = rng;
    const position: Position = {
      stream: structuredClone(start.stream),
      env: this.#clone(start.env, rng.split("root")),
      turns: start.turns ?? 0,
      stepRewards: [],
      info: start.env.info ?? {},
      stop: undefined,
    };
    check(position.turns < settings.maxTurns, () => `treeSearch: the episode has had its ${settings.maxTurns} turns`);
    this.root = makeNode({ id: 0, parent: undefined, action: undefined, draws: 1, status: "open", position });
  }

  /** The reason that the search has to stop; undefined while it goes on. */
  get stop(): SearchStop | undefined {
    const { signal, iterations, maxDrawnTokens } = this.#settings;
    if (signal?.aborted) return "aborted";
    if (this.root.status === "failed") return "failed";
    if (this.iterations >= iterations) return "iterations";
    return this.drawnTokens >= maxDrawnTokens ? "tokens" : undefined;
  }

  /**
   * The leaves of the next round, at least one. The simulations through them count as pending until `count` is called.
   */
  select(): SearchNode[] {
    const { parallel, iterations } = this.#settings;
    const leaves: SearchNode[] = [];
    while (leaves.length < Math.min(parallel, iterations - this.iterations)) {
      const leaf = this.#descend();
      if (leaves.includes(leaf)) break; // nothing else can be selected before this leaf has been counted
      for (const at of ancestry(leaf)) at.pending++;
      leaves.push(leaf);
    }
    this.iterations += leaves.length;
    return leaves;
  }

  #descend(): SearchNode {
    const { exploration, alpha } = this.#settings;
    let node = this.root;
    // There always is a child to choose: a node whose children have all failed counts as failed itself.
    while (node.status === "open" && node.children) node = selectChild(node, exploration, alpha)!;
    return node;
  }

  /** Whether candidates have to be drawn for a node: at its second visit, and for the root at its first. */
  wantsCandidates(node: SearchNode): boolean {
    return node.status === "open" && node.children === undefined && (node === this.root || node.visits > 0);
  }

  /** The request for the candidates of a node. */
  candidateRequest(node: SearchNode): ActionRequest {
    const rng = this.#rng.split("candidate").split(node.id);
    const rngs = Array.from({ length: this.#settings.candidates }, (_, k) => rng.split(k));
    return { ids: node.position!.stream.ids, rngs };
  }

  /** Makes children of drawn candidates, one for several equal ones, and lets the critic score them. */
  async expand(node: SearchNode, drawn: readonly DrawnAction[]): Promise<void> {
    const { critic, template, signal } = this.#settings;
    const groups = new Map<string, DrawnAction[]>();
    for (const action of drawn) {
      this.drawnTokens += action.ids.length;
      const key = action.ids.join();
      groups.set(key, [...(groups.get(key) ?? []), action]);
    }
    const children = [...groups.values()].map(([action, ...equal]) =>
      makeNode({
        id: this.#proposed++,
        parent: node,
        action,
        draws: 1 + equal.length,
        status: "untried",
        position: undefined,
      }),
    );
    node.children = children;
    if (!critic) return;
    const actions = children.map(({ action }) => template.actionText(action!.ids));
    try {
      const scores = await critic({ task: this.start.task, history: node.position!.stream, actions }, signal);
      children.forEach((child, i) => (child.critic = scores[i] ?? NaN));
    } catch {
      this.criticFailures++; // without the critic's opinion the search uses its own values only
    }
  }

  /**
   * Visits a leaf. If it has just got candidates, the best of them is visited. An untried action is played. Returns the
   * node reached.
   */
  async visit(leaf: SearchNode): Promise<SearchNode> {
    const { exploration, alpha } = this.#settings;
    let node = leaf;
    if (node.status === "open" && node.children) {
      node = selectChild(node, exploration, alpha)!;
      node.pending++;
    }
    if (node.status !== "untried") return node;
    const from = node.parent!.position!;
    const env = this.#clone(from.env!, this.#rng.split("step").split(node.id));
    const position = await playAction(from, env, node.action!, this.#settings);
    node.position = position;
    this.nodes++;
    this.maxDepth = Math.max(this.maxDepth, node.depth);
    if (isFailure(position)) markFailed(node);
    else node.status = position.stop === undefined ? "open" : "ended";
    return node;
  }

  /** The random stream of the next simulation. */
  simulationRng(): Rng {
    return this.#rng.split("simulation").split(this.#simulations++);
  }

  /** The position of a node, with a clone of its environment for a simulation. */
  simulationStart({ position }: SearchNode, rng: Rng): Position {
    return position!.env ? { ...position!, env: this.#clone(position!.env, rng.split("chance")) } : position!;
  }

  /**
   * Counts the result of a simulation from `node`. A simulation that was cut short has the return that training gives
   * such episodes by default (`withTruncatedReward`), with the tree as its group: otherwise an action that runs out of
   * tokens would be the best where turns cost. When the lowest return falls, earlier simulations are counted anew.
   * @param value the return of a simulation that was not played to the end
   */
  count(node: SearchNode, end: Position, value: number = returnOf(end)): void {
    for (const at of ancestry(node)) at.pending--;
    // A reward of NaN is no score: counted, it would make the values of all nodes above it NaN.
    const isUnscored = Number.isNaN(value);
    if (isFailure(end) || isUnscored) {
      if (end.stop !== "aborted") this.failures++;
      if (isUnscored && node.status === "ended") markFailed(node);
      return;
    }
    // An ended node may be visited many times, but is one episode.
    const isNewEpisode = node.status !== "ended" || node.visits === 0;
    if (end.stop !== undefined && isNewEpisode) this.episodes.push(episodeOf(end, this.start));
    const isCut = end.stop !== undefined && isCutShort({ stopReason: end.stop });
    this.#results.push({ node, value, isCut });
    const worst = worstBeside([this.#worst / 2, value]);
    if (worst === this.#worst) return void backpropagate(node, isCut ? worst : value);
    this.#worst = worst;
    for (const { node: from } of this.#results)
      for (const at of ancestry(from)) Object.assign(at, { visits: 0, total: 0, best: -Infinity });
    for (const result of this.#results) backpropagate(result.node, result.isCut ? worst : result.value);
  }

  /** Closes all environments of the tree. */
  close(): void {
    for (const node of nodesOf(this.root)) {
      if (!node.position?.env) continue;
      node.position.env.close?.();
      node.position = { ...node.position, env: undefined };
    }
  }

  #clone(env: Environment, rng: Rng): Environment {
    return cloneOf(env, this.#settings.chance === "fresh" ? rng : undefined);
  }
}
