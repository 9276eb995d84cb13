/**
 * What an agent expected to be answered: its own most probable answer to each of its actions, token by token without chance, from the
 * tokens that it had read when it acted. A world-model loss is a number; this is the same model in words.
 *
 * What closes an answer is the template's and no target of any loss, so no model knows where an answer ends: what it expected is
 * written down as far as the answer that came is long.
 */
import { generate, type Model } from "../../nn/index.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

/** Where an answer stands in its episode. */
export interface AnswerPlace {
  /** Its episode, in the list of trajectories. */
  readonly episode: number;
  /** Its first token. */
  readonly start: number;
  /** Tokens; 0 of an empty answer. */
  readonly length: number;
}

/** The answers that these trajectories hold, in order. */
export function answerPlaces(template: Template, trajectories: readonly Trajectory[]): AnswerPlace[] {
  const tag = template.tokenizer.special["<|obs|>"]!;
  // Nobody but the template writes the tag, and it opens every answer, the empty ones too.
  return trajectories.flatMap(({ stream: { ids, roles } }, episode) =>
    ids.flatMap((id, t) => {
      if (id !== tag || roles[t] !== "scaffold") return [];
      const after = roles.slice(t + 1);
      const length = after.findIndex((role) => role !== "observation");
      return [{ episode, start: t + 1, length: length < 0 ? after.length : length }];
    }),
  );
}

/**
 * @param maxTokens the longest answer that is written down
 * @returns for each trajectory a text for each answer that it holds, in order
 */
export async function expectedAnswers(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
  maxTokens: number,
): Promise<string[][]> {
  const places = answerPlaces(template, trajectories);
  const answers = trajectories.map((): string[] => []);
  if (places.length === 0) return answers;
  const prompts = places.map(({ episode, start }) => trajectories[episode]!.stream.ids.slice(0, start));
  const stopIds = [template.endId];
  const generated = await generate(model, prompts, { maxNewTokens: maxTokens, temperature: 0, stopIds });
  places.forEach(({ episode, length }, i) => {
    const ids = generated[i]!.tokens.slice(0, length).map(({ id }) => id).filter((id) => id !== template.endId); // prettier-ignore
    answers[episode]!.push(template.tokenizer.decode(ids));
  });
  return answers;
}
