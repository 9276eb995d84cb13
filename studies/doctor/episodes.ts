/**
 * Detectors of episodes that are played and teach nothing or the wrong thing: lost to a failing environment or reward,
 * without a score, cut off at the limit of tokens.
 */
import { formatNumber } from "../../run/figures/format.ts";
import { isRecord, type MetricsRecord } from "../../run/records.ts";
import {
  arrow,
  CLEAR,
  commonest,
  describe,
  type Finding,
  laterEpisodes,
  mean,
  percent,
  type Point,
  rlLines,
  type RunLog,
  series,
  setting,
  trend,
} from "./run.ts";

/** Share of lost episodes to report. A server that restarts once loses fewer. */
const LOST = 0.05;

/** Episodes of each step by the run's settings; undefined if these do not say. */
function episodesOfAStep({ config }: RunLog): number | undefined {
  const preset = config["preset"];
  const rl = isRecord(preset) ? preset["rl"] : undefined;
  const [groups, groupSize] = isRecord(rl) ? [rl["groups"], rl["groupSize"]] : [];
  return typeof groups === "number" && typeof groupSize === "number" ? groups * groupSize : undefined;
}

/** Episodes that were counted, against all that were played; null if their share is below `LOST`. */
function countedOf(run: RunLog, points: readonly Point[]): { readonly worst: Point; readonly line: string } | null {
  const size = episodesOfAStep(run);
  const count = points.reduce((sum, { value }) => sum + value, 0);
  if (size === undefined || count === 0 || count < LOST * size * points.length) return null;
  const worst = points.reduce((a, b) => (a.value >= b.value ? a : b));
  const steps = points.filter(({ value }) => value > 0).length;
  return {
    worst,
    line:
      `${count} of ${size * points.length} episodes (${percent(count / (size * points.length))}), in ${steps} of ` +
      `${points.length} steps; most in step ${worst.step}: ${worst.value} of ${size}`,
  };
}

/**
 * What was lost to a failing part of a run: the episodes, counted on each line, and the steps in which nothing was
 * trained. Null if that is little.
 */
function lostTo(run: RunLog, count: (line: MetricsRecord) => number) {
  const lines = rlLines(run).filter((line) => Number.isFinite(count(line)));
  const lost = countedOf(
    run,
    lines.map((line) => ({ step: line.step, value: count(line) })),
  );
  const idle = lines.filter((line) => count(line) > 0 && !("completions/mean_length" in line));
  if (lost === null && idle.length === 0) return null;
  return {
    step: lost?.worst.step ?? idle[0]!.step,
    line: lost?.line,
    idle:
      idle.length === 0
        ? []
        : [`${idle.length} RL steps without an update, from step ${idle[0]!.step}: every episode was masked`],
  };
}

/** Episodes whose environment failed are masked, and so are those whose reward failed, which are another finding. */
export function failingEnvironment(run: RunLog): Finding | null {
  const lost = lostTo(run, (line) => Number(line["masked"]) - Number(line["rewards/failed"] ?? 0));
  if (lost === null) return null;
  const failed = run.transcripts.filter(({ stopReason }) => /^(tool_error|timeout|aborted)$/.test(stopReason));
  const reason = commonest(failed.map(({ stopReason }) => stopReason));
  return {
    kind: "problem",
    step: lost.step,
    evidence: [
      ...(lost.line === undefined ? [] : [`masked, because their environment failed: ${lost.line}`]),
      ...lost.idle,
      ...(reason === null ? [] : [`stop reason ${reason[0]} in ${reason[1]} of ${failed.length} such transcripts`]),
      ...(failed[0] === undefined ? [] : [describe(failed[0])]),
    ],
    change: [
      "see why the environment fails: stop reasons tool_error, timeout, aborted, and info.error of such an episode",
      `a longer time limit${setting(run, "rollout", "timeout")}, if answers come late`,
      "if the same tasks always fail, the policy never learns them: mend them, or leave them out",
    ],
  };
}

/** Episodes whose reward threw, was no reward or came too late. */
export function failingReward(run: RunLog): Finding | null {
  const lost = lostTo(run, (line) => Number(line["rewards/failed"]));
  if (lost === null) return null;
  return {
    kind: "problem",
    step: lost.step,
    evidence: [...(lost.line === undefined ? [] : [`masked, because their reward failed: ${lost.line}`]), ...lost.idle],
    change: [
      "a run names the first such error when it happens: look for `the reward of an episode` in what it printed, or " +
        "repeat a step of it",
      "a reward answers with a number, or with { reward, parts }; NaN where an episode cannot be scored",
      "a judge or a server that is late: ask fewer at a time, or give it more time (rewardLimits)",
    ],
  };
}

/** Episodes whose reward is NaN: their verifier could not judge them. */
export function unscoredEpisodes(run: RunLog): Finding | null {
  const unscored = countedOf(run, series(run, "unscored"));
  if (unscored === null) return null;
  const episode = run.transcripts.find(({ reward }) => !Number.isFinite(reward));
  return {
    kind: "problem",
    step: unscored.worst.step,
    evidence: [
      `reward NaN: ${unscored.line}`,
      "they are in no mean, neither of reward nor of success, and have the advantage 0",
      ...(episode === undefined ? [] : [describe(episode)]),
    ],
    change: [
      "look at the tasks above: the verifier gives them no number",
      "give them a reward of 0 only if they have failed; else leave such tasks out",
    ],
  };
}

/** Share of cut-off episodes to report. */
const CUT_OFF = 0.5;
/** A rise by this share counts, too, if it ends at `SOME` or above. */
const RISE = 0.2;
const SOME = 0.3;

/** Share of cut-off episodes in the later half of the run; NaN if it is not logged. */
export function cutOffShare(run: RunLog): number {
  const points = series(run, "completions/clipped_ratio");
  return mean(points.slice(Math.floor(points.length / 2)).map(({ value }) => value));
}

/** The policy writes on until its tokens are used up, so that the environment never sees its last action. */
export function cutOffEpisodes(run: RunLog): Finding | null {
  const points = series(run, "completions/clipped_ratio");
  if (points.length < 4) return null;
  const change = trend(points);
  const late = cutOffShare(run);
  const rises = change !== null && change.z >= CLEAR && change.change >= RISE;
  if (late < CUT_OFF && !(rises && change.late >= SOME)) return null;
  const reward = trend(series(run, "reward"));
  const success = trend(series(run, "success"));
  const learns = success !== null && success.z >= CLEAR;
  const cut = laterEpisodes(run).find(({ stopReason }) => stopReason === "max_tokens");
  return {
    kind: "problem",
    step: rises ? change.since : points[0]!.step,
    evidence: [
      change
        ? `cut off before the last action ended: ${arrow("share of episodes", change)}`
        : `share of episodes that are cut off: ${formatNumber(late)}`,
      ...(rises && learns
        ? [`${arrow("success", success)} all the same: what is cut off are failures, which cost nothing`]
        : rises && reward
          ? [`${arrow("reward", reward)}: what is cut off may be paid better than what ends`]
          : []),
      ...(cut === undefined ? [] : [describe(cut)]),
    ],
    change: [
      ...(rises
        ? [`see that a cut-off episode earns less than any that ends${setting(run, "rl", "truncatedReward")}`]
        : []),
      `more tokens for an action${setting(run, "rollout", "maxActionTokens")}, if they are needed`,
      "a longer warm start, if actions of demonstrations are short: the policy has not learnt how one ends",
    ],
  };
}
