/**
 * What models that read episodes say of them: an outcome model of successes, a process model of steps, a critic of
 * programs.
 */
import { succeeded } from "../rl/episode/outcomes.ts";
import { type Trajectory, turnEnds } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { type PROCESS_FORMS, processRewards, solutionScore } from "../papers/rewards/process.ts";
import type { EpisodeReward } from "../rl/tasks/scoring.ts";
import { criticise, outcomeClass, OUTCOMES } from "../methods/outcomeCritic.ts";
import { lastToken, readEpisodes, type Reader } from "../rl/train/reader.ts";
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

/** Whether the model holds each episode for a success. */
export const verdicts = async (
  reader: Reader,
  episodes: readonly Trajectory[],
  padId: number,
): Promise<readonly boolean[]> => (await outcomeValues(reader, episodes, padId)).map((value) => value >= 0.5);

/** Of the verdicts on successes and on failures the shares that agree, and their mean, which chance has at one half. */
export function agreement(said: readonly boolean[], truth: readonly boolean[]): number {
  const shares = [true, false].flatMap((kind) => {
    const of = said.filter((_, i) => truth[i] === kind);
    return of.length === 0 ? [] : [of.filter((verdict) => verdict === kind).length / of.length];
  });
  return shares.reduce((a, b) => a + b, 0) / shares.length;
}

/** The reward that a trained outcome model gives; its part `agreement` is 1 where the verifier says the same. */
export async function judgeOutcome(reader: Reader, { padId }: Template, episode: Trajectory): Promise<EpisodeReward> {
  const [isGood = false] = await verdicts(reader, [episode], padId);
  return { reward: Number(isGood), parts: { orm: Number(isGood), agreement: Number(isGood === succeeded(episode)) } };
}

/** What the process model holds each step of each episode for: the probability of success after it. */
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
 * solution; `agreement` is 1 where the value after the last step says what the verifier says.
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
    // What an action earns that was cut off is the rest of the return.
    stepRewards: rewards.slice(0, episode.stepRewards.length),
    parts: { prm: solutionScore(values), agreement: Number(isGood === succeeded(episode)) },
  };
}

/**
 * The area under the ROC curve: how often a score of what is true is above one of what is not, equal ones counting
 * half.
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
  said: EpisodeReward,
  labels: OutcomeCriticOptions["labels"],
): Promise<EpisodeReward> {
  if (labels === "uniform") return { ...said, tokenShares: episode.stream.ids.map(() => 1 / OUTCOMES.length) };
  const criticism = await criticise(reader, episode, { padId });
  const isRight = Number(criticism?.said === outcomeClass(episode));
  return {
    ...said,
    parts: { ...said.parts, critic: isRight },
    ...(criticism ? { tokenShares: criticism.shares } : {}),
  };
}
