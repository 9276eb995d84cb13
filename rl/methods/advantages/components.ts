/**
 * Rewards of several components (outcome, format, use of tools, …) that are compared one by one. Where they are added first, (1, 0) and
 * (0, 1) are the same return, and a component of large spread drowns one of small spread.
 */
import { check } from "../../../engine/errors.ts";
import { inCode, number, oneOf, options, type OptionsOf } from "../../../engine/optionTable.ts";
import type { Table } from "../names.ts";
import { type Rollout, rolloutsOf } from "../../episode/stream.ts";
import { groupsOf, isWithoutSpread, moments } from "../../episode/groups.ts";
import { type AdvantageEstimator, toColumns, whitening } from "./estimator.ts";

export const GDPO = options("gdpo", {
  weights: inCode<Readonly<Record<string, number>>>(
    "how much each component counts, by name; 1 where nothing is said",
    "an object of numbers ≥ 0",
    (value) => typeof value === "object" && value !== null && Object.values(value).every((weight) => weight >= 0),
  ),
  ddof: number(1, "1 divides the squares by n − 1; 0 by n", { integer: true, min: 0, max: 1 }),
  eps: number(1e-4, "added to both standard deviations; TRL has 1e-4", { min: 0 }),
  batch: oneOf(["rollout", "token"], "rollout", "what the second normalisation counts once: TRL's, or verl's"),
});
export type GdpoOptions = OptionsOf<typeof GDPO>;

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
export function gdpo(given?: GdpoOptions): AdvantageEstimator {
  const { weights = {}, ddof, eps, batch } = GDPO.read(given);
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
    options: GDPO,
    make: gdpo,
    formula: "each component (r_k − mean)/(std + eps) in its group; their sum (x − mean)/(std + eps) over the batch",
    source: "GDPO, arXiv 2601.05242",
  },
};
