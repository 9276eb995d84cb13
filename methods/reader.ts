/**
 * A reader: a copy of a policy with a new head, which judges episodes. It gives a few logits at some of their tokens.
 * An outcome reward model has one logit at the end of an episode (WebRL, Qi et al. 2024, arXiv 2411.02337, where it is
 * the probability of YES), a process reward model one at the end of each step.
 *
 * The logits of a token are read where the token is predicted, as a critic's value is: from the hidden state that has
 * seen all tokens before it.
 */
import { check } from "../engine/errors.ts";
import {
  mul,
  noGrad,
  type Rng,
  scope,
  sum,
  tensor,
  type Tensor,
  type Tree,
  treeLeaves,
  add,
  matmul,
  outsideScopes,
  randomNormal,
  softplus,
  sub,
  zeros,
} from "../engine/index.ts";
import { AdamW, type Model, type Schedule } from "../nn/index.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import { rowOf, type TokenRow } from "../rl/objective/columns.ts";
import { type MicroBatch, pack, type PackOptions } from "../rl/train/pack.ts";
import { hiddenOf, unscored } from "../rl/train/score.ts";
import { gradientOf } from "../rl/train/update.ts";

/** `weight` [K, C] and `bias` [K]. */
export type ReaderHead = { readonly weight: Tensor; readonly bias: Tensor };

/** A model and its head of K logits. */
export interface Reader {
  readonly model: Model;
  readonly head: ReaderHead;
}

/** A new head with small random weights, outside of all scopes; untrained, its logits are chance. */
export function initReaderHead({ config, params }: Model, logits: number, rng: Rng): ReaderHead {
  const { device } = params.embedding;
  return outsideScopes(() => ({
    weight: randomNormal(rng, [logits, config.hiddenSize], { device, std: config.hiddenSize ** -0.5 }),
    bias: zeros([logits], { device }),
  }));
}

/** Logits [N, K] of hidden states [N, C]. */
export const readerLogits = ({ weight, bias }: ReaderHead, hidden_NC: Tensor): Tensor =>
  add(matmul(hidden_NC, weight, { transB: true }), bias);

/** An episode with targets at some of its tokens: probabilities in [0, 1]. */
export interface Marked {
  readonly episode: Trajectory;
  readonly marks: readonly { readonly token: number; readonly target: number }[];
}

/** The last token of an episode; logits that are read there have seen all tokens before it. */
export const lastToken = ({ stream }: Trajectory): number => stream.ids.length - 1;

/** −(y·ln σ(z) + (1 − y)·ln(1 − σ(z))) = ln(1 + e^z) − y·z, without overflow. */
const crossEntropyOfLogit = (z: Tensor, y: Tensor): Tensor => sub(softplus(z), mul(y, z));

/** Rows whose marked tokens share a weight of 1, with the targets as `returns`. */
function rowsOf(lessons: readonly Marked[]): TokenRow[] {
  const count = lessons.reduce((n, { marks }) => n + marks.length, 0);
  return lessons.map(({ episode, marks }) => {
    const wValue = new Float64Array(episode.stream.ids.length);
    const returns = new Float64Array(wValue.length);
    for (const { token, target } of marks) {
      check(token > 0 && token < wValue.length, () => `reader: token ${token} of ${wValue.length} cannot be read`);
      wValue[token] = 1 / count;
      returns[token] = target;
    }
    return rowOf(episode, { wValue, returns });
  });
}

/** Options of a reader's training: `trainReader`, `trainOutcomeCritic`. */
export interface ReaderTraining extends Pick<PackOptions, "padId" | "maxTokens"> {
  /** The number of lessons in a step, drawn with replacement. */
  readonly batchSize: number;
  readonly steps: number;
  readonly lr: Schedule;
  readonly rng: Rng;
  /** Called with each finished step and its loss. An exception from it ends the training. */
  readonly onStep?: (step: number, loss: number) => void | Promise<void>;
}

/** The lesson of a step: micro-batches, and the share of each in the loss. */
export interface ReaderLesson {
  readonly batches: Iterable<MicroBatch>;
  readonly lossOf: (reader: Reader, batch: MicroBatch) => Tensor;
}

