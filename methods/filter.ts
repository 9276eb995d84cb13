/**
 * Filters of the rollouts that are learnt from. `filterRollouts` chooses demonstrations for rejection-sampling
 * fine-tuning (Yuan et al. 2023, arXiv 2308.01825; RAFT, arXiv 2304.06767): successful rollouts are imitated with
 * `trainSft`, failed ones are dropped. `rolloutFilter` is for a step of RL: it leaves out of the policy term the groups
 * whose rewards hardly differ (RAGEN, Wang et al. 2025, arXiv 2504.20073, §4.1).
 */
import { check } from "../engine/errors.ts";
import { inCode, number, oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import { groupBy, groupsOf, moments, taskOf } from "../rl/episode/groups.ts";
import { isAgentToken, rolloutsOf, type Trajectory } from "../rl/episode/stream.ts";
import { type Success, succeeded } from "../rl/episode/outcomes.ts";
import type { RolloutFilter } from "../rl/objective/weighting.ts";

/** The limit per task keeps easy tasks, which succeed often, from crowding out the others. */
export const ROLLOUT_CHOICE = options("filterRollouts", {
  keep: inCode<Success>(
    "which rollouts are kept; by default those that the environment calls a success, or, if it says nothing, those " +
      "with a positive return",
    "a function of the trajectory",
    (value) => typeof value === "function",
  ),
  perTask: number(4, "how many rollouts of one task are kept at most; those with the fewest agent tokens come first", {
    integer: true,
    min: 1,
    infinite: true,
  }),
});
/**
 * Options of `filterRollouts`: which rollouts are kept (`keep`, default: the successful ones), and how many of one task
 * at most (`perTask`, default 4, the shortest first).
 */
export type FilterOptions = OptionsOf<typeof ROLLOUT_CHOICE>;

/**
 * The rollouts to imitate, in the order in which they came. Masked and unscorable ones are left out, and so are
 * repetitions of the same tokens. Two tasks are the same if environment, text and seed are equal. The rows of a rollout
 * stay together. `trainSft` imitates the agent's tokens only: actions that were given to the agent (by exploration or
 * by an expert) have the role `prompt`.
 */
export function filterRollouts(trajectories: readonly Trajectory[], given?: FilterOptions): Trajectory[] {
  const { keep = succeeded, perTask } = ROLLOUT_CHOICE.read(given);
  const seen = new Set<string>();
  const candidates = rolloutsOf(trajectories).filter(({ scorable, first, rows, tokens }) => {
    if (!scorable || tokens.length === 0 || !keep(first)) return false;
    const tokensOfAll = rows.map((row) => trajectories[row]!.stream.ids.join()).join(";");
    const key = `${taskOf(first)} ${tokensOfAll}`;
    return !seen.has(key) && seen.add(key) !== undefined;
  });
  const length = (rows: readonly number[]): number =>
    rows.reduce((n, row) => n + trajectories[row]!.stream.roles.filter(isAgentToken).length, 0);
  const chosen = groupBy(candidates, ({ first }) => taskOf(first)).flatMap((members) =>
    members.toSorted((a, b) => length(a.rows) - length(b.rows)).slice(0, perTask),
  );
  const rows = new Set(chosen.flatMap((rollout) => rollout.rows));
  return trajectories.filter((_, row) => rows.has(row));
}

/**
 * RAGEN's filter, with its names. Groups are ranked by the standard deviation (ddof 1) of their rewards; a group whose
 * deviation is 0 is never kept.
 */
export const ROLLOUT_FILTER = options("rolloutFilter", {
  strategy: oneOf(
    ["top_p", "top_k", "min_p"],
    "top_p",
    "which groups are kept: `top_p` those of largest deviation that together have the share `value` of all " +
      "deviation; " +
      "`top_k` the share `value` of all groups, at least one; `min_p` those whose deviation is at least `value` " +
      "times the largest",
  ),
  value: number(undefined, "the share that `strategy` speaks of; by default 0.9, for `top_k` 0.25", { min: 0, max: 1 }),
  mode: oneOf(
    ["linear", "softmax"],
    undefined,
    "what `top_p` adds up: the deviations, minus a tolerance of 0.01 that drops a step with next to no spread " +
      "altogether (`linear`), or their softmax; by default `linear`",
  ),
});
/** Options of `rolloutFilter` (docs/methods.md, `rolloutFilter.…`). */
export type RolloutFilterOptions = OptionsOf<typeof ROLLOUT_FILTER>;
const TOLERANCE = 0.01;

/**
 * Indices of the groups that are kept, largest deviation first; ties stay in order.
 * @param deviations one for each group
 */
export function groupsKept(deviations: readonly number[], filter: RolloutFilterOptions): number[] {
  const { strategy, value = strategy === "top_k" ? 0.25 : 0.9, mode = "linear" } = ROLLOUT_FILTER.read(filter);
  const ranked = deviations
    .flatMap((deviation, place) => (deviation > 1e-10 ? [{ deviation, place }] : []))
    .toSorted((a, b) => b.deviation - a.deviation);
  const places = ranked.map(({ place }) => place);
  const largest = ranked[0]?.deviation ?? 0;
  if (strategy === "min_p") return places.filter((place) => deviations[place]! >= value * largest - 1e-10);
  if (strategy === "top_k") return places.slice(0, Math.max(1, Math.floor(value * deviations.length)));
  if (value === 1) return places;
  const masses = ranked.map(({ deviation }) => (mode === "linear" ? deviation : Math.exp(deviation - largest)));
  const total = masses.reduce((a, b) => a + b, 0);
  const wanted = value * total - (mode === "linear" ? TOLERANCE : 0);
  let sum = 0;
  // A softmax gives every group some mass, so at least one group is kept.
  return places.filter((_, k) => {
    const isWanted = sum < wanted || (mode === "softmax" && k === 0);
    sum += masses[k]!;
    return isWanted;
  });
}

/** RAGEN's filter. @throws if an option is out of range, or if `mode` is given for a strategy that has none */
export function rolloutFilter(given: RolloutFilterOptions = {}): RolloutFilter {
  const { strategy, mode } = ROLLOUT_FILTER.read(given);
  check(mode === undefined || strategy === "top_p", () => `rolloutFilter: mode is for top_p, not ${strategy}`);
  return {
    name: strategy,
    rowsLeftOut(trajectories) {
      const groups = groupsOf(rolloutsOf(trajectories));
      const deviations = groups.map((group) => {
        const rewards = group.filter(({ scorable }) => scorable).map(({ reward }) => reward);
        return rewards.length < 2 ? 0 : moments(rewards, 1).std;
      });
      const kept = new Set(groupsKept(deviations, given));
      return new Set(groups.flatMap((group, place) => (kept.has(place) ? [] : group.flatMap(({ rows }) => rows))));
    },
  };
}
