/**
 * Pointwise functions: a formula written once as a scalar expression becomes an op with a forward kernel, a backward
 * kernel derived symbolically, and derivatives of any order, on every executor.
 *
 * @example
 * // −min(ρA, clip(ρ, 1 − ε, 1 + ε)A): one kernel forward, one backward
 * const ppoClip = fuse("ppoClip", (logp, old, advantage, epsilon) => {
 *   const ratio = logp.sub(old).exp();
 *   const clipped = ratio.clamp(expr(1).sub(epsilon), epsilon.add(1));
 *   return ratio.mul(advantage).min(clipped.mul(advantage)).neg();
 * });
 * ppoClip(logp_BT, old_BT, advantage_B1, 0.2);   // tensors broadcast; numbers may change from call to call
 */
import { constant, differentiate, evaluator, Expr, ExprError, input, topologicalOrder } from "../kernels/expr.ts";
import { broadcastStrides, collapse } from "../kernels/pointwise.ts";
import type { PointwiseSpec } from "../kernels/specs.ts";
import { check, fail, WorldgradError } from "./errors.ts";
import { apply, type Call, type Elements, type OpDef, type Sample, type VjpContext } from "./op.ts";
import { checkKeys } from "./options.ts";
import type { Rng } from "./random.ts";
import { Tensor } from "./tensor.ts";
import { broadcastShapes, checkFloat, checkSameDtype, showShape, sizeOf, type TensorType } from "./types.ts";

/** A tensor, or a number that may differ from call to call without a new kernel. */
export type TensorLike = Tensor | number;

/** `args` has one entry per parameter of the formula: a number, or `null` where the next tensor goes. */
export interface PointwiseParams {
  readonly args: readonly (number | null)[];
}

/** What may stand beside a formula. */
export interface PointwiseOptions {
  /** The function in plain `Math`, written independently; without it the expression itself is evaluated in f64. */
  readonly reference?: (...x: number[]) => number | readonly number[];
  readonly samples?: (rng: Rng) => Sample<PointwiseParams>[];
  readonly linear?: boolean;
  readonly tolerance?: number;
}

/** A pointwise function of tensors and numbers, with its definition. */
export interface Pointwise<R> {
  (...args: TensorLike[]): R;
  readonly op: OpDef<PointwiseParams>;
}

/** WebGPU's default limit of storage buffers per kernel. */
const MAX_BUFFERS = 8;

/**
 * Makes one op of a scalar formula.
 * @param formula gets one expression per argument; returns the result, or a list of results
 * @returns a function of tensors (float, one device, broadcasting) and numbers; at least one tensor. Gradients flow to
 *   tensors.
 * @throws if the formula returns no expression, or asks one for its value (`x > 0`, `Math.exp(x)`: write `x.gt(0)`,
 *   `x.exp()`); at the call if tensors and results together exceed 8, the number of buffers that every WebGPU device
 *   has; in the backward pass if one gradient alone needs more (it reads the formula's tensors and the incoming
 *   gradients): with one result, 6 tensors always fit
 */
export function fuse(name: string, formula: (...x: Expr[]) => Expr, options?: PointwiseOptions): Pointwise<Tensor>;
export function fuse(
  name: string,
  formula: (...x: Expr[]) => readonly Expr[],
  options?: PointwiseOptions,
): Pointwise<Tensor[]>;
export function fuse(
  name: string,
  formula: (...x: Expr[]) => Expr | readonly Expr[],
  options: PointwiseOptions = {},
): Pointwise<Tensor | Tensor[]> {
  const { outputs, single } = written(name, formula, options);
  const op = pointwiseOp(name, outputs, formula.length, options);
  const call = (...args: TensorLike[]): Tensor | Tensor[] => {
    const results = applyPointwise(op, formula.length, args);
    return single ? results[0]! : results;
  };
  return Object.assign(call, { op });
}

/**
 * As `fuse`, but result k overwrites argument `overwrite[k]` (a tensor of the full shape); nothing is returned and no
 * gradient flows. For optimisers and other state.
 */
export function fuseInPlace(
  name: string,
  formula: (...x: Expr[]) => readonly Expr[],
  overwrite: readonly number[],
  options: PointwiseOptions = {},
): Pointwise<void> {
  const { outputs } = written(name, formula, options);
  const op = pointwiseOp(name, outputs, formula.length, options, overwrite);
  const call = (...args: TensorLike[]): void => void applyPointwise(op, formula.length, args);
  return Object.assign(call, { op });
}

