/**
 * The loss of a micro-batch. What is specific to a method is in the columns and in the policy loss; everything here is
 * the same for all methods.
 */
import { add, type Device, exp, mul, stopGradient, sum, tensor, type Tensor, type Tree } from "../../engine/index.ts";
import { headValues, type Model, trainableOf, type ValueHead } from "../../nn/index.ts";
import { COLUMN_NAMES, type ColumnName, type Columns } from "../methods/columns.ts";
import { klPenalty } from "../methods/losses/kl.ts";
import { logRatio, type TokenColumns } from "../methods/losses/policyLoss.ts";
import { clippedErrorLoss, crossEntropyLoss } from "../methods/losses/supervised.ts";
import { clippedValueLoss } from "../methods/losses/value.ts";
import { clipOf, CRITIC, type Objective } from "../methods/objective.ts";
import type { MicroBatch } from "./pack.ts";
import { hiddenOf, type PassingOptions, type Ratios, scoreHidden } from "./score.ts";

/** The parts of an objective that are asked once its tokens have their weights. */
export type LossParts = Pick<Objective, "policyLoss" | "world" | "kl" | "critic">;

/**
 * What is trained: of the policy the parameters of `trainableOf(model)`, all of them or an adapter, and the critic's
 * head if there is one.
 */
export type Trained<T extends Tree = Tree> = { readonly policy: T; readonly head?: ValueHead };

export const TERMS = ["policyLoss", "worldLoss", "klLoss", "entropyLoss", "valueLoss"] as const;
/** The terms of the loss, each a scalar. The last two are there only if the objective has them. */
type Terms = Record<"policyLoss" | "worldLoss" | "klLoss", Tensor> & Partial<Record<(typeof TERMS)[number], Tensor>>;

/** The terms, and what the forward pass gave per scored token, [N]. */
export interface BatchLoss extends Terms {
  readonly logProbs: Tensor;
  readonly entropy: Tensor;
}

/**
 * The loss of a micro-batch: its share of the step's loss, a plain weighted sum.
 * @param dropout the stream of the micro-batch, for adapters that have dropout; without it there is none
 */
export function lossOf(
  { policy, head }: Trained,
  model: Model,
  batch: MicroBatch,
  objective: LossParts,
  ratios: Ratios = "exact",
  passing: PassingOptions = {},
): [Tensor, BatchLoss] {
  const { device } = model.params.embedding;
  const current = trainableOf(model).modelOf(policy, { dropout: passing.dropout });
  const hidden_NC = hiddenOf(current, batch, passing);
  const { logProbs, entropy } = scoreHidden(current.params, hidden_NC, batch);
  // With exact ratios the policy that played is the one that is trained, and every ratio is 1. What the sampler
  // recorded then serves for metrics only.
  const exactly = ratios === "exact" ? { oldLogProbs: stopGradient(logProbs) } : {};
  const tokens = lossTokens(batch, device, logProbs, exactly);
  const isWeighted = (name: ColumnName): Tensor =>
    tensor(batch.columns[name].map(isNonZero), { device, dtype: device.float });

  const { policyLoss, kl, critic } = objective;
  const policyTerm = sum(mul(tokens.wPolicy, policyLoss.tokenLoss(tokens)));
  const rho = clipOf(objective);
  let worldTerm = sum(mul(tokens.wWorld, crossEntropyLoss(logProbs, isWeighted("wWorld"))));
  if (rho !== undefined) {
    const clipped = clippedErrorLoss(logProbs, isWeighted("wClipped"), rho);
    worldTerm = add(worldTerm, sum(mul(tokens.wClipped, clipped)));
  }
  const terms: Terms = { policyLoss: policyTerm, worldLoss: worldTerm, klLoss: mul(worldTerm, 0) };
  if (kl && kl.in !== "reward") {
    const penalty = klPenalty(kl.estimator, logProbs, tokens.refLogProbs, tokens.mask, kl.clamp);
    const ratio = (): Tensor => exp(logRatio(logProbs, tokens.oldLogProbs, tokens.mask));
    terms.klLoss = sum(mul(tokens.wKl, kl.importance ? mul(penalty, ratio()) : penalty));
  }
  if (batch.columns.wEntropy.some((w) => w !== 0)) {
    terms.entropyLoss = mul(sum(mul(tokens.wEntropy, entropy)), -1);
  }
  if (head && critic) {
    const { clip, trunk } = CRITIC.read(critic);
    const values = headValues(head, trunk ? hidden_NC : stopGradient(hidden_NC));
    const { oldValues, returns } = tokens;
    const error = clippedValueLoss(values, oldValues, returns, isWeighted("wValue"), clip);
    terms.valueLoss = sum(mul(tokens.wValue, error));
  }

  let loss = add(terms.policyLoss, terms.worldLoss);
  if (kl && kl.in !== "reward") loss = add(loss, terms.klLoss);
  if (terms.entropyLoss) loss = add(loss, terms.entropyLoss);
  if (terms.valueLoss) loss = add(loss, terms.valueLoss);
  return [loss, { logProbs: stopGradient(logProbs), entropy: stopGradient(entropy), ...terms }];
}

const isNonZero = (x: number): number => Number(x !== 0);

/** The columns of a micro-batch as tensors. Each is uploaded when a term first asks for it, unless it is given. */
function lossTokens(
  { columns, segment, segments }: MicroBatch,
  device: Device,
  logProbs: Tensor,
  given: Partial<Columns<Tensor>>,
): TokenColumns & Columns<Tensor> {
  const made: Partial<Record<ColumnName, Tensor>> = { ...given };
  const tokens = {
    logProbs,
    get segments() {
      return { ids: tensor(segment, { device }), count: segments };
    },
  };
  for (const name of COLUMN_NAMES) {
    const get = (): Tensor => (made[name] ??= tensor(columns[name], { device, dtype: device.float }));
    Object.defineProperty(tokens, name, { get });
  }
  return tokens as typeof tokens & Columns<Tensor>;
}
