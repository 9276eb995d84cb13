/**
 * Central differences: the slope of a function of tensors along a direction, and a bound of its error. This is the
 * numeric half of `checkGradient` (check.ts), which compares it with the backward sweep.
 *
 * Let T(s) = ⟨w, f(x + s δ) − f(x)⟩ for a step δ, and let u be the unit roundoff (2⁻⁵³ in f64, 2⁻²⁴ in f32). Two
 * widths,
 *
 *     C₁ = (T(1) − T(−1)) / 2     C₂ = (T(2) − T(−2)) / 4
 *
 * both tend to the slope along δ. Their errors of order |δ|³ cancel in (4 C₁ − C₂) / 3, Richardson's extrapolation. For
 * one number x, δ = h and the result divided by h, two errors are left:
 *
 *     truncation  h⁴ |f⁽⁵⁾| / 30        rounding  at most 1.5 c u |f| / h
 *
 * where c u |f| bounds the error of one evaluation: c roundings inside f. For |f| and |f⁽⁵⁾| near 1 the sum of both is
 * smallest at h = (11 c u)^(1/5), which is 2e-3 in f64 and 0.1 in f32 for c = 32. The default steps are smaller, 2⁻¹³ =
 * 1.2e-4 and 2⁻⁶ = 1.6e-2. Rounding then still lies far below the error of a wrong derivative, kinks and the ends of a
 * function's domain are out of reach, and functions that change within 0.01 (f64) or 0.1 (f32) are resolved.
 *
 * The rounding is computed from the evaluations: |f| is the length of w·f over those elements of the output that the
 * step changed. An executor gives the others the same bits, so they add no error. |f| counts as 1 if it is smaller,
 * since a small f can be the difference of larger numbers.
 */
