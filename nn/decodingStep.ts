/**
 * A step of decoding on the executor: its tokens are read, in one or several forward passes, and tokens are drawn
 * behind them. Every number of it that differs from step to step is in an array of the plan, so that whoever records
 * the work of one step can repeat it with the numbers of another (capturedSteps.ts).
 */
import { check } from "../engine/errors.ts";
import { tensor } from "../engine/ops/create.ts";
import { cast } from "../engine/ops/indexing.ts";
import { concat, reshape } from "../engine/ops/movement.ts";
import { sampleTokens } from "../engine/ops/sample.ts";
import { scope } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import type { KvCache } from "./cache.ts";
import type { Plan } from "./decodingPlan.ts";
import type { SampledToken } from "./sampler.ts";
import { forward, logits, type Model, pickHidden } from "./transformer.ts";

/**
 * Does a step.
 * @returns of each draw the ids, log-probabilities and plain ones, [3 · draws, W]; with no draws the logits [W, V]
 */
export function decodingStep(model: Model, cache: KvCache, plan: Plan): Tensor {
  return scope(() => {
    const scores_WV = logits(model.params, pickHidden(readTokens(model, cache, plan), plan.last));
    return plan.counters.length === 0 ? scores_WV : draw(model, cache, plan, scores_WV);
  }, "decode");
}

/** Reads all tokens of a plan. @returns hidden states [1, N, C] of the last pass */
export function readTokens({ config, params }: Model, cache: KvCache, { passes }: Plan): Tensor {
  const { device } = params.embedding;
  let hidden: Tensor | undefined;
  for (const { ids, places } of passes) {
    hidden?.dispose();
    const shape = [1, ids.length];
    hidden = forward(params, config, tensor(ids, { device, shape }), { cache: { store: cache, places } });
  }
  return hidden!;
}

/** Draws for each row of logits. */
function draw({ config, params }: Model, cache: KvCache, plan: Plan, logits_WV: Tensor): Tensor {
  const { last, scale, keys, counters, drawn } = plan;
  const { device } = params.embedding;
  const width = last.length;
  const [scale_W, keys_W2] = [tensor(scale, { device }), tensor(keys, { device, shape: [width, 2] })];
  const results: Tensor[] = [];
  let scores = logits_WV;
  for (let n = 0; n < counters.length; n++) {
    const { ids, logProbs, plainLogProbs } = sampleTokens(scores, scale_W, keys_W2, tensor(counters[n]!, { device }));
    results.push(cast(ids, device.float), logProbs, plainLogProbs);
    if (n === drawn.length) break;
    const places = drawn[n]!;
    const hidden = forward(params, config, reshape(ids, [1, width]), { cache: { store: cache, places } });
    scores = logits(params, reshape(hidden, [width, config.hiddenSize]));
  }
  return reshape(concat(results), [3 * counters.length, width]);
}

/**
 * The drawn tokens in column `i` of [3 · draws, width].
 * @param greedy whether the most probable token was taken
 * @throws if a logit of the distribution was not finite
 */
export function drawnTokens(values: ArrayLike<number>, i: number, draws: number, greedy: boolean): SampledToken[] {
  const width = values.length / (3 * draws);
  const at = (row: number): number => values[row * width + i]!;
  return Array.from({ length: draws }, (_, n) => {
    const [id, logProb, plainLogProb] = [at(3 * n), at(3 * n + 1), at(3 * n + 2)];
    check(id >= 0, () => `sampling: the logit of token ${-1 - id} is ${logProb}; the model has diverged`);
    return { id, logProb, plainLogProb, samplingLogProb: greedy ? 0 : logProb };
  });
}
