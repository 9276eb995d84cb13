/**
 * One optimiser step: score the planned tokens, form the loss, differentiate, update. Everything that is specific to a method has
 * already happened (in the plan's columns and the policy loss); what is here is the same for all of them.
 */
import { check } from "../../engine/errors.ts";
import {
  add,
  exp,
  grad,
  mul,
  noGrad,
  scope,
  stopGradient,
  sum,
  tensor,
  type Tensor,
  tokenLogProbs,
  type Tree,
  treeLeaves,
  valueAndGrad,
} from "../../engine/index.ts";
import {
  accumulateGrads,
  type AdamW,
  forward,
  headValues,
  type Model,
  outputMatrix,
  pickHidden,
  type TransformerParams,
  type ValueHead,
} from "../../nn/index.ts";
import { type Columns, type MicroBatch, pack, type PackOptions } from "./pack.ts";
import { klPenalty } from "../methods/losses/kl.ts";
import { logRatio, type TokenColumns } from "../methods/losses/policyLoss.ts";
import { clippedErrorLoss, crossEntropyLoss } from "../methods/losses/supervised.ts";
import { clippedValueLoss } from "../methods/losses/value.ts";
import { clipOf, type Objective, type StepPlan, type TokenPlan } from "../methods/objective.ts";
import type { PerToken } from "../methods/tokenStatistics.ts";

/** What of an objective is still to be done once the step is planned. */
export type LossParts = Pick<Objective, "policyLoss" | "world" | "kl" | "critic">;

/** A value head and what trains it. */
export interface Critic {
  readonly head: ValueHead;
  readonly optimizer: AdamW<ValueHead>;
}

/** The components of the loss, each a scalar. */
type Terms = Record<"policyLoss" | "worldLoss" | "klLoss", Tensor> &
  Partial<Record<"entropyLoss" | "valueLoss", Tensor>>;
const TERMS = ["policyLoss", "worldLoss", "klLoss", "entropyLoss", "valueLoss"] as const;

/** What a forward pass over a micro-batch gives per scored token, and the components of the loss. */
interface BatchResult extends Terms {
  readonly logProbs: Tensor;
  readonly entropy: Tensor;
}

/** Hidden states [N, C] where the scored tokens of a micro-batch are predicted. */
export function hiddenOf(params: TransformerParams, { config }: Model, batch: MicroBatch): Tensor {
  const { device } = params.embedding;
  const ids_BT = tensor(batch.ids, { device, shape: [batch.rows, batch.length] });
  return pickHidden(forward(params, config, ids_BT), batch.index);
}

/** Log-probabilities and entropies of the scored tokens, [N] each. @param temperatures default: those of the sampler */
export function scoreHidden(
  params: TransformerParams,
  hidden_NC: Tensor,
  batch: MicroBatch,
  temperatures: Float64Array = batch.columns.temperatures,
): { logProbs: Tensor; entropy: Tensor } {
  const { device } = params.embedding;
  const temperature = tensor(temperatures, { device, dtype: device.float });
  return tokenLogProbs(hidden_NC, outputMatrix(params), tensor(batch.targets, { device }), { temperature });
}

/**
 * The loss of a micro-batch: its share of the step's loss, a plain weighted sum.
 * @param head the critic's, if the plan has values to train
 */
