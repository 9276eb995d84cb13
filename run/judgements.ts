/**
 * The judgements of models that read episodes: an outcome model on successes, a process model on steps, a critic on
 * programs.
 */
import { turnEnds } from "../papers/completions.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { type PROCESS_FORMS, processRewards, solutionScore } from "../papers/rewards/process.ts";
import type { EpisodeReward } from "../rl/tasks/scoring.ts";
import { criticise, outcomeClass, OUTCOMES } from "../methods/outcomeCritic.ts";
import { lastToken, readEpisodes, type Reader } from "../methods/reader.ts";
import type { OutcomeCriticOptions } from "./rewardOptions.ts";

const probability = (logit: number): number => 1 / (1 + Math.exp(-logit));

/** The probability of success at the end of each episode. */
export async function outcomeValues(
  reader: Reader,
  episodes: readonly Trajectory[],
  padId: number,
): Promise<readonly number[]> {
  const logits = await readEpisodes(reader, episodes, (episode, t) => t === lastToken(episode), { padId });
  return logits.map((of, i) => probability(of[lastToken(episodes[i]!)]!));
}

/** Whether the model judges each episode a success. */
export const verdicts = async (
  reader: Reader,
  episodes: readonly Trajectory[],
  padId: number,
): Promise<readonly boolean[]> => (await outcomeValues(reader, episodes, padId)).map((value) => value >= 0.5);

/** Balanced accuracy: the mean of the shares of right verdicts on successes and on failures; one half for chance. */
export function agreement(judged: readonly boolean[], truth: readonly boolean[]): number {
  const shares = [true, false].flatMap((kind) => {
    const of = judged.filter((_, i) => truth[i] === kind);
    return of.length === 0 ? [] : [of.filter((verdict) => verdict === kind).length / of.length];
  });
  return shares.reduce((a, b) => a + b, 0) / shares.length;
}

/** The reward by a trained outcome model; its part `agreement` is 1 where the verifier agrees. */
export async function judgeOutcome(reader: Reader, { padId }: Template, episode: Trajectory): Promise<EpisodeReward> {
  const [isGood = false] = await verdicts(reader, [episode], padId);
  return { reward: Number(isGood), parts: { orm: Number(isGood), agreement: Number(isGood === succeeded(episode)) } };
}

/** The probability of success after each step of each episode, by the process model. */
export async function stepValues(
  reader: Reader,
  episodes: readonly Trajectory[],
  padId: number,
): Promise<readonly number[][]> {
  const ends = new Map(episodes.map((episode) => [episode, turnEnds(episode)]));
  const logits = await readEpisodes(reader, episodes, (episode, t) => ends.get(episode)!.includes(t), { padId });
  return episodes.map((episode, i) => ends.get(episode)!.map((t) => probability(logits[i]![t]!)));
}

/**
 * The rewards of an episode's steps by a trained process model. Its part `prm` is the score of the episode as a
 * solution; `agreement` is 1 where the value after the last step agrees with the verifier.
 */
export async function judgeSteps(
  reader: Reader,
  { padId }: Template,
  episode: Trajectory,
  form: (typeof PROCESS_FORMS)[number],
): Promise<EpisodeReward> {
  const [values = []] = await stepValues(reader, [episode], padId);
  const rewards = processRewards(values, form);
  const isGood = (values.at(-1) ?? 0) >= 0.5;
  return {
    reward: rewards.reduce((a, b) => a + b, 0),
    // An action that was cut off earns the rest of the return.
    stepRewards: rewards.slice(0, episode.stepRewards.length),
    parts: { prm: solutionScore(values), agreement: Number(isGood === succeeded(episode)) },
  };
}

/**
 * The area under the ROC curve: the probability that a score of a true case is above that of a false one, equal ones
 * counting half.
 * @returns NaN if all are of one kind
 */
export function rocArea(scores: readonly number[], truth: readonly boolean[]): number {
  const of = (kind: boolean): number[] => scores.filter((_, i) => truth[i] === kind);
  const [good, bad] = [of(true), of(false)];
  const above = good.flatMap((g) => bad.map((b) => (g > b ? 1 : g === b ? 0.5 : 0)));
  return above.reduce<number>((a, b) => a + b, 0) / above.length;
}

/** An episode's reward with the critic's shares of its tokens; `critic` is 1 where it foretells the outcome. */
export async function withShares(
  reader: Reader,
  { padId }: Template,
  episode: Trajectory,
  reward: EpisodeReward,
  labels: OutcomeCriticOptions["labels"],
): Promise<EpisodeReward> {
  if (labels === "uniform") return { ...reward, tokenShares: episode.stream.ids.map(() => 1 / OUTCOMES.length) };
  const criticism = await criticise(reader, episode, { padId });
  const isRight = Number(criticism?.said === outcomeClass(episode));
  return {
    ...reward,
    parts: { ...reward.parts, critic: isRight },
    ...(criticism ? { tokenShares: criticism.shares } : {}),
  };
}