/**
 * The steps of a reader's training. Model and head change in place.
 * @param lessonOf makes the lesson of a step with the step's random numbers
 * @returns the loss of each step, before its update
 */
export async function readerSteps(
  { model, head }: Reader,
  { steps, lr, rng, onStep }: Pick<ReaderTraining, "steps" | "lr" | "rng" | "onStep">,
  lessonOf: (draw: Rng) => ReaderLesson,
): Promise<number[]> {
  const trained = { model: model.params, head } as Tree;
  const optimizer = new AdamW(trained, { betas: [0.9, 0.98], weightDecay: 0.01, clipNorm: 1 });
  const losses: number[] = [];
  try {
    for (let step = 0; step < steps; step++) {
      const { loss, norm } = scope(() => {
        const { batches, lossOf } = lessonOf(rng.split(step));
        const { gradient, parts } = gradientOf(trained, batches, (tree, batch) => {
          const { model: params, head: newHead } = tree as { model: Model["params"]; head: ReaderHead };
          const total = lossOf({ model: { ...model, params }, head: newHead }, batch);
          return [total, total];
        });
        const loss = parts.map(({ result }) => result).reduce((a, b) => add(a, b));
        return { loss, norm: optimizer.step(gradient, lr(step)) };
      }, "readerSteps");
      const value = await loss.item();
      losses.push(value);
      loss.dispose();
      norm.dispose();
      await onStep?.(losses.length, value);
    }
  } finally {
    optimizer.dispose();
  }
  return losses;
}

/**
 * Trains a reader of one logit on marked episodes: binary cross-entropy, averaged over the marks of a batch. Half of
 * the lessons of a step have a target below one half, if there are any. Model and head change in place.
 * @returns the loss of each step, before its update
 */
export async function trainReader(
  reader: Reader,
  lessons: readonly Marked[],
  options: ReaderTraining,
): Promise<number[]> {
  const { batchSize } = options;
  check(lessons.length > 0 || options.steps === 0, () => "trainReader: there are no lessons");
  const classes = [false, true].map((isGood) => lessons.filter(({ marks }) => marks.at(-1)!.target >= 0.5 === isGood));
  const both = classes.filter((of) => of.length > 0);
  const lossOf = ({ model, head }: Reader, batch: MicroBatch): Tensor => {
    const { device } = model.params.embedding;
    const column = (values: Float64Array): Tensor =>
      tensor(values, { device, dtype: device.float, shape: [values.length, 1] });
    const { wValue, returns } = batch.columns;
    const z = readerLogits(head, hiddenOf(model, batch));
    return sum(mul(column(wValue), crossEntropyOfLogit(z, column(returns))));
  };
  return readerSteps(reader, options, (draw) => {
    const drawn = Array.from({ length: batchSize }, (_, i) => draw.choice(both[i % both.length]!));
    return { batches: pack(rowsOf(drawn), options), lossOf };
  });
}

/** The logits of a reader of one logit at the chosen tokens of each episode; NaN elsewhere. */
export async function readEpisodes(
  { model, head }: Reader,
  episodes: readonly Trajectory[],
  isRead: (episode: Trajectory, token: number) => boolean,
  packing: Pick<PackOptions, "padId" | "maxTokens">,
): Promise<Float64Array[]> {
  const rows = episodes.map((episode) => rowOf(episode));
  const logits = unscored(rows);
  for (const batch of pack(rows, { ...packing, scored: ({ trajectory }, t) => isRead(trajectory, t) })) {
    const z = scope(() => noGrad(() => readerLogits(head, hiddenOf(model, batch))), "readEpisodes");
    const read = await z.read();
    z.dispose();
    for (let n = 0; n < read.length; n++) logits[batch.episode[n]!]![batch.token[n]!] = read[n]!;
  }
  return logits;
}

/** Frees a reader. */
export function disposeReader({ model, head }: Reader): void {
  for (const x of [...treeLeaves(model.params), ...treeLeaves(head)]) x.dispose();
}
