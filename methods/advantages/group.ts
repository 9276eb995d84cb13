/** Estimators of one advantage per rollout, from the returns of its group. GRPO's own are in `rl/objective/grpo.ts`. */
import { flag, noOptions, options, type OptionsOf } from "../../engine/optionTable.ts";
import { mergeTables, type Table } from "../../rl/objective/names.ts";
import { type Rollout, rolloutsOf } from "../../rl/episode/stream.ts";
import { familiesOf, fracWithoutSpread, groupBy, moments } from "../../rl/episode/groups.ts";
import { type AdvantageEstimator, groupEstimator, toColumns, whitening } from "../../rl/objective/estimator.ts";
import { GRPO_ADVANTAGES, scaledByBatch, STD } from "../../rl/objective/grpo.ts";

const RLOO = noOptions("rloo");
const OPO = noOptions("opo");
const MAX_RL = noOptions("maxRl");
const GPG = noOptions("gpg");
const TRR = noOptions("trr++");

/**
 * n/(n − 1)·(R − mean): the reward minus the mean of the *others* in the group (RLOO, Ahmadian et al. 2024,
 * arXiv 2402.14740).
 */
export function rloo(given?: object): AdvantageEstimator {
  RLOO.read(given);
  return groupEstimator("rloo", (rewards) => {
    const { mean } = moments(rewards, 1);
    return rewards.map((r) => (rewards.length / (rewards.length - 1)) * (r - mean));
  });
}

/**
 * R − Σ(len·R)/Σlen, with lengths in trained tokens: the baseline of least variance if the size of a gradient grows
 * with the length (OPO, Hao et al. 2025, arXiv 2505.23585).
 */
export function opo(given?: object): AdvantageEstimator {
  OPO.read(given);
  return groupEstimator("opo", (rewards, rollouts) => {
    const lengths = rollouts.map((r) => r.tokens.length);
    const total = lengths.reduce((a, b) => a + b, 0);
    const baseline = rewards.reduce((sum, r, i) => sum + lengths[i]! * r, 0) / total; // NaN, unread, without a token
    return rewards.map((r) => r - baseline);
  });
}

/** (R − μ)/μ, and 0 where μ ≤ 0: rare successes weigh more (MaxRL, Tajwar et al. 2026, arXiv 2602.02710). */
export function maxRl(given?: object): AdvantageEstimator {
  MAX_RL.read(given);
  return groupEstimator("max_rl", (rewards) => {
    const { mean } = moments(rewards, 1);
    return rewards.map((r) => (mean > 0 ? (r - mean) / mean : 0));
  });
}

export const PASS_AT_K = options("passAtK", {
  ...STD,
  std: flag(true, "whether the margin is divided by the group's standard deviation"),
});
/**
 * Options of `passAtK`: whether the margin is divided by the group's deviation (`std`, default true), with `ddof` 1 and
 * `eps` 1e-4 by default (docs/methods.md, `pass_at_k.…`).
 */
export type PassAtKOptions = OptionsOf<typeof PASS_AT_K>;

/**
 * (r_max − r_second)/(std + eps) for the best rollout of the group, 0 for the rest: only the best is trained (pass@k
 * training, arXiv 2503.19595). On a tie the first is the best.
 */
export function passAtK(given?: PassAtKOptions): AdvantageEstimator {
  const { ddof, eps, std: divides } = PASS_AT_K.read(given);
  return groupEstimator("pass_at_k", (rewards) => {
    const [best, second] = rewards.toSorted((a, b) => b - a) as [number, number];
    const margin = (best - second) / (divides ? moments(rewards, ddof).std + eps : 1);
    const winner = rewards.indexOf(best);
    return rewards.map((_, i) => (i === winner ? margin : 0));
  });
}

/**
 * (R − mean)·n/#{R ≠ 0}, with counts over the whole batch, so that groups without any reward do not shrink the step
 * (GPG, Chu et al. 2025, arXiv 2504.02546; the factor as in verl).
 */
export function gpg(given?: object): AdvantageEstimator {
  GPG.read(given);
  return scaledByBatch("gpg", (rewards) => rewards.length / Math.max(1, rewards.filter((r) => r !== 0).length));
}

/**
 * (R − μ)/σ among the rollouts of the same family of tasks: a baseline for each kind of task and each role (TRR++ of
 * Absolute Zero, Zhao et al. 2025, arXiv 2505.03335). The environment reports the family (`familiesOf`). A rollout of
 * unknown family, whose whole group was cut off at once, is compared with all rollouts of its environment: compared
 * with its like only, it would lose nothing by being cut off.
 */
export function trrPlusPlus(given?: object): AdvantageEstimator {
  TRR.read(given);
  return {
    name: "trr++",
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const families = familiesOf(trajectories);
      const familyOf = ({ rows }: Rollout): string | undefined => families[rows[0]!];
      const scales = new Map<string, (reward: number) => number>();
      const keyOf = (rollout: Rollout): string => JSON.stringify(familyOf(rollout) ?? { env: rollout.first.env });
      for (const [first] of groupBy(rollouts, keyOf)) {
        const [family, { env }] = [familyOf(first!), first!.first];
        const peers = rollouts.filter((r) => (family === undefined ? r.first.env === env : familyOf(r) === family));
        scales.set(keyOf(first!), whitening(peers.filter((r) => r.scorable).map((r) => r.reward)));
      }
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) =>
          rollout.scorable ? rollout.tokens.map(() => scales.get(keyOf(rollout))!(rollout.reward)) : null,
        ),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
  };
}

/** Estimators that compare a group, by name. */
export const GROUP: Table<AdvantageEstimator> = mergeTables(GRPO_ADVANTAGES, {
  rloo: { options: RLOO, make: rloo, formula: "n/(n−1)·(R − mean)", source: "RLOO, arXiv 2402.14740" },
  opo: { options: OPO, make: opo, formula: "R − Σ(len·R)/Σlen", source: "OPO, arXiv 2505.23585" },
  max_rl: { options: MAX_RL, make: maxRl, formula: "(R − μ)/μ, 0 if μ ≤ 0", source: "MaxRL, arXiv 2602.02710" },
  pass_at_k: {
    options: PASS_AT_K,
    make: passAtK,
    formula: "best: (r_max − r_second)/(std + eps), rest 0",
    source: "pass@k, arXiv 2503.19595",
  },
  gpg: { options: GPG, make: gpg, formula: "(R − mean)·n/#nonzero", source: "GPG, arXiv 2504.02546" },
  "trr++": {
    options: TRR,
    make: trrPlusPlus,
    formula: "(R − μ)/σ among the rollouts of the same family of tasks",
    source: "Absolute Zero, arXiv 2505.03335",
  },
});
