/**
 * The models that are trained before RL begins, on episodes of training tasks that the warm start plays: CodeRL's
 * critic (see methods/outcomeCritic.ts), and the outcome reward model of `--reward orm` (WebRL, Qi et al. 2024, arXiv
 * 2411.02337), a copy of the warm start with a head of one logit, which learns the verifier's judgement of these
 * episodes. In RL it judges alone: 1 if a success is at least as probable as a failure, else 0. Its agreement with the
 * verifier is reported; `orm.labels=shuffled` and `orm.steps=0` are the models that know nothing.
 *
 * WebRL's is a language model that answers YES or NO and was trained on judgements of other tasks; the probability of
 * YES against NO is one logit here.
 */
import { Rng } from "../engine/random.ts";
import { type Model, schedule } from "../nn/index.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { criticise, outcomeClass, OUTCOMES, trainOutcomeCritic } from "../methods/outcomeCritic.ts";
import { initReaderHead, lastToken, type Marked, type Reader, trainReader } from "../methods/reader.ts";
import type { Experiment } from "./experiment.ts";
import { agreement, verdicts } from "./judgements.ts";
import { shownTo, type Watch } from "./observer.ts";
import { ORM, type OrmOptions, OUTCOME_CRITIC_TRAINING, type OutcomeCriticOptions } from "./rewardOptions.ts";

/** A judged episode, which is read to its end. */
const judged = (episode: Trajectory, isGood = succeeded(episode)): Marked => ({
  episode,
  marks: [{ token: lastToken(episode), target: Number(isGood) }],
});

/** Episodes of the warm start that a model which judges learns from. @throws if the run is stopped */
async function playedFor(
  who: string,
  experiment: Pick<Experiment, "playTraining">,
  policy: Model,
  template: Template,
  count: number,
  rng: Rng,
  { observer, signal }: Watch,
): Promise<Trajectory[]> {
  observer.phase(`${who}: playing`, 1);
  const played = await experiment.playTraining(policy, template, count, { rng: rng.split("episodes"), signal });
  signal.throwIfAborted(); // nothing is learnt from a rollout that was stopped
  observer.update(1, {});
  return played.filter(({ masked, reward }) => !masked && !Number.isNaN(reward)); // without a score nothing is known
}

/**
 * Plays, judges, and trains.
 * @param copy a copy of the warm start, which changes in place
 * @returns the model, and a sentence about its quality
 */
export async function trainOutcomeModel(
  experiment: Experiment,
  policy: Model,
  copy: Model,
  template: Template,
  watch: Watch,
  given?: OrmOptions,
): Promise<{ readonly reader: Reader; readonly note: string }> {
  const { episodes: count, steps, batchSize, lr, labels } = ORM.read(given);
  const rng = new Rng(experiment.preset.seed).split("orm");
  const reader = { model: copy, head: initReaderHead(copy, 1, rng.split("head")) };
  const measured = Math.ceil(count / 4);
  const all = await playedFor("outcome model", experiment, policy, template, count + measured, rng, watch);
  const [held, lessons] = [all.slice(0, measured), all.slice(measured)];
  const truth = lessons.map(succeeded);
  const taught = labels === "shuffled" ? rng.split("labels").shuffle(truth) : truth;
  const { padId } = template;
  watch.observer.phase("outcome model: learning which episodes succeed", steps);
  await trainReader(
    reader,
    lessons.map((episode, i) => judged(episode, taught[i])),
    {
      batchSize,
      steps,
      lr: schedule({ lr, warmup: Math.min(10, steps) }),
      rng: rng.split("draw"),
      padId,
      onStep: shownTo(watch),
    },
  );
  const heldTruth = held.map(succeeded);
  const share = (100 * agreement(await verdicts(reader, held, padId), heldTruth)).toFixed(1);
  const solved = heldTruth.filter(Boolean).length;
  const kinds = `${solved} successes and ${held.length - solved} failures`;
  const note = `outcome model: agrees with the verifier on ${share} %, the mean over ${kinds}`;
  return { reader, note };
}

/** Plays, and trains CodeRL's critic on the outcomes of the programs. @param copy changes in place */
export async function trainCritic(
  experiment: Experiment,
  policy: Model,
  copy: Model,
  template: Template,
  watch: Watch,
  given?: OutcomeCriticOptions,
): Promise<{ readonly reader: Reader; readonly note: string }> {
  const { episodes: count, steps, batchSize, lr, labels } = OUTCOME_CRITIC_TRAINING.read(given);
  const rng = new Rng(experiment.preset.seed).split("outcome critic");
  const reader = { model: copy, head: initReaderHead(copy, OUTCOMES.length, rng.split("head")) };
  if (labels === "uniform") return { reader, note: "outcome critic: none; each token has the share 1/4" };
  const measured = Math.ceil(count / 4);
  const all = await playedFor("outcome critic", experiment, policy, template, count + measured, rng, watch);
  const [held, lessons] = [all.slice(0, measured), all.slice(measured)];
  const truth = lessons.map(outcomeClass);
  const { padId } = template;
  const options = {
    batchSize,
    steps,
    lr: schedule({ lr, warmup: Math.min(10, steps) }),
    rng: rng.split("draw"),
    padId,
    onStep: shownTo(watch),
  };
  watch.observer.phase("outcome critic: learning what becomes of programs", steps);
  await trainOutcomeCritic(
    reader,
    lessons,
    labels === "shuffled" ? rng.split("labels").shuffle(truth) : truth,
    options,
  );
  const criticisms = await Promise.all(held.map((episode) => criticise(reader, episode, { padId })));
  const right = criticisms.filter((of, i) => of?.said === outcomeClass(held[i]!)).length;
  const common = OUTCOMES.map((_, k) => held.filter((episode) => outcomeClass(episode) === k).length);
  const percent = (n: number): string => `${((100 * n) / held.length).toFixed(1)} %`;
  return {
    reader,
    note: `outcome critic: right on ${percent(right)}; the most common outcome has ${percent(Math.max(...common))}`,
  };
}
