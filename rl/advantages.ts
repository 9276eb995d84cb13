/**
 * Advantage estimators: from the rewards of a batch of episodes to one advantage per token. Statistics are per episode, not per
 * row or token. What is common to all of them lives here once: grouping, unscorable (NaN) rewards, groups without spread.
 *
 * An estimator that needs more than outcomes (returns across turns, values) reads the streams; observation gaps must not change
 * what it gives to the agent's tokens (the gap property, tested for every estimator).
 */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import { policyMask, type Trajectory } from "./stream.ts";

export interface Advantages {
  /** Per episode, per token; 0 where nothing is trained. */
  readonly perToken: readonly Float64Array[];
  /** Share of groups whose rewards are all equal (or alone): they teach the policy nothing. */
  readonly fracRewardZeroStd: number;
}

/** A named estimator. */
export interface AdvantageEstimator {
  readonly name: string;
  estimate(trajectories: readonly Trajectory[]): Advantages;
}

/** Indices of the episodes of each group, in order of first appearance. */
export function groupsOf(trajectories: readonly Trajectory[]): number[][] {
  const groups = new Map<number, number[]>();
  trajectories.forEach(({ group }, i) => {
    const members = groups.get(group);
    if (members) members.push(i);
    else groups.set(group, [i]);
  });
  return [...groups.values()];
}

/** Mean and standard deviation with `ddof`; the deviation of a single value is 0. */
export function moments(values: readonly number[], ddof: number): { mean: number; std: number } {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const squares = values.reduce((a, b) => a + (b - mean) ** 2, 0);
  return { mean, std: values.length > ddof ? Math.sqrt(squares / (values.length - ddof)) : 0 };
}

/**
 * An estimator that turns the rewards of one group into one advantage per episode. NaN rewards are not scorable: advantage 0,
 * excluded from the statistics. A group whose largest and smallest reward are equal, or with one member, gets exactly 0
 * (compared exactly: a rounding residue divided by a tiny deviation is noise ×4000).
 */
export function groupEstimator(
  name: string,
  ofGroup: (rewards: readonly number[]) => readonly number[],
): AdvantageEstimator {
  return {
    name,
    estimate(trajectories) {
      const perEpisode = new Float64Array(trajectories.length);
      const groups = groupsOf(trajectories);
      let withoutSpread = 0;
      for (const members of groups) {
        const scorable = members.filter((i) => !trajectories[i]!.masked && !Number.isNaN(trajectories[i]!.reward));
        const rewards = scorable.map((i) => trajectories[i]!.reward);
        if (rewards.length < 2 || Math.max(...rewards) === Math.min(...rewards)) withoutSpread++;
        else ofGroup(rewards).forEach((a, k) => (perEpisode[scorable[k]!] = a));
      }
      return {
        perToken: trajectories.map((trajectory, i) =>
          Float64Array.from(policyMask(trajectory), (trained) => (trained ? perEpisode[i]! : 0)),
        ),
        fracRewardZeroStd: groups.length === 0 ? 0 : withoutSpread / groups.length,
      };
    },
  };
}

export interface GrpoOptions {
  /** 1 (default) divides by n − 1, as TRL and verl do. */
  readonly ddof?: 0 | 1;
  /** Added to the standard deviation; default 1e-4 (TRL; verl has 1e-6). */
  readonly eps?: number;
}

/** (R − mean)/(std + eps) within the group (DeepSeekMath, Shao et al. 2024, arXiv 2402.03300, §4.1.2). */
export function grpo(options: GrpoOptions = {}): AdvantageEstimator {
  checkKeys("grpo", options, ["ddof", "eps"]);
  const { ddof = 1, eps = 1e-4 } = options;
  check(ddof === 0 || ddof === 1, () => `grpo: ddof must be 0 or 1, got ${String(ddof)}`);
  check(eps >= 0, () => `grpo: eps must be ≥ 0, got ${eps}`);
  return groupEstimator("grpo", (rewards) => {
    const { mean, std } = moments(rewards, ddof);
    return rewards.map((r) => (r - mean) / (std + eps));
  });
}

/** R − mean within the group, without the division that favours tasks of little spread (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783). */
export function centred(): AdvantageEstimator {
  return groupEstimator("centred", (rewards) => {
    const { mean } = moments(rewards, 1);
    return rewards.map((r) => r - mean);
  });
}

/** 0 for everybody: no reward is looked at, and with ECHO only the world model learns (its verifier-free mode). */
export function none(): AdvantageEstimator {
  return groupEstimator("none", (rewards) => rewards.map(() => 0));
}

/** By name, for the command line. More estimators are one entry each. */
export const ADVANTAGES: Readonly<Record<string, () => AdvantageEstimator>> = { grpo, centred, none };
