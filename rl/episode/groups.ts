/**
 * Groups and their statistics. The rollouts of one task are a group and are compared with each other. Statistics count
 * rollouts, not rows or tokens, and leave out rollouts whose reward is NaN.
 */
import { isTruncated, outcomeOf, type Rollout, rolloutRows, rolloutsOf, type Trajectory } from "./stream.ts";

/** Items by key, in order of first appearance. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => number | string): T[][] {
  const groups = new Map<number | string, T[]>();
  for (const item of items) {
    const members = groups.get(keyOf(item));
    if (members) members.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return [...groups.values()];
}

/** The rollouts of each group, in order of first appearance. */
export const groupsOf = (rollouts: readonly Rollout[]): Rollout[][] => groupBy(rollouts, ({ group }) => group);

/** Two tasks are the same if environment, text and seed are equal. */
export const taskOf = ({ env, task, seed }: Trajectory): string => JSON.stringify([env, task, seed]);

/**
 * The family of each episode's task (`info.family`), undefined where it is not known. An environment may report it only
 * with its answers, so an episode that was cut off in its first turn has none. It then gets the family of another
 * episode of the same task or group: otherwise episodes that were cut off at once would be compared and counted among
 * themselves.
 */
export function familiesOf(trajectories: readonly Trajectory[]): readonly (string | undefined)[] {
  const known = new Map<string | number, string>();
  for (const episode of trajectories) {
    const { family } = episode.info;
    if (family === undefined) continue;
    for (const key of [taskOf(episode), episode.group]) if (!known.has(key)) known.set(key, String(family));
  }
  return trajectories.map((episode) => {
    const { family } = episode.info;
    return family === undefined ? (known.get(taskOf(episode)) ?? known.get(episode.group)) : String(family);
  });
}

/** The arithmetic mean; NaN of an empty list. */
export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** Mean and standard deviation with `ddof`; the deviation of a single value is 0. */
export function moments(values: readonly number[], ddof: number): { mean: number; std: number } {
  const centre = mean(values);
  const squares = values.reduce((a, b) => a + (b - centre) ** 2, 0);
  return { mean: centre, std: values.length > ddof ? Math.sqrt(squares / (values.length - ddof)) : 0 };
}

/** The deviation up to which values count as equal: `atol` of torch.isclose, with which TRL compares it with 0. */
const NO_SPREAD = 1e-8;

/**
 * Whether there are fewer than two values, or all are equal but for rounding: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1,
 * and a division by the deviation would drive such values far apart. For values above 1 the tolerance grows with them,
 * and stays below the resolution of f32.
 */
export function isWithoutSpread(values: readonly number[]): boolean {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  return values.length < 2 || moments(values, 1).std <= NO_SPREAD * largest;
}

const rewardsOf = (rollouts: readonly Rollout[]): number[] => rollouts.filter((r) => r.scorable).map((r) => r.reward);

/** The share of groups without spread. */
export function fracWithoutSpread(rollouts: readonly Rollout[]): number {
  const groups = groupsOf(rollouts);
  return groups.length === 0 ? 0 : groups.filter((group) => isWithoutSpread(rewardsOf(group))).length / groups.length;
}

/** The outcomes, without shaping, of the scorable rollouts. */
const scorableOutcomes = (rollouts: readonly Rollout[]): number[] =>
  rollouts.filter((r) => r.scorable).map(({ first }) => outcomeOf(first));

/** The components of a rollout's reward. A reward without components counts as the only one. */
export const partsOf = ({ first, reward }: Rollout): Readonly<Record<string, number>> =>
  first.rewardParts ?? { reward };

/** The scorable members of a group that have a component, where its values are not all equal. */
export function membersWithSpread(group: readonly Rollout[], part: string): Rollout[] {
  const scored = group.filter((r) => r.scorable && !Number.isNaN(partsOf(r)[part] ?? NaN));
  return isWithoutSpread(scored.map((r) => partsOf(r)[part]!)) ? [] : scored;
}

/**
 * The rows of groups whose outcomes are all equal. DAPO's dynamic sampling leaves them out of the policy term's
 * denominators.
 * @param byPart whether spread in one component of a group's reward is enough (GDPO)
 */
export function rowsWithoutSpread(trajectories: readonly Trajectory[], byPart = false): Set<number> {
  const hasPartWithSpread = (group: readonly Rollout[]): boolean =>
    group.flatMap((r) => Object.keys(partsOf(r))).some((part) => membersWithSpread(group, part).length > 0);
  const constant = groupsOf(rolloutsOf(trajectories)).filter(
    (group) => isWithoutSpread(scorableOutcomes(group)) && !(byPart && hasPartWithSpread(group)),
  );
  return new Set(constant.flatMap((group) => group.flatMap((rollout) => rollout.rows)));
}

/** The rows of rollouts that ran out of tokens. */
const truncatedRows = (trajectories: readonly Trajectory[]): Set<number> =>
  new Set(
    rolloutRows(trajectories).flatMap((rows) => (rows.some((row) => isTruncated(trajectories[row]!)) ? rows : [])),
  );

/** The trajectories; those that ran out of tokens get the reward NaN, so that no statistics count them. */
export function withoutTruncated(trajectories: readonly Trajectory[]): readonly Trajectory[] {
  const cut = truncatedRows(trajectories);
  return trajectories.map((t, row) => (cut.has(row) ? { ...t, reward: NaN } : t));
}
