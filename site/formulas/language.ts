/**
 * Formulas that are shown and computed: each is written once, on the library's scalar expressions (kernels/expr.ts).
 * mathml.ts prints it, with symbols or with the numbers of a token; here it is evaluated and differentiated. So what is
 * shown is what is computed, and a test compares it with what the library computes.
 *
 * A formula speaks of the numbers of one token, of options, and of means and sums over the trained tokens of a
 * sequence, as losses with one ratio per sequence do. Parts with a name of their own, such as ρ, are printed as that
 * name and defined on a line of their own.
 */
import { constant, differentiate, evaluator, type Expr, input } from "../../kernels/expr.ts";

/**
 * The numbers of a token, and their symbols. A symbol is made of names with blanks between them; what follows `_` in a
 * name is set below the line.
 */
export const TOKEN_SYMBOLS = {
  lp: "log p",
  old: "log p_old",
  ref: "log p_ref",
  A: "A",
  chosen: "M",
  H: "H",
  value: "v",
  oldValue: "v_old",
  target: "R",
  sideLength: "n",
} as const;
export type TokenInput = keyof typeof TOKEN_SYMBOLS;
export type TokenNumbers = Readonly<Record<TokenInput, number>>;
const TOKEN_INPUTS = Object.keys(TOKEN_SYMBOLS) as TokenInput[];

/** A mean or sum over the trained tokens of a sequence. */
export interface Level {
  readonly symbol: string;
  readonly how: "mean" | "sum";
  /** What is averaged or summed, for each token. */
  readonly of: Expr;
  /** Whether it counts as a constant, so that no gradient flows through it. */
  readonly isConstant: boolean;
  /** The input of the formula that it is. */
  readonly index: number;
}

/** A part of a formula with a name. */
export interface Part {
  readonly symbol: string;
  readonly expression: Expr;
}

/** What a formula is written with. */
export interface Draft {
  readonly token: Readonly<Record<TokenInput, Expr>>;
  readonly option: (symbol: string, value: number) => Expr;
  readonly part: (symbol: string, expression: Expr) => Expr;
  readonly level: (symbol: string, how: "mean" | "sum", of: Expr, isConstant: boolean) => Expr;
}

/** What a formula is at a token. */
export interface Evaluated {
  readonly value: number;
  /** In the order of the formula's parts. */
  readonly parts: readonly number[];
  /** ∂value/∂log p (or by the input that the formula is differentiated by), the levels being constant. */
  readonly slope: number;
}

/** What a sum of weighted formulas is over a sequence. */
export interface OverSequence {
  readonly levels: readonly number[];
  readonly tokens: readonly Evaluated[];
  /** ∂(Σ w·ℓ)/∂log p of each token, through the levels, too. */
  readonly gradients: readonly number[];
}

export class Formula {
  readonly result: Expr;
  readonly parts: readonly Part[];
  readonly levels: readonly Level[];
  /** The symbol of each input, and the value of an option. */
  readonly inputs: readonly { readonly symbol: string; readonly value?: number }[];
  readonly #evaluate: (inputs: ArrayLike<number>, out: number[]) => void;
  /** For each level: what is averaged or summed. */
  readonly #ofLevels: (inputs: ArrayLike<number>, out: number[]) => void;

  /** @param by what it is differentiated by */
  constructor(write: (draft: Draft) => Expr, by: TokenInput = "lp") {
    const x = TOKEN_INPUTS.indexOf(by);
    const parts: Part[] = [];
    const levels: Level[] = [];
    const inputs: { symbol: string; value?: number }[] = TOKEN_INPUTS.map((name) => ({ symbol: TOKEN_SYMBOLS[name] }));
    const add = (symbol: string, value?: number): number =>
      inputs.push({ symbol, ...(value === undefined ? {} : { value }) }) - 1;
    this.result = write({
      token: Object.fromEntries(TOKEN_INPUTS.map((name, i) => [name, input(i)])) as Draft["token"],
      option: (symbol, value) => input(add(symbol, value)),
      part(symbol, expression) {
        parts.push({ symbol, expression });
        return expression;
      },
      level(symbol, how, of, isConstant) {
        const index = add(symbol);
        levels.push({ symbol, how, of, isConstant, index });
        return input(index);
      },
    });
    [this.parts, this.levels, this.inputs] = [parts, levels, inputs];
    const one = constant(1);
    const [slope, ...byLevel] = differentiate([this.result], [one], [x, ...levels.map(({ index }) => index)]);
    const values = parts.map(({ expression }) => expression);
    this.#evaluate = evaluator([this.result, slope!, ...values, ...byLevel]);
    const slopes = levels.map(({ of }) => differentiate([of], [one], [x])[0]!);
    this.#ofLevels = evaluator([...levels.map(({ of }) => of), ...slopes]);
  }

  /** The numbers of all inputs at a token. @param levels as `over` gives them */
  numbers(token: TokenNumbers, levels: readonly number[] = []): number[] {
    const numbers = this.inputs.map(({ value }, i) => value ?? token[TOKEN_INPUTS[i]!] ?? NaN);
    this.levels.forEach(({ index }, k) => (numbers[index] = levels[k] ?? NaN));
    return numbers;
  }

  /** @param levels as `over` gives them, for a formula that has some */
  at(token: TokenNumbers, levels: readonly number[] = []): Evaluated {
    return this.#at(token, levels).evaluated;
  }

  /** @param weights w of each token */
  over(tokens: readonly TokenNumbers[], weights: readonly number[]): OverSequence {
    const own = tokens.map((token) => {
      const out: number[] = [];
      this.#ofLevels(this.numbers(token), out);
      return out;
    });
    const count = this.levels.length;
    const share = (k: number): number => (this.levels[k]!.how === "mean" ? 1 / tokens.length : 1);
    const levels = this.levels.map((_, k) => own.reduce((sum, values) => sum + values[k]!, 0) * share(k));
    const found = tokens.map((token) => this.#at(token, levels));
    // How the weighted sum moves with each level.
    const pull = levels.map((_, k) => found.reduce((sum, { byLevel }, i) => sum + weights[i]! * byLevel[k]!, 0));
    const gradients = found.map(({ evaluated }, i) => {
      const through = pull.map((p, k) => (this.levels[k]!.isConstant ? 0 : p * own[i]![count + k]! * share(k)));
      return through.reduce((sum, x) => sum + x, weights[i]! * evaluated.slope);
    });
    return { levels, tokens: found.map(({ evaluated }) => evaluated), gradients };
  }

  #at(token: TokenNumbers, levels: readonly number[]): { evaluated: Evaluated; byLevel: number[] } {
    const out: number[] = [];
    this.#evaluate(this.numbers(token, levels), out);
    const [value, slope, ...rest] = out as [number, number, ...number[]];
    const parts = rest.slice(0, this.parts.length);
    return { evaluated: { value, parts, slope }, byLevel: rest.slice(this.parts.length) };
  }
}
