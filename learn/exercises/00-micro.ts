/**
 * Parts of chapter 0 for which the 200 lines of learn/00-micro.ts have no room, and its exercises.
 *
 * ## An episode in full
 *
 * The first episode of seed 0, with random weights. The task is the safe `a`, whose code is `2 4`. Each row is a word,
 * who wrote it, and the probability p that the model gave it; all 16 words begin near 1/16 = 0.063.
 *
 * ```text
 * by      word   p      what the loss makes of it
 * task    a             given, never trained
 * agent   no     0.040  trained with A, the reward compared with the group's
 * agent   b      0.041
 * world   no     0.038  trained with λ: what the world answers is to be predicted
 * world   a      0.046
 * world   2      0.049  here stands what the agent should have written
 * world   4      0.148
 * agent   a      0.071  the second try; it is worth half
 * agent   d      0.040
 * world   no     0.025
 * world   a      0.168
 * world   2      0.037
 * world   4      0.172
 * reward  0
 * ```
 *
 * Rewards alone teach nothing here: if all eight tries of the group end like this, A is 0. But `2 4` after `a` becomes
 * likelier by being predicted, and the task is the same `a`.
 *
 * ## Break it
 *
 * Weigh the words of the world as if the agent had written them:
 *
 * ```diff
 * -    const factor = { agent: (reward - mean) / (std + 1e-4), world: lambda };
 * +    const factor = { agent: (reward - mean) / (std + 1e-4), world: (reward - mean) / (std + 1e-4) };
 * ```
 *
 * λ has no say then: the agents are the same two by two. All answers of a group tell the same code, and its advantages
 * sum to 0, so that what one episode makes likelier another makes less likely: the codes are hardly learnt. What
 * remains disturbs. Opened at first try at the end, seeds 0 to 9: 41 %, where rewards alone reach 57 %. It is a common
 * mistake with agents that act in several turns: on the live page it is [Answers in the policy mask](preset:).
 *
 * ## Simplifications so far
 *
 * - A tiny world with a small trick: a task and its answer hold the same word, the safe's name, so that what is learnt
 *   of answers can be used at once. Training and measuring use the same eight safes.
 * - A model of one layer with one attention head; each vector is a `Value` of its own, in plain arrays of 64-bit
 *   numbers; words are read one by one, without batches.
 * - The agent begins with random weights. Nothing shows it how to play, so it must meet its first reward by chance.
 * - No learning rate schedule, no limit for large gradients, no clip: each batch serves one update.
 *
 * ## In the library
 *
 * It computes the same: a test gives it this file's model and episodes and compares the loss and the gradient of every
 * weight. `engine/backward.ts` has the chain rule, for tensors: one op handles all words of many episodes at once, so
 * that the processor is busy with numbers and not with a million small objects. `nn/transformer.ts` is the model.
 * `rl/environment.ts` says what a world is. `rl/objective/grpo.ts` has A,
 * `rl/objective/echo.ts` the world model, and `rl/train/step.ts` is one step. There playing takes no notes for the
 * gradient: the episodes are read once more for it, all words side by side. `nn/optimizer.ts` is Adam.
 *
 * ## Exercises
 *
 * 1. Compute log p of a word from the scores of all words, in one op that no score is too large for.
 * 2. Weigh the tries of a group so that their gradient is, on average, exactly that of the expected reward.
 */
import { backward, linear, logAt, mix, softmax, value, type Value } from "../00-micro.ts";
import { expectClose } from "./expect.ts";

/**
 * # One op instead of two
 *
 * `read` ends with a softmax, and `play` takes the logarithm of one p. If p_i is too small for a number, that is −∞,
 * and its gradient is not a number. Write both as one op: y = log p_i = x_i − log Σ_j e^x_j. Derive ∂y/∂x_k by hand and
 * make a `Value` with `value(data, parents, push)`. Two things to think of: e^1000 is too large for a number, and
 * `push` adds to `x.grad`, because x may have other readers. (The functions of the chapter's program can be used.)
 *
 * @difficulty 2
 * @hint log Σ_j e^x_j is m + log Σ_j e^(x_j − m) for any m; which m keeps every e^(…) at most 1?
 * @hint ∂y/∂x_k is [k = i] − p_k, where [k = i] is 1 if k is i and 0 if not.
 */
