/**
 * One optimiser step: score the planned tokens, form the loss, differentiate, update. Everything that is specific to a method has
 * already happened (in the plan's columns and the policy loss); what is here is the same for all of them.
 */
import { check } from "../engine/errors.ts";
import { grad, stopGradient, valueAndGrad } from "../engine/grad.ts";
import { tokenLogProbs } from "../engine/ops/logProbs.ts";
import { tensor } from "../engine/ops/create.ts";
import { add, mul } from "../engine/ops/pointwise.ts";
import { sum } from "../engine/ops/reduce.ts";
import { scope } from "../engine/scope.ts";
import { noGrad } from "../engine/tape.ts";
import type { Tensor } from "../engine/tensor.ts";
import { treeLeaves } from "../engine/tree.ts";
import { accumulateGrads, type AdamW } from "../nn/optimizer.ts";
import type { TransformerParams } from "../nn/parameters.ts";
import { forward, type Model, outputMatrix, pickHidden } from "../nn/transformer.ts";
import { type Columns, type MicroBatch, pack, type PackOptions } from "./batch.ts";
import { crossEntropyLoss, klPenalty } from "./losses.ts";
import type { Objective, StepPlan, TokenPlan } from "./objective.ts";

type LossParts = Pick<Objective, "policyLoss" | "kl">;

/** What a forward pass over a micro-batch gives per scored token, and the components of the loss. */
interface BatchResult {
  readonly logProbs: Tensor;
  readonly entropy: Tensor;
  readonly policyLoss: Tensor;
  readonly worldLoss: Tensor;
  readonly klLoss: Tensor;
}

/** Log-probabilities and entropies of the scored tokens of a micro-batch, [N] each. */
function scoreBatch(
  params: TransformerParams,
  { config }: Model,
  batch: MicroBatch,
): { logProbs: Tensor; entropy: Tensor } {
  const { device } = params.embedding;
  const ids_BT = tensor(batch.ids, { device, shape: [batch.rows, batch.length] });
  const hidden_NC = pickHidden(forward(params, config, ids_BT), batch.index);
  const temperature = tensor(batch.columns.temperatures, { device, dtype: device.float });
  return tokenLogProbs(hidden_NC, outputMatrix(params), tensor(batch.targets, { device }), { temperature });
}

/** The loss of a micro-batch: its share of the step's loss, a plain weighted sum. */
export function batchLoss(
  params: TransformerParams,
  model: Model,
  batch: MicroBatch,
  objective: LossParts,
  useRecordedOld: boolean,
): [Tensor, BatchResult] {
  const { device } = params.embedding;
  const column = (name: keyof Columns): Tensor => tensor(batch.columns[name], { device, dtype: device.float });
  const { logProbs, entropy } = scoreBatch(params, model, batch);
  const mask = column("mask");
  // One update per batch: the policy that sampled is the policy that learns, the ratio is exactly 1 and the sampler's own
  // log-probabilities serve only to log the mismatch.
  const oldLogProbs = useRecordedOld ? column("oldLogProbs") : stopGradient(logProbs);
  const token = objective.policyLoss.tokenLoss({ logProbs, oldLogProbs, advantages: column("advantages"), mask });
  const policyLoss = sum(mul(column("wPolicy"), token));
  const worldLoss = sum(mul(column("wWorld"), crossEntropyLoss(logProbs, column("worldMask"))));
  let loss = add(policyLoss, worldLoss);
  let klLoss = mul(worldLoss, 0);
  if (objective.kl) {
    const penalty = klPenalty(objective.kl.estimator, logProbs, column("refLogProbs"), mask);
    klLoss = sum(mul(column("wKl"), penalty));
    loss = add(loss, klLoss);
  }
  return [loss, { logProbs: stopGradient(logProbs), entropy: stopGradient(entropy), policyLoss, worldLoss, klLoss }];
}

/** One value per token of each episode; NaN where nothing was scored. */
export type PerToken = readonly Float64Array[];

