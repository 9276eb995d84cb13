/**
 * A formula as MathML: with its symbols, or filled in with the numbers of a token. MathML is read aloud by screen
 * readers and needs no library. What is made here is a plain tree, which the page turns into elements.
 */
import type { Expr } from "../../kernels/expr.ts";
import { formatNumber } from "../../run/figures/format.ts";
import { type Evaluated, type Formula, type Level, type TokenNumbers } from "./language.ts";

export interface MathNode {
  readonly tag: string;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly children: readonly (MathNode | string)[];
}

const node = (tag: string, ...children: readonly (MathNode | string)[]): MathNode => ({ tag, children });
export const row = (...children: readonly MathNode[]): MathNode => node("mrow", ...children);
const operator = (text: string): MathNode => node("mo", text);
const INVISIBLE_TIMES = "\u2062";

const THIN: MathNode = { tag: "mspace", attributes: { width: "0.17em" }, children: [] };

/** A symbol: names with blanks between them; what follows `_` in a name is set below the line. */
export function symbolMath(symbol: string): MathNode {
  const names = symbol.split(" ").map((name) => {
    const [base, below] = name.split("_") as [string, string | undefined];
    return below === undefined ? node("mi", base) : node("msub", node("mi", base), node("mtext", below));
  });
  return row(...names.flatMap((name, i) => (i > 0 ? [THIN, name] : [name])));
}

/** A number, with four significant digits. */
export function numberMath(value: number): MathNode {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return node("mn", formatNumber(value));
  const isPlain = size === 0 || (size >= 1e-4 && size < 1e6);
  const text = isPlain ? String(Number(value.toPrecision(digitsOf(value)))) : value.toExponential(3);
  const [mantissa, exponent = ""] = text.split("e");
  const digits = node(
    "mn",
    mantissa!
      .replace(/(\.\d*?)0+$/, "$1")
      .replace(/\.$/, "")
      .replace("-", "−"),
  );
  if (exponent === "") return digits;
  return row(
    digits,
    operator("·"),
    node("msup", node("mn", "10"), node("mn", exponent.replace("+", "").replace("-", "−"))),
  );
}

/** Four digits; beside 1 as many as leave four of the difference, so that a reader can subtract. At most nine. */
function digitsOf(value: number): number {
  const difference = Math.abs(1 - value);
  return difference === 0 || difference >= 0.1 ? 4 : Math.min(9, 3 - Math.floor(Math.log10(difference)));
}

/** How tightly a printed expression holds together; a looser one gets parentheses where a tighter one is needed. */
const Holds = { Comparison: 0, Sum: 1, Sign: 2, Product: 3, Function: 4, Atom: 5 } as const;
type Holding = (typeof Holds)[keyof typeof Holds];

interface Printed {
  readonly math: MathNode;
  readonly holds: Holding;
  /** Whether it is a number, so that a product with it needs a dot. */
  readonly isNumber?: true;
}

const COMPARISONS: Readonly<Record<string, string>> = { lt: "<", le: "≤", gt: ">", ge: "≥", eq: "=", ne: "≠" };
const FUNCTIONS: Readonly<Record<string, string>> = {
  detach: "sg",
  log: "ln",
  sigmoid: "σ",
  sign: "sgn",
  min: "min",
  max: "max",
};

class Printer {
  readonly #input: (index: number) => Printed;
  readonly #named: (expression: Expr) => Printed | undefined;

  /**
   * @param input prints an input
   * @param named prints an expression by its name; undefined if it has none
   */
  constructor(input: (index: number) => Printed, named: (expression: Expr) => Printed | undefined) {
    this.#input = input;
    this.#named = named;
  }

  /** @param isDefinition of a named part: it is written out */
  print(expression: Expr, isDefinition = false): Printed {
    const named = isDefinition ? undefined : this.#named(expression);
    return named ?? this.#written(expression);
  }

