/** What models that read episodes say of them: an outcome model of successes, a critic of programs. */
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { EpisodeReward } from "../rl/tasks/scoring.ts";
import { criticise, outcomeClass, OUTCOMES } from "../rl/train/outcomeCritic.ts";
import { lastToken, readEpisodes, type Reader } from "../rl/train/reader.ts";
import type { OutcomeCriticOptions } from "./parts.ts";

export const succeeded = ({ info }: Trajectory): boolean => info["success"] === true;

/** Whether the model holds each episode for a success. */
export async function verdicts(reader: Reader, episodes: readonly Trajectory[], padId: number): Promise<boolean[]> {
  const logits = await readEpisodes(reader, episodes, (episode, t) => t === lastToken(episode), { padId });
  return logits.map((of, i) => of[lastToken(episodes[i]!)]! >= 0);
}

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
