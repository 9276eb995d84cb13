/**
 * Rewards of several components (outcome, format, use of tools, …) that are compared one by one. Where they are added first, (1, 0) and
 * (0, 1) are the same return, and a component of large spread drowns one of small spread.
 */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Table } from "../names.ts";
import { checkRange } from "../tokenStatistics.ts";
import { type Rollout, rolloutsOf } from "../../episode/stream.ts";
import { groupsOf, isWithoutSpread, moments } from "../../episode/groups.ts";
import { type AdvantageEstimator, toColumns, whitening } from "./estimator.ts";

export interface GdpoOptions {
  /** How much each component counts, by name; default 1 each. */
  readonly weights?: Readonly<Record<string, number>>;
  /** 1 (default) divides by n − 1. */
  readonly ddof?: 0 | 1;
  /** Added to both deviations; default 1e-4 (TRL). */
  readonly eps?: number;
  /** What the second normalisation counts: every rollout once (TRL, default), or every trained token (verl). */
  readonly batch?: "rollout" | "token";
}

/** The components of a rollout's reward; one that has none has its return. */
const partsOf = ({ first, reward }: Rollout): Readonly<Record<string, number>> => first.rewardParts ?? { reward };

/**
 * First each component within its group, (r_k − mean)/(std + eps); then their weighted sum over the batch, (x − mean)/(std + eps)
 * (GDPO, Liu et al. 2026, arXiv 2601.05242, eq. 4–6; TRL's `normalize_then_sum`). A component without spread in a group adds 0 there,
 * and so does one that is NaN; a group without spread in any component gets exactly 0.
 *
 * A KL penalty goes into the loss, as in TRL. In the reward it has no place here: taken off the return it reaches no component (verl
 * drops it without a word), and as a component of its own it would be divided by its deviation, and with that by β.
 */
export function gdpo(options: GdpoOptions = {}): AdvantageEstimator {
  checkKeys("gdpo", options, ["weights", "ddof", "eps", "batch"]);
  const { weights = {}, ddof = 1, eps = 1e-4, batch = "rollout" } = options;
  for (const [name, weight] of Object.entries(weights)) checkRange("gdpo", `the weight of ${name}`, weight, 0);
  check(ddof === 0 || ddof === 1, () => `gdpo: ddof must be 0 or 1, got ${String(ddof)}`);
  checkRange("gdpo", "eps", eps, 0);
  check(
    batch === "rollout" || batch === "token",
    () => `gdpo: batch must be "rollout" or "token", got ${String(batch)}`,
  );
  return {
    name: "gdpo",
    readsReturn: false,
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const scorable = rollouts.filter((r) => r.scorable);
      const names = [...new Set(scorable.flatMap((r) => Object.keys(partsOf(r))))];
      for (const name of Object.keys(weights)) {
        check(scorable.length === 0 || names.includes(name), () => `gdpo: a weight for "${name}", which is no component of the reward: ${names.join(", ")}`); // prettier-ignore
      }
      const sums = new Map(scorable.map((r) => [r, 0]));
      const informative = new Set<Rollout>();
      for (const members of groupsOf(scorable)) {
        for (const name of names) {
          const scored = members.filter((r) => !Number.isNaN(partsOf(r)[name] ?? NaN));
          const values = scored.map((r) => partsOf(r)[name]!);
          if (isWithoutSpread(values)) continue;
          const { mean, std } = moments(values, ddof);
          scored.forEach((r, k) =>
            sums.set(r, sums.get(r)! + ((weights[name] ?? 1) * (values[k]! - mean)) / (std + eps)),
          );
          for (const r of members) informative.add(r);
        }
      }
      const normalized = batchNorm(sums, batch, ddof, eps);
      const groups = groupsOf(rollouts);
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) =>
          rollout.tokens.map(() => (informative.has(rollout) ? normalized(sums.get(rollout)!) : 0)),
        ),
        // Groups that taught nothing: none of their components had spread.
        fracRewardZeroStd:
          groups.length === 0
            ? 0
            : groups.filter((group) => !group.some((r) => informative.has(r))).length / groups.length,
      };
    },
  };
}

function batchNorm(
  sums: ReadonlyMap<Rollout, number>,
  batch: "rollout" | "token",
  ddof: number,
  eps: number,
): (x: number) => number {
  if (batch === "token") return whitening([...sums].flatMap(([rollout, x]) => rollout.tokens.map(() => x)));
  const values = [...sums.values()];
  if (isWithoutSpread(values)) return () => 0;
  // Their mean is 0, as that of every component in every group is; subtracting its rounding would push who is exactly average.
  const { std } = moments(values, ddof);
  return (x) => x / (std + eps);
}

export const COMPONENTS: Table<AdvantageEstimator> = {
  gdpo: {
    make: gdpo,
    formula: "each component (r_k − mean)/(std + eps) in its group; their sum (x − mean)/(std + eps) over the batch",
    source: "GDPO, arXiv 2601.05242",
  },
};
