/**
 * Scalar expressions: the one language in which every pointwise formula of the library is written.
 *
 * `fuse("gelu", (x) => …)` builds a small immutable graph of `Expr` nodes. The WGSL text (`wgsl/pointwise.ts`), the
 * SIMD WebAssembly (`wasm/pointwise.ts`), a plain evaluator in f64 (`evaluator`) and the derivative (`differentiate`)
 * are all made from it, so a formula of a paper is written once.
 *
 * Truth values are 1 and 0: comparisons return them and `where` takes them. Expressions have no loops, no memory and no
 * shapes; the caller does the broadcasting.
 */
import { erf } from "./erf.ts";

export const UNARY_OPS = [
  "neg",
  "abs",
  "sign",
  "floor",
  "exp",
  "expm1",
  "log",
  "log1p",
  "sqrt",
  "rsqrt",
  "sin",
  "cos",
  "tanh",
  "sigmoid",
  "erf",
  "detach",
] as const;
export const BINARY_OPS = [
  "add",
  "sub",
  "mul",
  "div",
  "pow",
  "min",
  "max",
  "lt",
  "le",
  "gt",
  "ge",
  "eq",
  "ne",
] as const;

export type UnaryOp = (typeof UNARY_OPS)[number];
export type BinaryOp = (typeof BINARY_OPS)[number];
export type ExprOp = "input" | "const" | "where" | UnaryOp | BinaryOp;

/** A number stands for the constant of that value. */
export type ExprLike = Expr | number;

/** Structural identity of nodes: two nodes that apply the same operation to the same arguments have the same id. */
const interned = new Map<string, number>();
function intern(text: string): number {
  let id = interned.get(text);
  if (id === undefined) interned.set(text, (id = interned.size));
  return id;
}

/** An expression was taken for a number, or something else for an expression. */
export class ExprError extends Error {}

/**
 * One node of an expression. Immutable; nodes of equal `id` are computed once. Methods mirror the tensor ops of the
 * same name. They leave out what changes no value, but for the sign of a 0: x + 0 is x, and x·0 stays, as ∞·0 is NaN.
 */
export class Expr {
  readonly op: ExprOp;
  readonly args: readonly Expr[];
  /** `const`: the value. `input`: the input's index. Otherwise 0. */
  readonly value: number;
  readonly id: number;
  /** What a printed formula calls it (`named`). */
  readonly symbol: string | undefined;

  constructor(op: ExprOp, args: readonly Expr[], value = 0, symbol?: string) {
    this.op = op;
    this.args = args;
    this.value = value;
    this.symbol = symbol;
    this.id = intern(`${op} ${Object.is(value, -0) ? "-0" : value} ${args.map((a) => a.id).join()}`);
  }

