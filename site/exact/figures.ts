/** Bias and noise of a method's gradient ĝ, measured against the true gradient g. */
import type { Moments } from "./moments.ts";

/**
 * The learning rate takes up a constant factor on a gradient. So a method is measured as it is (`own`), or with the
 * factor s that makes its mean as long as g (`equal`): the bias that is left is one of direction, which no learning
 * rate mends.
 */
export type Scale = "own" | "equal";

export interface Figures {
  /** ‖E ĝ‖ / ‖g‖ */
  readonly length: number;
  /** The cosine between E ĝ and g. */
  readonly cosine: number;
  /** ‖s·E ĝ − g‖ / ‖g‖ */
  readonly bias: number;
  /** The standard error of the bias; 0 if it is exact. */
  readonly biasError: number;
  /** s²·Σ_k Var ĝ_k / ‖g‖²; with equal lengths that is noise / signal. */
  readonly variance: number;
  /** ‖E ĝ‖² / Σ_k Var ĝ_k: 1 where one step has as much signal as noise. A factor on ĝ does not change it. */
  readonly signalToNoise: number;
  /** s */
  readonly factor: number;
}

export const dot = (a: Float64Array, b: Float64Array): number => {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k]! * b[k]!;
  return sum;
};
export const norm = (a: Float64Array): number => Math.sqrt(dot(a, a));
export const cosine = (a: Float64Array, b: Float64Array): number => dot(a, b) / (norm(a) * norm(b));
/** a + factor·b */
export const plus = (a: Float64Array, b: Float64Array, factor: number = 1): Float64Array =>
  a.map((x, k) => x + factor * b[k]!);
const total = (a: Float64Array): number => a.reduce((sum, x) => sum + x, 0);

/**
 * The figures of a method. Where the mean was sampled, its own noise would count as bias: on average ‖mean‖² is larger
 * than ‖E ĝ‖² by `uncertainty`, and so is the square of its distance from g. That is subtracted.
 */
export function figuresOf({ mean, variance, uncertainty }: Moments, truth: Float64Array, scale: Scale): Figures {
  const noise = total(variance);
  const size = norm(truth);
  const along = dot(mean, truth);
  const squared = Math.max(0, dot(mean, mean) - uncertainty);
  const factor = scale === "own" || squared === 0 ? 1 : size / Math.sqrt(squared);
  const off = norm(plus(truth, mean, -factor)) ** 2 - factor ** 2 * uncertainty;
  return {
    length: Math.sqrt(squared) / size,
    cosine: squared > 0 ? Math.max(-1, Math.min(1, along / (Math.sqrt(squared) * size))) : NaN,
    bias: withoutRounding(Math.sqrt(Math.max(0, off)) / size),
    biasError: (factor * Math.sqrt(uncertainty)) / size,
    variance: (factor ** 2 * noise) / size ** 2,
    signalToNoise: squared / noise,
    factor,
  };
}

/** A share of the whole for each parameter: of the true gradient's squared length, and of the variance. */
export interface ParameterShare {
  readonly name: string;
  readonly size: number;
  readonly gradient: number;
  readonly variance: number;
}

export function sharesOf(
  parameters: readonly { readonly name: string; readonly start: number; readonly end: number }[],
  truth: Float64Array,
  { variance }: Moments,
): ParameterShare[] {
  const square = truth.map((x) => x * x);
  const share = (of: Float64Array, start: number, end: number): number => total(of.subarray(start, end)) / total(of);
  return parameters.map(({ name, start, end }) => ({
    name,
    size: end - start,
    gradient: share(square, start, end),
    variance: share(variance, start, end),
  }));
}

/** The accuracy of sums of hundreds of terms in 64 bits; a smaller bias is 0. */
const ROUNDING = 1e-9;
const withoutRounding = (x: number): number => (x < ROUNDING ? 0 : x);

/** The angle between E ĝ and g in degrees; NaN if E ĝ has no direction. Near 0 its cosine has half of the digits. */
export const angleOf = ({ cosine: cos }: Pick<Figures, "cosine">): number =>
  withoutRounding(1 - cos) === 0 ? 0 : (Math.acos(cos) * 180) / Math.PI;
