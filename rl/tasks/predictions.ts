/**
 * Rewarded predictions: of some answers of a step the model writes down, several times, what it expects to be answered, and is paid for
 * what came near. The guesses at one answer are a group and learnt from as any other group: the same loss, the same advantage, so that
 * a world model comes out of rewards alone. After RWML (arXiv 2602.05842): the reward of a generated next observation ŝ is 1[d(ŝ, s) < τ].
 *
 * Not the paper's: d is the edit distance between the tokens of ŝ and of s, over the longer length. ECHO's cross-entropy tells the model
 * the answer; this tells it only whether it was right, and costs a generation for every guess.
 */
import { check } from "../../engine/errors.ts";
import { editDistance } from "../../engine/options.ts";
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Rng } from "../../engine/index.ts";
import { generate, type Model } from "../../nn/index.ts";
import { type AnswerPlace, answerPlaces } from "../play/expectation.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { Objective } from "../methods/objective.ts";
import { append, emptyStream, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

export const PREDICTIONS = options("predictions", {
  perStep: number(16, "answers that are predicted in a step, drawn from all that it had", { integer: true, min: 1 }),
  size: number(8, "guesses at each of them, which are compared with each other", { integer: true, min: 2 }),
  threshold: number(0.1, "τ: how far a guess may be from the answer, in edits per token", { above: 0, max: 1 }),
});
export type PredictionOptions = OptionsOf<typeof PREDICTIONS>;

/** @throws one clear line if a number is out of range, or if the objective compares nothing within groups */
export function checkPredictions(
  given: PredictionOptions,
  { critic, advantage }: Pick<Objective, "critic" | "advantage">,
): void {
  PREDICTIONS.read(given);
  check(critic === undefined, () => "predictions are compared in groups, which a critic's values know nothing of; leave one of them out"); // prettier-ignore
  check(!advantage.greedyBaseline, () => `predictions have no greedy rollout, which the advantage ${advantage.name} compares with; leave one of them out`); // prettier-ignore
}

/** The numbers of these groups: beyond all that are played. */
const FIRST_GROUP = 2 ** 30;

export interface Predictions {
  /** Guesses, each an episode of one action, the prediction, after everything that the model had read before the answer. */
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/** Guesses at some of the answers in these episodes. @param version recorded as the policy's with what is drawn */
export async function predictAnswers(
  model: Model,
  template: Template,
  episodes: readonly Trajectory[],
  given: PredictionOptions,
  rng: Rng,
  version: number,
): Promise<Predictions> {
  const { perStep, size, threshold } = PREDICTIONS.read(given);
  const answers = answerPlaces(template, episodes).filter(({ episode, length }) => length > 0 && !episodes[episode]!.masked); // prettier-ignore
  const places = rng.split("places").shuffle(answers).slice(0, perStep);
  if (places.length === 0) return { trajectories: [], metrics: {} };
  const prompts = places.flatMap(({ episode, start }) => {
    const prompt = episodes[episode]!.stream.ids.slice(0, start);
    return Array.from({ length: size }, () => prompt);
  });
  const stopIds = [template.endId];
  const maxNewTokens = Math.max(...places.map(({ length }) => length));
  const guesses = await generate(model, prompts, { maxNewTokens, temperature: 1, stopIds, rng: rng.split("guesses") });
  const trajectories = guesses.map(({ tokens }, i): Trajectory => {
    const place = places[Math.floor(i / size)]!;
    const { stream, env, task, seed } = episodes[place.episode]!;
    // No answer has an end that the model could know: what is longer than the answer is not part of the guess.
    const guess = tokens.slice(0, place.length);
    const predicted = emptyStream();
    append(predicted, "prompt", 0, stream.ids.slice(0, place.start));
    append(predicted, "action", 0, guess.map(({ id }) => id), { oldLogProbs: guess.map(({ logProb }) => logProb), versions: guess.map(() => version) }); // prettier-ignore
    const reward = Number(distanceOf(predicted.ids, stream.ids, place, template.endId) < threshold);
    const group = FIRST_GROUP + Math.floor(i / size);
    return { stream: predicted, group, reward, stepRewards: [reward], stopReason: "completed", masked: false, env, task, seed, info: {} }; // prettier-ignore
  });
  const right = trajectories.filter(({ reward }) => reward > 0).length;
  return { trajectories, metrics: { "predictions/reward": right / trajectories.length } };
}

/** d(ŝ, s): edits over the longer length, in [0, 1]. */
function distanceOf(
  ids: readonly number[],
  all: readonly number[],
  { start, length }: AnswerPlace,
  end: number,
): number {
  const guess = ids.slice(start).filter((id) => id !== end);
  return editDistance(guess, all.slice(start, start + length)) / Math.max(guess.length, length);
}