  add(other: ExprLike): Expr {
    const y = expr(other);
    if (isZero(this)) return y;
    if (isZero(y)) return this;
    return binary("add", this, y);
  }
  sub(other: ExprLike): Expr {
    const y = expr(other);
    if (isZero(y)) return this;
    if (isZero(this)) return y.neg();
    return binary("sub", this, y);
  }
  mul(other: ExprLike): Expr {
    const y = expr(other);
    if (isConst(y, 1)) return this;
    if (isConst(this, 1)) return y;
    if (isConst(this, -1)) return y.neg();
    if (isConst(y, -1)) return this.neg();
    return binary("mul", this, y);
  }
  div(other: ExprLike): Expr {
    const y = expr(other);
    if (isConst(y, 1)) return this;
    return binary("div", this, y);
  }
  pow(other: ExprLike): Expr {
    const y = expr(other);
    if (isConst(y, 1)) return this;
    if (isConst(y, 2)) return this.mul(this);
    return binary("pow", this, y);
  }
  min(other: ExprLike): Expr {
    return binary("min", this, expr(other));
  }
  max(other: ExprLike): Expr {
    return binary("max", this, expr(other));
  }
  lt(other: ExprLike): Expr {
    return binary("lt", this, expr(other));
  }
  le(other: ExprLike): Expr {
    return binary("le", this, expr(other));
  }
  gt(other: ExprLike): Expr {
    return binary("gt", this, expr(other));
  }
  ge(other: ExprLike): Expr {
    return binary("ge", this, expr(other));
  }
  eq(other: ExprLike): Expr {
    return binary("eq", this, expr(other));
  }
  ne(other: ExprLike): Expr {
    return binary("ne", this, expr(other));
  }
  neg(): Expr {
    return this.op === "neg" ? this.args[0]! : unary("neg", this);
  }
  abs(): Expr {
    return unary("abs", this);
  }
  sign(): Expr {
    return unary("sign", this);
  }
  floor(): Expr {
    return unary("floor", this);
  }
  exp(): Expr {
    return unary("exp", this);
  }
  /** e^x − 1 without cancellation for small |x|. */
  expm1(): Expr {
    return unary("expm1", this);
  }
  log(): Expr {
    return unary("log", this);
  }
  /** ln(1 + x) without cancellation for small |x|. */
  log1p(): Expr {
    return unary("log1p", this);
  }
  sqrt(): Expr {
    return unary("sqrt", this);
  }
  rsqrt(): Expr {
    return unary("rsqrt", this);
  }
  sin(): Expr {
    return unary("sin", this);
  }
  cos(): Expr {
    return unary("cos", this);
  }
  tanh(): Expr {
    return unary("tanh", this);
  }
  sigmoid(): Expr {
    return unary("sigmoid", this);
  }
  erf(): Expr {
    return unary("erf", this);
  }
  square(): Expr {
    return this.mul(this);
  }
  /**
   * ln(1 + e^x), without overflow. One side of the seam at 0 is ln(1 + e^x) itself and holds 0, so that all derivatives
   * are right there, too; written with |x| and max(x, 0), they would be those of two kinks (jax-ml/jax#2107).
   */
  softplus(): Expr {
    const isAbove = this.gt(0);
    return where(isAbove, this, 0).add(where(isAbove, this.neg(), this).exp().log1p());
  }
  /**
   * min(max(x, low), high), as PyTorch has it: `high` where low > high, NaN where x or a bound is. The derivative is 1
   * on the closed interval and 0 outside.
   */
  clamp(low: ExprLike, high: ExprLike): Expr {
    const [a, b] = [expr(low), expr(high)];
    if (a.op === "const" && b.op === "const" && a.value <= b.value)
      return where(this.lt(a), a, where(this.gt(b), b, this));
    const above = where(this.ge(a), this, where(this.ne(this), this, a));
    return where(above.le(b), above, where(above.ne(above), above, b));
  }
  /** The value as a constant: its derivative is 0. */
  stopGradient(): Expr {
    return unary("detach", this);
  }
  /** Called by `x > 0`, `x + 1` and `Math.exp(x)`, which would go on with a value that does not exist yet. */
  valueOf(): never {
    throw new ExprError(
      "an expression has no value yet: write x.gt(0) and x.exp() for x > 0 and Math.exp(x), " +
        "select(condition, a, b) for a branch",
    );
  }
}

const unary = (op: UnaryOp, x: Expr): Expr => new Expr(op, [x]);
const binary = (op: BinaryOp, x: Expr, y: Expr): Expr => new Expr(op, [x, y]);
const isConst = (x: Expr, value: number): boolean => x.op === "const" && x.value === value;
const isZero = (x: Expr): boolean => isConst(x, 0);

/** A number as an expression. */
export const constant = (value: number): Expr => new Expr("const", [], value);
export const input = (index: number): Expr => new Expr("input", [], index);
/** An expression, or a number as one: for formulas that begin with a number, as in `expr(1).sub(x)`. */
export function expr(x: ExprLike): Expr {
  if (typeof x === "number") return constant(x);
  if (x instanceof Expr) return x;
  throw new ExprError(`expected an expression or a number, got ${String(x)}`);
}

/** `x` under a name, by which a printed formula calls it. Its id is that of `x`, so values and kernels are the same. */
export const named = (symbol: string, x: Expr): Expr => new Expr(x.op, x.args, x.value, symbol);

/**
 * `a` where `condition` is not 0, else `b`. The branch not taken does not influence the value, and its gradient is 0.
 * Where its derivative is infinite or NaN, 0 times that is NaN: then choose what goes into it as well, as in
 * `select(ok, select(ok, x, 1).sqrt(), 0)`.
 */
