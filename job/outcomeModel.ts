/**
 * The outcome reward model of `--reward orm` (WebRL, Qi et al. 2024, arXiv 2411.02337): a copy of the warm start with a
 * head of one logit, trained before RL on episodes of training tasks that the warm start played and the verifier judged.
 * In RL it judges alone: 1 if it holds a success for at least as probable as not, else 0. How often it agrees with the
 * verifier is reported; `orm.labels=shuffled` and `orm.steps=0` are the models that know nothing.
 *
 * WebRL's is a language model that answers YES or NO and was trained on judgements of other tasks; the probability of
 * YES against NO is one logit here.
 */
import { Rng } from "../engine/random.ts";
import { type Model, schedule } from "../nn/index.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { EpisodeReward } from "../rl/tasks/scoring.ts";
import { criticise, outcomeClass, OUTCOMES, trainOutcomeCritic } from "../rl/train/outcomeCritic.ts";
import { initReaderHead, lastToken, type Marked, readEpisodes, type Reader, trainReader } from "../rl/train/reader.ts";
import type { Experiment } from "./experiment.ts";
import { ORM, type OrmOptions, OUTCOME_CRITIC_TRAINING, type OutcomeCriticOptions } from "./parts.ts";

const succeeded = ({ info }: Trajectory): boolean => info["success"] === true;

/** A judged episode; the whole of it is read. */
const judged = (episode: Trajectory, isGood = succeeded(episode)): Marked => ({
  episode,
  marks: [{ token: lastToken(episode), target: Number(isGood) }],
});

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
  given?: OrmOptions,
): Promise<{ readonly reader: Reader; readonly note: string }> {
  const { episodes: count, steps, batchSize, lr, labels } = ORM.read(given);
  const rng = new Rng(experiment.preset.seed).split("orm");
  const reader = { model: copy, head: initReaderHead(copy, 1, rng.split("head")) };
  const measured = Math.ceil(count / 4);
  const all = (await experiment.playTraining(policy, template, count + measured, rng.split("episodes"))).filter(
    ({ masked }) => !masked,
  );
  const [held, lessons] = [all.slice(0, measured), all.slice(measured)];
  const truth = lessons.map(succeeded);
  const taught = labels === "shuffled" ? rng.split("labels").shuffle(truth) : truth;
  const { padId } = template;
  await trainReader(
    reader,
    lessons.map((episode, i) => judged(episode, taught[i])),
    { batchSize, steps, lr: schedule({ lr, warmup: Math.min(10, steps) }), rng: rng.split("draw"), padId },
  );
  const heldTruth = held.map(succeeded);
  const share = (100 * agreement(await verdicts(reader, held, padId), heldTruth)).toFixed(1);
  const solved = heldTruth.filter(Boolean).length;
  const note = `outcome model: agrees with the verifier on ${share} %, mean over ${solved} successes and ${held.length - solved} failures`;
  return { reader, note };
}

/** The reward that a trained outcome model gives; its part `agreement` is 1 where the verifier says the same. */
export async function judgeOutcome(reader: Reader, { padId }: Template, episode: Trajectory): Promise<EpisodeReward> {
  const [isGood = false] = await verdicts(reader, [episode], padId);
  return { reward: Number(isGood), parts: { orm: Number(isGood), agreement: Number(isGood === succeeded(episode)) } };
}

/** Plays, and trains CodeRL's critic on what became of the programs. @param copy changes in place */
export async function trainCritic(
  experiment: Experiment,
  policy: Model,
  copy: Model,
  template: Template,
  given?: OutcomeCriticOptions,
): Promise<{ readonly reader: Reader; readonly note: string }> {
  const { episodes: count, steps, batchSize, lr, labels } = OUTCOME_CRITIC_TRAINING.read(given);
  const rng = new Rng(experiment.preset.seed).split("outcome critic");
  const reader = { model: copy, head: initReaderHead(copy, OUTCOMES.length, rng.split("head")) };
  if (labels === "uniform") return { reader, note: "outcome critic: none; each token has the share 1/4" };
  const measured = Math.ceil(count / 4);
  const played = await experiment.playTraining(policy, template, count + measured, rng.split("episodes"));
  const all = played.filter(({ masked }) => !masked);
  const [held, lessons] = [all.slice(0, measured), all.slice(measured)];
  const truth = lessons.map(outcomeClass);
  const { padId } = template;
  const options = {
    batchSize,
    steps,
    lr: schedule({ lr, warmup: Math.min(10, steps) }),
    rng: rng.split("draw"),
    padId,
  };
  await trainOutcomeCritic(
    reader,
    lessons,
    labels === "shuffled" ? rng.split("labels").shuffle(truth) : truth,
    options,
  );
  const said = await Promise.all(held.map((episode) => criticise(reader, episode, { padId })));
  const right = said.filter((of, i) => of?.said === outcomeClass(held[i]!)).length;
  const common = OUTCOMES.map((_, k) => held.filter((episode) => outcomeClass(episode) === k).length);
  const percent = (n: number): string => `${((100 * n) / held.length).toFixed(1)} %`;
  return {
    reader,
    note: `outcome critic: right on ${percent(right)}; the most common outcome has ${percent(Math.max(...common))}`,
  };
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
