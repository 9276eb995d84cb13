/**
 * Scoring: log-probabilities, entropies and other token statistics (rl/objective/tokenStatistics.ts) of tokens that
 * have been played. This happens before the update, without gradient, and only for the statistics that a part of the
 * objective asks for: GRPO with ECHO needs none. The policy and the reference are each run at most once.
 */
import { check } from "../../engine/errors.ts";
import {
  exp,
  mul,
  neg,
  noGrad,
  type Rng,
  scope,
  sub,
  sum,
  tensor,
  type Tensor,
  tokenLogProbs,
} from "../../engine/index.ts";
import {
  forward,
  type ForwardOptions,
  headValues,
  type Model,
  outputMatrix,
  pickHidden,
  rowsOf,
  type TransformerParams,
  type ValueHead,
} from "../../nn/index.ts";
import { isAgentToken, type Trajectory } from "../episode/stream.ts";
import { rowOf, type TokenRow } from "../objective/columns.ts";
import { type Objective, statisticsOf } from "../objective/objective.ts";
import {
  isOfReference,
  type PerToken,
  type TokenStatistic,
  TOKEN_STATISTICS,
  type TokenStatistics,
} from "../objective/tokenStatistics.ts";
import { EventLoop } from "../play/eventLoop.ts";
import { type MicroBatch, pack, type PackOptions } from "./pack.ts";

/**
 * The log-probabilities that the ratios of a step refer to.
 * - `exact`: those of the policy that is trained, so that every ratio is exactly 1. For one pass over the policy's own
 *   samples.
 * - `before`: those of this policy before the first of several passes.
 * - `recorded`: those that the sampler recorded. For samples of an older policy, unless the objective corrects for it
 *   otherwise.
 */
export type Ratios = "exact" | "before" | "recorded";

/** @param options `offPolicy`: the tokens are those of an older policy; `iterations`: passes over them */
export function ratiosOf(
  { advantage, importanceCorrection }: Objective,
  { offPolicy = false, iterations = 1 }: { readonly offPolicy?: boolean; readonly iterations?: number },
): Ratios {
  if (offPolicy && !importanceCorrection && !advantage.offPolicy) return "recorded";
  return iterations > 1 ? "before" : "exact";
}

/** The models that compute statistics. */
export interface ScoreSources {
  readonly model: Model;
  readonly reference?: Model | undefined;
  /** The critic's head, for `values`. */
  readonly head?: ValueHead | undefined;
}

type Packing = Pick<PackOptions, "padId" | "maxTokens">;

/** The statistics that the objective and the ratios ask for. */
export async function scoreTokens(
  sources: ScoreSources,
  objective: Objective,
  trajectories: readonly Trajectory[],
  ratios: Ratios,
  packing: Packing,
): Promise<TokenStatistics> {
  const wanted = new Set<TokenStatistic>([
    ...statisticsOf(objective),
    ...(ratios === "before" ? (["logProbs"] as const) : []),
  ]);
  const names = TOKEN_STATISTICS.filter((name) => wanted.has(name));
  return names.length === 0 ? {} : tokenStatistics(sources, names, trajectories, packing);
}

/** The named statistics of the tokens that the agent sampled; NaN elsewhere. */
export async function tokenStatistics(
  { model, reference, head }: ScoreSources,
  wanted: readonly TokenStatistic[],
  trajectories: readonly Trajectory[],
  packing: Packing,
): Promise<TokenStatistics> {
  const ofReference = wanted.filter(isOfReference);
  const ofModel = wanted.filter((name) => !isOfReference(name));
  const isMissing = ofReference.length > 0 && reference === undefined;
  check(!isMissing, () => `the objective needs a reference model, for ${ofReference.join(", ")}`);
  const isHeadless = ofModel.includes("values") && head === undefined;
  check(!isHeadless, () => "the objective needs a critic: the options have no value head");
  const rows = trajectories.map((trajectory) => rowOf(trajectory));
  const statistics: { -readonly [S in TokenStatistic]?: Float64Array[] } = {};
  const passes = [
    { source: model, names: ofModel },
    { source: reference, names: ofReference },
  ];
  for (const { source, names } of passes) {
    if (names.length === 0) continue;
    for (const name of names) statistics[name] = unscored(rows);
    for (const batch of pack(rows, { ...packing, scored: isSampled })) {
      const results = scope(() => noGrad(() => statisticsOfBatch(source!, head, names, batch)), "statistics");
      for (const [k, name] of names.entries()) await scatter(batch, results[k]!, statistics[name]!);
    }
  }
  return statistics;
}

const isSampled = ({ trajectory: { stream, masked } }: TokenRow, t: number): boolean =>
  !masked && isAgentToken(stream.roles[t]!);

