/**
 * The loss of a micro-batch: the sum of the objective's terms. A method differs from others in its columns, policy loss
 * and further terms; everything here is the same for all methods.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import {
  add,
  type Device,
  exp,
  mul,
  neg,
  stopGradient,
  sum,
  tensor,
  type Tensor,
  type Tree,
} from "../../engine/index.ts";
import { headValues, type Model, trainableOf, type ValueHead } from "../../nn/index.ts";
import { COLUMN_NAMES, type ColumnName, type Columns } from "../objective/columns.ts";
import { klPenalty } from "../objective/kl.ts";
import { logRatio } from "../objective/policyLoss.ts";
import { crossEntropyLoss } from "../objective/crossEntropy.ts";
import { clippedValueLoss } from "../objective/value.ts";
import { CRITIC, extraTermsOf, type Objective } from "../objective/objective.ts";
import type { HeadTraining, TermTokens } from "../objective/terms.ts";
import type { MicroBatch } from "./pack.ts";
import { hiddenOf, type PassingOptions, type Ratios, scoreHidden } from "./score.ts";

/** The parts of an objective that the loss reads once the tokens have their weights. */
export type LossParts = Pick<Objective, "policyLoss" | "world" | "terms" | "kl" | "critic">;

/** Heads by the names of their terms; the critic's is `value`. */
export type Heads<H = ValueHead> = Readonly<Record<string, H>>;

/** The trained parameters: those of `trainableOf(model)`, all or an adapter, and the heads of terms. */
export type Trained<T extends Tree = Tree> = { readonly policy: T; readonly heads?: Heads };

/** The tokens of a micro-batch, with the columns that every objective has. */
type Tokens = TermTokens & Columns<Tensor>;

/** A term as the loss computes it. */
export interface Term {
  readonly name: string;
  /** The column of its weights. */
  readonly weight: (columns: MicroBatch["columns"]) => Float64Array | undefined;
  readonly tokenLoss: (tokens: Tokens) => Tensor;
  readonly head?: HeadTraining;
}

/** The terms of an objective, in the order in which they are added. */
export function termsOf(objective: LossParts): readonly Term[] {
  const { policyLoss, kl, critic } = objective;
  const terms: Term[] = [
    { name: "policy", weight: ({ wPolicy }) => wPolicy, tokenLoss: (tokens) => policyLoss.tokenLoss(tokens) },
    {
      name: "world",
      weight: ({ wWorld }) => wWorld,
      tokenLoss: ({ logProbs, weighted }) => crossEntropyLoss(logProbs, weighted),
    },
    ...extraTermsOf(objective).map((term): Term => {
      const { name, head } = term;
      const base = { name, weight: ({ weights }: MicroBatch["columns"]) => weights[name] };
      return { ...base, tokenLoss: (tokens) => term.tokenLoss(tokens), ...(head ? { head } : {}) };
    }),
  ];
  if (kl && kl.in !== "reward") {
    const tokenLoss = ({ logProbs, oldLogProbs, refLogProbs, mask }: Tokens): Tensor => {
      const penalty = klPenalty(kl.estimator, logProbs, refLogProbs, mask, kl.clamp);
      return kl.importance ? mul(penalty, exp(logRatio(logProbs, oldLogProbs, mask))) : penalty;
    };
    terms.push({ name: "kl", weight: ({ wKl }) => wKl, tokenLoss });
  }
  terms.push({ name: "entropy", weight: ({ wEntropy }) => wEntropy, tokenLoss: ({ entropy }) => neg(entropy) });
  if (critic) {
    const { clip, trunk, rate } = CRITIC.read(critic);
    const tokenLoss = ({ predictions, oldValues, returns, weighted }: Tokens): Tensor =>
      clippedValueLoss(predictions, oldValues, returns, weighted, clip);
    terms.push({ name: "value", weight: ({ wValue }) => wValue, tokenLoss, head: { trunk, rate } });
  }
  return terms;
}

/** The training of the heads of an objective's terms, by term. */
export const headTraining = (objective: LossParts): Heads<HeadTraining> =>
  Object.fromEntries(termsOf(objective).flatMap(({ name, head }) => (head ? [[name, head]] : [])));

