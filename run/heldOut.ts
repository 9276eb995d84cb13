/** The score of an evaluation on held-out tasks, and its line of metrics. */
import { check } from "../engine/errors.ts";
import { type Evaluation, wasScored } from "../rl/evaluate.ts";
import { falseCalls, type Metrics } from "../rl/episode/metrics.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Reader } from "../methods/reader.ts";
import { infoMetrics } from "./infoMetrics.ts";
import { isKnown } from "./knownFacts.ts";
import type { Evaluation as Recorded, KnownFact } from "./records.ts";

export interface HeldOutScore extends Evaluation {
  /**
   * −lp per observation token, in nats, on fixed episodes of held-out tasks: half the expert's, half of random play.
   */
  readonly worldLoss: number;
  /** World-model loss on the half that is random play. */
  readonly worldLossRandom: number;
  /** World-model loss on the episodes that were just played. */
  readonly worldLossOnPolicy: number;
  /** `worldLossOnPolicy` minus the entropy of the answers themselves, if the environment reports it. */
  readonly worldLossExcess?: number;
  /** pass@k by k, if the tasks were tried more than once. */
  readonly passAt?: Readonly<Record<string, number>>;
  /** The share of tasks that a chosen one of these tries solves, by the rule of choice, if a model scores them. */
  readonly chosen?: Readonly<Record<string, number>>;
  /** −lp per token of the answers of general texts, in nats, if the run has any (`sft.general`). */
  readonly generalLoss?: number;
  /** The facts of the world, each with what the model knows of it, if the environment has such facts. */
  readonly facts?: readonly KnownFact[];
}

/** The line of metrics of an evaluation (records.ts). */
export function metricsOfScore(score: HeldOutScore): Metrics {
  const { episodes, notPlayed, unscored, successes, meanReward, rewardStd, meanTurns } = score;
  const { worldLoss, worldLossRandom, worldLossOnPolicy, worldLossExcess, generalLoss, facts } = score;
  return {
    ...(episodes === 0 ? {} : { success: successes / episodes }),
    ...(Number.isNaN(meanReward) ? {} : { reward: meanReward, reward_std: rewardStd }),
    episodes,
    ...(notPlayed === 0 ? {} : { not_played: notPlayed }),
    ...(unscored === 0 ? {} : { unscored }),
    "num_turns/mean": meanTurns,
    world_loss: worldLoss,
    "world_loss/random": worldLossRandom,
    "world_loss/on_policy": worldLossOnPolicy,
    ...(worldLossExcess === undefined ? {} : { world_loss_excess: worldLossExcess }),
    ...(generalLoss === undefined ? {} : { general_loss: generalLoss }),
    ...(facts === undefined ? {} : { facts_known: facts.filter(isKnown).length }),
    ...falseCalls(score.trajectories),
    ...infoMetrics(score.trajectories),
    ...Object.fromEntries(Object.entries(score.passAt ?? {}).map(([k, rate]) => [`pass@${k}`, rate])),
    ...Object.fromEntries(Object.entries(score.chosen ?? {}).map(([how, rate]) => [`chosen/${how}`, rate])),
  };
}

/**
 * A sentence if held-out tasks have the texts of training tasks, as in a world that does not know `split`.
 * @param trained the texts of training's tasks
 */
export function overlapNote(heldOut: readonly Trajectory[], trained: ReadonlySet<string>): string | undefined {
  const same = heldOut.filter(({ task }) => trained.has(task)).length;
  return same === 0
    ? undefined
    : `${same} of ${heldOut.length} held-out tasks have the same text as tasks of training: if the environment does ` +
        'not know split: "heldout", they are no new tasks';
}

