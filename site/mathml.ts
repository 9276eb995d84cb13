/**
 * A formula as MathML: with its symbols, or filled in with the numbers of a token. Screen readers read MathML aloud,
 * and it needs no library. This module makes a plain tree, which the page turns into elements.
 */
import { formatNumber } from "../run/figures/format.ts";
import type { Filled, Written } from "./formulas/formula.ts";
import type { TermFormula, TokenTerm } from "./formulas/step.ts";

export interface MathNode {
  readonly tag: string;
  readonly children: readonly (MathNode | string)[];
}

const node = (tag: string, ...children: readonly (MathNode | string)[]): MathNode => ({ tag, children });
const row = (...children: readonly MathNode[]): MathNode => node("mrow", ...children);
const operator = (text: string): MathNode => node("mo", text);
const text = (words: string): MathNode => node("mtext", words);
const ONE = node("mn", "1");
const THIN_SPACE = "\u2009";

/** A symbol: names with blanks between them; what follows `_` in a name is set below the line. */
export function symbolMath(symbol: string): MathNode {
  const names = symbol.split(" ").map((name) => {
    const [base, below] = name.split("_") as [string, string | undefined];
    return below === undefined ? node("mi", base) : node("msub", node("mi", base), text(below));
  });
  return row(...names.flatMap((name, i) => (i > 0 ? [text(THIN_SPACE), name] : [name])));
}

/** A number with four significant digits; near 1 with as many, at most nine, as show four of its difference from 1. */
export function numberMath(value: number): MathNode {
  const [size, difference] = [Math.abs(value), Math.abs(1 - value)];
  if (!Number.isFinite(value)) return node("mn", formatNumber(value));
  const digits = difference === 0 || difference >= 0.1 ? 4 : Math.min(9, 3 - Math.floor(Math.log10(difference)));
  const isPlain = size === 0 || (size >= 1e-4 && size < 1e6);
  const shown = isPlain ? String(Number(value.toPrecision(digits))) : value.toExponential(3);
  const [mantissa, exponent] = shown.replaceAll("-", "−").replace("+", "").split("e") as [string, string | undefined];
  if (exponent === undefined) return node("mn", mantissa);
  const short = mantissa.replace(/\.?0+$/, "");
  return row(node("mn", short), operator("·"), node("msup", node("mn", "10"), node("mn", exponent)));
}

/** Precedence of a printed expression; a lower one gets parentheses where a higher one is needed. */
const Holds = { Sum: 1, Sign: 2, Product: 3, Function: 4, Atom: 5 } as const;
type Holding = (typeof Holds)[keyof typeof Holds];
interface Printed {
  readonly math: MathNode;
  readonly holds: Holding;
}

const atom = (math: MathNode): Printed => ({ math, holds: Holds.Atom });
const power = (base: MathNode, exponent: MathNode): Printed => ({
  math: node("msup", base, exponent),
  holds: Holds.Function,
});
const exponential = ({ math }: Printed): Printed => power(node("mi", "e"), math);
const held = ({ math, holds }: Printed, needed: Holding): MathNode =>
  holds >= needed ? math : row(operator("("), math, operator(")"));
const sum = (a: Printed, sign: "+" | "−", b: Printed): Printed => ({
  math: row(held(a, Holds.Sum), operator(sign), held(b, Holds.Product)),
  holds: Holds.Sum,
});
const product = (a: Printed, b: Printed): Printed => ({
  math: row(held(a, Holds.Product), operator("·"), held(b, Holds.Product)),
  holds: Holds.Product,
});
function call(name: string, ...args: readonly Printed[]): Printed {
  const list = args.flatMap(({ math }, i) => (i > 0 ? [operator(","), math] : [math]));
  return {
    math: row(node("mi", name), operator("\u2061"), operator("("), ...list, operator(")")),
    holds: Holds.Function,
  };
}
const numberPrinted = (value: number): Printed => ({
  math: numberMath(value),
  // Very small and very large ones are products with a power of ten.
  holds: value < 0 ? Holds.Sign : value !== 0 && (value < 1e-4 || value >= 1e6) ? Holds.Product : Holds.Atom,
});
const symbolPrinted = (symbol: string): Printed => ({
  math: symbolMath(symbol),
  holds: symbol.includes(" ") ? Holds.Function : Holds.Atom,
});

