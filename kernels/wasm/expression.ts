/**
 * Scalar expressions (`kernels/expr.ts`) as SIMD code: four elements at a time, each node computed once into a local.
 * Comparisons stay lane masks as long as only `where` reads them.
 */
import { topologicalOrder, type Expr } from "../expr.ts";
import { F32x4, I32x4, type FunctionBuilder } from "./assembler.ts";
import * as math from "./math.ts";

const UNARY: Record<string, (f: FunctionBuilder, x: F32x4) => F32x4> = {
  neg: (_, x) => x.neg(),
  abs: (_, x) => x.abs(),
  floor: (_, x) => x.floor(),
  sqrt: (_, x) => x.sqrt(),
  detach: (_, x) => x,
  sign: math.sign,
  exp: math.exp,
  expm1: math.expm1,
  log: math.log,
  log1p: math.log1p,
  rsqrt: math.rsqrt,
  sin: math.sin,
  cos: math.cos,
  tanh: math.tanh,
  sigmoid: math.sigmoid,
  erf: math.erf,
};
const BINARY: Record<string, (f: FunctionBuilder, x: F32x4, y: F32x4) => F32x4> = {
  add: (_, x, y) => x.add(y),
  sub: (_, x, y) => x.sub(y),
  mul: (_, x, y) => x.mul(y),
  div: (_, x, y) => x.div(y),
  min: (_, x, y) => x.min(y),
  max: (_, x, y) => x.max(y),
  pow: math.pow,
};
const COMPARISON: Record<string, (x: F32x4, y: F32x4) => I32x4> = {
  lt: (x, y) => x.lt(y),
  le: (x, y) => x.le(y),
  gt: (x, y) => x.gt(y),
  ge: (x, y) => x.ge(y),
  eq: (x, y) => x.eq(y),
  ne: (x, y) => x.ne(y),
};

/** The values of nodes by id: floats in variables, or masks. */
export type Emitted = Map<number, F32x4 | I32x4>;

const asFloat = (value: F32x4 | I32x4): F32x4 => (value instanceof F32x4 ? value : F32x4.of(1).and(value));

/**
 * Appends the code of `nodes`, which have arguments before users, and records their values in `done`; skips what is
 * there.
 */
export function emitNodes(f: FunctionBuilder, nodes: readonly Expr[], done: Emitted): void {
  for (const node of nodes) {
    if (done.has(node.id)) continue;
    const args = node.args.map((arg) => done.get(arg.id)!);
    const [x, y, z] = args.map(asFloat) as [F32x4, F32x4, F32x4];
    const comparison = COMPARISON[node.op];
    if (node.op === "const") done.set(node.id, F32x4.of(node.value));
    else if (comparison !== undefined) done.set(node.id, f.let(comparison(x, y)));
    else if (node.op === "where") {
      const condition = args[0] instanceof I32x4 ? args[0] : x.ne(0);
      done.set(node.id, f.let(condition.bitselect(y, z)));
    } else {
      const value = node.args.length === 1 ? UNARY[node.op]!(f, x) : BINARY[node.op]!(f, x, y);
      done.set(node.id, value.local === undefined ? f.let(value) : value);
    }
  }
}

/** The value of `node` in `done`, as floats (true is 1). */
export const emittedFloat = (done: Emitted, node: Expr): F32x4 => asFloat(done.get(node.id)!);

/** Appends the code of expressions of the given inputs (variables or constants) and returns their values. */
export function emitExpressions(f: FunctionBuilder, outputs: readonly Expr[], inputs: readonly F32x4[]): F32x4[] {
  const done: Emitted = new Map();
  const order = topologicalOrder(outputs);
  for (const node of order) if (node.op === "input") done.set(node.id, inputs[node.value]!);
  emitNodes(f, order, done);
  return outputs.map((output) => emittedFloat(done, output));
}

export const emitExpr = (f: FunctionBuilder, root: Expr, inputs: readonly F32x4[]): F32x4 =>
  emitExpressions(f, [root], inputs)[0]!;