/** What was played, as a summary keeps it; its families in the order of their names. */
export function playedRecord(score: Evaluation): Omit<Recorded, "label"> {
  const { episodes, notPlayed, unscored, successes, meanReward, rewardStd, meanTurns } = score;
  const names = Object.keys(score.families).toSorted();
  return {
    episodes,
    ...(notPlayed === 0 ? {} : { notPlayed }),
    ...(unscored === 0 ? {} : { unscored }),
    successes,
    ...(Number.isNaN(meanReward) ? {} : { meanReward, rewardStd }),
    meanTurns,
    families: Object.fromEntries(names.map((name) => [name, score.families[name]!])),
  };
}

/** The part of an evaluation that a summary keeps. */
export function recordOf(score: HeldOutScore): Omit<Recorded, "label"> {
  const { worldLoss, worldLossRandom, worldLossOnPolicy, worldLossExcess, passAt, facts } = score;
  return {
    ...playedRecord(score),
    worldLoss,
    worldLossRandom,
    worldLossOnPolicy,
    ...(worldLossExcess === undefined ? {} : { worldLossExcess }),
    ...(passAt ? { passAt } : {}),
    ...(facts ? { facts } : {}),
  };
}

/**
 * pass@1, pass@2, pass@4, … and pass@`tries`, from trajectories that go through all tasks `tries` times. Tries that
 * could not be played or scored are left out: pass@k is the mean over the tasks with k other tries or more, and is left
 * out if there are none.
 */
export function passAtPowers(
  trajectories: readonly Trajectory[],
  tasks: number,
  tries: number,
): Readonly<Record<string, number>> {
  const counts = Array.from({ length: tasks }, () => ({ solved: 0, scored: 0 }));
  trajectories.forEach((episode, i) => {
    if (!wasScored(episode)) return;
    counts[i % tasks]!.scored++;
    counts[i % tasks]!.solved += Number(succeeded(episode));
  });
  const rates = (k: number): number[] =>
    counts.flatMap(({ solved, scored }) => (scored < k ? [] : [passAt([solved], scored, k)]));
  const powers = Array.from({ length: Math.ceil(Math.log2(tries)) }, (_, i) => 2 ** i);
  return Object.fromEntries(
    [...powers, tries].flatMap((k) => {
      const of = rates(k);
      return of.length === 0 ? [] : [[k, of.reduce((a, b) => a + b) / of.length]];
    }),
  );
}

/** How tasks are played to measure an agent. */
export interface PlayOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * Episodes per task; default 1. With more, pass@k is estimated from all of them, and everything else is measured on
   * the first.
   */
  readonly tries?: number;
  /** The model that plays. Default: the run's. */
  readonly player?: "model" | "random";
  /** Held-out tasks, which is the default, or such as training has. */
  readonly split?: Split;
  /** Default: the rollout's. 0 is greedy. */
  readonly temperature?: number | undefined;
}

/** Tasks that training never asks, or such as it has. */
export const SPLITS = ["heldout", "train"] as const;
export type Split = (typeof SPLITS)[number];

/** Options of an evaluation on held-out tasks. */
export interface EvaluateOptions extends Pick<PlayOptions, "signal" | "tries" | "player"> {
  /** A model that scores tries of a task: with more than one, it chooses among them. */
  readonly reader?: Reader | undefined;
}

/**
 * The unbiased estimate of pass@k, the probability that at least one of k tries solves a task, from n ≥ k tries per
 * task of which c succeeded: 1 − C(n − c, k) / C(n, k), averaged over tasks (Chen et al. 2021, arXiv 2107.03374, eq.
 * 1).
 * @param solved c for every task
 */
export function passAt(solved: readonly number[], n: number, k: number): number {
  check(k >= 1 && k <= n, () => `passAt: expected 1 ≤ k ≤ ${n} tries, got ${k}`);
  const ofTask = (c: number): number => {
    let missed = 1; // C(n − c, k) / C(n, k) as a product, because factorials would overflow
    for (let i = 0; i < k; i++) missed *= Math.max(0, n - c - i) / (n - i);
    return 1 - missed;
  };
  return solved.reduce((sum, c) => sum + ofTask(c), 0) / solved.length;
}
