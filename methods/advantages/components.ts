/**
 * Advantages from a reward of several components (outcome, format, use of tools, …), normalised one by one. If they
 * were added first, (1, 0) and (0, 1) would give the same return, and a component of large spread would drown one of
 * small spread.
 */
import { check } from "../../engine/errors.ts";
import { inCode, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { type Rollout, rolloutsOf } from "../../rl/episode/stream.ts";
import { groupsOf, isWithoutSpread, membersWithSpread, moments, partsOf } from "../../rl/episode/groups.ts";
import { type AdvantageEstimator, toColumns, whitening } from "../../rl/objective/estimator.ts";

export const GDPO = options("gdpo", {
  weights: inCode<Readonly<Record<string, number>>>(
    "weight of each component, by name; components that are not named have weight 1",
    "an object of numbers ≥ 0",
    (value) => typeof value === "object" && value !== null && Object.values(value).every((weight) => weight >= 0),
  ),
  ddof: number(1, "what the sum of squares is divided by in a variance: 1 for n − 1, 0 for n", {
    integer: true,
    min: 0,
    max: 1,
  }),
  eps: number(1e-4, "number added to both standard deviations; TRL has 1e-4", { min: 0 }),
  batch: oneOf(
    ["rollout", "token"],
    "rollout",
    "whether the second normalisation is over rollouts, as in TRL, or over tokens, as in verl",
  ),
});
/**
 * Options of `gdpo`: `weights` of components by name (1 for the others), what the second normalisation is over
 * (`batch`, default `rollout`), and `ddof` 1 and `eps` 1e-4 of the deviations (docs/methods.md, `gdpo.…`).
 */
export type GdpoOptions = OptionsOf<typeof GDPO>;

/**
 * GDPO (Liu et al. 2026, arXiv 2601.05242, eq. 4–6; TRL's `normalize_then_sum`): each component is normalised within
 * its group, (r_k − mean)/(std + eps); then the weighted sum is normalised over the batch, (x − mean)/(std + eps). A
 * component adds 0 where its group has no spread in it, and where it is NaN. A group without spread in any component
 * gets exactly 0.
 *
 * A KL penalty must be in the loss, as in TRL, and not in the reward. Subtracted from the return, it would reach no
 * component (verl drops it silently). As a component of its own, it would be divided by its own deviation, which
 * cancels β.
 */
export function gdpo(given?: GdpoOptions): AdvantageEstimator {
  const { weights = {}, ddof, eps, batch } = GDPO.read(given);
  return {
    name: "gdpo",
    comparesGroup: true,
    readsReturn: false,
    readsParts: true,
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const scorable = rollouts.filter((r) => r.scorable);
      const names = [...new Set(scorable.flatMap((r) => Object.keys(partsOf(r))))];
      for (const name of Object.keys(weights)) {
        check(
          scorable.length === 0 || names.includes(name),
          () => `gdpo: a weight for "${name}", which is no component of the reward: ${names.join(", ")}`,
        );
      }
      const sums = new Map(scorable.map((r) => [r, 0]));
      const informative = new Set<Rollout>();
      for (const members of groupsOf(scorable)) {
        for (const name of names) {
          const scored = membersWithSpread(members, name);
          if (scored.length === 0) continue;
          const values = scored.map((r) => partsOf(r)[name]!);
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
        // The share of groups in which no component had spread.
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
  // The mean is 0, because every component has mean 0 in every group. Subtracting the rounding error that stands in its
  // place would move rollouts that are exactly average.
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
