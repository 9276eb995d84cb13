/** Estimators that compare steps (turns) across the rollouts of a group: equal states, or equal milestones. */
import { flag, inCode, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { isAgentToken, rewardsOfTurns, type Rollout, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { fracWithoutSpread, groupBy, groupsOf, isWithoutSpread, moments } from "../../rl/episode/groups.ts";
import { type AdvantageEstimator, toColumns } from "../../rl/objective/estimator.ts";
import { returnsToGo } from "./returns.ts";

interface Step {
  readonly rollout: Rollout;
  readonly turn: number;
  /** Steps are compared with others of the same key only. */
  readonly key: string;
  readonly value: number;
}

/** The numbers of the turns in which the agent wrote something, in order. */
const turnsOf = ({ tokens }: Rollout): number[] => [...new Set(tokens.map(({ turn }) => turn))];

/** Values minus their mean, divided by their deviation + eps if `std` is true; exactly 0 without spread. */
function relative(values: readonly number[], std: boolean, eps: number): number[] {
  if (isWithoutSpread(values)) return values.map(() => 0);
  const { mean, std: deviation } = moments(values, 1);
  return values.map((x) => (x - mean) / (std ? deviation + eps : 1));
}

/** The value of each step relative to the steps with the same key. */
function relativeSteps(steps: readonly Step[], std: boolean, eps: number): Map<Rollout, Map<number, number>> {
  const result = new Map<Rollout, Map<number, number>>();
  for (const peers of groupBy(steps, ({ key }) => key)) {
    const values = peers.map(({ value }) => value);
    relative(values, std, eps).forEach((a, k) => {
      const { rollout, turn } = peers[k]!;
      result.set(rollout, (result.get(rollout) ?? new Map<number, number>()).set(turn, a));
    });
  }
  return result;
}

/** An estimator that gives every token of a step the episode's term plus `weight` times the step's term. */
function combined(
  name: string,
  weight: number,
  std: boolean,
  eps: number,
  stats: "rollout" | "row",
  stepsOf: (group: readonly Rollout[], trajectories: readonly Trajectory[]) => Step[],
): AdvantageEstimator {
  return {
    name,
    comparesGroup: true,
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const ofEpisode = new Map<Rollout, number>();
      const ofStep = new Map<Rollout, Map<number, number>>();
      for (const group of groupsOf(rollouts)) {
        const members = group.filter((r) => r.scorable && r.tokens.length > 0);
        const counted = members.flatMap((r) => (stats === "row" ? turnsOf(r).map(() => r) : [r]));
        const rewards = counted.map(({ reward }) => reward);
        relative(rewards, std, eps).forEach((a, k) => ofEpisode.set(counted[k]!, a));
        for (const [rollout, turns] of relativeSteps(stepsOf(members, trajectories), std, eps))
          ofStep.set(rollout, turns);
      }
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) =>
          rollout.tokens.map(
            ({ turn }) => (ofEpisode.get(rollout) ?? 0) + weight * (ofStep.get(rollout)?.get(turn) ?? 0),
          ),
        ),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
  };
}

const RELATIVE = {
  gamma: number(0.95, "γ, the discount per step", { min: 0, max: 1 }),
  std: flag(false, "whether both terms are divided by their deviation (verl-agent's `mean_std_norm`)"),
  eps: number(1e-6, "number added to the deviation", { min: 0 }),
};

export const GIGPO = options("gigpo", {
  omega: number(1, "ω, the weight of the step term", { min: 0 }),
  ...RELATIVE,
  stats: oneOf(
    ["rollout", "row"],
    "rollout",
    "how often a rollout counts in the statistics of the episode term: once, or once per step (`row`)",
  ),
  anchor: inCode<(trajectory: Trajectory, turn: number) => string>(
    "the state in which a turn's action was taken, as text; by default the observation before it, or the prompt at " +
      "the start",
    "a function of the trajectory and the turn",
    (value) => typeof value === "function",
  ),
});
/**
 * Options of `gigpo`: by default ω 1, γ 0.95 per step and no division by the deviation (docs/methods.md, `gigpo.…`).
 * `anchor` names the state in which an action was taken; by default it is the observation before the action.
 */
export type GigpoOptions = OptionsOf<typeof GIGPO>;

/**
 * Token ids of the text that the agent saw last before it acted in a turn: the observation of the turn before, even if
 * the action there was not the agent's; or the prompt up to this turn, if the row begins with it. Actions given to the
 * agent in later turns have the role `prompt`, too, but the agent had not seen them yet.
 */
