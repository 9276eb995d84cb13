/**
 * An expression as it is printed: with symbols, or with the numbers of a token. All of it is plain data, which a worker
 * sends to the page.
 */
import { evaluator, Expr, input } from "../../kernels/expr.ts";

/** The fields of an expression that printing reads: an `Expr` that was sent to the page is a plain object. */
export interface Written extends Pick<Expr, "op" | "value" | "id" | "symbol"> {
  readonly args: readonly Written[];
}

export interface Formula<E extends Written = Written> {
  readonly result: E;
  /** Named parts (`named`), in the order in which a reader meets them. */
  readonly parts: readonly { readonly symbol: string; readonly expression: E }[];
  readonly inputs: readonly Input<E>[];
}

/**
 * A symbol is made of names with blanks between them; what follows `_` in a name is set below the line. An input may be
 * a sum over the trained tokens of a sequence: `sumOf` is what is summed.
 */
export interface Input<E extends Written = Written> {
  readonly symbol: string;
  readonly sumOf?: E;
}

/** The numbers of a formula at a token, in the order of its parts and inputs. */
export interface Numbers {
  readonly value: number;
  readonly parts: readonly number[];
  readonly inputs: readonly number[];
}

export interface Filled extends Numbers {
  readonly formula: Formula;
}

export function formulaOf(result: Expr, inputs: readonly Input<Expr>[]): Formula<Expr> {
  const parts = new Map<number, { symbol: string; expression: Expr }>();
  const seen = new Set<Expr>();
  const visit = (e: Expr): void => {
    if (seen.has(e)) return;
    seen.add(e);
    if (e.symbol !== undefined && e !== result) parts.set(e.id, { symbol: e.symbol, expression: e });
    e.args.forEach(visit);
    if (e.op === "input" && inputs[e.value]!.sumOf) visit(inputs[e.value]!.sumOf!);
  };
  visit(result);
  return { result, parts: [...parts.values()], inputs };
}

/** Evaluates a formula in f64. */
export function numbersOf({ result, parts }: Formula<Expr>): (inputs: readonly number[]) => Numbers {
  const evaluate = evaluator([result, ...parts.map(({ expression }) => expression)]);
  return (inputs) => {
    const out: number[] = [];
    evaluate(inputs, out);
    const [value, ...rest] = out as [number, ...number[]];
    return { value, parts: rest, inputs };
  };
}

/** A formula of given numbers. */
export function filled(write: (number: (symbol: string, value: number) => Expr) => Expr): Filled {
  const inputs: (Input & { value: number })[] = [];
  const result = write((symbol, value) => input(inputs.push({ symbol, value }) - 1));
  const formula = formulaOf(
    result,
    inputs.map(({ symbol }) => ({ symbol })),
  );
  return { formula, ...numbersOf(formula)(inputs.map(({ value }) => value)) };
}