import { vjpOf } from "./checkpoint.ts";
import type { Device } from "./device.ts";
import { check, fail } from "./errors.ts";
import { tensor } from "./ops/create.ts";
import { outsideScopes, scope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";
import { type FloatType, isFloat, sameShape, type Shape, showType } from "./types.ts";

/** A float tensor as host values. */
export interface Values {
  readonly device: Device;
  readonly shape: Shape;
  readonly dtype: FloatType;
  readonly data: Float64Array;
}

/** A variable of the derivative. Each evaluation makes new tensors of these values. */
export interface Variable extends Values {
  /** The name in messages: `input "w"`. */
  readonly name: string;
}

/** A function of float tensors to float tensors, and its variables. */
export interface Problem {
  readonly variables: readonly Variable[];
  readonly run: (xs: readonly Tensor[]) => readonly Tensor[];
}

/** The point of the derivative, and the weights that make f a scalar. */
export interface Point {
  /** f at the point, an entry per output. */
  readonly base: readonly Values[];
  /** The factors of the elements of f, in its shapes: 1 for a scalar, else random numbers. */
  readonly weights: readonly Values[];
}

/** The number of roundings in one evaluation of f that the bound allows for: c above. */
const ROUNDINGS = 32;
const UNIT = { f64: 2 ** -53, f32: 2 ** -24 } as const;

/** The unit roundoff of the coarsest of these types. */
export const unitOf = (types: readonly { readonly dtype: FloatType }[]): number =>
  Math.max(...types.map(({ dtype }) => UNIT[dtype]));

export const toTensor = ({ device, shape, dtype, data }: Values): Tensor => tensor(data, { device, shape, dtype });

/** Host copies of float tensors, all requested at once: the tensors may be freed right after the call. */
export function reading(xs: readonly Tensor[]): Promise<Values>[] {
  return xs.map(async ({ device, shape, dtype }, k) => {
    const data = xs[k]!.read();
    if (!isFloat(dtype)) fail(`checkGradient: expected floats, got ${showType({ shape, dtype })}`);
    return { device, shape, dtype, data: Float64Array.from(await data) };
  });
}

/**
 * f at `data`. All tensors die before the call returns.
 * @throws if f overwrites an input
 */
export function evaluate({ variables, run }: Problem, data: readonly Float64Array[]): Promise<Values[]> {
  const pending = outsideScopes(() =>
    scope(() => {
      const xs = variables.map((v, k) => toTensor({ ...v, data: data[k]! }));
      const storages = xs.map((x) => x.storage);
      const ys = run(xs);
      storages.forEach(({ version }, k) =>
        check(version === 0, () => `checkGradient: the function overwrites ${variables[k]!.name} in place`),
      );
      return reading(ys);
    }, "checkGradient"),
  );
  return Promise.all(pending);
}

/** The gradients of ⟨ws, run(xs)⟩ by the backward sweep; inside another sweep they can be differentiated once more. */
export function sweep(run: Problem["run"], xs: readonly Tensor[], ws: readonly Tensor[]): Tensor[] {
  const every = xs.map(() => true);
  return vjpOf(run, xs, ws, every).map((g) => g!);
}

/** The gradients at a point, an array per variable. */
export async function gradientsAt({ variables, run }: Problem, { weights }: Point): Promise<Float64Array[]> {
  const gradients = (): Promise<Values>[] => reading(sweep(run, variables.map(toTensor), weights.map(toTensor)));
  const pending = outsideScopes(() => scope(gradients, "checkGradient"));
  return (await Promise.all(pending)).map(({ data }) => data);
}

/** A slope by differences, in units of f per unit of step. */
export interface Slope {
  readonly numeric: number;
  /** One-sided slopes: for the message about a kink. */
  readonly left: number;
  readonly right: number;
  /**
   * The amount by which the differences contradict each other. Where f is smooth this is of order h² (h³ for the second
   * part): far below the slopes that are compared. At a kink within reach it is at least half the error that the kink
   * makes in `numeric`. Infinity if f is not finite at one of the four points.
   */
  readonly roughness: number;
  /** A bound of the rounding error in `numeric`. */
  readonly rounding: number;
}

/**
 * The slope of ⟨weights, f⟩ at the point along a step.
 * @param steps δ, an array per variable; undefined where the variable stays as it is
 * @param unit the divisor of slopes: the length of the step
 */
export async function slopeAlong(
  problem: Problem,
  { base, weights }: Point,
  steps: readonly (Float64Array | undefined)[],
  unit: number,
): Promise<Slope> {
  const at = (s: number): Promise<Values[]> =>
    evaluate(
      problem,
      problem.variables.map(({ data }, k) => {
        const step = steps[k];
        return step === undefined ? data : data.map((x, i) => x + s * step[i]!);
      }),
    );
  const points = await Promise.all([-2, -1, 1, 2].map(at));
  const totals = [0, 0, 0, 0];
  let squares = 0;
  base.forEach(({ data }, k) => {
    const values = points.map((outputs) => sameType(base, outputs, k).data);
    const w = weights[k]!.data;
    for (let i = 0; i < data.length; i++) {
      if (values.every((y) => y[i] === data[i])) continue;
      for (let p = 0; p < 4; p++) totals[p]! += w[i]! * (values[p]![i]! - data[i]!);
      squares += (w[i]! * Math.max(Math.abs(data[i]!), ...values.map((y) => Math.abs(y[i]!)))) ** 2;
    }
  });
  const [a, b, c, d] = totals.map((t) => t / unit) as [number, number, number, number];
  const [narrow, wide] = [(c - b) / 2, (d - a) / 4];
  // Second differences: f″ makes the wide one twice the narrow one, a kink at the point itself makes them equal.
  const roughness = Math.max(Math.abs(wide - narrow), Math.abs((a + d) / 2 - 2 * (b + c)));
  return {
    numeric: (4 * narrow - wide) / 3,
    left: -b,
    right: c,
    roughness: Number.isFinite(roughness) ? roughness : Infinity,
    rounding: (1.5 * ROUNDINGS * unitOf([...problem.variables, ...base]) * Math.max(1, Math.sqrt(squares))) / unit,
  };
}

function sameType(base: readonly Values[], outputs: readonly Values[], k: number): Values {
  const now = outputs[k];
  if (now !== undefined && outputs.length === base.length && sameShape(base[k]!.shape, now.shape)) return now;
  const shown = [base, outputs].map((list) => list.map(showType).join(" · "));
  return fail(
    `checkGradient: the function returned ${shown.join(" and, a step away, ")}; shapes must not depend on values`,
  );
}
