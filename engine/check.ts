/**
 * `checkGradient`: the gradient of the backward sweep against central differences, for every op, loss or model that is
 * a function of tensors. differences.ts defines the differences and bounds their errors; docs/gradient-checks.md shows
 * how to use the check.
 */
import { type Comparison, findWrong, GradientComparison, signed } from "./compareGradients.ts";
import {
  evaluate,
  gradientsAt,
  type Point,
  type Problem,
  reading,
  type Slope,
  sweep,
  type Values,
  type Variable,
} from "./differences.ts";
import { check, fail } from "./errors.ts";
import { tensor } from "./ops/create.ts";
import { checkKeys, showValue } from "./options.ts";
import { Rng } from "./random.ts";
import type { Tensor } from "./tensor.ts";
import { type Tree, treeEntries, treeFromLeaves } from "./tree.ts";
import { isFloat, type Shape } from "./types.ts";

/** Options of `checkGradient`. */
export interface CheckGradientOptions {
  /** The order. 2: also the derivative of the gradient, by the inputs and by the cotangent. Default 1. */
  readonly order?: 1 | 2;
  /** The largest allowed difference is `absolute + relative · max(|analytic|, |numeric|)`. */
  readonly tolerance?: {
    /** Default: a bound of the rounding error of the differences, 48 u max(1, |f|) / epsilon; see differences.ts. */
    readonly absolute?: number;
    /** Default 1e-6 where everything is f64, else 1e-3. */
    readonly relative?: number;
  };
  /** The step of the differences; f is evaluated up to two steps away. Default 2⁻¹³ if all is f64, else 2⁻⁶. */
  readonly epsilon?: number;
  /** The seed of the samples, and of the random directions of outputs and large inputs. Default 0. */
  readonly seed?: number;
  /**
   * The number of derivatives that are compared one by one, default 64. If there are more, these are drawn at random;
   * the others are compared together, as the slope along one random direction, which is halved until the wrong ones are
   * found.
   */
  readonly samples?: number;
  /** The treatment of a derivative that does not exist within the step's reach: an error (default), or none. */
  readonly kinks?: "throw" | "skip";
}

/** One derivative, compared. */
export interface GradientDifference {
  /** The order of the derivative. In the second, the function is the gradient. */
  readonly order: 1 | 2;
  /** `input` or `input "layers.0.w"`; in the second order also `cotangent`, the gradient that flows back into f. */
  readonly name: string;
  readonly index: readonly number[];
  /** The value of the element at which the derivative is taken. */
  readonly value: number;
  readonly analytic: number;
  readonly numeric: number;
  readonly difference: number;
  readonly allowed: number;
}

/** The report of `checkGradient`, if all agreed. */
export interface GradientReport {
  /** The number of derivatives of all orders that were requested. */
  readonly elements: number;
  /** The number of them that were compared one by one. */
  readonly compared: number;
  /** The number of these that were larger than their allowed difference, so that the check could tell them from 0. */
  readonly resolved: number;
  /** The number of these that do not exist within the step's reach and were skipped. */
  readonly kinks: number;
  /** The number of these that are wrong. */
  readonly wrong: number;
  /** The largest ratio of a difference to the allowed one, also along directions; kinks do not count. */
  readonly margin: number;
  /** The derivative with the largest ratio among those compared one by one. */
  readonly worst: GradientDifference | undefined;
}

/** The error of `checkGradient` for a gradient that is wrong or does not exist. Bad input is a `WorldgradError`. */
export class GradientCheckError extends Error {
  override readonly name = "GradientCheckError";
  readonly report: GradientReport;

  constructor(message: string, report: GradientReport) {
    super(message);
    this.report = report;
  }
}

const KEYS = ["order", "tolerance", "epsilon", "seed", "samples", "kinks"] as const;

