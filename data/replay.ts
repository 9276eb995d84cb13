/**
 * Replay: groups of earlier steps are trained again together with the new ones. An older policy wrote them. The ratios
 * of the loss therefore refer to the recorded log-probabilities, or `importanceCorrection` or V-trace weighs by these;
 * a loss without a ratio needs one of the two (`checkOffPolicy`). Groups above a maximal age are not replayed. The
 * buffer keeps whole groups, because advantages compare within them, and only groups with spread, because the policy
 * learns nothing from the others.
 *
 * WebRL (Qi et al. 2024, arXiv 2411.02337) replays only successes that the current policy finds neither strange nor
 * trivial: the geometric mean of an episode's token probabilities lies in (.5, .95], its perplexity in [1/.95, 2).
 * `minProbability` and `maxProbability` are these bounds, here for the successes of a group, which is replayed whole.
 */
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { inCode, number, oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import { rowsWithoutSpread } from "../rl/episode/groups.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { rolloutsOf, type Trajectory } from "../rl/episode/stream.ts";
import { checkOffPolicy, type Objective } from "../rl/objective/objective.ts";
import { rowsByGroup } from "./dynamic.ts";
import type { EpisodePlugin, Extension, StepSoFar } from "../rl/tasks/plugin.ts";
import { pluginEntry } from "./entry.ts";

const COUNT = { integer: true, min: 1 };

export const REPLAY = options("ReplayBuffer", {
  perStep: number(1, "largest number of groups that are added to a step", COUNT),
  capacity: number(64, "largest number of groups that are kept", COUNT),
  order: oneOf(
    ["fifo", "priority"],
    "fifo",
    "which groups are replayed and which are dropped first: the oldest for both (`fifo`), or those of highest " +
      "priority are replayed and those of lowest dropped (`priority`)",
  ),
  priority: inCode<(rewards: readonly number[]) => number>(
    "the priority of a group, from the rewards of its rollouts; by default their mean",
    "a function of the rewards",
    (value) => typeof value === "function",
  ),
  maxStaleness: number(8, "how many steps old a group may be when it is replayed", COUNT),
  maxUses: number(1, "how often a group may be replayed", COUNT),
  minProbability: number(
    0,
    "a group waits while the token probability of its successes (geometric mean, current policy) is not above",
    { min: 0, below: 1 },
  ),
  maxProbability: number(1, "a group waits while that probability is above", { above: 0, max: 1 }),
});
/**
 * Options of `ReplayBuffer`: by default one group is added to a step, 64 are kept, the oldest come first, and each is
 * replayed once, at an age of at most 8 steps (docs/methods.md, `replay.…`).
 */
export type ReplayOptions = OptionsOf<typeof REPLAY>;

const { priority: _, ...AS_TEXT } = REPLAY.fields;
export const replayEntry = pluginEntry({
  name: "replay",
  flag: { name: "replay", kind: "count", option: "perStep", about: "also learns from N earlier groups in every step" },
  options: AS_TEXT,
  against: "loss",
  make: (settings) => new ReplayBuffer(settings),
});

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** A group with the version of the policy that played it. */
export interface ReplayedGroup {
  readonly trajectories: readonly Trajectory[];
  /** The step at which it was played, before that step's update. */
  readonly version: number;
  readonly priority: number;
  readonly uses: number;
}

/** The plug-in that adds earlier groups to the new ones: a buffer of groups that may be replayed. */
export class ReplayBuffer implements EpisodePlugin {
  readonly name = "replay";
  readonly #options: Required<ReplayOptions>;
  /** The groups, oldest first. */
  #groups: readonly ReplayedGroup[] = [];

  constructor(given?: ReplayOptions) {
    const { priority, ...options } = REPLAY.read(given);
    const { order, perStep, capacity, minProbability: least, maxProbability: most } = options;
    check(priority === undefined || order === "priority", () => 'ReplayBuffer: a priority is for order "priority"');
    check(perStep <= capacity, () => `ReplayBuffer: perStep ${perStep} is more than the capacity, ${capacity}`);
    check(least < most, () => `ReplayBuffer: minProbability ${least} is not below maxProbability, ${most}`);
    this.#options = { ...options, priority: priority ?? mean };
  }

  check({ objective }: { readonly objective: Objective }): void {
    checkOffPolicy(objective, { replay: this });
  }

  /**
   * Draws groups of earlier steps, and takes in those that were just played, without the additions of other plug-ins.
   */
  async extend({ step, fresh, trained, objective, logProbs }: StepSoFar): Promise<Extension> {
    const drawn = this.draw(step, this.isFiltered ? await this.#probabilities(step, logProbs) : undefined);
    this.add(fresh, step, objective.advantage.readsParts);
    return { ...renumbered(drawn, trained, step), isOffPolicy: drawn.length > 0 };
  }

  /** The geometric mean of the token probabilities of each fresh group's successes; NaN without a success. */
  async #probabilities(step: number, logProbs: StepSoFar["logProbs"]): Promise<number[]> {
    const successes = this.fresh(step).map(({ trajectories }) => trajectories.filter((t) => succeeded(t)));
    const rows = successes.flat();
    if (rows.length === 0) return successes.map(() => NaN);
    const scored = await logProbs(rows);
    let first = 0;
    return successes.map(({ length }) => {
      const logs = scored
        .slice(first, (first += length))
        .flatMap((row) => Array.from(row).filter((lp) => !Number.isNaN(lp)));
      return Math.exp(logs.reduce((a, b) => a + b, 0) / logs.length); // NaN where nothing was sampled
    });
  }

  /** Whether `draw` needs the probabilities of groups. */
  get isFiltered(): boolean {
    return this.#options.minProbability > 0 || this.#options.maxProbability < 1;
  }

  /** The groups that are kept, oldest first. */
  get groups(): readonly ReplayedGroup[] {
    return this.#groups;
  }

  /**
   * Keeps the groups whose outcomes differ.
   * @param version the step of the policy that played them, which must not decrease from call to call
   * @param byPart whether a group with spread in one component of its reward is kept, too (GDPO)
   */
  add(trajectories: readonly Trajectory[], version: number, byPart = false): void {
    const newest = this.#groups.at(-1)?.version ?? -Infinity;
    check(version >= newest, () => `ReplayBuffer.add: version ${version} after ${newest}; versions never go back`);
    const { capacity, order, priority } = this.#options;
    const added = rowsByGroup(trajectories).flatMap((rows): ReplayedGroup[] => {
      if (rowsWithoutSpread(rows, byPart).size > 0) return [];
      const rewards = rolloutsOf(rows).flatMap((r) => (r.scorable ? [r.reward] : []));
      const value = priority(rewards);
      check(Number.isFinite(value), () => `ReplayBuffer: the priority of rewards ${showValue(rewards)} is ${value}`);
      return [{ trajectories: rows, version, priority: value, uses: 0 }];
    });
    const all = [...this.#groups, ...added];
    // The oldest of groups with equal priorities is dropped first.
    const leaving = order === "fifo" ? all : all.toSorted((a, b) => a.priority - b.priority);
    const gone = new Set(leaving.slice(0, Math.max(0, all.length - capacity)));
    this.#groups = all.filter((group) => !gone.has(group));
  }

  /** The groups that are young enough for step `version`, oldest first. */
  fresh(version: number): ReplayedGroup[] {
    return this.#groups.filter((group) => version - group.version <= this.#options.maxStaleness);
  }

  /**
   * Drops the groups that are too old for step `version`, and returns those to replay in it.
   * @param probabilities of the fresh groups; NaN, for a group without a success, is within no bounds. Without them no
   * group is held back.
   */
  draw(version: number, probabilities?: readonly number[]): ReplayedGroup[] {
    const { order, perStep, maxUses, minProbability, maxProbability } = this.#options;
    const fresh = this.fresh(version);
    const isMiddling = (p: number): boolean => p > minProbability && p <= maxProbability;
    const open = probabilities ? fresh.filter((_, i) => isMiddling(probabilities[i]!)) : fresh;
    const queue = order === "fifo" ? open : open.toSorted((a, b) => b.priority - a.priority);
    const drawn = queue.slice(0, perStep);
    this.#groups = fresh.flatMap((group) => {
      if (!drawn.includes(group)) return [group];
      return group.uses + 1 < maxUses ? [{ ...group, uses: group.uses + 1 }] : [];
    });
    return drawn;
  }

  /** The state as plain JSON, in which a reward that is NaN (not scorable) becomes `null`. */
  state(): unknown {
    return { groups: this.#groups.map((g) => ({ ...g, trajectories: g.trajectories.map(rowToJson) })) };
  }

  /** @throws if the value is not the state of a buffer, or has more groups than fit into this one */
  restore(state: unknown): void {
    const { groups: stored } = (state ?? {}) as { readonly groups?: unknown };
    const isOwn = Array.isArray(stored) && stored.length <= this.#options.capacity;
    const expected = `{ groups } with at most ${this.#options.capacity} groups`;
    check(isOwn, () => `ReplayBuffer.restore: expected ${expected}, got ${showValue(state)}`);
    const groups = stored as readonly JsonGroup[];
    this.#groups = groups.map((g) => ({ ...g, trajectories: g.trajectories.map(rowFromJson) }));
  }
}

/** A trajectory whose rewards have the type `N`. */
type RowOf<N> = Omit<
  Trajectory,
  "reward" | "outcome" | "rewardParts" | "stepRewards" | "tokenRewards" | "greedyReward"
> & {
  readonly reward: N;
  readonly outcome?: N;
  readonly rewardParts?: Readonly<Record<string, N>>;
  readonly stepRewards: readonly N[];
  readonly tokenRewards?: ArrayLike<N>;
  readonly greedyReward?: N;
};
/** A number in JSON, which has no NaN. */
type JsonNumber = number | null;
type JsonGroup = Omit<ReplayedGroup, "trajectories"> & { readonly trajectories: readonly RowOf<JsonNumber>[] };

/** A deep copy, with `f` applied to all rewards, so that a saved state does not change with the buffer. */
function mapRewards<A, B>(source: RowOf<A>, f: (x: A) => B): RowOf<B> {
  const { reward, outcome, rewardParts, stepRewards, tokenRewards, greedyReward, ...row } = source;
  const parts = rewardParts && Object.fromEntries(Object.entries(rewardParts).map(([name, x]) => [name, f(x)]));
  return structuredClone({
    ...row,
    reward: f(reward),
    ...(outcome === undefined ? {} : { outcome: f(outcome) }),
    ...(parts ? { rewardParts: parts } : {}),
    stepRewards: stepRewards.map((x) => f(x)),
    ...(tokenRewards ? { tokenRewards: Array.from(tokenRewards, (x) => f(x)) } : {}),
    ...(greedyReward === undefined ? {} : { greedyReward: f(greedyReward) }),
  });
}

const rowToJson = (row: Trajectory): RowOf<JsonNumber> => mapRewards(row, (x) => (Number.isNaN(x) ? null : x));
const rowFromJson = (row: RowOf<JsonNumber>): Trajectory => mapRewards(row, (x) => x ?? NaN);

/** Replayed groups with group and rollout numbers that the episodes of `others` do not use. */
export function renumbered(
  replayed: readonly ReplayedGroup[],
  others: readonly Trajectory[],
  version: number,
): { readonly trained: readonly Trajectory[]; readonly metrics: Metrics } {
  const most = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.max(a, b), -1);
  const firstGroup = most(others.map((t) => t.group)) + 1;
  let nextRollout = most(others.flatMap((t) => t.rollout ?? [])) + 1;
  const trained = replayed.flatMap(({ trajectories }, k) => {
    const numbers = new Map<number, number>();
    return trajectories.map((t): Trajectory => {
      const group = firstGroup + k;
      if (t.rollout === undefined) return { ...t, group };
      if (!numbers.has(t.rollout)) numbers.set(t.rollout, nextRollout++);
      return { ...t, group, rollout: numbers.get(t.rollout)! };
    });
  });
  const ages = replayed.map((group) => version - group.version);
  const metrics: Metrics = { "replay/groups": replayed.length };
  if (ages.length > 0) metrics["replay/staleness_mean"] = ages.reduce((a, b) => a + b, 0) / ages.length;
  if (ages.length > 0) metrics["replay/staleness_max"] = Math.max(...ages);
  return { trained, metrics };
}
