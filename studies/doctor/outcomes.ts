/** Detectors that read rewards and outcomes: reward hacking, groups without spread, length explosion. */
import { rateDifference } from "../../run/figures/statistics.ts";
import { formatNumber } from "../../run/figures/format.ts";
import { cutOffShare } from "./episodes.ts";
import {
  arrow,
  callsOf,
  CLEAR,
  commonest,
  describe,
  type Finding,
  isSolved,
  laterEpisodes,
  MIN_STEPS,
  outcome,
  percent,
  quote,
  type RunLog,
  series,
  setting,
  trend,
} from "./run.ts";

/**
 * A rise of reward that matters, as a share of the standard deviation between episodes (a small effect, Cohen 1988).
 */
const REWARD_RISE = 0.2;
/** Below this many standard errors an outcome has not risen. It is lower than `CLEAR`, in favour of the policy. */
const NO_RISE = 2;

/**
 * The reward rises but what the verifier accepts does not: the policy is rewarded without doing the task. This may show
 * in training episodes, or in held-out tasks that stay behind the training tasks.
 */
export function rewardHacking(run: RunLog): Finding | null {
  const reward = trend(series(run, "reward"));
  if (reward === null || reward.z < CLEAR) return null;
  const spread = trend(series(run, "reward_std"))?.early ?? 0;
  if (reward.change < REWARD_RISE * spread) return null;
  const success = trend(series(run, "success"));
  const onTraining = success !== null && success.z < NO_RISE;
  const heldOut = heldOutStaysBehind(run, success?.change ?? 0);
  if (!onTraining && heldOut === null) return null;

  const paid = laterEpisodes(run).filter((episode) => !episode.success && episode.reward > 0);
  const best = paid.toSorted((a, b) => b.reward - a.reward)[0];
  const pattern = commonest(paid.flatMap((episode) => [...new Set(callsOf(episode).map(({ call }) => call))]));
  return {
    kind: "problem",
    step: reward.since,
    evidence: [
      arrow("reward", reward) +
        (success ? `, ${arrow("success", success)} (first and last quarter of the RL steps)` : ""),
      ...(heldOut === null ? [] : [heldOut]),
      ...(pattern && pattern[1] > 1 && pattern[1] >= paid.length / 4
        ? [`${pattern[1]} of ${paid.length} unsuccessful episodes that were paid hold the call ${quote(pattern[0])}`]
        : []),
      ...(best ? [describe(best)] : []),
    ],
    change: onTraining
      ? [
          "close the hole: look at what the episodes above were paid for, and pay only what the verifier accepts",
          "cap what shaping can add, so that no sum of it is worth more than solving the task",
          "a KL penalty towards the warm start slows such a drift, but does not end it",
        ]
      : [
          "check the verifier on training tasks by hand: does it accept answers that are wrong?",
          "train on more tasks and more names, so that learning them by heart does not pay",
        ],
  };
}

/** Training success rose by `rise`; the upper limit (95 %) of the held-out change is less than half of that. */
function heldOutStaysBehind(run: RunLog, rise: number): string | null {
  const success = trend(series(run, "success"));
  if (success === null || success.z < CLEAR || rise < 0.1) return null;
  const evaluations = run.metrics.flatMap(({ phase, ...line }) => {
    const [rate, trials] = [line["success"], line["episodes"]];
    if (phase !== "eval" || typeof rate !== "number" || typeof trials !== "number") return [];
    return [{ step: line.step, rate, trials, successes: Math.round(rate * trials) }];
  });
  const [first, last] = [evaluations[0], evaluations.at(-1)];
  if (first === undefined || last === undefined || first === last) return null;
  const { high } = rateDifference(first, last);
  if (high >= rise / 2) return null;
  return (
    `held-out success ${percent(first.rate)} (step ${first.step}) → ${percent(last.rate)} (step ${last.step}), ` +
    `while training success rose by ${percent(rise)}`
  );
}

/** The late share of an early success below which it has fallen. */
const FALLEN = 0.7;

/**
 * The agent succeeds less and predicts answers better: it has become a model of its world that does not act. So ends
 * ECHO where the warm start rarely succeeds, as the policy then has little gradient to set against the world model's.
 */
export function worldModelOverPolicy(run: RunLog): Finding | null {
  const loss = trend(series(run, "world_loss"));
  const success = trend(outcome(run).points);
  if (loss === null || success === null) return null;
  const hasFallen = success.z <= -CLEAR && success.late < FALLEN * success.early;
  if (!hasFallen || loss.z > -CLEAR) return null;
  const length = trend(series(run, "completions/mean_length"));
  return {
    kind: "problem",
    step: success.since,
    evidence: [
      `${arrow(outcome(run).name, success)} while ${arrow("world loss", loss)} nats per token of an answer`,
      ...(length ? [`${arrow("mean length", length)} tokens`] : []),
    ],
    change: [
      "run it once without the world model: if success falls there, too, the cause is another (the learning rate)",
      `a smaller weight of the world model${setting(run, "rl", "lambda")}, or one that falls to 0`,
      "a longer warm start, so that rewards come often enough to hold against it",
    ],
  };
}

/** If this share of groups has no spread, at most a fifth of the episodes teach the policy anything. */
const FLAT_GROUPS = 0.8;

/** Between this share of successes and 1 minus it, tasks are neither too easy nor too hard. */
const MIXED = 0.2;

/** A mean reward this close to the mean success is paid for success alone. */
const SAME = 0.02;

/** Number of steps whose equal mean rewards are no chance, where rewards should vary or be 0. */
const BLIND_STEPS = 4;

