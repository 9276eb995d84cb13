/** Evaluation: success on tasks that training never saw, and how well the model predicts what the environment answers. */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/index.ts";
import type { Model } from "../nn/index.ts";
import { observationTokens } from "./methods/world/echo.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../environments/index.ts";
import { score } from "./train/score.ts";
import { rowOf } from "./methods/columns.ts";
import { rollout, type RolloutOptions } from "./play/rollout.ts";
import { type Trajectory, turnCount } from "./episode/stream.ts";
import type { Template } from "./episode/template.ts";

export interface Evaluation {
  readonly episodes: number;
  readonly successes: number;
  readonly meanReward: number;
  readonly meanTurns: number;
  /**
   * Successes and episodes per task family. `all` if the environment has none; `unknown` are episodes that ended before it said theirs:
   * it says it only with its answers, and the first action was cut off.
   */
  readonly families: Readonly<Record<string, { readonly successes: number; readonly episodes: number }>>;
  readonly trajectories: readonly Trajectory[];
}

/** Plays one episode for each seed. Give `split: "heldout"` in `envOptions` for unseen tasks. */
export async function evaluate(
  model: Model,
  template: Template,
  env: EnvironmentSpec,
  envOptions: EnvironmentOptions,
  seeds: readonly number[],
  rng: Rng,
  options: RolloutOptions,
): Promise<Evaluation> {
  const requests = seeds.map((seed, i) => ({ spec: env, options: envOptions, seed, group: i, rng: rng.split(i) }));
  return evaluationOf(await rollout(model, template, requests, options));
}

/** What episodes come to, whoever played them. */
export function evaluationOf(trajectories: readonly Trajectory[]): Evaluation {
  const families: Record<string, { successes: number; episodes: number }> = {};
  const isNamed = trajectories.some(({ info }) => info["family"] !== undefined);
  for (const { info } of trajectories) {
    const family = (families[String(info["family"] ?? (isNamed ? "unknown" : "all"))] ??= { successes: 0, episodes: 0 }); // prettier-ignore
    family.episodes++;
    if (info["success"] === true) family.successes++;
  }
  const average = (value: (t: Trajectory) => number): number =>
    trajectories.reduce((sum, t) => sum + value(t), 0) / trajectories.length;
  return {
    episodes: trajectories.length,
    successes: trajectories.filter((t) => t.info["success"] === true).length,
    meanReward: average((t) => (Number.isNaN(t.reward) ? 0 : t.reward)),
    meanTurns: average(turnCount),
    families,
    trajectories,
  };
}

/** What of an episode the environment wrote: the sum of −lp over these tokens, in nats, and how many they are. */
export interface WorldLoss {
  readonly nats: number;
  readonly tokens: number;
}

/** Mean of −lp over the world-model targets of episodes, in nats per token; NaN if there are none. */
export const meanWorldLoss = (losses: readonly WorldLoss[]): number =>
  losses.reduce((sum, { nats }) => sum + nats, 0) / losses.reduce((sum, { tokens }) => sum + tokens, 0);

/** How well the model predicts what the environment answers in each of the given episodes. */
export async function worldModelLosses(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
): Promise<WorldLoss[]> {
  const targets = trajectories.map((t) => observationTokens(t).targets);
  const rows = trajectories.map((trajectory) => rowOf(trajectory));
  const targetsOf = new Map(rows.map((row, i) => [row, targets[i]!]));
  const { logProbs } = await score(model, rows, {
    padId: template.padId,
    scored: (row, t) => targetsOf.get(row)![t]!,
  });
  return targets.map((row, i) => {
    const scored = row.flatMap((isTarget, t) => (isTarget && t > 0 ? [-logProbs[i]![t]!] : []));
    return { nats: scored.reduce((sum, nll) => sum + nll, 0), tokens: scored.length };
  });
}

/** Mean of −lp over the world-model targets of the given episodes, in nats per token. */
export const worldModelLoss = async (
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
): Promise<number> => meanWorldLoss(await worldModelLosses(model, template, trajectories));

/**
 * What is left of the world-model loss when the entropy of the answers themselves (`answerEntropy` in the info) is taken away:
 * (Σ −lp − Σ H) / tokens, in nats per token. 0 in the mean is a model that knows the world and what it has read; chance in what is drawn
 * moves it to both sides. Where an answer ends belongs to its entropy and is no target (`<|end|>` is the template's): whoever knows all
 * comes out below 0 by that, which is 0.28 nats for a number from 2 to 98 digit by digit, and nothing for a word.
 *
 * Of episodes whose answers were read and scored whole: left out are those with an answer of `maxObservationTokens` or more, which may be
 * cut, with one that there was no room for, with one before the first action, with warnings, and failed ones.
 *
 * @param losses `worldModelLosses` of the trajectories
 * @returns undefined if no such episode was answered, or the environment does not tell the entropy of its answers
 */
export function worldLossExcess(
  losses: readonly WorldLoss[],
  trajectories: readonly Trajectory[],
  maxObservationTokens: number,
): number | undefined {
  let [nats, tokens] = [0, 0];
  for (const [i, { stream, info, stopReason }] of trajectories.entries()) {
    const { answerEntropy } = info;
    const lengths = new Map<number, number>();
    stream.roles.forEach((role, t) => {
      if (role === "observation") lengths.set(stream.turns[t]!, (lengths.get(stream.turns[t]!) ?? 0) + 1);
    });
    const all = [...lengths.values()];
    const isWhole = all.every((n) => n < maxObservationTokens) && all.reduce((a, b) => a + b, 0) === losses[i]!.tokens;
    if (typeof answerEntropy !== "number" || !isWhole || stopReason === "context_overflow") continue;
    nats += losses[i]!.nats - answerEntropy;
    tokens += losses[i]!.tokens;
  }
  return tokens > 0 ? nats / tokens : undefined;
}

/**
 * The unbiased estimate of pass@k, the chance that one of k tries solves a task, from n ≥ k tries of each of which c succeeded:
 * 1 − C(n − c, k) / C(n, k), averaged over tasks (Chen et al. 2021, arXiv 2107.03374, eq. 1).
 *
 * @param solved c of every task
 */
export function passAt(solved: readonly number[], n: number, k: number): number {
  check(k >= 1 && k <= n, () => `passAt: expected 1 ≤ k ≤ ${n} tries, got ${k}`);
  const ofTask = (c: number): number => {
    let missed = 1; // C(n − c, k) / C(n, k), factor by factor, which no factorial overflows
    for (let i = 0; i < k; i++) missed *= Math.max(0, n - c - i) / (n - i);
    return 1 - missed;
  };
  return solved.reduce((sum, c) => sum + ofTask(c), 0) / solved.length;
}