/**
 * Compares the gradient of a function of tensors with central differences, on the device of its inputs. Most exact on
 * the f64 reference executor; on the f32 executors it sees errors of about 0.1 %.
 *
 * @param f a pure function of a tree of tensors. It returns a tensor of any shape or a tree of tensors: an output that
 *   is no
 *   scalar is weighted with fixed random numbers and summed. Integer outputs are ignored.
 * @param inputs the point of the derivative: a tensor, or arrays and objects of tensors. Each float is a variable,
 *   integers
 *   are constants. They are copied at the call, never changed.
 * @returns the report. All tensors that were made are freed.
 * @throws GradientCheckError naming the worst element if a derivative is wrong or does not exist there (a kink)
 * @throws WorldgradError if f returns no float tensor, is not deterministic, overwrites its input or is not finite, and
 *   for inputs that are freed, not finite or not there
 *
 * @example
 * const loss = ({ w, b }: { w: Tensor; b: Tensor }): Tensor => sum(tanh(add(matmul(x, w), b)));
 * await checkGradient(loss, { w: tensor([[0.3], [-0.2]]), b: tensor([0.1]) }, { order: 2 });
 */
export async function checkGradient<const T extends Tree>(
  f: (inputs: T) => Tree,
  inputs: T,
  options: CheckGradientOptions = {},
): Promise<GradientReport> {
  checkOptions(options);
  const first = await problemOf(f, inputs);
  const rng = new Rng(options.seed ?? 0).split("weights");
  const point = await pointOf(first, rng.split(1));
  const report = await compare(first, point, 1, options, NOTHING);
  if (options.order !== 2) return report;
  const second = gradientOf(first, point.weights);
  return compare(second, await pointOf(second, rng.split(2)), 2, options, report);
}

/** The gradient as a function of the point and of the cotangent, so that it is differentiated by both. */
function gradientOf({ variables, run }: Problem, weights: readonly Values[]): Problem {
  const n = variables.length;
  const path = (k: number): string => (weights.length === 1 ? "" : String(k));
  return {
    variables: [...variables, ...weights.map((w, k) => ({ ...w, name: nameOf("cotangent", path(k)) }))],
    run: (xs) => sweep(run, xs.slice(0, n), xs.slice(n)),
  };
}

function checkOptions(options: CheckGradientOptions): void {
  const where = "checkGradient";
  checkKeys(where, options, KEYS);
  const { order = 1, tolerance = {}, epsilon = 1, samples = 1, kinks = "throw" } = options;
  checkKeys(`${where}: tolerance`, tolerance, ["absolute", "relative"]);
  check(order === 1 || order === 2, () => `${where}: order must be 1 or 2, got ${showValue(order)}`);
  for (const [name, value] of Object.entries(tolerance))
    check(value >= 0, () => `${where}: tolerance.${name} must be a number, 0 or more, got ${showValue(value)}`);
  check(
    epsilon > 0 && epsilon < Infinity,
    () => `${where}: epsilon must be a positive number, got ${showValue(epsilon)}`,
  );
  check(
    Number.isInteger(samples) && samples >= 0,
    () => `${where}: samples must be an integer, 0 or more, got ${showValue(samples)}`,
  );
  check(
    kinks === "throw" || kinks === "skip",
    () => `${where}: kinks must be "throw" or "skip", got ${showValue(kinks)}`,
  );
}

const nameOf = (what: string, path: string): string => (path === "" ? what : `${what} "${path}"`);