/** With fewer steps, rare successes may mean slow learning, unless `NEARLY_NONE` of the groups have no spread. */
const LONG_ENOUGH = 100;
const NEARLY_NONE = 0.97;

/**
 * The evidence that a constant reward is blind to the task; null if there is none. A task that is too hard pays
 * nothing, or costs the same, and has no success; a solved one has success. So the reward is blind if success varies
 * and it does not, or if it pays though nothing succeeds. Without a success metric it is blind between 0 and 1.
 */
function blindness(run: RunLog): string | null {
  const [rewards, successes] = ["reward", "success"].map((name) => series(run, name).map(({ value }) => value));
  const isConstant = (values: readonly number[]): boolean =>
    Math.max(...values) - Math.min(...values) <= 1e-9 * Math.max(1, ...values.map(Math.abs)); // means may be rounded
  if (rewards!.length === 0 || !isConstant(rewards!)) return null;
  if (successes!.length > 0 && !isConstant(successes!))
    return "the reward is the same on every step, whether episodes succeed or not";
  if (successes!.length === 0)
    return rewards![0]! > 0 && rewards![0]! < 1 ? "the reward is the same on every step" : null;
  const isPaid = successes![0] === 0 && rewards![0]! > 0;
  return isPaid ? "the reward is the same on every step, though no episode succeeds" : null;
}

/** All episodes of a group earn the same, so every advantage is 0. A solved run ends in this way without any fault. */
export function zeroVarianceGroups(run: RunLog): Finding | null {
  const points = series(run, "frac_reward_zero_std");
  const later = points.slice(Math.floor(points.length / 2));
  const blind = blindness(run);
  // Where one try in a hundred succeeds, the groups of a few steps are all flat by chance.
  if (points.length < (blind === null ? MIN_STEPS : BLIND_STEPS)) return null;
  if (isSolved(run) && blind === null) return null;
  const average = later.reduce((sum, { value }) => sum + value, 0) / later.length;
  if (average < FLAT_GROUPS) return null;
  const [reward, success] = ["reward", "success"].map((name) => {
    const values = series(run, name).slice(-later.length);
    return values.reduce((sum, { value }) => sum + value, 0) / values.length; // NaN if there is none
  }) as [number, number];
  const level = Number.isNaN(success) ? reward : success;
  if (level < MIXED && average < NEARLY_NONE && points.length < LONG_ENOUGH) return null;
  const hasRisen = (trend(series(run, "reward"))?.z ?? 0) >= CLEAR;
  const isLearning = hasRisen && level < 0.5 && Math.abs(reward - success) < SAME;
  const [reason, remedy] = blind
    ? [blind, "mend the reward: it does not depend on what the policy does"]
    : level > MIXED && level < 1 - MIXED && !hasRisen
      ? [
          "some tasks succeed in every try and others in none: the tries of a task do not differ",
          `a higher temperature${setting(run, "rollout", "temperature")}; entropy says how much tries can differ`,
        ]
      : level >= 0.5
        ? ["too easy for this policy", "draw harder tasks; those that are solved every time teach nothing"]
        : isLearning
          ? [
              "few tries succeed, though more than at first: most tasks are still too hard",
              "let it train on: as more tries succeed, more groups have a spread",
            ]
          : hasRisen
            ? ["all tries are paid alike, though few succeed", "look at what is paid: the reward may have a hole"]
            : cutOffShare(run) > 0.5
              ? ["most tries are cut off before they end", "first see to it that actions end"]
              : [
                  "too hard for this policy",
                  "begin with easier tasks, or with a longer warm start, so that some tries succeed; reward parts of " +
                    "the task",
                ];
  return {
    kind: isLearning ? "harmless" : "problem",
    step: later[0]!.step,
    evidence: [
      `${percent(average)} of the groups have no spread of reward, steps ${later[0]!.step} to ` +
        `${later.at(-1)!.step}: their advantage is 0`,
      "mean reward there " +
        `${formatNumber(reward)}${Number.isNaN(success) ? "" : `, mean success ${formatNumber(success)}`}: ` +
        reason,
    ],
    change: [
      remedy,
      `more episodes for each task${setting(run, "rl", "groupSize")}, or a higher ` +
        `temperature${setting(run, "rollout", "temperature")}, so that tries differ`,
      "if the reward never varies at all, test the verifier with the expert's episodes",
    ],
  };
}

/** Half as long again is more than a different mix of tasks in a batch explains. */
const LONGER = 1.5;

/** Completions grow without achieving more. */
export function lengthExplosion(run: RunLog): Finding | null {
  const length = trend(series(run, "completions/mean_length"));
  if (length === null || length.z < CLEAR || length.late < LONGER * length.early) return null;
  const result = outcome(run);
  const achieved = trend(result.points);
  if (achieved !== null && achieved.z >= NO_RISE) return null;
  const cut = trend(series(run, "completions/clipped_ratio"));
  const longest = laterEpisodes(run).toSorted((a, b) => b.tokens.length - a.tokens.length)[0];
  return {
    kind: "problem",
    step: length.since,
    evidence: [
      `${arrow("mean length", length)} tokens` + (achieved ? `, ${arrow(result.name, achieved)}` : ""),
      ...(cut ? [`episodes whose last action was cut off: ${percent(cut.early)} → ${percent(cut.late)}`] : []),
      ...(longest ? [describe(longest)] : []),
    ],
    change: [
      "check whether the reward grows with length; if so, change that, or add the soft overlong penalty (linear, DAPO)",
      "aggregate by token-mean: dividing by each episode's own length makes long failures cheap" +
        setting(run, "rl", "aggregation"),
      `a smaller limit of tokens in an action${setting(run, "rollout", "maxActionTokens")}`,
    ],
  };
}