export interface Scores {
  readonly logProbs: PerToken;
  readonly entropy: PerToken;
}

const unscored = (episodes: readonly TokenPlan[]): Float64Array[] =>
  episodes.map(({ trajectory }) => new Float64Array(trajectory.stream.ids.length).fill(NaN));

/** Log-probability and entropy of the tokens that `scored` names, under `model`, at the recorded temperatures. No gradient. */
export async function score(model: Model, episodes: readonly TokenPlan[], options: PackOptions): Promise<Scores> {
  const logProbs = unscored(episodes);
  const entropy = unscored(episodes);
  for (const batch of pack(episodes, options)) {
    const result = scope(() => noGrad(() => scoreBatch(model.params, model, batch)), "score");
    await scatter(batch, result.logProbs, logProbs);
    await scatter(batch, result.entropy, entropy);
  }
  return { logProbs, entropy };
}

/** Reads [N] values into place and frees them. */
async function scatter(batch: MicroBatch, values: Tensor, into: readonly Float64Array[]): Promise<void> {
  const read = await values.read();
  values.dispose();
  batch.episode.forEach((i, n) => (into[i]![batch.token[n]!] = read[n]!));
}

export interface UpdateOptions extends PackOptions {
  /** Learning rate of this step. */
  readonly lr: number;
  /**
   * True: ratios against the recorded log-probabilities (several updates per batch, or a sampler that is not the policy).
   * False (default): exactly on-policy, old = sg(lp).
   */
  readonly useRecordedOld?: boolean;
}

export interface UpdateResult extends Scores {
  readonly policyLoss: number;
  readonly worldLoss: number;
  readonly klLoss: number;
  /** Before clipping. NaN or infinite: the step was skipped, parameters are as they were. */
  readonly gradNorm: number;
}

/** One optimiser step on a plan, split into micro-batches. Parameters change in place. */
export async function update(
  model: Model,
  optimizer: AdamW<TransformerParams>,
  plan: StepPlan,
  objective: LossParts,
  options: UpdateOptions,
): Promise<UpdateResult> {
  const batches = pack(plan.episodes, options);
  check(batches.length > 0, () => "update: no token of the step has a weight; is every episode masked?");
  const { results, norm } = scope(() => {
    let total: TransformerParams | undefined;
    const parts = batches.map((batch) => {
      const step = valueAndGrad((params: TransformerParams) =>
        batchLoss(params, model, batch, objective, options.useRecordedOld ?? false),
      );
      const { aux, grads } = step(model.params);
      const isFirst = total === undefined;
      total = accumulateGrads(total, grads);
      if (!isFirst) for (const g of treeLeaves(grads)) g.dispose(); // else every micro-batch's would live on
      return aux;
    });
    return { results: parts, norm: optimizer.step(total!, options.lr) };
  }, "update");
  const logProbs = unscored(plan.episodes);
  const entropy = unscored(plan.episodes);
  const totals = { policyLoss: 0, worldLoss: 0, klLoss: 0 };
  for (const [k, batch] of batches.entries()) {
    const result = results[k]!;
    await scatter(batch, result.logProbs, logProbs);
    await scatter(batch, result.entropy, entropy);
    for (const name of ["policyLoss", "worldLoss", "klLoss"] as const) {
      totals[name] += await result[name].item();
      result[name].dispose();
    }
  }
  const gradNorm = await norm.item();
  norm.dispose();
  return { ...totals, gradNorm, logProbs, entropy };
}

/** The gradient of a plan's loss, micro-batches summed: for tests and studies. */
export function planGradient(
  model: Model,
  plan: StepPlan,
  objective: LossParts,
  options: UpdateOptions,
): TransformerParams {
  return scope(() =>
    pack(plan.episodes, options)
      .map((batch) =>
        grad(
          (params: TransformerParams) => batchLoss(params, model, batch, objective, options.useRecordedOld ?? false)[0],
        )(model.params),
      )
      .reduce((total, grads) => accumulateGrads(total, grads)),
  );
}