/** The named statistics of a micro-batch, [N] each. */
function statisticsOfBatch(
  model: Model,
  head: ValueHead | undefined,
  names: readonly TokenStatistic[],
  batch: MicroBatch,
): Tensor[] {
  const { params } = model;
  const hidden_NC = hiddenOf(model, batch);
  const at = (temperatureOf: (t: number) => number): { logProbs: Tensor; entropy: Tensor } =>
    scoreHidden(params, hidden_NC, batch, batch.columns.temperatures.map(temperatureOf));
  const sampled = lazy(() => at((T) => T));
  const plain = lazy(() => at(() => 1));
  // No two of a pass are one tensor: they are freed one by one.
  return names.map((name) => {
    switch (name) {
      case "logProbs":
      case "refLogProbs":
        return sampled().logProbs;
      case "entropy":
        return sampled().entropy;
      case "collision":
        // ln Σ π² = lse(2z) − 2·lse(z), and with lp = z − lse(z) of any one token that is 2·lp(T) − lp(T/2).
        return exp(sub(mul(sampled().logProbs, 2), at((T) => T / 2).logProbs));
      case "values":
        return headValues(head!, hidden_NC);
      case "refEntropy":
        return plain().entropy;
      case "refNll":
        return neg(plain().logProbs);
      case "refEnergy": {
        // −lse(z) = lp − z, with the logit of the token itself.
        const { device } = params.embedding;
        const rows_NC = rowsOf(outputMatrix(params), tensor(batch.targets, { device }));
        return sub(plain().logProbs, sum(mul(hidden_NC, rows_NC), { axis: -1 }));
      }
    }
  });
}

function lazy<T>(make: () => T): () => T {
  let value: T | undefined;
  return () => (value ??= make());
}

/** One value per row and token; NaN where nothing was scored. */
export interface Scores {
  readonly logProbs: PerToken;
  readonly entropy: PerToken;
  /** The predictions of the heads of further terms, by term; of a pass that trains. */
  readonly predictions?: Readonly<Record<string, PerToken>>;
}

/**
 * Log-probability and entropy of the tokens that `scored` names, under `model`, at the recorded temperatures. No
 * gradient.
 * @param options with a signal, the event loop has a turn before each micro-batch; rejects when it is aborted
 */
export async function score(
  model: Model,
  rows: readonly TokenRow[],
  { signal, ...options }: PackOptions & { readonly signal?: AbortSignal | undefined },
): Promise<Scores> {
  const [logProbs, entropy] = [unscored(rows), unscored(rows)];
  const { params } = model;
  const loop = signal && new EventLoop();
  try {
    for (const batch of pack(rows, options)) {
      await loop?.turn();
      signal?.throwIfAborted();
      const result = scope(() => noGrad(() => scoreHidden(params, hiddenOf(model, batch), batch)), "score");
      await scatter(batch, result.logProbs, logProbs);
      await scatter(batch, result.entropy, entropy);
    }
  } finally {
    loop?.close();
  }
  return { logProbs, entropy };
}

/** Options of the forward pass of a model that is trained. */
export interface PassingOptions extends Pick<ForwardOptions, "gradientCheckpointing"> {
  /** The stream of an adapter's dropout in this pass; without it nothing is dropped. */
  readonly dropout?: Rng | undefined;
}

/** The options that concern the forward pass, out of others. */
export function passingOf({
  gradientCheckpointing = false,
}: PassingOptions): Pick<ForwardOptions, "gradientCheckpointing"> {
  const isSwitch = typeof gradientCheckpointing === "boolean";
  check(isSwitch, () => `gradientCheckpointing must be true or false, got ${String(gradientCheckpointing)}`);
  return { gradientCheckpointing };
}

/** Hidden states [N, C] where the scored tokens of a micro-batch are predicted. */
export function hiddenOf({ params, config }: Model, batch: MicroBatch, passing: PassingOptions = {}): Tensor {
  const { device } = params.embedding;
  const ids_BT = tensor(batch.ids, { device, shape: [batch.rows, batch.length] });
  return pickHidden(forward(params, config, ids_BT, passingOf(passing)), batch.index);
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

/** A column for every row, NaN where nothing was scored. */
export const unscored = (rows: readonly TokenRow[]): Float64Array[] =>
  rows.map(({ trajectory }) => new Float64Array(trajectory.stream.ids.length).fill(NaN));

/** Reads [N] values into place and frees them. */
export async function scatter(batch: MicroBatch, values: Tensor, into: readonly Float64Array[]): Promise<void> {
  const read = await values.read();
  values.dispose();
  for (let n = 0; n < read.length; n++) into[batch.episode[n]!]![batch.token[n]!] = read[n]!;
}