export function anchorOf({ stream }: Trajectory, turn: number): string {
  const { ids, roles, turns } = stream;
  const answer = ids.filter((_, t) => roles[t] === "observation" && turns[t] === turn - 1);
  const isFirst = answer.length === 0 && !roles.some((role, t) => isAgentToken(role) && turns[t]! < turn);
  return (isFirst ? ids.filter((_, t) => roles[t] === "prompt" && turns[t]! <= turn) : answer).join(" ");
}

/**
 * A_episode + ω·A_step. A_step compares the discounted return of a step with those of the group's other steps that were
 * taken in the identical state; it is 0 for a state that was visited once (GiGPO, Feng et al. 2025, arXiv 2505.10978).
 */
export function gigpo(given?: GigpoOptions): AdvantageEstimator {
  const { omega, gamma, std, eps, stats, anchor = anchorOf } = GIGPO.read(given);
  return combined("gigpo", omega, std, eps, stats, (group, trajectories) =>
    group.flatMap((rollout) => {
      // The returns are over all turns of the environment, because steps whose action was given are discounted too.
      const returns = returnsToGo(rewardsOfTurns(rollout, trajectories), gamma);
      // If a row starts with this turn, what was seen before is in the row before it.
      const keyOf = (turn: number): string =>
        rollout.rows.map((row) => anchor(trajectories[row]!, turn)).find((text) => text !== "") ?? "";
      return turnsOf(rollout).map((turn) => ({ rollout, turn, key: keyOf(turn), value: returns[turn]! }));
    }),
  );
}

export const MILESTONE = options("milestone", {
  lambda: number(1, "λ, the weight of the segment term", { min: 0 }),
  ...RELATIVE,
  milestones: inCode<(trajectory: Trajectory) => readonly number[]>(
    "the turns at which a milestone was reached; by default those with a positive step reward",
    "a function of the trajectory",
    (value) => typeof value === "function",
  ),
});
/**
 * Options of `milestone`: by default λ 1, γ 0.95 per step and no division by the deviation (docs/methods.md,
 * `milestone.…`). `milestones` finds the turns of milestones; by default those with a positive step reward.
 */
export type MilestoneOptions = OptionsOf<typeof MILESTONE>;

/** The turns with a positive step reward. */
const rewardedTurns = ({ stepRewards }: Trajectory): number[] =>
  stepRewards.flatMap((reward, turn) => (reward > 0 ? [turn] : []));

/**
 * A_traj + λ·A_segment. A segment ends at the turn t_k of a milestone. A step t in it has the value R·γ^(t_k − t),
 * where R is the reward of the milestone's step if that is positive, else 1. It is compared with the group's steps in
 * the segment of the same number, including those of its own episode. Steps after the last milestone have the value 0
 * and belong to the segment that they did not finish (BEACON, Wang et al. 2026, arXiv 2605.06078; the steps are
 * compared as in its code, `segment_norm_reward` of ZJU-REAL/BEACON).
 *
 * A_segment is therefore not 0 where all returns are equal, or in a group of one: a step nearer to its milestone has
 * the higher value. It is 0 where all values of a segment are equal. `frac_reward_zero_std` is about returns.
 */
export function milestone(given?: MilestoneOptions): AdvantageEstimator {
  const { lambda, gamma, std, eps, milestones = rewardedTurns } = MILESTONE.read(given);
  return combined("milestone", lambda, std, eps, "rollout", (group) =>
    group.flatMap((rollout) => {
      const reached = milestones(rollout.first).toSorted((a, b) => a - b);
      return turnsOf(rollout).map((turn) => {
        const segment = reached.filter((t) => t < turn).length;
        const end = reached[segment];
        const key = String(segment);
        if (end === undefined) return { rollout, turn, key, value: 0 };
        const earned = rollout.first.stepRewards[end] ?? 1; // a milestone may be a turn that had no answer
        return { rollout, turn, key, value: (earned > 0 ? earned : 1) * gamma ** (end - turn) };
      });
    }),
  );
}

export const STEPS: Table<AdvantageEstimator> = {
  gigpo: {
    options: GIGPO,
    make: gigpo,
    formula: "A_episode + ω·A_step; step returns (γ .95) against those from the identical observation",
    source: "GiGPO, arXiv 2505.10978",
  },
  milestone: {
    options: MILESTONE,
    make: milestone,
    formula: "A_traj + λ·A_segment; segment reward R·γ^(t_k − t)",
    source: "BEACON, arXiv 2605.06078",
  },
};