/** The formula's results, called with one expression per parameter. */
function written(
  name: string,
  formula: (...x: Expr[]) => Expr | readonly Expr[],
  options: PointwiseOptions,
): { outputs: readonly Expr[]; single: boolean } {
  const where = `fuse("${name}")`;
  check(typeof formula === "function", () => `${where}: expected a name and a formula`);
  checkKeys(where, options, ["reference", "samples", "linear", "tolerance"]);
  check(formula.length > 0, () => `${where}: the formula must name its parameters (no rest or default parameters)`);
  try {
    const result = formula(...Array.from({ length: formula.length }, (_, i) => input(i)));
    const outputs = [result].flat();
    check(
      outputs.length > 0 && outputs.every((y) => y instanceof Expr),
      () => `${where}: the formula must return an expression or a list of them; it returned ${String(result)}`,
    );
    return { outputs, single: result instanceof Expr };
  } catch (error) {
    throw error instanceof ExprError ? new WorldgradError(`${where}: ${error.message}`) : error;
  }
}

function applyPointwise(op: OpDef<PointwiseParams>, arity: number, args: readonly TensorLike[]): Tensor[] {
  check(args.length === arity, () => `${op.name}: expected ${arity} arguments, got ${args.length}`);
  args.forEach((x, i) => {
    const fits = typeof x === "number" || (x as unknown) instanceof Tensor;
    check(fits, () => `${op.name}: argument ${i} must be a tensor or a number, got ${String(x)}`);
  });
  const tensors = args.filter((x) => x instanceof Tensor);
  check(tensors.length > 0, () => `${op.name}: needs at least one tensor, got numbers only`);
  return apply(op, tensors, { args: args.map((x) => (typeof x === "number" ? x : null)) });
}

