/** Prints scalar expressions (`kernels/expr.ts`) as WGSL statements, with one `let` per node that is not a leaf. */
import { evaluator, type Expr, topologicalOrder } from "../expr.ts";
import { mathFunctions } from "./math.ts";
import { f32Literal } from "./shader.ts";

export interface EmittedExpression {
  /** Definitions of the functions that the statements call; module scope. */
  readonly functions: string;
  /** `let v0 = …;` lines, without indentation; empty when the outputs are leaves. */
  readonly statements: string;
  /** The value of each output: a name or a literal, an f32. */
  readonly results: readonly string[];
}

const INFIX: Readonly<Record<string, string>> = { add: "+", sub: "-", mul: "*", div: "/" };
const COMPARE: Readonly<Record<string, string>> = { lt: "<", le: "<=", gt: ">", ge: ">=", eq: "==", ne: "" };
/** The functions to call: WGSL's where they are exact enough, else those of math.ts. */
const CALL: Readonly<Record<string, string>> = {
  abs: "abs",
  sign: "sign_f32",
  floor: "floor",
  sqrt: "sqrt",
  rsqrt: "inverseSqrt",
  min: "min_f32",
  max: "max_f32",
  exp: "exp_f32",
  expm1: "expm1_f32",
  log: "log_f32",
  log1p: "log1p_f32",
  tanh: "tanh_f32",
  sigmoid: "sigmoid_f32",
  erf: "erf_f32",
};

/** NaN differs from everything, but compilers make of WGSL's `!=` one by which it does not. */
const notEqual = (x: string, y: string): string => `!(${x} == ${y})`;

/**
 * @param inputs the WGSL name of each input of the expressions, by index: f32 values
 * @param prefix of the names that are introduced; two expressions in one scope need different ones
 */
export function emitExpression(outputs: readonly Expr[], inputs: readonly string[], prefix = "v"): EmittedExpression {
  const values = new Map<number, string>();
  const constants = new Map<number, number>();
  /** Nodes whose value is a WGSL bool. */
  const truths = new Set<number>();
  const functions = new Set<string>();
  const lines: string[] = [];
  const number = (node: Expr): string => (truths.has(node.id) ? `f32(${values.get(node.id)!})` : values.get(node.id)!);
  const truth = (node: Expr): string => (truths.has(node.id) ? values.get(node.id)! : notEqual(number(node), "0.0f"));
  const call = (name: string, ...args: string[]): string => {
    if (name.endsWith("_f32")) functions.add(name);
    if (name === "not_a_number" || name === "infinity") functions.add("from_bits");
    return `${name}(${args.join(", ")})`;
  };

  /** A number as WGSL; one without a literal goes through a variable, and one beyond the range of f32 is infinite. */
  const literal = (value: number): string => {
    const rounded = Math.fround(value);
    if (Number.isFinite(rounded)) return f32Literal(rounded);
    if (Number.isNaN(rounded)) return call("not_a_number");
    return rounded > 0 ? call("infinity") : `-${call("infinity")}`;
  };

  /** A literal 0 times x, or 0/x; undefined for other operations. */
  const ofZero = ({ op, args }: Expr): string | undefined => {
    if (op !== "mul" && op !== "div") return undefined;
    const of = args.map(({ id }) => Math.fround(constants.get(id) ?? 1));
    const at = of.findIndex((value, i) => value === 0 && (op === "mul" || i === 0));
    if (at < 0) return undefined;
    const product = call(op === "mul" ? "zero_times_f32" : "zero_over_f32", number(args[1 - at]!));
    return Object.is(of[at], -0) ? `-${product}` : product;
  };

  /** A comparison with ±∞; undefined for other operations. WGSL lets a compiler take `x < ∞` for true, for NaN, too. */
  const besideInfinity = ({ op, args }: Expr): string | undefined => {
    const isInfinite = ({ id }: Expr): boolean => Math.abs(Math.fround(constants.get(id) ?? 0)) === Infinity;
    if (!(op in COMPARE) || !args.some(isInfinite)) return undefined;
    const [x, y] = args.map(number) as [string, string];
    const [left, right] = [call("order_f32", x), call("order_f32", y)];
    functions.add("is_nan");
    const hasNaN = `is_nan(${x}) || is_nan(${y})`;
    return op === "ne" ? `${hasNaN} || ${left} != ${right}` : `!(${hasNaN}) && ${left} ${COMPARE[op]!} ${right}`;
  };

  const text = (node: Expr): string => {
    const { op, args } = node;
    const compared = besideInfinity(node);
    if (compared !== undefined) return compared;
    if (op === "where") return `select(${number(args[2]!)}, ${number(args[1]!)}, ${truth(args[0]!)})`;
    const [x, y] = args.map(number) as [string, string];
    if (op === "neg") return `-(${x})`; // parentheses, because --1 is an error
    if (op === "ne") return notEqual(x, y);
    if (op === "sin") return call("trig_f32", x, "0");
    if (op === "cos") return call("trig_f32", x, "1");
    if (op === "pow") {
      const exponent = args[1]!.op === "const" ? args[1]!.value : NaN;
      if (exponent === 3) return `${x} * ${x} * ${x}`;
      if (exponent === 0.5) return `sqrt(${x})`;
      if (exponent === -0.5) return `inverseSqrt(${x})`;
      if (exponent === -1) return `1.0f / ${x}`;
      return call("pow_f32", x, y);
    }
    if (op in CALL) return call(CALL[op]!, ...args.map(number));
    return ofZero(node) ?? `${x} ${(INFIX[op] ?? COMPARE[op])!} ${y}`;
  };

  for (const node of topologicalOrder(outputs)) {
    if (node.op === "input") values.set(node.id, inputs[node.value]!);
    else if (node.args.every(({ id }) => constants.has(id))) {
      // Computed here in f64, because WGSL's compiler refuses a constant expression that overflows.
      const value = [NaN];
      evaluator([node])([], value);
      constants.set(node.id, value[0]!);
      values.set(node.id, literal(value[0]!));
    } else if (node.op === "detach") {
      values.set(node.id, values.get(node.args[0]!.id)!);
      if (truths.has(node.args[0]!.id)) truths.add(node.id);
    } else {
      const name = `${prefix}${lines.length}`;
      lines.push(`let ${name} = ${text(node)};`);
      values.set(node.id, name);
      if (node.op in COMPARE) truths.add(node.id);
    }
  }
  return { functions: mathFunctions(functions), statements: lines.join("\n"), results: outputs.map(number) };
}
