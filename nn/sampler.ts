/**
 * The choice of a token from a row of logits, on the host and in double precision, as top-k, top-p and min-p need it.
 * Without them decoding draws tokens on the device (`sampleTokens`).
 */
import { check } from "../engine/errors.ts";
import { number, type NumberRange, options, type OptionsOf } from "../engine/optionTable.ts";
import type { Rng } from "../engine/random.ts";

/**
 * The range of temperatures in which a logit over its temperature stays in single precision: at 1e-40 every draw would
 * be NaN, at 1e50 greedy. SGLang has the same lower bound, and is greedy below it.
 */
const TEMPERATURES: NumberRange = { min: 1e-6, max: 1e6, orZero: true };

/** Top-p: Holtzman et al. 2020; min-p: Nguyen et al. 2024. */
export const SAMPLING = options("sampling", {
  temperature: number(1, "sampling temperature; 0: greedy", TEMPERATURES),
  topK: number(0, "only the k most likely tokens can be drawn; 0: all", { integer: true, min: 0 }),
  topP: number(1, "only the most likely tokens that together have this probability can be drawn", {
    above: 0,
    max: 1,
  }),
  minP: number(0, "only tokens with at least this share of the most likely token's probability can be drawn", {
    min: 0,
    max: 1,
  }),
});
/** Options of drawing a token from logits. */
export type SamplingOptions = OptionsOf<typeof SAMPLING>;

/** A token that was drawn, with the logarithms of its probability. */
export interface SampledToken {
  readonly id: number;
  /**
   * Its log-probability under softmax(logits / temperature) over the whole vocabulary: the `old` of importance ratios.
   * Greedy: as `plainLogProb`.
   */
  readonly logProb: number;
  /** Its log-probability in the distribution it was drawn from, after top-k, top-p and min-p; 0 for greedy. */
  readonly samplingLogProb: number;
  /** Its log-probability under softmax(logits). */
  readonly plainLogProb: number;
}

/** Whether a filter leaves tokens out: then the logits are sorted, on the host. */
export const isFiltering = ({ topK, topP, minP }: Required<SamplingOptions>): boolean =>
  topK > 0 || topP < 1 || minP > 0;

/** log Σ e^(x/temperature). */
function logSumExp(x: ArrayLike<number>, temperature: number): number {
  let largest = -Infinity;
  for (let i = 0; i < x.length; i++) largest = Math.max(largest, x[i]!);
  let total = 0;
  for (let i = 0; i < x.length; i++) total += Math.exp((x[i]! - largest) / temperature);
  return largest / temperature + Math.log(total);
}

function checkLogits(row: ArrayLike<number>): void {
  check(row.length > 0, () => "sampling: there are no logits");
  for (let i = 0; i < row.length; i++) {
    check(Number.isFinite(row[i]), () => `sampling: the logit of token ${i} is ${row[i]}; the model has diverged`);
  }
}

/** ln softmax of a row of logits. @throws if a logit is NaN or infinite */
export function plainLogProbs(row: ArrayLike<number>): Float64Array {
  checkLogits(row);
  const normalizer = logSumExp(row, 1);
  return Float64Array.from(row, (x) => x - normalizer);
}

/**
 * Draws one token. Filters apply in the order top-k, top-p, min-p, after the temperature (as in Transformers).
 * @param row logits over the vocabulary
 * @param changed the logits to draw from if they are not the model's own, such as after penalties; −∞ is never drawn.
 *   `logProb` and `plainLogProb` stay those of `row`
 * @throws if a logit of `row` is NaN or infinite
 */
export function sampleToken(
  row: ArrayLike<number>,
  given: SamplingOptions,
  rng: Rng,
  changed: ArrayLike<number> = row,
): SampledToken {
  const sampling = SAMPLING.read(given);
  const { temperature, topK, topP, minP } = sampling;
  checkLogits(row);
  const plainNormalizer = logSumExp(row, 1);
  if (temperature === 0) {
    let id = 0;
    for (let i = 1; i < row.length; i++) if (changed[i]! > changed[id]!) id = i;
    const plainLogProb = row[id]! - plainNormalizer;
    return { id, logProb: plainLogProb, samplingLogProb: 0, plainLogProb };
  }
  const ownNormalizer = temperature === 1 ? plainNormalizer : logSumExp(row, temperature);
  const normalizer = changed === row ? ownNormalizer : logSumExp(changed, temperature);
  const logProbOf = (id: number): number => changed[id]! / temperature - normalizer;
  const kept = isFiltering(sampling) ? filterTokens(row.length, logProbOf, topK, topP, minP) : undefined;
  const keptMass = kept ? kept.reduce((total, id) => total + Math.exp(logProbOf(id)), 0) : 1;
  const count = kept?.length ?? row.length;
  let remaining = rng.uniform() * keptMass;
  // Rounding may leave a rest behind the last token that can be drawn.
  let last = count - 1;
  while (changed[kept?.[last] ?? last] === -Infinity) last--;
  let id = kept?.[last] ?? last;
  for (let i = 0; i < count; i++) {
    const candidate = kept?.[i] ?? i;
    remaining -= Math.exp(logProbOf(candidate));
    if (remaining < 0) {
      id = candidate;
      break;
    }
  }
  return {
    id,
    logProb: row[id]! / temperature - ownNormalizer,
    samplingLogProb: logProbOf(id) - Math.log(keptMass),
    plainLogProb: row[id]! - plainNormalizer,
  };
}

/** The ids that pass the filters, most probable first; ties in the order of ids. */
function filterTokens(
  vocab: number,
  logProbOf: (id: number) => number,
  topK: number,
  topP: number,
  minP: number,
): number[] {
  let ids = Array.from({ length: vocab }, (_, id) => id).sort((a, b) => logProbOf(b) - logProbOf(a) || a - b);
  if (topK > 0) ids = ids.slice(0, topK);
  if (topP < 1) {
    const mass = ids.reduce((total, id) => total + Math.exp(logProbOf(id)), 0);
    let reached = 0;
    const end = ids.findIndex((id) => (reached += Math.exp(logProbOf(id)) / mass) >= topP);
    if (end >= 0) ids = ids.slice(0, end + 1);
  }
  const floor = logProbOf(ids[0]!) + Math.log(minP);
  return minP > 0 ? ids.filter((id) => logProbOf(id) >= floor) : ids;
}
