/** Evaluation: success on tasks that training never saw, and how well the model predicts what the environment answers. */
import type { Rng } from "../engine/random.ts";
import type { Model } from "../nn/transformer.ts";
import { observationTokens } from "./echo.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "./environments/environment.ts";
import { score } from "./learner.ts";
import type { TokenPlan } from "./objective.ts";
import { rollout, type RolloutOptions } from "./rollout.ts";
import { type Trajectory, turnCount } from "./stream.ts";
import type { Template } from "./template.ts";

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
  const trajectories = await rollout(model, template, requests, options);
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

/** An episode with nothing to train, for scoring. */
export function unweighted(trajectory: Trajectory): TokenPlan {
  const nothing = new Float64Array(trajectory.stream.ids.length);
  return { trajectory, advantages: nothing, wPolicy: nothing, wWorld: nothing, wKl: nothing };
}

/** Mean of −lp over the world-model targets of the given episodes, in nats per token. */
export async function worldModelLoss(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
): Promise<number> {
  const targets = trajectories.map((t) => observationTokens(t).targets);
  const plans = trajectories.map(unweighted);
  const rowOf = new Map(plans.map((plan, i) => [plan, i]));
  const { logProbs } = await score(model, plans, {
    padId: template.padId,
    scored: (plan, t) => targets[rowOf.get(plan)!]![t]!,
  });
  let total = 0;
  let count = 0;
  targets.forEach((row, i) =>
    row.forEach((isTarget, t) => {
      if (!isTarget || t === 0) return;
      total -= logProbs[i]![t]!;
      count++;
    }),
  );
  return total / count;
}