/** The heads of the objective's terms. */
export const headsFor = <H>(objective: LossParts, heads: Heads<H>): Heads<H> =>
  Object.fromEntries(Object.entries(heads).filter(([name]) => Object.hasOwn(headTraining(objective), name)));

/** The terms of the loss by name, each a scalar, and the results of the forward pass per scored token, [N]. */
export interface BatchLoss {
  readonly terms: Readonly<Record<string, Tensor>>;
  /** The predictions of the heads of further terms, by term. */
  readonly predictions: Readonly<Record<string, Tensor>>;
  readonly logProbs: Tensor;
  readonly entropy: Tensor;
}

/**
 * The loss of a micro-batch: its share of the step's loss, a plain weighted sum. `policy` and `world` are always among
 * the terms; one that has no weight in the micro-batch, or no head where it needs one, is left out.
 * @param dropout the stream of the micro-batch, for adapters that have dropout; without it there is none
 */
export function lossOf(
  { policy, heads = {} }: Trained,
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
  // With exact ratios the policy that played is the one that is trained, and every ratio is 1. The sampler's
  // log-probabilities then serve for metrics only.
  const exactly = ratios === "exact" ? { oldLogProbs: stopGradient(logProbs) } : {};
  const tokens = lossTokens(batch, device, { logProbs, entropy }, exactly);
  const terms: Record<string, Tensor> = {};
  const predictions: Record<string, Tensor> = {};
  for (const { name, weight: weightOf, tokenLoss, head } of termsOf(objective)) {
    const weight = weightOf(batch.columns);
    if (weight === undefined || (head && heads[name] === undefined)) continue;
    const isAlways = name === "policy" || name === "world";
    if (!isAlways && weight.every((w) => w === 0)) continue;
    const ofTerm = Object.create(tokens, {
      weighted: lazily(() => tensor(weight.map(isNonZero), { device, dtype: device.float })),
      predictions: lazily(() => {
        check(head !== undefined, () => `the term "${name}" reads predictions and has no head`);
        return headValues(heads[name]!, (head.trunk ?? true) ? hidden_NC : stopGradient(hidden_NC));
      }),
      column: {
        value: (column: string): Tensor => {
          const values = batch.columns.more[`${name}.${column}`];
          check(values !== undefined, () => `the term "${name}" reads a column "${column}", which it has not made`);
          return tensor(values, { device, dtype: device.float });
        },
      },
    }) as Tokens;
    const losses_N = tokenLoss(ofTerm);
    check(
      losses_N?.size === weight.length,
      () =>
        `the term "${name}": expected of tokenLoss a tensor, the loss of each of the ${weight.length} tokens, got ` +
        showValue(losses_N),
    );
    terms[name] = sum(mul(tensor(weight, { device, dtype: device.float }), losses_N));
    if (head && name !== "value") predictions[name] = stopGradient(ofTerm.predictions);
  }
  const [first, ...others] = Object.values(terms);
  const loss = others.reduce((total, term) => add(total, term), first!);
  return [loss, { logProbs: stopGradient(logProbs), entropy: stopGradient(entropy), terms, predictions }];
}

const isNonZero = (x: number): number => Number(x !== 0);

/** A property whose value is computed when it is first asked for. */
function lazily(make: () => Tensor): PropertyDescriptor {
  let made: Tensor | undefined;
  return { get: () => (made ??= make()) };
}

/** The columns of a micro-batch as tensors. Each is uploaded when a term first asks for it, unless it is given. */
function lossTokens(
  { columns, segment, segments }: MicroBatch,
  device: Device,
  scored: Pick<Tokens, "logProbs" | "entropy">,
  given: Partial<Columns<Tensor>>,
): object {
  const made: Partial<Record<ColumnName, Tensor>> = { ...given };
  const tokens = {
    ...scored,
    get segments() {
      return { ids: tensor(segment, { device }), count: segments };
    },
  };
  for (const name of COLUMN_NAMES) {
    const get = (): Tensor => (made[name] ??= tensor(columns[name], { device, dtype: device.float }));
    Object.defineProperty(tokens, name, { get });
  }
  return tokens;
}
