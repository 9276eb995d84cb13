/**
 * The true gradients, by the library's autodiff over the sum of all episodes:
 *
 *     J(θ) = Σ_e p_θ(e)·R(e)                                   the expected reward
 *     W(θ) = Σ_e p_θ(e)·(−log p_θ(answer in e))                the expected world-model loss
 *
 * ECHO follows a part of ∇W only: it takes the episodes as given, so that p_θ(e) has no derivative. The other part
 * would make the agent prefer actions whose answers it knows.
 */
import {
  exp,
  gather,
  mul,
  neg,
  reshape,
  scope,
  stopGradient,
  sum,
  tensor,
  type Device,
  type Tensor,
  valueAndGrad,
} from "../../engine/index.ts";
import { AdamW, type Model, type TransformerParams } from "../../nn/index.ts";
import { CONTEXTS, EPISODES, logProbsIn } from "./policy.ts";
import { ANSWER, gradientOf, OWN } from "./space.ts";
import { MAX_OWN_TOKENS, TASKS } from "./task.ts";

export interface Truth {
  /** ∇J, the direction in which the expected reward grows. */
  readonly reward: Float64Array;
  /** −∇W with the episodes as given: what ECHO estimates. */
  readonly world: Float64Array;
  /** −∇W, all of it. */
  readonly worldWhole: Float64Array;
}

/** The entries of a table of predictions at these places. */
const pick = (table: Tensor, places: readonly number[]): Tensor =>
  gather(reshape(table, [-1]), tensor(Int32Array.from(places), { device: table.device }));

const constant = (values: readonly number[], device: Device): Tensor =>
  tensor(Float64Array.from(values), { device, dtype: device.float });

// Episodes have two to four words of their own: the rest of the four places counts 0 times.
const PADDED = OWN.flatMap((own) => Array.from({ length: MAX_OWN_TOKENS }, (_, t) => own[t] ?? 0));
const COUNTS = OWN.flatMap((own) => Array.from({ length: MAX_OWN_TOKENS }, (_, t) => Number(t < own.length)));
const REWARDS = EPISODES.map(({ reward }) => reward);

/** p_θ(e) of every episode, [E]. */
function probabilities(table: Tensor): Tensor {
  const { device } = table;
  const logProbs_EM = reshape(mul(pick(table, PADDED), constant(COUNTS, device)), [-1, MAX_OWN_TOKENS]);
  return mul(exp(sum(logProbs_EM, { axis: -1 })), 1 / TASKS.length);
}

/** J(θ), a scalar. */
export function expectedReward(params: TransformerParams): Tensor {
  const table = logProbsIn(params, CONTEXTS);
  return sum(mul(probabilities(table), constant(REWARDS, params.embedding.device)));
}

/** W(θ), a scalar. @param givenEpisodes whether p_θ(e) counts as a constant */
export function expectedWorldLoss(params: TransformerParams, givenEpisodes: boolean): Tensor {
  const table = logProbsIn(params, CONTEXTS);
  const p = probabilities(table);
  return neg(sum(mul(givenEpisodes ? stopGradient(p) : p, pick(table, ANSWER))));
}

export function truthOf({ params }: Model): Truth {
  return {
    reward: gradientOf(expectedReward, params),
    world: gradientOf((tree) => neg(expectedWorldLoss(tree, true)), params),
    worldWhole: gradientOf((tree) => neg(expectedWorldLoss(tree, false)), params),
  };
}

/** One step of AdamW along the true gradient. Parameters change in place. */
export function ascend({ params }: Model, optimizer: AdamW<TransformerParams>, rate: number): void {
  scope(() => {
    const { grads } = valueAndGrad((tree: TransformerParams) => neg(expectedReward(tree)))(params);
    optimizer.step(grads, rate);
  });
}