export function exercise1(x: Value, i: number): Value {
  return logAt(softmax(x), i);
}

export function check1(answer: typeof exercise1): void {
  for (const scores of [[0.3, -1, 2], [0, 0], [-3, 1.5, 0.2, 0.1], [5], [0, 1000], [-1000, -999], [700, 700.5, 10]]) {
    for (const i of scores.keys()) {
      const what = `for the scores ${scores.join(", ")}`;
      const x = value(scores);
      const y = answer(x, i);
      const largest = Math.max(...scores);
      const e = scores.map((v) => Math.exp(v - largest));
      const total = e.reduce((a, b) => a + b, 0);
      expectClose(y.data, [scores[i]! - largest - Math.log(total)], `log p of word ${i} ${what}`, 1e-9);
      // x has a second reader, and what is read of y counts three times.
      backward(mix(value([3, 2]), [y, linear([value(scores.map((_, k) => Number(k === 0)))], x)]));
      const slope = e.map((v, k) => 3 * (Number(k === i) - v / total) + (k === 0 ? 2 : 0));
      expectClose(x.grad, slope, `the gradient of 3·log p of word ${i} + 2·x_0 by x, ${what}`, 1e-9);
      // x may be computed from something, to which the gradient goes on.
      const from = value(scores);
      backward(answer(mix(value([1]), [from]), i));
      const handedOn = e.map((v, k) => Number(k === i) - v / total);
      expectClose(from.grad, handedOn, `the gradient of log p of word ${i} by what x was computed from, ${what}`, 1e-9);
    }
  }
}

export function solution1(x: Value, i: number): Value {
  const largest = Math.max(...x.data);
  const e = x.data.map((v) => Math.exp(v - largest));
  const total = e.reduce((a, b) => a + b, 0);
  return value([x.data[i]! - largest - Math.log(total)], [x], (g) => {
    e.forEach((v, k) => (x.grad[k]! += g[0]! * (Number(k === i) - v / total)));
  });
}

/** An answer with this y and this ∂y/∂x_k, which `push` may hand on in its own way. */
const withSlope =
  (y: (x: readonly number[], i: number) => number, push: (x: Value, g: number, slope: readonly number[]) => void) =>
  (x: Value, i: number): Value => {
    const p = softmax(x).data;
    return value([y(x.data, i)], [x], (g) =>
      push(
        x,
        g[0]!,
        p.map((v, k) => Number(k === i) - v),
      ),
    );
  };
const logSumExp = (x: readonly number[]): number => {
  const largest = Math.max(...x);
  return largest + Math.log(x.reduce((sum, v) => sum + Math.exp(v - largest), 0));
};
const right = (x: readonly number[], i: number): number => x[i]! - logSumExp(x);
const adds = (x: Value, g: number, slope: readonly number[]): void => slope.forEach((s, k) => (x.grad[k]! += g * s));
export const wrong1: (typeof exercise1)[] = [
  withSlope((x, i) => x[i]! - Math.log(x.reduce((sum, v) => sum + Math.exp(v), 0)), adds), // e^1000 is Infinity
  withSlope(right, (x, g, slope) => slope.forEach((s, k) => (x.grad[k] = g * s))), // forgets the other reader
  withSlope(right, (x, _, slope) => adds(x, 1, slope)), // forgets g
  withSlope(right, (x, g, slope) =>
    adds(
      x,
      g,
      slope.map((s) => Math.max(0, s)),
    ),
  ), // of x_i alone
  withSlope(right, (x, g, slope) =>
    adds(
      x,
      g,
      slope.map((s) => (s > 0 ? 1 : s + 1)),
    ),
  ), // not −p
  withSlope((x, i) => Math.log(softmax(value([...x])).data[i]!), adds), // log 0
];