function pointwiseOp(
  name: string,
  outputs: readonly Expr[],
  arity: number,
  options: PointwiseOptions,
  overwrite: readonly number[] = [],
): OpDef<PointwiseParams> {
  const derivatives = new Map<string, Derivative>();

  const op: OpDef<PointwiseParams> = {
    name,
    infer(inputs) {
      inputs.forEach((x) => checkFloat(name, x));
      checkSameDtype(name, inputs);
      const shape = broadcastShapes(
        name,
        inputs.map((x) => x.shape),
      );
      const buffers = inputs.length + outputs.length - overwrite.length;
      check(
        buffers <= MAX_BUFFERS,
        () => `${name}: ${buffers} tensors in one kernel, at most ${MAX_BUFFERS} are possible`,
      );
      return outputs.slice(overwrite.length).map(() => ({ shape, dtype: inputs[0]!.dtype }));
    },
    reference: (inputs, results, call) => evaluateEverywhere(inputs, results, call),
    kernel: (call) => ({ family: "pointwise", spec: spec(call) }),
    vjp: (context) => (overwrite.length > 0 ? fail(`${name}: works in place and has no derivative`) : vjp(context)),
    samples: options.samples ?? ((rng): Sample<PointwiseParams>[] => defaultSamples(rng, arity)),
    ...(options.linear === undefined ? {} : { linear: options.linear }),
    ...(options.tolerance === undefined ? {} : { tolerance: options.tolerance }),
    ...(overwrite.length === 0
      ? {}
      : { overwrites: (params: PointwiseParams): number[] => overwrite.map((arg) => tensorPosition(params, arg)) }),
  };
  return op;

  /** Which tensor argument `arg` is. */
  function tensorPosition(params: PointwiseParams, arg: number): number {
    check(params.args[arg] === null, () => `${name}: argument ${arg} is overwritten and must be a tensor`);
    return params.args.slice(0, arg).filter((x) => x === null).length;
  }

  function outputShape(call: Call<PointwiseParams>): readonly number[] {
    return (
      call.outputs[0]?.shape ??
      broadcastShapes(
        name,
        call.inputs.map((x) => x.shape),
      )
    );
  }

  function spec(call: Call<PointwiseParams>): PointwiseSpec {
    const shape = outputShape(call);
    const { dims, strides } = collapse(
      shape,
      call.inputs.map((x) => broadcastStrides(x.shape, shape)),
    );
    let next = 0;
    const inputs = call.params.args.map((value) =>
      value === null ? { kind: "tensor" as const, strides: strides[next++]! } : { kind: "scalar" as const, value },
    );
    const inPlace = outputs.map((_, k) => (k < overwrite.length ? tensorPosition(call.params, overwrite[k]!) : -1));
    for (const position of inPlace) {
      if (position >= 0) checkFull(call.inputs[position]!, shape);
    }
    return { name, outputs, inputs, dims, inPlace };
  }

  function checkFull(type: TensorType, shape: readonly number[]): void {
    check(
      sizeOf(type.shape) === sizeOf(shape),
      () => `${name}: the overwritten tensor has shape ${showShape(type.shape)}, the result ${showShape(shape)}`,
    );
  }

  function evaluateEverywhere(
    inputs: readonly Elements[],
    results: readonly Elements[],
    call: Call<PointwiseParams>,
  ): void {
    const shape = outputShape(call);
    const strides = call.inputs.map((x) => broadcastStrides(x.shape, shape));
    const targets = [...overwrite.map((arg) => inputs[tensorPosition(call.params, arg)]!), ...results];
    const evaluate = options.reference ?? expressionReference(outputs);
    const x = new Array<number>(arity);
    for (let i = 0; i < sizeOf(shape); i++) {
      let next = 0;
      for (let a = 0; a < arity; a++) {
        x[a] = call.params.args[a] ?? inputs[next]![offsetOf(i, shape, strides[next++]!)]!;
      }
      const y = evaluate(...x);
      if (typeof y === "number") targets[0]![i] = y;
      else y.forEach((value, k) => (targets[k]![i] = value));
    }
  }

  /**
   * One kernel for all wanted gradients if the buffers suffice, else several. Gradients have the broadcast shape; the
   * engine sums them down. Each derivative of a derivative reads one tensor more, so that one of high order does not
   * fit even alone: its slope and what it is multiplied by are two kernels then, and any order works.
   */
  function vjp({ g, x, params, needs }: VjpContext<PointwiseParams>): (Tensor | null)[] {
    const tensorArgs = params.args.flatMap((value, arg) => (value === null ? [arg] : []));
    const wanted = tensorArgs.filter((_, position) => needs[position]);
    const flows = g.map((d) => d !== null);
    const key = `${wanted.join()}|${flows.map(Number).join()}|${params.args.map((v) => Number(v === null)).join()}`;
    let derivative = derivatives.get(key);
    if (derivative === undefined) derivatives.set(key, (derivative = derive(wanted, flows, params)));
    let next = 0;
    const operands: TensorLike[] = [...params.args.map((value) => value ?? x[next++]!), ...g.filter((d) => d !== null)];
    const gradients = new Map<number, Tensor>();
    for (const part of derivative.parts) {
      const args = part.uses.map((index) => operands[index]!);
      applyPointwise(part.op, args.length, args).forEach((d, k) => gradients.set(part.wanted[k]!, d));
    }
    for (const { arg, terms } of derivative.split) {
      for (const { op, uses, seed } of terms) {
        const args = uses.map((index) => operands[index]!);
        const slope = applyPointwise(op, args.length, args)[0]!;
        const term = seed === undefined ? slope : applyPointwise(PRODUCT, 2, [slope, operands[seed]!])[0]!;
        const before = gradients.get(arg);
        gradients.set(arg, before ? applyPointwise(SUM, 2, [before, term])[0]! : term);
      }
    }
    for (const [arg, index] of derivative.passThrough) gradients.set(arg, operands[index] as Tensor);
    return tensorArgs.map((arg) => gradients.get(arg) ?? null);
  }

  /** Derivatives as pointwise ops over (arguments…, the gradients that flow…), each using only the inputs it needs. */
  function derive(wanted: readonly number[], flows: readonly boolean[], params: PointwiseParams): Derivative {
    let next = arity;
    const seeds = flows.map((flowing) => (flowing ? input(next++) : constant(0)));
    const isTensor = (index: number): boolean => index >= arity || params.args[index] === null;
    const passThrough = new Map<number, number>();
    const parts: DerivativePart[] = [];
    const split: { arg: number; terms: Term[] }[] = [];
    const fits = (...exprs: Expr[]): boolean => usedInputs(exprs).filter(isTensor).length + exprs.length <= MAX_BUFFERS;
    const pending = differentiate(outputs, seeds, wanted).map((d, k) => ({ arg: wanted[k]!, d }));
    for (const { arg, d } of pending) {
      if (d.op === "const" && d.value === 0) continue;
      if (d.op === "input" && isTensor(d.value)) {
        passThrough.set(arg, d.value);
        continue;
      }
      if (!fits(d)) {
        split.push({ arg, terms: termsOf(arg, seeds, fits) });
        continue;
      }
      const last = parts[parts.length - 1];
      const exprs = [...(last?.exprs ?? []), d];
      if (last !== undefined && fits(...exprs)) {
        Object.assign(last, { exprs, uses: usedInputs(exprs), wanted: [...last.wanted, arg] });
      } else parts.push({ exprs: [d], uses: usedInputs([d]), wanted: [arg], op });
    }
    for (const part of parts) part.op = opOf(part.exprs, part.uses);
    return { parts, split, passThrough };
  }

  function opOf(exprs: readonly Expr[], uses: readonly number[]): OpDef<PointwiseParams> {
    const remap = new Map(uses.map((index, position) => [index, input(position)]));
    return pointwiseOp(`${name}'`, substitute(exprs, remap), uses.length, {});
  }

  /** Σ_k g_k · ∂y_k/∂arg, a term for each result k that has a gradient. */
  function termsOf(arg: number, seeds: readonly Expr[], fits: (expr: Expr) => boolean): Term[] {
    return seeds.flatMap((seed, k): Term[] => {
      if (seed.op !== "input") return [];
      const slope = differentiate([outputs[k]!], [constant(1)], [arg])[0]!;
      if (slope.op === "const" && slope.value === 0) return [];
      const whole = slope.mul(seed);
      const uses = usedInputs([fits(whole) ? whole : slope]);
      return fits(whole)
        ? [{ op: opOf([whole], uses), uses, seed: undefined }]
        : [{ op: opOf([slope], uses), uses, seed: seed.value }];
    });
  }
}