/** The problem: copies of the inputs, and f as a function of the floats among them. */
async function problemOf<T extends Tree>(f: (inputs: T) => Tree, inputs: T): Promise<Problem> {
  const entries = treeEntries(inputs);
  for (const [path, x] of entries)
    check(!x.disposed, () => `checkGradient: ${nameOf("input", path)} was freed before the call`);
  const floats = entries.filter(([, x]) => isFloat(x.dtype));
  check(
    floats.length > 0,
    () => `checkGradient: no float tensor among the ${entries.length} inputs to differentiate by`,
  );
  const [values, integers] = await Promise.all([
    Promise.all(reading(floats.map(([, x]) => x))),
    Promise.all(entries.map(async ([, x]) => (isFloat(x.dtype) ? undefined : x.read()))),
  ]);
  const variables = values.map((v, k): Variable => ({ ...v, name: nameOf("input", floats[k]![0]) }));
  for (const { name, data, shape } of variables) {
    const at = data.findIndex((x) => !Number.isFinite(x));
    check(at < 0, () => `checkGradient: ${name}${showIndex(indexOf(shape, at))} is ${data[at]}; it must be finite`);
  }
  const run = (xs: readonly Tensor[]): Tensor[] => {
    let next = 0;
    const leaves = entries.map(([, { device, shape }], i) => {
      const constant = integers[i];
      return constant === undefined ? xs[next++]! : tensor(constant, { device, shape });
    });
    return outputsOf(f(treeFromLeaves(inputs, leaves)));
  };
  return { variables, run };
}

/** The float tensors in the result of f. */
function outputsOf(result: unknown): Tensor[] {
  const wanted = "checkGradient: the function must return a tensor or a tree of tensors";
  check(result !== undefined, () => `${wanted}, and returned nothing (is a \`return\` missing?)`);
  if (result instanceof Promise) {
    void result.catch(() => undefined); // it may fail later, on freed tensors; the error below gives the reason
    fail(`${wanted}, and returned a promise; it must be synchronous`);
  }
  check(typeof result === "object" && result !== null, () => `${wanted}, and returned ${showValue(result)}`);
  const all = treeEntries(result as Tree).map(([, y]) => y);
  const floats = all.filter((y) => isFloat(y.dtype));
  check(floats.length > 0, () => `${wanted}, and there is no float tensor in what it returned`);
  return floats;
}

/** f at the point, evaluated twice and compared, and weights for its outputs. */
async function pointOf(problem: Problem, rng: Rng): Promise<Point> {
  const data = problem.variables.map((v) => v.data);
  const [base, again] = [await evaluate(problem, data), await evaluate(problem, data)];
  const scalar = base.length === 1 && base[0]!.data.length === 1;
  const weights = base.map((output, k) => {
    const { data, shape } = output;
    const at = data.findIndex((y, i) => !Object.is(y, again[k]?.data[i]));
    check(
      at < 0,
      () =>
        `checkGradient: the function is not deterministic: at the same inputs ` +
        `output${showIndex(indexOf(shape, at))} was ${data[at]}, then ${again[k]?.data[at]}; ` +
        `does it draw random numbers, or change something outside?`,
    );
    const bad = data.findIndex((y) => !Number.isFinite(y));
    check(bad < 0, () => `checkGradient: output${showIndex(indexOf(shape, bad))} of the function is ${data[bad]}`);
    const ofOutput = rng.split(k);
    return { ...output, data: data.map(() => (scalar ? 1 : signed(ofOutput))) };
  });
  return { base, weights };
}

const NOTHING: GradientReport = {
  elements: 0,
  compared: 0,
  resolved: 0,
  kinks: 0,
  wrong: 0,
  margin: 0,
  worst: undefined,
};