/**
 * # An estimate that is right on average
 *
 * GRPO's A is divided by the group's standard deviation, and the mean that is subtracted holds the try's own reward.
 * To subtract it only makes the gradient of E[reward] shorter. To divide also turns it, as each group has a divisor of
 * its own: for the agent below and groups of two the cosine between them is 0.974. Given the rewards of a group of two
 * or more tries, return a weight w_i for each such that the gradient of Σ_i w_i · log p(try i) is, on average over all
 * groups that may be drawn, exactly that of E[reward]. The weights must not change if all rewards grow by the same
 * number. So a baseline is needed; but one that depends on the try itself changes the average. (The check lists all
 * groups of two and of three tries of an agent with three words, and weighs each by its probability.)
 *
 * @difficulty 3
 * @hint Any b may be subtracted that the try's own words had no influence on. Which rewards of the group are those?
 * @hint The weights of a group are a mean over its tries: mind the number by which you divide.
 */
export function exercise2(rewards: readonly number[]): number[] {
  return rewards.map((reward) => reward / rewards.length);
}

export function check2(answer: typeof exercise2): void {
  const scores = [0.3, -0.5, 0.9];
  const p = softmax(value(scores)).data;
  const rewardOf = [1, 0, 0.25];
  const expected = p.reduce((sum, v, k) => sum + v * rewardOf[k]!, 0);
  const wanted = p.map((v, k) => v * (rewardOf[k]! - expected)); // ∂E[reward]/∂x_k
  for (const n of [2, 3]) {
    const average = [0, 0, 0];
    for (const group of groupsOf(n)) {
      const weights = answer(group.map((word) => rewardOf[word]!));
      if (!Array.isArray(weights) || weights.length !== n)
        throw new Error(`expected a list of ${n} weights for ${n} rewards, got ${JSON.stringify(weights)}`);
      const x = value(scores);
      backward(
        mix(
          value(weights),
          group.map((word) => logAt(softmax(x), word)),
        ),
      );
      const chance = group.reduce((product, word) => product * p[word]!, 1);
      x.grad.forEach((g, k) => (average[k]! += chance * g));
    }
    expectClose(average, wanted, `the average gradient over all groups of ${n} tries`, 1e-12);
    const rewards = [1, 0, 0.25].slice(0, n);
    const moved = answer(rewards.map((reward) => reward + 4));
    expectClose(
      moved,
      answer(rewards),
      `the weights of the rewards ${rewards.join(", ")} after 4 is added to each`,
      1e-12,
    );
  }
}

/** All groups of n tries, each try one of three words. */
const groupsOf = (n: number): number[][] =>
  n === 0 ? [[]] : groupsOf(n - 1).flatMap((group) => [0, 1, 2].map((word) => [...group, word]));

const total = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0);

export function solution2(rewards: readonly number[]): number[] {
  const others = rewards.length - 1;
  // The mean of the other tries, which this one had no influence on: leave-one-out, RLOO (arXiv 2402.14740).
  return rewards.map((reward) => (reward - (total(rewards) - reward) / others) / rewards.length);
}

const meanOf = (x: readonly number[]): number => total(x) / x.length;
export const wrong2: (typeof exercise2)[] = [
  (rewards) => rewards.map((r) => (r - meanOf(rewards)) / rewards.length), // (n − 1) / n of the gradient
  (rewards) => rewards.map((r) => r - meanOf(rewards)), // n − 1 times the gradient
  (rewards) => rewards.map((r) => (r - Math.max(...rewards)) / rewards.length), // a baseline that depends on the try
  (rewards) => {
    const spread = Math.sqrt(total(rewards.map((r) => (r - meanOf(rewards)) ** 2)) / (rewards.length - 1));
    return rewards.map((r) => (r - meanOf(rewards)) / (spread + 1e-4) / rewards.length); // GRPO
  },
  (rewards) => rewards.map((r) => (meanOf(rewards) - r) / (rewards.length - 1)), // downhill
  (rewards) => rewards.map((r) => r - (total(rewards) - r) / (rewards.length - 1)), // the sum over tries, not the mean
];
