/** The episodes of a step: those that were just played, and those that plug-ins add, to be trained or imitated. */
import type { Metrics } from "../episode/metrics.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Objective } from "../objective/objective.ts";
import type { DataOptions, PlayedStep, PlayEpisodes, PlayOptions } from "../tasks/play.ts";
import { isHelped, type StepSoFar } from "../tasks/plugin.ts";
import { rewarded } from "../tasks/scoring.ts";
import { withTruncatedReward } from "../tasks/truncated.ts";
import type { PackOptions } from "./pack.ts";
import type { StepReport } from "./report.ts";
import { tokenStatistics } from "./score.ts";
import type { MixturePart } from "./imitation.ts";

/** The source of a step's episodes. */
export interface EpisodeSource {
  /** New episodes for step `step`; `null` if the run was stopped. */
  play(step: number): Promise<Pick<PlayedStep, "trajectories" | "metrics"> | null>;
  /** Called when the parameters have changed; it may add to the step's report. */
  updated?(report: StepReport): Promise<StepReport>;
}

export interface StepEpisodes {
  readonly trajectories: readonly Trajectory[];
  /** Episodes that the policy has played in this step, without help. */
  readonly own: readonly Trajectory[];
  /** Episodes that are imitated beside the policy loss. They have no reward, no advantage and no old policy. */
  readonly imitated: readonly MixturePart[];
  /** Whether an older policy wrote some of them. */
  readonly isOffPolicy: boolean;
  readonly metrics: Metrics;
}

/** Plays new episodes; plug-ins add others. */
export async function play(
  options: DataOptions & Pick<PlayOptions, "model" | "template" | "rng"> & { readonly objective: Objective },
  source: EpisodeSource,
  step: number,
  packing: Pick<PackOptions, "padId" | "maxTokens">,
): Promise<StepEpisodes | null> {
  const played = await source.play(step);
  if (played === null) return null;
  const { model, template, objective, plugins = [], rng } = options;
  const { trajectories: fresh } = played;
  const own = fresh.filter((t) => !isHelped(t));
  const logProbs: StepSoFar["logProbs"] = async (rows) =>
    (await tokenStatistics({ model }, ["logProbs"], rows, packing)).logProbs!;
  const context = { step, fresh, own, objective, model, template, rng: rng.split(step), logProbs };
  const [trained, imitated]: [Trajectory[], MixturePart[]] = [[...fresh], []];
  const metrics = { ...played.metrics };
  let isOffPolicy = false;
  for (const plugin of plugins) {
    const added = await plugin.extend?.({ ...context, trained });
    if (!added) continue;
    trained.push(...(added.trained ?? []));
    if (added.imitated && added.imitated.episodes.length > 0) imitated.push(added.imitated);
    isOffPolicy ||= added.isOffPolicy ?? false;
    Object.assign(metrics, added.metrics);
  }
  return { trajectories: trained, own, imitated, isOffPolicy, metrics };
}

/**
 * Plays each task once more, greedily, if the estimator asks for it. The return of that episode is the baseline of the
 * task's group (ReMax); it is NaN if the environment failed.
 */
export async function withBaseline(
  options: PlayOptions & { readonly objective: Objective },
  { requests, trajectories }: Pick<PlayedStep, "requests" | "trajectories">,
  playEpisodes: PlayEpisodes,
): Promise<readonly Trajectory[]> {
  const { objective, groupSize, rollout, truncatedReward } = options;
  if (!objective.advantage.greedyBaseline) return trajectories;
  const first = requests.filter((_, e) => e % groupSize === 0);
  const again = first.map((request) => ({ ...request, rng: request.rng.split("greedy") }));
  const played = await playEpisodes(again, { ...rollout, temperature: 0 });
  // The sampled episodes are ends to compare with, unless a `reward` function has scored them.
  const beside = options.reward ? [] : trajectories;
  const judged = withTruncatedReward([...played, ...beside], truncatedReward).slice(0, played.length);
  const greedy = await rewarded(options, judged, rollout.signal);
  const rewardOf = new Map(greedy.map((t) => [t.group, t.masked ? NaN : t.reward]));
  return trajectories.map((t) => ({ ...t, greedyReward: rewardOf.get(t.group)! }));
}