/** Compares one order, and adds the result to `before`. */
async function compare(
  problem: Problem,
  point: Point,
  order: 1 | 2,
  options: CheckGradientOptions,
  before: GradientReport,
): Promise<GradientReport> {
  const { epsilon, tolerance: { absolute, relative } = {}, samples = 64, kinks: atKinks = "throw" } = options;
  const rng = new Rng(options.seed ?? 0).split(order);
  const gradients = await gradientsAt(problem, point);
  const accuracy = { epsilon, absolute, relative };
  const comparison = new GradientComparison(problem, point, gradients, accuracy, rng.split("directions"));
  const enough = ({ verdict }: Comparison): boolean => verdict === "wrong" || atKinks === "throw";
  const { singles, margin } = await findWrong(comparison, samples, rng.split("samples"), enough);

  const describe = ({ from, analytic, slope, difference, allowed }: Comparison): GradientDifference => {
    const { variable, position } = comparison.locate(from);
    const { name, shape, data } = problem.variables[variable]!;
    const place = { order, name, index: indexOf(shape, position), value: data[position]! };
    return { ...place, analytic, numeric: slope.numeric, difference, allowed };
  };
  const kinks = singles.filter(({ verdict }) => verdict === "kink");
  const wrong = singles.filter(({ verdict }) => verdict === "wrong");
  const smooth = singles.filter(({ verdict }) => verdict !== "kink");
  const worst = smooth.reduce<Comparison | undefined>(
    (a, b) => (a === undefined || b.margin > a.margin ? b : a),
    undefined,
  );
  const report: GradientReport = {
    elements: before.elements + comparison.elements,
    compared: before.compared + singles.length,
    resolved: before.resolved + smooth.filter(({ slope, allowed }) => Math.abs(slope.numeric) > allowed).length,
    kinks: before.kinks + kinks.length,
    wrong: before.wrong + wrong.length,
    margin: Math.max(before.margin, margin, worst?.margin ?? 0),
    worst: worst === undefined || worst.margin < before.margin ? before.worst : describe(worst),
  };
  if (wrong.length > 0) {
    throw new GradientCheckError(wrongMessage(describe(worst!), wrong, singles.length, comparison.elements), report);
  }
  if (kinks.length > 0 && atKinks === "throw")
    throw new GradientCheckError(kinkMessage(describe(kinks[0]!), kinks[0]!.slope), report);
  return report;
}

/** The index tuple of an element. */
function indexOf(shape: Shape, position: number): number[] {
  const index: number[] = [];
  for (let d = shape.length - 1; d >= 0; d--) {
    index.unshift(position % shape[d]!);
    position = Math.floor(position / shape[d]!);
  }
  return index;
}
const showIndex = (index: readonly number[]): string => (index.length === 0 ? "" : `[${index.join(", ")}]`);
const showPlace = ({ name, index, value }: GradientDifference): string => `${name}${showIndex(index)} = ${value}`;
const WHAT = { 1: "gradient", 2: "gradient of the gradient" } as const;

function wrongMessage(worst: GradientDifference, wrong: readonly Comparison[], compared: number, all: number): string {
  const others = compared < all ? `, of ${all} in all` : "";
  const lines = [
    `checkGradient: the ${WHAT[worst.order]} is wrong in ${wrong.length} of the ${compared} elements ` +
      `compared${others}. The worst is at ${showPlace(worst)}:`,
    `  analytic    ${worst.analytic}`,
    `  numeric     ${worst.numeric}`,
    `  difference  ${worst.difference.toExponential(1)}, allowed ${worst.allowed.toExponential(1)}`,
  ];
  const ratios = wrong.map(({ analytic, slope }) => analytic / slope.numeric);
  const ratio = ratios[0]!;
  if (wrong.every(({ analytic }) => analytic === 0)) {
    lines.push("Each wrong one is 0: is the value cut off by stopGradient or noGrad, or read to the host and back?");
  } else if (wrong.length > 1 && ratios.every((r) => Math.abs(r - ratio) <= 1e-3 * Math.abs(ratio))) {
    lines.push(`Each wrong one is ${Number(ratio.toPrecision(4))} times the numeric one.`);
  }
  return lines.join("\n");
}

function kinkMessage(at: GradientDifference, { left, right, roughness }: Slope): string {
  const [below, above] = [left, right].map((slope) => Number(slope.toPrecision(4)));
  const reason =
    roughness === Infinity
      ? "the function is not finite within two steps of it"
      : `its slope is ${below} to the left and ${above} to the right (analytic: ${at.analytic})`;
  return (
    `checkGradient: the ${at.order === 1 ? "function" : "gradient"} is not differentiable at ${showPlace(at)}, ` +
    `or not within the step: ${reason}. ` +
    `Move the point away from there, make epsilon smaller, or pass { kinks: "skip" }`
  );
}
