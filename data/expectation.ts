/**
 * Expected answers: a model's greedily decoded answer of the environment to each of its actions, from the tokens that
 * it had read when it acted. A world-model loss is a number; this shows the same world model as text.
 *
 * The tag that closes an answer is written by the template and is a target of no loss, so no model learns where an
 * answer ends. An expected answer is therefore cut to the length of the real one.
 */
import { generate, type Model } from "../nn/index.ts";
import { readBefore, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";

/** The place of an answer in its episode. */
export interface AnswerPlace {
  /** The index of the episode in the list of trajectories. */
  readonly episode: number;
  /** The position of the answer's first token. */
  readonly start: number;
  /** The number of tokens; 0 for an empty answer. */
  readonly length: number;
}

/** The places of all answers in these trajectories, in order. */
export function answerPlaces(template: Template, trajectories: readonly Trajectory[]): AnswerPlace[] {
  // Only the template writes these tokens as scaffold, and they open every answer, including empty ones.
  const opening = template.answerOpening;
  return trajectories.flatMap(({ stream: { ids, roles } }, episode) =>
    ids.flatMap((_, t) => {
      const first = t + 1 - opening.length;
      if (!opening.every((id, i) => ids[first + i] === id && roles[first + i] === "scaffold")) return [];
      const after = roles.slice(t + 1);
      const length = after.findIndex((role) => role !== "observation");
      return [{ episode, start: t + 1, length: length < 0 ? after.length : length }];
    }),
  );
}

/**
 * The answers that the model expects in place of those in the trajectories.
 * @param maxTokens the largest number of generated tokens of an answer
 * @returns the texts of the expected answers of each trajectory, in order
 */
export async function expectedAnswers(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
  maxTokens: number,
): Promise<string[][]> {
  const answers = trajectories.map((): string[] => []);
  for (const { episode, ids } of await expectedTokens(model, template, trajectories, maxTokens)) {
    answers[episode]!.push(template.tokenizer.decode(ids.filter((id) => id !== template.endId)));
  }
  return answers;
}

/**
 * Expected answers as tokens, at most as many as the real answer has: the k-th is the expectation of the real one's
 * k-th.
 */
export async function expectedTokens(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
  maxTokens: number,
): Promise<(AnswerPlace & { readonly ids: readonly number[] })[]> {
  const places = answerPlaces(template, trajectories);
  if (places.length === 0) return [];
  const prompts = places.map(({ episode, start }) => readBefore(trajectories[episode]!.stream, start));
  const stopIds = [template.endId];
  const generated = await generate(model, prompts, { maxNewTokens: maxTokens, temperature: 0, stopIds });
  return places.map((place, i) => ({
    ...place,
    ids: generated[i]!.tokens.slice(0, place.length).map(({ id }) => id),
  }));
}