const PRODUCT = pointwiseOp("product", [input(0).mul(input(1))], 2, {});
const SUM = pointwiseOp("sum", [input(0).add(input(1))], 2, {});

interface DerivativePart {
  exprs: readonly Expr[];
  uses: readonly number[];
  wanted: readonly number[];
  op: OpDef<PointwiseParams>;
}
/** One summand of a gradient that reads too many tensors for one kernel. */
interface Term {
  readonly op: OpDef<PointwiseParams>;
  readonly uses: readonly number[];
  /** The operand by which the result is multiplied; undefined where the kernel has done it. */
  readonly seed: number | undefined;
}
interface Derivative {
  readonly parts: readonly DerivativePart[];
  readonly split: readonly { readonly arg: number; readonly terms: readonly Term[] }[];
  /** Arguments whose gradient is an operand as it stands (addition). */
  readonly passThrough: ReadonlyMap<number, number>;
}

function usedInputs(outputs: readonly Expr[]): number[] {
  const used = topologicalOrder(outputs).flatMap((node) => (node.op === "input" ? [node.value] : []));
  return used.toSorted((a, b) => a - b);
}

function substitute(outputs: readonly Expr[], inputs: ReadonlyMap<number, Expr>): Expr[] {
  const replaced = new Map<number, Expr>();
  for (const node of topologicalOrder(outputs)) {
    const args = node.args.map((a) => replaced.get(a.id)!);
    replaced.set(node.id, node.op === "input" ? inputs.get(node.value)! : new Expr(node.op, args, node.value));
  }
  return outputs.map((y) => replaced.get(y.id)!);
}

function expressionReference(outputs: readonly Expr[]): (...x: number[]) => readonly number[] {
  const evaluate = evaluator(outputs);
  const out = new Array<number>(outputs.length).fill(0);
  return (...x) => {
    evaluate(x, out);
    return out;
  };
}

function offsetOf(index: number, shape: readonly number[], strides: readonly number[]): number {
  let offset = 0;
  for (let d = shape.length - 1; d >= 0; d--) {
    offset += (index % shape[d]!) * strides[d]!;
    index = Math.floor(index / shape[d]!);
  }
  return offset;
}

function defaultSamples(rng: Rng, arity: number): Sample<PointwiseParams>[] {
  return [[5], [2, 3]].map((shape) => ({
    params: { args: new Array<null>(arity).fill(null) },
    inputs: Array.from({ length: arity }, () => ({
      shape,
      dtype: "f32" as const,
      data: Array.from({ length: sizeOf(shape) }, () => rng.normal()),
    })),
  }));
}
