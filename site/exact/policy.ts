/**
 * The policy: the library's transformer, with one block, two heads and a few hundred parameters. It is no table of
 * logits, because a table has a parameter of its own for each context: there the gradients of two tasks never meet,
 * while in a network every task moves the same weights, which is where the bias of an estimator shows.
 *
 * The contexts that the policy can meet are a tree of prefixes. Its rows are the longest prefixes; a forward pass over
 * the rows gives the log-probability of every word in every context.
 */
import { type Device, gather, logSoftmax, reshape, Rng, tensor, type Tensor } from "../../engine/index.ts";
import {
  forward,
  initParams,
  logits,
  type Model,
  type ModelConfig,
  modelConfig,
  type TransformerParams,
} from "../../nn/index.ts";
import { type Episode, episodesOf, MAX_TOKENS, TASKS, WORDS } from "./task.ts";

/** V, the number of words. */
export const V = WORDS.length;

export const CONFIG: ModelConfig = modelConfig({
  vocabSize: V,
  hiddenSize: 8,
  intermediateSize: 16,
  layers: 1,
  heads: 2,
  maxPositions: MAX_TOKENS,
  initializerRange: 0.35,
  tieEmbeddings: true,
});

/** A policy with random weights. */
export const freshModel = (seed: number, device: Device): Model => ({
  config: CONFIG,
  params: initParams(CONFIG, new Rng(seed).split("policy"), device),
});

/** All episodes, those of the first task first. */
export const EPISODES: readonly Episode[] = TASKS.flatMap((_, task) => episodesOf(task));

/** A prefix in which a word is said, by the agent or by the environment. */
export interface Context {
  /** The words so far, as ids. */
  readonly ids: readonly number[];
  /** The row that begins with it. */
  readonly row: number;
}

const keyOf = (ids: readonly number[]): string => ids.join(" ");

/** The rows of the tree: every episode without its last word, where none is the beginning of another. */
const ROWS: readonly (readonly number[])[] = (() => {
  const prefixes = new Map(EPISODES.map(({ trajectory: { stream } }) => [keyOf(stream.ids.slice(0, -1)), stream.ids]));
  const all = [...prefixes].map(([key, ids]) => ({ key, ids: ids.slice(0, -1) }));
  return all.filter(({ key }) => !all.some((other) => other.key.startsWith(`${key} `))).map(({ ids }) => ids);
})();

/** Every context, in the order in which the rows meet them. */
export const CONTEXTS: readonly Context[] = (() => {
  const found = new Map<string, Context>();
  for (const [row, ids] of ROWS.entries()) {
    for (let length = 1; length <= ids.length; length++) {
      const prefix = ids.slice(0, length);
      if (!found.has(keyOf(prefix))) found.set(keyOf(prefix), { ids: prefix, row });
    }
  }
  return [...found.values()];
})();

const contextAt = new Map(CONTEXTS.map(({ ids }, i) => [keyOf(ids), i]));

/**
 * The prediction of each token of an episode but the prompt, as a number: `context · V + word`. A table of predictions
 * is read and differentiated by this number.
 */
export const PREDICTIONS: readonly (readonly number[])[] = EPISODES.map(({ trajectory: { stream } }) =>
  stream.ids.slice(1).map((id, t) => contextAt.get(keyOf(stream.ids.slice(0, t + 1)))! * V + id),
);

/** Log-probabilities of the next word [N, V] in the given contexts, by a forward pass over the rows that hold them. */
export function logProbsIn(params: TransformerParams, contexts: readonly Context[]): Tensor {
  const { device } = params.embedding;
  const rows = [...new Set(contexts.map(({ row }) => row))];
  const T = Math.max(...contexts.map(({ ids }) => ids.length));
  const ids_BT = Int32Array.from(rows.flatMap((row) => Array.from({ length: T }, (_, t) => ROWS[row]![t] ?? 0)));
  const hidden_BTC = forward(params, CONFIG, tensor(ids_BT, { device, shape: [rows.length, T] }));
  const all_NV = reshape(logSoftmax(logits(params, hidden_BTC)), [-1, V]);
  const places = contexts.map(({ ids, row }) => rows.indexOf(row) * T + ids.length - 1);
  return gather(all_NV, tensor(Int32Array.from(places), { device }));
}