const COMPARISONS: Readonly<Record<string, string>> = { lt: "<", le: "≤", gt: ">", ge: "≥", eq: "=", ne: "≠" };
const FUNCTIONS: Readonly<Record<string, string>> = { detach: "sg", log: "ln", sigmoid: "σ", sign: "sgn" };

/** Prints an expression as a name, a symbol or a number; undefined where it is to be written out. */
type Leaf = (expression: Written, print: (e: Written) => Printed) => Printed | undefined;

/** @param isDefinition whether `e` is the definition of a named part, which is written out */
function printed(e: Written, leaf: Leaf, isDefinition = false): Printed {
  const print = (part: Written): Printed => printed(part, leaf);
  const known = isDefinition && e.op !== "input" ? undefined : leaf(e, print);
  if (known) return known;
  const [x, y, z] = e.args as [Written, Written, Written];
  const clip = clipOf(e);
  if (clip) return call("clip", ...clip.map(print));
  const exponent = softplusOf(e);
  if (exponent) return call("ln", sum(atom(ONE), "+", exponential(print(exponent))));
  const condition = conditionMath(e, print);
  if (condition) return atom(row(operator("["), condition, operator("]")));
  switch (e.op) {
    case "const":
      return numberPrinted(e.value);
    case "where":
      return cases(e, print);
    case "add":
      return sum(print(x), "+", print(y));
    case "sub":
      return sum(print(x), "−", print(y));
    case "neg":
      if (x.op === "expm1") return sum(atom(ONE), "−", exponential(print(x.args[0]!)));
      return { math: row(operator("−"), held(print(x), Holds.Product)), holds: Holds.Sign };
    case "mul":
      return x.id === y.id ? power(held(print(x), Holds.Atom), node("mn", "2")) : product(print(x), print(y));
    case "div":
      return { math: node("mfrac", print(x).math, print(y).math), holds: Holds.Function };
    case "exp":
      return exponential(print(x));
    case "expm1":
      return sum(exponential(print(x)), "−", atom(ONE));
    case "abs":
      return atom(row(operator("|"), print(x).math, operator("|")));
    default:
      return call(FUNCTIONS[e.op] ?? e.op, ...[x, y, z].filter(Boolean).map(print));
  }
}

/** An expression of value 1 or 0 as a condition: a comparison, or several that all hold; undefined if it is neither. */
function conditionMath(e: Written, print: (e: Written) => Printed): MathNode | undefined {
  const [x, y, z] = e.args as [Written, Written, Written];
  const sign = COMPARISONS[e.op];
  if (sign !== undefined) return row(held(print(x), Holds.Sum), operator(sign), held(print(y), Holds.Sum));
  if (e.op !== "where" || z.op !== "const" || z.value !== 0) return undefined;
  const [first, rest] = [conditionMath(x, print), conditionMath(y, print)];
  return first && rest && row(first, text("\u00a0and\u00a0"), rest);
}

function cases({ args: [condition, then, otherwise] }: Written, print: (e: Written) => Printed): Printed {
  const when = conditionMath(condition!, print) ?? row(print(condition!).math, operator("≠"), node("mn", "0"));
  const line = (value: Written, ...rest: readonly MathNode[]): MathNode =>
    node("mtr", node("mtd", print(value).math), node("mtd", ...rest));
  const table = node("mtable", line(then!, text("if "), when), line(otherwise!, text("else")));
  return { math: row(operator("{"), table), holds: Holds.Product };
}

/**
 * x, low and high, if the expression limits x to [low, high] (`Expr.clamp`): with known bounds x < low ? low : x > high
 * ? high : x, else u ≤ high ? u : u is NaN ? u : high, where u is x, limited below in the same way.
 */
function clipOf({ op, args: [first, one, rest] }: Written): readonly Written[] | undefined {
  if (op !== "where" || rest!.op !== "where") return undefined;
  if (first!.op === "lt" && rest!.args[0]!.op === "gt") return [first!.args[0]!, one!, rest!.args[1]!];
  const isBelow = first!.op === "le" && one!.op === "where" && one!.args[0]!.op === "ge";
  return isBelow ? [...one!.args[0]!.args, first!.args[1]!] : undefined;
}