export function where(condition: Expr, a: ExprLike, b: ExprLike): Expr {
  const [x, y] = [expr(a), expr(b)];
  return x.id === y.id ? x : new Expr("where", [condition, x, y]);
}

/** All nodes that `outputs` need, each once, with arguments before the nodes that use them. */
export function topologicalOrder(outputs: readonly Expr[]): Expr[] {
  const order: Expr[] = [];
  const done = new Set<number>();
  const stack: { node: Expr; next: number }[] = [];
  for (const output of outputs) {
    stack.push({ node: output, next: 0 });
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      if (done.has(top.node.id)) stack.pop();
      else if (top.next < top.node.args.length) stack.push({ node: top.node.args[top.next++]!, next: 0 });
      else {
        done.add(top.node.id);
        order.push(top.node);
        stack.pop();
      }
    }
  }
  return order;
}

/**
 * x, of which x^(y − 1) is a factor of the slope of x^y. That is y·∞ at 0, and NaN at NaN; where y = 0 the power is 1
 * everywhere and its slope 0, as in PyTorch, so the base is 1 there.
 */
function baseOfSlope(x: Expr, y: Expr): Expr {
  if (y.op === "const") return x;
  return where(y.eq(0), where(x.abs().gt(0), x, 1), x);
}

/**
 * The slope of x^y by y, times g; 0 for x ≤ 0. The power and the logarithm have a base above 0 there, too: of those of
 * x itself the next derivative would be infinite or NaN, and 0 times that is NaN.
 */
function slopeByExponent(x: Expr, y: Expr, g: Expr): Expr {
  const isAbove = x.gt(0);
  const base = where(isAbove, x, 1);
  return where(isAbove, g.mul(base.pow(y)).mul(base.log()), 0);
}

/** g·x in a derivative. A literal 0 says there that nothing depends on x, so that 0·x is 0 even where x is infinite. */
const times = (g: Expr, x: Expr): Expr => (isZero(g) || isZero(x) ? constant(0) : g.mul(x));

/**
 * The derivatives of `node` by its arguments, times `g`: one expression per argument, `null` where there is none. At
 * kinks, |x|, sign and relu-like `where` take 0, and min and max divide a tie equally, as PyTorch does.
 */
function localVjp(node: Expr, g: Expr): readonly (Expr | null)[] {
  const [x, y] = node.args as [Expr, Expr];
  switch (node.op) {
    case "neg":
      return [g.neg()];
    case "abs":
      return [g.mul(x.sign())];
    case "exp":
      return [g.mul(node)];
    case "expm1":
      return [g.mul(node.add(1))];
    case "log":
      return [g.div(x)];
    case "log1p":
      return [g.div(x.add(1))];
    case "sqrt":
      return [g.mul(0.5).div(node)];
    case "rsqrt":
      return [g.mul(-0.5).mul(node).mul(node).mul(node)];
    case "sin":
      return [g.mul(x.cos())];
    case "cos":
      return [g.mul(x.sin()).neg()];
    case "tanh":
      return [g.mul(constant(1).sub(node.square()))];
    case "sigmoid":
      return [g.mul(node.mul(constant(1).sub(node)))];
    case "erf":
      return [g.mul(x.square().neg().exp()).mul(2 / Math.sqrt(Math.PI))];
    case "add":
      return [g, g];
    case "sub":
      return [g, g.neg()];
    case "mul":
      return [times(g, y), times(g, x)];
    case "div":
      return [g.div(y), g.mul(node).div(y).neg()];
    case "pow":
      return [times(times(g, y), baseOfSlope(x, y).pow(y.sub(1))), slopeByExponent(x, y, g)];
    case "max":
      return [where(x.gt(y), g, where(x.eq(y), g.mul(0.5), 0)), where(y.gt(x), g, where(x.eq(y), g.mul(0.5), 0))];
    case "min":
      return [where(x.lt(y), g, where(x.eq(y), g.mul(0.5), 0)), where(y.lt(x), g, where(x.eq(y), g.mul(0.5), 0))];
    case "where":
      return [null, where(x, g, 0), where(x, 0, g)];
    default: // inputs, constants, and steps: sign, floor, comparisons, detach
      return node.args.map(() => null);
  }
}

