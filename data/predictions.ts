/**
 * Rewarded predictions: the model predicts some of a step's answers, each several times, and gets a reward for a
 * prediction that is close. The predictions of one answer are a group and are trained like any other group, with the
 * same loss and the same advantage, so the world model is learnt from rewards alone. As in RWML (arXiv 2602.05842) the
 * reward of a generated next observation ŝ is 1[d(ŝ, s) < τ].
 *
 * This differs from the paper: d is the edit distance between the tokens of ŝ and s, divided by the longer length.
 * Unlike ECHO's cross-entropy, which trains on the answer itself, the reward only says whether a prediction was right,
 * and every prediction has to be generated.
 */
import { check } from "../engine/errors.ts";
import { editDistance } from "../engine/options.ts";
import { number, options, type OptionsOf } from "../engine/optionTable.ts";
import type { Rng } from "../engine/index.ts";
import { generate, type Model } from "../nn/index.ts";
import { type AnswerPlace, answerPlaces } from "./expectation.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { append, emptyStream, readBefore, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import { pluginEntry } from "./entry.ts";

export const PREDICTIONS = options("predictions", {
  perStep: number(16, "how many of a step's answers are predicted, drawn at random", { integer: true, min: 1 }),
  size: number(8, "predictions of each answer, which are compared with each other", { integer: true, min: 2 }),
  threshold: number(0.1, "τ: a prediction is right if its distance from the answer, in edits per token, is below it", {
    above: 0,
    max: 1,
  }),
});
/**
 * Rewarded predictions of answers (after RWML, arXiv 2602.05842), for `predictions`: by default 16 answers of a
 * step, 8 predictions of each, right below 0.1 edits per token (docs/methods.md, `predictions.…`).
 */
export type PredictionOptions = OptionsOf<typeof PREDICTIONS>;

/** Adds rewarded predictions of the environment's answers in the step's episodes. */
export function predictions(given?: PredictionOptions): EpisodePlugin {
  const settled = PREDICTIONS.read(given);
  return {
    name: "predictions",
    check({ objective: { critic, advantage } }) {
      check(
        critic === undefined,
        () => "predictions are compared in groups, which a critic's values know nothing of; leave one of them out",
      );
      check(
        !advantage.greedyBaseline,
        () =>
          `predictions have no greedy rollout, which the advantage ${advantage.name} compares with; ` +
          "leave one of them out",
      );
    },
    async extend({ step, fresh, model, template, rng }) {
      const draw = rng.split("predictions");
      const { trajectories, metrics } = await predictAnswers(model, template, fresh, settled, draw, step);
      return { trained: trajectories, metrics };
    },
  };
}

export const predictionsEntry = pluginEntry({
  name: "predictions",
  flag: { name: "predict", kind: "count", option: "perStep", about: "rewards predictions of N answers in every step" },
  options: PREDICTIONS.fields,
  make: predictions,
});

/** The number of the first group of predictions, above the numbers of all played groups. */
const FIRST_GROUP = 2 ** 30;

export interface Predictions {
  /**
   * Each prediction as an episode with one action; its prompt is everything that the model had read before the answer.
   */
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/**
 * Predictions of some of the answers in these episodes.
 * @param version the version of the policy, which is recorded with drawn tokens
 */
export async function predictAnswers(
  model: Model,
  template: Template,
  episodes: readonly Trajectory[],
  given: PredictionOptions,
  rng: Rng,
  version: number,
): Promise<Predictions> {
  const { perStep, size, threshold } = PREDICTIONS.read(given);
  // An answer that was cut is unusable: the marker's content cannot be known.
  const isUsable = ({ episode, start, length }: AnswerPlace): boolean =>
    length > 0 &&
    !episodes[episode]!.masked &&
    episodes[episode]!.stream.targets.slice(start, start + length).every(Boolean);
  const answers = answerPlaces(template, episodes).filter(isUsable);
  const places = rng.split("places").shuffle(answers).slice(0, perStep);
  if (places.length === 0) return { trajectories: [], metrics: {} };
  const prompts = places.flatMap(({ episode, start }) => {
    const prompt = readBefore(episodes[episode]!.stream, start);
    return Array.from({ length: size }, () => prompt);
  });
  const stopIds = [template.endId];
  const maxNewTokens = Math.max(...places.map(({ length }) => length));
  const guesses = await generate(model, prompts, { maxNewTokens, temperature: 1, stopIds, rng: rng.split("guesses") });
  const trajectories = guesses.map(({ tokens }, i): Trajectory => {
    const place = places[Math.floor(i / size)]!;
    const { stream, env, task, seed } = episodes[place.episode]!;
    // The model cannot know where an answer ends, so tokens beyond the answer's length do not count.
    const guess = tokens.slice(0, place.length);
    const predicted = emptyStream();
    append(predicted, "prompt", 0, readBefore(stream, place.start));
    const ids = guess.map(({ id }) => id);
    const oldLogProbs = guess.map(({ logProb }) => logProb);
    append(predicted, "action", 0, ids, { oldLogProbs, versions: guess.map(() => version) });
    const reward = Number(
      distanceOf([...stream.ids.slice(0, place.start), ...ids], stream.ids, place, template.endId) < threshold,
    );
    const group = FIRST_GROUP + Math.floor(i / size);
    return {
      stream: predicted,
      group,
      reward,
      stepRewards: [reward],
      stopReason: "completed",
      masked: false,
      env,
      task,
      seed,
      info: {},
    };
  });
  const right = trajectories.filter(({ reward }) => reward > 0).length;
  return { trajectories, metrics: { "predictions/reward": right / trajectories.length } };
}

/** d(ŝ, s), in [0, 1]: the number of edits divided by the longer length. */
function distanceOf(
  ids: readonly number[],
  all: readonly number[],
  { start, length }: AnswerPlace,
  end: number,
): number {
  const guess = ids.slice(start).filter((id) => id !== end);
  return editDistance(guess, all.slice(start, start + length)) / Math.max(guess.length, length);
}
