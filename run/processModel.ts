/**
 * The process reward model of `--reward prm` (Math-Shepherd, Wang et al. 2023, arXiv 2312.08935), which is trained
 * before RL begins: a copy of the warm start with a head of one logit, read at the end of each turn of an episode. It
 * learns how often the warm start succeeds if it plays on from there (papers/completions.ts). Its verdict on held-out
 * steps, whose completions are drawn anew, is reported beside the share that can be completed; `prm.labels=shuffled`
 * and `prm.steps=0` are the models that know nothing.
 */
import { turnEnds } from "../papers/completions.ts";
import { Rng } from "../engine/random.ts";
import { type Model, schedule } from "../nn/index.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { stepLabels } from "../papers/rewards/process.ts";
import { initReaderHead, type Marked, type Reader, trainReader } from "../methods/reader.ts";
import type { Experiment } from "./experiment.ts";
import { shownTo, type Watch } from "./observer.ts";
import { PRM, type PrmOptions } from "./rewardOptions.ts";
import { rocArea, stepValues } from "./judgements.ts";

/** An episode with the labels of its steps; steps that could not be tried have none. */
const labelled = (episode: Trajectory, labels: readonly number[]): Marked => ({
  episode,
  marks: turnEnds(episode).flatMap((token, k) => (Number.isNaN(labels[k]) ? [] : [{ token, target: labels[k]! }])),
});

/** The lessons with all their targets dealt out anew. */
function shuffled(lessons: readonly Marked[], rng: Rng): Marked[] {
  const dealt = rng.shuffle(lessons.flatMap(({ marks }) => marks.map(({ target }) => target)));
  return lessons.map(({ episode, marks }) => ({
    episode,
    marks: marks.map(({ token }) => ({ token, target: dealt.pop()! })),
  }));
}

/**
 * Plays, plays on from each step, and trains.
 * @param copy a copy of the warm start, which changes in place
 * @returns the model, and a sentence about its quality
 * @throws if the environment does not follow from its seed and the actions, or the run is stopped
 */
export async function trainProcessModel(
  experiment: Pick<Experiment, "preset" | "playTraining" | "completeTraining">,
  policy: Model,
  copy: Model,
  template: Template,
  { observer, eventLoop, signal }: Watch,
  given?: PrmOptions,
): Promise<{ readonly reader: Reader; readonly note: string }> {
  const { episodes: count, steps, batchSize, lr, samples, labels } = PRM.read(given);
  const rng = new Rng(experiment.preset.seed).split("prm");
  const reader = { model: copy, head: initReaderHead(copy, 1, rng.split("head")) };
  const measured = Math.ceil(count / 4);
  observer.phase("process model: playing on from each step", 2);
  const play = { rng: rng.split("episodes"), signal };
  const played = await experiment.playTraining(policy, template, count + measured, play);
  signal.throwIfAborted(); // nothing is learnt from a rollout that was stopped
  observer.update(1, {});
  const all = played.filter((episode) => !episode.masked && turnEnds(episode).length > 0);
  const options = { samples, rng: rng.split("completions"), signal };
  const tries = await experiment.completeTraining(policy, template, all, options);
  signal.throwIfAborted();
  observer.update(2, {});
  const kind = labels === "soft" ? "soft" : "hard";
  const marked = all.map((episode, i) => labelled(episode, stepLabels(tries[i]!, kind))).slice(measured);
  const { padId } = template;
  observer.phase("process model: learning which steps can be completed", steps);
  await trainReader(reader, labels === "shuffled" ? shuffled(marked, rng.split("labels")) : marked, {
    batchSize,
    steps,
    lr: schedule({ lr, warmup: Math.min(10, steps) }),
    rng: rng.split("draw"),
    padId,
    onStep: shownTo({ observer, eventLoop, signal }),
  });
  const held = all.slice(0, measured);
  const values = await stepValues(reader, held, padId);
  const judged = held.flatMap((_, i) =>
    stepLabels(tries[i]!, "hard").flatMap((label, k) => {
      const isLast = k === tries[i]!.length - 1;
      return Number.isNaN(label) ? [] : [{ value: values[i]![k]!, isGood: label === 1, isLast }];
    }),
  );
  // The outcome is known at the last step, and some environments have only one.
  const before = judged.filter(({ isLast }) => !isLast);
  const more = before.length === 0 ? "" : `; before the last, ${quality(before)}`;
  return { reader, note: `process model: ${quality(judged)} of held-out episodes${more}` };
}

/** A sentence on how well values tell steps apart, beside the accuracy of a constant answer. */
function quality(steps: readonly { readonly value: number; readonly isGood: boolean }[]): string {
  if (steps.length === 0) return "not measured, on 0 steps";
  const good = steps.filter(({ isGood }) => isGood).length;
  const right = steps.filter(({ value, isGood }) => value >= 0.5 === isGood).length;
  const percent = (n: number): string => `${((100 * n) / steps.length).toFixed(1)} %`;
  const area = rocArea(
    steps.map(({ value }) => value),
    steps.map(({ isGood }) => isGood),
  );
  const base = `the more common label has ${percent(Math.max(good, steps.length - good))}`;
  return `ROC area ${area.toFixed(3)}, right on ${percent(right)}, ${base} of ${steps.length} steps`;
}
