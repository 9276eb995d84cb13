/**
 * The episodes of a step: those that were just played, guesses at their answers, replayed ones, and such as are only
 * imitated: failures under the tasks that they have achieved, and the expert's.
 */
import type { Rng } from "../../engine/index.ts";
import { longestText, type Model } from "../../nn/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import { succeeded } from "../episode/outcomes.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Objective } from "../methods/objective.ts";
import { HINDSIGHT, relabelFailed } from "../tasks/hindsight.ts";
import { expertEpisodes, IMITATE_EXPERT } from "../tasks/imitateExpert.ts";
import { isPrefixed } from "../tasks/expertPrefix.ts";
import type { DataOptions, PlayedStep, PlayEpisodes, PlayOptions } from "../tasks/play.ts";
import { predictAnswers } from "../tasks/predictions.ts";
import { type ReplayBuffer, withReplayed } from "../tasks/replay.ts";
import { rewarded } from "../tasks/scoring.ts";
import { withTruncatedReward } from "../tasks/truncated.ts";
import type { PackOptions } from "./pack.ts";
import type { StepReport } from "./report.ts";
import { tokenStatistics } from "./score.ts";
import type { MixturePart } from "./supervised.ts";

/** Where the episodes of a step come from. */
export interface EpisodeSource {
  /** New episodes for step `step`; `null` if the run was stopped. */
  play(step: number): Promise<Pick<PlayedStep, "trajectories" | "metrics"> | null>;
  /** The parameters have changed; the step's report may be added to. */
  updated?(report: StepReport): Promise<StepReport>;
}

export interface StepEpisodes {
  readonly trajectories: readonly Trajectory[];
  /** Those that the policy has played in this step, without help. */
  readonly own: readonly Trajectory[];
  /** Episodes that are imitated beside the policy loss. They have no reward, no advantage and no old policy. */
  readonly imitated: readonly MixturePart[];
  /** Whether an older policy wrote some of them. */
  readonly isOffPolicy: boolean;
  readonly metrics: Metrics;
}

/**
 * Plays new episodes and adds guesses and replayed episodes. The replay buffer takes the new episodes in, without the
 * guesses, and no expert's beginning counts as a failure to relabel.
 */
export async function play(
  options: DataOptions & Pick<PlayOptions, "model" | "template" | "rng"> & { readonly objective: Objective },
  source: EpisodeSource,
  step: number,
  packing: Pick<PackOptions, "padId" | "maxTokens">,
): Promise<StepEpisodes | null> {
  const played = await source.play(step);
  if (played === null) return null;
  const { model, template, predictions, replay, rng } = options;
  const { trajectories: fresh, metrics } = played;
  const own = fresh.filter((t) => !isPrefixed(t));
  const guessed = predictions
    ? await predictAnswers(model, template, fresh, predictions, rng.split(step).split("predictions"), step)
    : { trajectories: [], metrics: {} };
  const imitated = await imitatedParts(options, own, step);
  const all = [...fresh, ...guessed.trajectories];
  const scored = replay?.isFiltered ? await probabilitiesOf(model, replay, step, packing) : undefined;
  const drawn = replay ? replay.draw(step, scored) : [];
  replay?.add(fresh, step, options.objective.advantage.readsParts);
  const replayed = replay ? withReplayed(all, drawn, step) : { trajectories: all, metrics: {} };
  return {
    trajectories: replayed.trajectories,
    own,
    imitated: imitated.parts,
    isOffPolicy: drawn.length > 0,
    metrics: { ...metrics, ...replayed.metrics, ...guessed.metrics, ...imitated.metrics },
  };
}

/** What is imitated beside the policy loss: failures as solutions of other tasks, and the expert. */
async function imitatedParts(
  { model, template, hindsight, imitateExpert, rng }: Parameters<typeof play>[0],
  own: readonly Trajectory[],
  step: number,
): Promise<{ parts: MixturePart[]; metrics: Metrics }> {
  const longest = longestText(model.config);
  const draw = (name: string): Rng => rng.split(step).split(name);
  const parts: MixturePart[] = [];
  let metrics: Metrics = {};
  if (hindsight) {
    const relabelled = await relabelFailed(template, own, hindsight, draw("hindsight"), longest);
    parts.push({ episodes: relabelled.trajectories, weight: HINDSIGHT.read(hindsight).weight });
    metrics = relabelled.metrics;
  }
  if (imitateExpert) {
    const shown = await expertEpisodes(template, own, imitateExpert, draw("imitate expert"), longest);
    parts.push({ episodes: shown.trajectories, weight: IMITATE_EXPERT.read(imitateExpert).weight });
    metrics = { ...metrics, ...shown.metrics };
  }
  return { parts: parts.filter(({ episodes }) => episodes.length > 0), metrics };
}

/** Of each group that may be replayed the geometric mean of its successes' token probabilities; NaN without one. */
async function probabilitiesOf(
  model: Model,
  replay: ReplayBuffer,
  step: number,
  packing: Pick<PackOptions, "padId" | "maxTokens">,
): Promise<number[]> {
  const successes = replay.fresh(step).map(({ trajectories }) => trajectories.filter((t) => succeeded(t)));
  const rows = successes.flat();
  if (rows.length === 0) return successes.map(() => NaN);
  const { logProbs } = await tokenStatistics({ model }, ["logProbs"], rows, packing);
  let first = 0;
  return successes.map(({ length }) => {
    const own = logProbs!.slice(first, (first += length)).flatMap((row) => [...row].filter((lp) => !Number.isNaN(lp)));
    return Math.exp(own.reduce((a, b) => a + b, 0) / own.length); // NaN where nothing was sampled
  });
}

/**
 * If the estimator asks for it, plays each task once more, greedily. The return of that episode is the baseline of the
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
  const greedy = await rewarded(options, withTruncatedReward(played, truncatedReward), rollout.signal);
  const rewardOf = new Map(greedy.map((t) => [t.group, t.masked ? NaN : t.reward]));
  return trajectories.map((t) => ({ ...t, greedyReward: rewardOf.get(t.group)! }));
}