/** x, if the expression is ln(1 + e^x) (`Expr.softplus`). */
const softplusOf = ({ op, args: [above, rest] }: Written): Written | undefined =>
  op === "add" && above!.op === "where" && rest!.op === "log1p" ? above!.args[1] : undefined;

/** A definition: the symbol; then its formula with symbols, the formula filled in if that differs, and the value. */
export interface FormulaLine {
  readonly left: MathNode;
  readonly steps: readonly MathNode[];
}

/** Definitions below each other, equals signs in a column. */
export function mathTable(lines: readonly FormulaLine[]): MathNode {
  const tableRow = (left: MathNode, ...steps: readonly MathNode[]): MathNode =>
    node("mtr", node("mtd", left), node("mtd", ...steps.flatMap((step) => [operator("="), step])));
  const rows = lines.flatMap(({ left, steps: [first, ...rest] }) =>
    rest.length < 2 ? [tableRow(left, first!, ...rest)] : [tableRow(left, first!), tableRow(row(), ...rest)],
  );
  return node("mtable", ...rows);
}

/** The lines of a formula: the formula itself, with symbols and filled in, and each named part of it. */
export function formulaLines(symbol: string, { formula, value, parts, inputs }: Filled): FormulaLine[] {
  const partOf = ({ id }: Written): number => formula.parts.findIndex(({ expression }) => expression.id === id);
  const inserted: Leaf = (e) => {
    const found = e.op === "input" ? inputs[e.value] : parts[partOf(e)];
    return found === undefined ? undefined : numberPrinted(found);
  };
  const line = (left: string, e: Written, is: number): FormulaLine => {
    const generic: Leaf = (part, print) => {
      const own = part.op === "input" ? formula.inputs[part.value]! : undefined;
      const called = part === e ? undefined : formula.parts[partOf(part)]?.symbol;
      const name = called ?? (own?.sumOf ? undefined : own?.symbol);
      if (name !== undefined) return symbolPrinted(name);
      if (!own?.sumOf) return undefined;
      const sign = node("munder", operator("∑"), text("sequence"));
      return { math: row(sign, held(print(own.sumOf), Holds.Product)), holds: Holds.Product };
    };
    const [written, numbers, result] = [
      printed(e, generic, true).math,
      printed(e, inserted, true).math,
      numberMath(is),
    ];
    const isSame = [written, result].some((other) => JSON.stringify(other) === JSON.stringify(numbers));
    return { left: symbolMath(left), steps: isSame ? [written, result] : [written, numbers, result] };
  };
  // A number of the token and an option have no definition, unless they go by another name here.
  const isDefined = ({ symbol: name, expression: { op, value: index } }: (typeof formula.parts)[number]): boolean =>
    op !== "input" || formula.inputs[index]!.symbol !== name;
  const definitions = formula.parts.map((part, k) =>
    isDefined(part) ? [line(part.symbol, part.expression, parts[k]!)] : [],
  );
  return [line(symbol, formula.result, value), ...definitions.flat()];
}

/** A token's term as two lines: its part of the loss, w·ℓ, and its gradient, ∂L/∂x = w·∂ℓ/∂x, x being `moves`. */
export function weighedLines(
  { weight: symbol, moves }: Pick<TermFormula, "moves"> & { readonly weight: string },
  { weight, value, slope, gradient }: TokenTerm,
): FormulaLine[] {
  const partial = (of: string): Printed =>
    atom(node("mfrac", symbolMath(`∂${of}`), row(operator("∂"), symbolMath(moves))));
  const weighed = (of: Printed): MathNode => product(symbolPrinted(symbol), of).math;
  const numbers = (b: number): MathNode => product(numberPrinted(weight), numberPrinted(b)).math;
  // With a sum over the sequence the other tokens' losses depend on this one, too; then the product is not all.
  const isOwn = Math.abs(weight * slope - gradient) <= 1e-9 * Math.abs(gradient);
  const steps = isOwn ? [weighed(partial("ℓ")), numbers(slope)] : [];
  return [
    { left: weighed(symbolPrinted("ℓ")), steps: [numbers(value), numberMath(weight * value)] },
    { left: partial("L").math, steps: [...steps, numberMath(gradient)] },
  ];
}