  #written(e: Expr): Printed {
    const [x, y] = e.args as [Expr, Expr];
    const clip = clipOf(e);
    if (clip) return this.#call("clip", clip);
    if (e.op === "input") return this.#input(e.value);
    if (e.op === "const") return numberPrinted(e.value);
    if (e.op === "where") return this.#cases(e);
    if (e.op in COMPARISONS) {
      const math = row(this.#at(x, Holds.Sum), operator(COMPARISONS[e.op]!), this.#at(y, Holds.Sum));
      return { math, holds: Holds.Comparison };
    }
    if (e.op in FUNCTIONS) return this.#call(FUNCTIONS[e.op]!, e.args);
    switch (e.op) {
      case "add":
      case "sub": {
        const sign = operator(e.op === "add" ? "+" : "−");
        return { math: row(this.#at(x, Holds.Sum), sign, this.#at(y, Holds.Product)), holds: Holds.Sum };
      }
      case "neg":
        return { math: row(operator("−"), this.#at(x, Holds.Product)), holds: Holds.Sign };
      case "mul":
        return this.#product(x, y);
      case "div":
        return { math: node("mfrac", this.print(x).math, this.print(y).math), holds: Holds.Function };
      case "exp":
        return { math: node("msup", node("mi", "e"), this.print(x).math), holds: Holds.Function };
      case "abs":
        return { math: row(operator("|"), this.print(x).math, operator("|")), holds: Holds.Atom };
      default:
        throw new Error(`mathml: no way to print ${e.op}`);
    }
  }

  #product(x: Expr, y: Expr): Printed {
    if (x.id === y.id) return { math: node("msup", this.#at(x, Holds.Atom), node("mn", "2")), holds: Holds.Function };
    const [left, right] = [this.print(x), this.print(y)];
    const areConditions = left.holds === Holds.Comparison && right.holds === Holds.Comparison;
    if (areConditions) return { math: row(left.math, and, right.math), holds: Holds.Comparison };
    const isDotted = left.isNumber || right.isNumber || (right.holds >= Holds.Product && startsWithNumber(right.math));
    const dot = operator(isDotted ? "·" : INVISIBLE_TIMES);
    return { math: row(held(left, Holds.Product), dot, held(right, Holds.Product)), holds: Holds.Product };
  }

  #call(name: string, args: readonly Expr[]): Printed {
    const list = args.flatMap((arg, i) => [...(i > 0 ? [operator(",")] : []), this.print(arg).math]);
    const apply = operator("\u2061");
    return { math: row(node("mi", name), apply, operator("("), ...list, operator(")")), holds: Holds.Function };
  }

  #cases(e: Expr): Printed {
    const line = (value: Expr, ...when: readonly MathNode[]): MathNode =>
      node("mtr", node("mtd", this.print(value).math), node("mtd", ...when));
    const [condition, then, otherwise] = e.args as [Expr, Expr, Expr];
    const table = node(
      "mtable",
      line(then, node("mtext", "if "), this.print(condition).math),
      line(otherwise, node("mtext", "else")),
    );
    return { math: row(operator("{"), table), holds: Holds.Product };
  }

  #at(e: Expr, needed: Holding): MathNode {
    return held(this.print(e), needed);
  }
}

const and = node("mtext", "\u00a0and\u00a0");
const held = ({ math, holds }: Printed, needed: Holding): MathNode =>
  holds >= needed ? math : row(operator("("), math, operator(")"));
const numberPrinted = (value: number): Printed => ({
  math: numberMath(value),
  // Very small and very large ones are products with a power of ten.
  holds: value < 0 ? Holds.Sign : value !== 0 && (value < 1e-4 || value >= 1e6) ? Holds.Product : Holds.Atom,
  isNumber: true,
});

function startsWithNumber({ tag, children }: MathNode): boolean {
  const [first] = children;
  return tag === "mn" || ((tag === "mrow" || tag === "msup") && typeof first === "object" && startsWithNumber(first));
}

/** x, low and high, if the expression limits x to [low, high] (`Expr.clamp`, in both of its forms). */
function clipOf(e: Expr): readonly [Expr, Expr, Expr] | undefined {
  if (e.op !== "where") return undefined;
  const [first, one, rest] = e.args as [Expr, Expr, Expr];
  if (rest.op !== "where") return undefined;
  // With known bounds: x < low ? low : x > high ? high : x. Else x is compared with low, the result of that with high.
  const inner = one.op === "where" ? one.args[0]! : undefined;
  const [x, low] = first.op === "lt" ? [first.args[0]!, one] : inner?.op === "ge" ? inner.args : [];
  const high = rest.args[first.op === "lt" ? 1 : 2]!;
  return x && low && x.clamp(low, high).id === e.id ? [x, low, high] : undefined;
}

/** A definition: what is defined, how it is written with symbols, filled in, and what it is. */
export interface FormulaLine {
  readonly left: MathNode;
  /** Written with symbols, then filled in if that is something else; the last is the value. */
  readonly steps: readonly MathNode[];
  readonly value: number;
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
export function formulaLines(
  formula: Formula,
  symbol: string,
  token: TokenNumbers,
  levels: readonly number[],
): FormulaLine[] {
  const found = formula.at(token, levels);
  const numbers = formula.numbers(token, levels);
  const generic = new Printer(
    (index) => symbolPrinted(formula.inputs[index]!.symbol),
    (e) => {
      const part = formula.parts.find(({ expression }) => expression.id === e.id);
      return part && symbolPrinted(part.symbol);
    },
  );
  const filled = new Printer(
    (index) => numberPrinted(numbers[index]!),
    (e) => {
      const at = formula.parts.findIndex(({ expression }) => expression.id === e.id);
      return at < 0 ? undefined : numberPrinted(found.parts[at]!);
    },
  );
  const line = (name: string, e: Expr, value: number): FormulaLine => {
    const [written, inserted] = [generic.print(e, true).math, filled.print(e, true).math];
    const result = numberMath(value);
    const isSame = [written, result].some((other) => mathText(other) === mathText(inserted));
    return { left: symbolMath(name), steps: isSame ? [written, result] : [written, inserted, result], value };
  };
  return [
    line(symbol, formula.result, found.value),
    ...formula.parts.map((part, k) => line(part.symbol, part.expression, found.parts[k]!)),
    ...formula.levels.map((level, k) => levelLine(level, generic, levels[k] ?? NaN)),
  ];
}

/** A mean or sum over the trained tokens of the sequence. */
function levelLine({ symbol, how, of }: Level, generic: Printer, value: number): FormulaLine {
  const sum = row(node("munder", operator("∑"), node("mtext", "sequence")), generic.print(of).math);
  const mean = row(node("mfrac", node("mn", "1"), node("mi", "T")), sum);
  return { left: symbolMath(symbol), steps: [how === "mean" ? mean : sum, numberMath(value)], value };
}

const symbolPrinted = (symbol: string): Printed => ({
  math: symbolMath(symbol),
  holds: symbol.includes(" ") ? Holds.Function : Holds.Atom,
});

/** What a token's term adds to the loss, and how it moves with log p: w·ℓ and ∂L/∂log p = w·∂ℓ/∂log p. */
export function weighedLines(
  symbols: { readonly weight: string; readonly moves: string },
  weight: number,
  { value, slope }: Pick<Evaluated, "value" | "slope">,
  gradient: number,
): FormulaLine[] {
  const product = (a: number, b: number): MathNode =>
    row(held(numberPrinted(a), Holds.Product), operator("·"), held(numberPrinted(b), Holds.Product));
  const partial = (of: string): MathNode =>
    node("mfrac", row(operator("∂"), symbolMath(of)), row(operator("∂"), symbolMath(symbols.moves)));
  const weighed = (of: MathNode): MathNode => row(symbolMath(symbols.weight), operator(INVISIBLE_TIMES), of);
  // Through a level that is no constant the other tokens of the sequence move, too; then the product is not all.
  const isOwn = Math.abs(weight * slope - gradient) <= 1e-9 * Math.abs(gradient);
  const share = weight * value;
  return [
    { left: weighed(symbolMath("ℓ")), steps: [product(weight, value), numberMath(share)], value: share },
    {
      left: partial("L"),
      steps: [...(isOwn ? [weighed(partial("ℓ")), product(weight, slope)] : []), numberMath(gradient)],
      value: gradient,
    },
  ];
}

const escape = (text: string): string =>
  text.replace(/[&<>"]/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[char]!);

/** The tree as markup, for tests and for reading. */
export function mathText({ tag, attributes = {}, children }: MathNode): string {
  const own = Object.entries(attributes).map(([name, value]) => ` ${name}="${escape(value)}"`);
  const inner = children.map((child) => (typeof child === "string" ? escape(child) : mathText(child)));
  return `<${tag}${own.join("")}>${inner.join("")}</${tag}>`;
}