export function batchLoss(
  params: TransformerParams,
  model: Model,
  batch: MicroBatch,
  objective: LossParts,
  useRecordedOld: boolean,
  head?: ValueHead,
): [Tensor, BatchResult] {
  const { device } = params.embedding;
  const column = (name: keyof Columns): Tensor => tensor(batch.columns[name], { device, dtype: device.float });
  const weighted = (weights: keyof Columns, loss: Tensor): Tensor => sum(mul(column(weights), loss));
  const hidden_NC = hiddenOf(params, model, batch);
  const { logProbs, entropy } = scoreHidden(params, hidden_NC, batch);
  const { policyLoss, kl, critic } = objective;
  const mask = column("mask");
  // One update per batch: the policy that sampled is the policy that learns, the ratio is exactly 1 and the sampler's own
  // log-probabilities serve only to log the mismatch.
  const oldLogProbs = useRecordedOld ? column("oldLogProbs") : stopGradient(logProbs);
  const columns: TokenColumns = {
    logProbs,
    oldLogProbs,
    advantages: column("advantages"),
    mask,
    get segments() {
      return { ids: tensor(batch.segment, { device }), count: batch.segments };
    },
    ...(policyLoss.prepare ? { prepared: column("prepared") } : {}),
    ...(policyLoss.needs?.includes("refLogProbs") ? { refLogProbs: column("refLogProbs") } : {}),
  };
  const policy = weighted("wPolicy", policyLoss.tokenLoss(columns));
  const rho = clipOf(objective);
  const exact = weighted("wWorld", crossEntropyLoss(logProbs, column("worldMask")));
  const world = rho === undefined ? exact : add(exact, weighted("wClipped", clippedErrorLoss(logProbs, column("clippedMask"), rho))); // prettier-ignore
  const terms: Terms = { policyLoss: policy, worldLoss: world, klLoss: mul(world, 0) };
  if (kl && kl.in !== "reward") {
    const penalty = klPenalty(kl.estimator, logProbs, column("refLogProbs"), mask, kl.clamp);
    terms.klLoss = weighted("wKl", kl.importance ? mul(penalty, exp(logRatio(logProbs, oldLogProbs, mask))) : penalty);
  }
  if (batch.columns.wEntropy.some(isNonZero)) terms.entropyLoss = mul(weighted("wEntropy", entropy), -1);
  if (head && critic) {
    const values = headValues(head, critic.trunk === false ? stopGradient(hidden_NC) : hidden_NC);
    const token = clippedValueLoss(
      values,
      column("oldValues"),
      column("returns"),
      column("valueMask"),
      critic.clip ?? 0.2,
    );
    terms.valueLoss = weighted("wValue", token);
  }
  let loss = add(terms.policyLoss, terms.worldLoss);
  if (kl && kl.in !== "reward") loss = add(loss, terms.klLoss);
  if (terms.entropyLoss) loss = add(loss, terms.entropyLoss);
  if (terms.valueLoss) loss = add(loss, terms.valueLoss);
  return [loss, { logProbs: stopGradient(logProbs), entropy: stopGradient(entropy), ...terms }];
}

const isNonZero = (x: number): boolean => x !== 0;

export interface Scores {
  readonly logProbs: PerToken;
  readonly entropy: PerToken;
}

/** A column for every episode, NaN where nothing was scored. */
export const unscored = (episodes: readonly TokenPlan[]): Float64Array[] =>
  episodes.map(({ trajectory }) => new Float64Array(trajectory.stream.ids.length).fill(NaN));

/** Log-probability and entropy of the tokens that `scored` names, under `model`, at the recorded temperatures. No gradient. */
export async function score(model: Model, episodes: readonly TokenPlan[], options: PackOptions): Promise<Scores> {
  const logProbs = unscored(episodes);
  const entropy = unscored(episodes);
  for (const batch of pack(episodes, options)) {
    const result = scope(() => noGrad(() => scoreHidden(model.params, hiddenOf(model.params, model, batch), batch)), "score"); // prettier-ignore
    await scatter(batch, result.logProbs, logProbs);
    await scatter(batch, result.entropy, entropy);
  }
  return { logProbs, entropy };
}

/** Reads [N] values into place and frees them. */
export async function scatter(batch: MicroBatch, values: Tensor, into: readonly Float64Array[]): Promise<void> {
  const read = await values.read();
  values.dispose();
  for (let n = 0; n < read.length; n++) into[batch.episode[n]!]![batch.token[n]!] = read[n]!;
}

