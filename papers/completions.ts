/**
 * Success rates of completions from each step of an episode, as Math-Shepherd labels steps (Wang et al. 2023,
 * arXiv 2312.08935). A step is a turn. The state after it is restored by replaying the episode's own actions, token by
 * token, in a fresh environment with its seed, and the policy plays on from there.
 *
 * An environment needs no `clone` for that, but its answers must follow from its seed and the actions. This is checked:
 * a remote environment that draws its tasks anew, for example, is refused. Its chance after the step follows from the
 * seed, too, so all completions meet the same chance as the episode did.
 */
import { check, fail } from "../engine/errors.ts";
import type { Rng } from "../engine/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../rl/environment.ts";
import type { Model } from "../nn/index.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { isAgentToken, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { rollout, type RolloutOptions } from "../rl/play/rollout.ts";

/** Counts of the completions of an episode from a step, and of those that succeeded. */
export interface StepTries {
  readonly successes: number;
  readonly tries: number;
}

/** Options of `completeSteps`: the environment, the completions of each step, random numbers and limits. */
export interface CompletionOptions {
  readonly spec: EnvironmentSpec;
  /** The options that the episodes were played with. */
  readonly options: EnvironmentOptions;
  /** N, the completions of each step. */
  readonly samples: number;
  readonly rng: Rng;
  readonly rollout: RolloutOptions;
}

/**
 * Plays on from each step of these episodes, which the policy played with the same options, in one batch. After the
 * last step there is nothing to play: it has one try, the episode itself. Completions whose environment failed, or
 * gave no score, do not count; nor does such an episode itself.
 * @returns for each episode the tries of each of its steps, in order
 * @throws if an action was given and not sampled, or an environment does not answer as it did in the episode
 */
export async function completeSteps(
  model: Model,
  template: Template,
  episodes: readonly Trajectory[],
  { spec, options, samples, rng, rollout: limits }: CompletionOptions,
): Promise<StepTries[][]> {
  const places = episodes.flatMap((episode, i) =>
    turnEnds(episode)
      .slice(0, -1)
      .flatMap((_, turn) => Array.from({ length: samples }, (__, n) => ({ episode, i, turn, n }))),
  );
  const requests = places.map(({ episode, i, turn, n }) => {
    const stream = rng.split(i).split(turn).split(n);
    const forced = (now: number): readonly number[] | undefined => (now > turn ? undefined : actionOf(episode, now));
    return { spec, options, seed: episode.seed, group: i, rng: stream, forced };
  });
  const counts = episodes.map((episode) => turnEnds(episode).map(() => ({ successes: 0, tries: 0 })));
  const played = requests.length === 0 ? [] : await rollout(model, template, requests, limits);
  for (const [place, completion] of played.entries()) {
    if (!isScored(completion)) continue;
    const { episode, i, turn } = places[place]!;
    checkReplay(completion, episode, turn, template);
    const count = counts[i]![turn]!;
    count.tries++;
    count.successes += Number(succeeded(completion));
  }
  return counts.map((steps, i) => {
    const episode = episodes[i]!;
    const last = isScored(episode) ? { successes: Number(succeeded(episode)), tries: 1 } : { successes: 0, tries: 0 };
    return steps.map((count, turn) => (turn === steps.length - 1 ? last : count));
  });
}

/** Whether an episode is unmasked and has a score. */
const isScored = ({ masked, reward }: Trajectory): boolean => !masked && !Number.isNaN(reward);

/** The places where the tokens of a turn begin and where those of the next begin. */
function spanOf(episode: Trajectory, turn: number): readonly [from: number, to: number] {
  const ends = turnEnds(episode);
  return [turn === 0 ? 0 : ends[turn - 1]! + 1, ends[turn]! + 1];
}

/** The tokens that the policy sampled in a turn. */
function actionOf(episode: Trajectory, turn: number): number[] {
  const { ids, roles } = episode.stream;
  const [from, to] = spanOf(episode, turn);
  const action = ids.slice(from, to).filter((_, k) => isAgentToken(roles[from + k]!));
  check(
    action.length > 0,
    () => `completions: turn ${turn} of an episode of ${episode.env} was given, and not sampled`,
  );
  return action;
}

/** @throws if the environment has answered a step up to this turn otherwise than in the episode */
function checkReplay(completion: Trajectory, episode: Trajectory, turn: number, template: Template): void {
  for (let now = 0; now <= turn; now++) {
    const idsOf = (of: Trajectory): number[] => of.stream.ids.slice(...spanOf(of, now));
    const isSame = idsOf(completion).join() === idsOf(episode).join();
    if (isSame && completion.stepRewards[now] === episode.stepRewards[now]) continue;
    const shown = (of: Trajectory): string =>
      `${JSON.stringify(template.tokenizer.decode(idsOf(of)))} with reward ${of.stepRewards[now]}`;
    fail(
      `completions: ${episode.env} does not repeat turn ${now} of seed ${episode.seed}: ` +
        `expected ${shown(episode)}, got ${shown(completion)}; ` +
        "steps are labelled in environments that follow from their seed and the actions",
    );
  }
}

/**
 * The last token of each turn with an action, in order. A model that reads up to there knows the action, its answer,
 * and whether the episode goes on.
 */
export function turnEnds({ stream, stepRewards }: Pick<Trajectory, "stream" | "stepRewards">): number[] {
  const last = stream.roles.findLastIndex(isAgentToken);
  const turns = Math.max(stepRewards.length, last < 0 ? 0 : stream.turns[last]! + 1);
  return Array.from({ length: turns }, (_, turn) => stream.turns.lastIndexOf(turn));
}
