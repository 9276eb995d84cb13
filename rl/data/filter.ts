/**
 * Filtered rollouts as demonstrations (rejection-sampling fine-tuning: Yuan et al. 2023, arXiv 2308.01825; RAFT, arXiv 2304.06767):
 * what succeeded is imitated with `trainSft`, what failed is dropped.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { groupBy } from "../advantages/estimator.ts";
import { isAgentToken, rolloutsOf, type Trajectory } from "../stream.ts";
import { type Success, succeeded } from "./outcomes.ts";

export interface FilterOptions {
  /** What is kept; default: what the environment calls a success, else a positive return. */
  readonly keep?: Success;
  /** Rollouts of one task at most, the shortest (in the agent's tokens) first; default 4. Else the easy tasks crowd out the others. */
  readonly perTask?: number;
}

/**
 * The rollouts to imitate, in the order in which they came. Masked and unscorable ones are left out, and so are all but the first
 * of several with the same tokens. Tasks are told apart by environment, text and seed. The rows of a rollout stay together. Only
 * the agent's tokens are imitated by `trainSft`: a chooser's and a guide's actions are prompt.
 */
export function filterRollouts(trajectories: readonly Trajectory[], options: FilterOptions = {}): Trajectory[] {
  checkKeys("filterRollouts", options, ["keep", "perTask"]);
  const { keep = succeeded, perTask = 4 } = options;
  check(perTask === Infinity || (Number.isInteger(perTask) && perTask >= 1), () => `filterRollouts: perTask must be an integer ≥ 1 or Infinity, got ${perTask}`); // prettier-ignore
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

const taskOf = ({ env, task, seed }: Trajectory): string => JSON.stringify([env, task, seed]);