export interface UpdateOptions extends PackOptions {
  /** Learning rate of this step. */
  readonly lr: number;
  /**
   * True: ratios against the recorded log-probabilities (several updates per batch, or a sampler that is not the policy).
   * False (default): exactly on-policy, old = sg(lp).
   */
  readonly useRecordedOld?: boolean;
  /** Trained along with the policy, at the same rate, if the objective has a critic. */
  readonly critic?: Critic;
}

export interface UpdateResult extends Scores {
  readonly policyLoss: number;
  readonly worldLoss: number;
  readonly klLoss: number;
  /** −coefficient·H, if there is a bonus. */
  readonly entropyLoss?: number;
  readonly valueLoss?: number;
  /** Before clipping. NaN or infinite: the step was skipped, parameters are as they were. */
  readonly gradNorm: number;
}

/** What a gradient is taken of: the model, and the critic's head if it is trained. */
type Trained = { readonly policy: TransformerParams; readonly head?: ValueHead };

/** The sum with one more micro-batch's gradients, which are freed: else every micro-batch's would live on. */
function withGrads<T extends Tree>(total: T | undefined, grads: T): T {
  const result = accumulateGrads(total, grads);
  if (total !== undefined) for (const g of treeLeaves(grads)) g.dispose();
  return result;
}

/** One optimiser step on a plan, split into micro-batches. Parameters change in place. */
export async function update(
  model: Model,
  optimizer: AdamW<TransformerParams>,
  plan: StepPlan,
  objective: LossParts,
  options: UpdateOptions,
): Promise<UpdateResult> {
  const batches: MicroBatch[] = [];
  const { critic } = options;
  const trained: Trained = { policy: model.params, ...(critic && objective.critic ? { head: critic.head } : {}) };
  const { results, norm } = scope(() => {
    let total: Trained | undefined;
    const parts: BatchResult[] = [];
    for (const batch of pack(plan.episodes, options)) {
      const step = valueAndGrad(({ policy, head }: Trained) =>
        batchLoss(policy, model, batch, objective, options.useRecordedOld ?? false, head),
      );
      const { aux, grads } = step(trained);
      total = withGrads(total, grads);
      batches.push(batch);
      parts.push(aux);
    }
    check(total !== undefined, () => "update: no token of the step has a weight; is every episode masked?");
    const before = optimizer.step(total.policy, options.lr);
    if (total.head) critic!.optimizer.step(total.head, options.lr);
    return { results: parts, norm: before };
  }, "update");
  const logProbs = unscored(plan.episodes);
  const entropy = unscored(plan.episodes);
  const totals: { -readonly [K in (typeof TERMS)[number]]?: number } = {};
  for (const [k, batch] of batches.entries()) {
    const result = results[k]!;
    await scatter(batch, result.logProbs, logProbs);
    await scatter(batch, result.entropy, entropy);
    for (const name of TERMS) {
      const term = result[name];
      if (term === undefined) continue;
      totals[name] = (totals[name] ?? 0) + (await term.item());
      term.dispose();
    }
  }
  const gradNorm = await norm.item();
  norm.dispose();
  return { policyLoss: 0, worldLoss: 0, klLoss: 0, ...totals, gradNorm, logProbs, entropy };
}

/** The gradient of a plan's loss, micro-batches summed, without an update: for measurements (gradients.ts), tests and studies. */
export function planGradient(
  model: Model,
  plan: StepPlan,
  objective: LossParts,
  options: UpdateOptions,
): TransformerParams {
  return scope(() => {
    let total: TransformerParams | undefined;
    for (const batch of pack(plan.episodes, options)) {
      const gradient = grad(
        (params: TransformerParams) =>
          batchLoss(params, model, batch, objective, options.useRecordedOld ?? false, options.critic?.head)[0],
      );
      total = withGrads(total, gradient(model.params));
    }
    check(total !== undefined, () => "planGradient: no token of the step has a weight; is every episode masked?");
    return total;
  }, "planGradient");
}