/**
 * Reverse-mode differentiation of Σ_k seeds_k · outputs_k with respect to the inputs numbered `wrt`.
 * @returns one expression per entry of `wrt`; the constant 0 where there is no dependence
 */
export function differentiate(outputs: readonly Expr[], seeds: readonly Expr[], wrt: readonly number[]): Expr[] {
  const order = topologicalOrder(outputs);
  const depends = new Set<number>();
  for (const node of order) {
    if (node.op === "input" ? wrt.includes(node.value) : node.args.some((a) => depends.has(a.id))) depends.add(node.id);
  }
  const adjoint = new Map<number, Expr>();
  const accumulate = (node: Expr, g: Expr): void => {
    adjoint.set(node.id, adjoint.get(node.id)?.add(g) ?? g);
  };
  outputs.forEach((output, k) => accumulate(output, seeds[k]!));
  for (const node of order.reverse()) {
    const g = adjoint.get(node.id);
    if (g === undefined || !depends.has(node.id) || isZero(g)) continue;
    localVjp(node, g).forEach((d, i) => {
      if (d !== null && depends.has(node.args[i]!.id)) accumulate(node.args[i]!, d);
    });
  }
  return wrt.map((index) => adjoint.get(input(index).id) ?? constant(0));
}

const UNARY: Record<UnaryOp, (x: number) => number> = {
  neg: (x) => -x,
  abs: Math.abs,
  sign: Math.sign,
  floor: Math.floor,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log1p: Math.log1p,
  sqrt: Math.sqrt,
  rsqrt: (x) => 1 / Math.sqrt(x),
  sin: Math.sin,
  cos: Math.cos,
  tanh: Math.tanh,
  sigmoid: (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x))),
  erf,
  detach: (x) => x,
};

const BINARY: Record<BinaryOp, (x: number, y: number) => number> = {
  add: (x, y) => x + y,
  sub: (x, y) => x - y,
  mul: (x, y) => x * y,
  div: (x, y) => x / y,
  pow: Math.pow,
  min: Math.min,
  max: Math.max,
  lt: (x, y) => Number(x < y),
  le: (x, y) => Number(x <= y),
  gt: (x, y) => Number(x > y),
  ge: (x, y) => Number(x >= y),
  eq: (x, y) => Number(x === y),
  ne: (x, y) => Number(x !== y),
};

/**
 * A plain evaluator in f64: `evaluator(outputs)(inputs, out)` writes one number per output. It is slow and easy to
 * check; the reference executor runs it once per element.
 */
export function evaluator(outputs: readonly Expr[]): (inputs: ArrayLike<number>, out: number[]) => void {
  const order = topologicalOrder(outputs);
  const slot = new Map(order.map((node, i) => [node.id, i]));
  const registers = new Float64Array(order.length);
  const steps = order.map((node) => {
    const [a, b, c] = node.args.map((arg) => slot.get(arg.id)!) as [number, number, number];
    const { op, value } = node;
    if (op === "input") return (inputs: ArrayLike<number>) => inputs[value]!;
    if (op === "const") return () => value;
    if (op === "where") return () => (registers[a] !== 0 ? registers[b]! : registers[c]!);
    if (op in UNARY) {
      const f = UNARY[op as UnaryOp];
      return () => f(registers[a]!);
    }
    const f = BINARY[op as BinaryOp];
    return () => f(registers[a]!, registers[b]!);
  });
  const results = outputs.map((output) => slot.get(output.id)!);
  return (inputs, out) => {
    for (let i = 0; i < steps.length; i++) registers[i] = steps[i]!(inputs);
    for (let k = 0; k < results.length; k++) out[k] = registers[results[k]!]!;
  };
}

/** The expression as text, for graph printing and error messages: `max(sub($0, $1), 0)`. */
export function exprToString(root: Expr): string {
  if (root.op === "input") return `$${root.value}`;
  if (root.op === "const") return String(root.value);
  return `${root.op}(${root.args.map(exprToString).join(", ")})`;
}
