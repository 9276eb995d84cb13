/**
 * A policy in numbers: the probability of every episode, and the score ∇ log π of every word in every context. All
 * gradients of this task, true or estimated, are weighted sums of these scores. Everything is in 64 bits, on the
 * reference executor.
 */
import {
  concat,
  gather,
  grad,
  noGrad,
  reshape,
  scope,
  sum,
  tensor,
  type Tensor,
  treeEntries,
  treeLeaves,
} from "../../engine/index.ts";
import type { Model, TransformerParams } from "../../nn/index.ts";
import { isAgentToken } from "../../rl/episode/stream.ts";
import { CONTEXTS, EPISODES, logProbsIn, PREDICTIONS, V } from "./policy.ts";
import { TASKS } from "./task.ts";

export interface Space {
  readonly model: Model;
  /** P, the number of parameters. */
  readonly size: number;
  /** The log-probability of each prediction, `context · V + word`. */
  readonly logProbs: Float64Array;
  /** The gradient [P] of each prediction's log-probability; undefined for words that no episode has there. */
  readonly scores: readonly (Float64Array | undefined)[];
  /** The probability of each episode, its task included: they sum to 1. */
  readonly probabilities: Float64Array;
}

/** For each episode the predictions of the agent's own words, and the prediction of the answer. */
export const OWN: readonly (readonly number[])[] = EPISODES.map(({ trajectory: { stream } }, e) =>
  PREDICTIONS[e]!.filter((_, t) => isAgentToken(stream.roles[t + 1]!)),
);
export const ANSWER: readonly number[] = EPISODES.map(
  ({ trajectory: { stream } }, e) => PREDICTIONS[e]![stream.roles.indexOf("observation") - 1]!,
);

/** The log-probability of every prediction. */
export function predict({ params }: Model): Float64Array {
  return readAndFree(scope(() => noGrad(() => reshape(logProbsIn(params, CONTEXTS), [-1]))));
}

function readAndFree(x: Tensor): Float64Array {
  const values = Float64Array.from(x.readSync());
  x.dispose();
  return values;
}

/**
 * The probability of each episode under log-probabilities of all predictions; every task is as likely as the others.
 */
export const probabilitiesOf = (logProbs: Float64Array): Float64Array =>
  Float64Array.from(OWN, (own) => Math.exp(own.reduce((lp, p) => lp + logProbs[p]!, 0)) / TASKS.length);

/** Everything about a policy: a forward pass over all contexts, and a backward pass for each word in each of them. */
export function spaceOf(model: Model): Space {
  const logProbs = predict(model);
  const met = new Set(PREDICTIONS.flat());
  const scores = Array.from(logProbs, (_, p) => (met.has(p) ? scoreOf(model, p) : undefined));
  const size = treeLeaves(model.params).reduce((sum, leaf) => sum + leaf.size, 0);
  return { model, size, logProbs, scores, probabilities: probabilitiesOf(logProbs) };
}

function scoreOf({ params }: Model, prediction: number): Float64Array {
  const context = CONTEXTS[Math.floor(prediction / V)]!;
  const word = Int32Array.of(prediction % V);
  const logProb = (tree: TransformerParams): Tensor => {
    const { device } = tree.embedding;
    return sum(gather(reshape(logProbsIn(tree, [context]), [-1]), tensor(word, { device })));
  };
  return gradientOf(logProb, params);
}

/** The gradient of a scalar function of the parameters as one vector [P], parameters in the order of `parametersOf`. */
export function gradientOf(f: (tree: TransformerParams) => Tensor, at: TransformerParams): Float64Array {
  return readAndFree(scope(() => flat(grad(f)(at))));
}

/** All parameters as one vector [P], in the order of `parametersOf`. */
export const flat = (tree: TransformerParams): Tensor => concat(treeLeaves(tree).map((leaf) => reshape(leaf, [-1])));

/** Name of each parameter and its range in a gradient's vector. */
export function parametersOf({ params }: Model): { name: string; start: number; end: number }[] {
  let end = 0;
  return treeEntries(params).map(([name, { size }]) => ({ name, start: end, end: (end += size) }));
}
