/**
 * The calculator: reads an expression and works it out, exactly. A recursive-descent parser, no `eval`:
 *
 *     sum      = product { ("+" | "-") product }
 *     product  = sign { ("*" | "/" | "//" | "%") sign }
 *     sign     = { "+" | "-" } power
 *     power    = atom [ ("^" | "**") sign ]              so -2^2 is -4 and 2^3^2 is 512
 *     atom     = digits [ "." digits ] | "(" sum ")"
 *
 * `//` divides and rounds down, `%` is what then remains, with the sign of the divisor (as in Python). Both take
 * fractions.
 */
import { add, divide, floor, multiply, negate, rational, type Rational, fromDecimal } from "./rational.ts";

/** Longest expression, in characters; it also bounds how deep parentheses nest. */
const MOST_CHARACTERS = 200;
/** Digits at most of a numerator or denominator. */
const MOST_DIGITS = 40;

/** The error in an expression; it never leaves this file. */
class Complaint extends Error {}

export type Calculation = { readonly value: Rational } | { readonly error: string };

/** The value of an expression, or what is wrong with it in a few words. Never throws. */
export function calculate(text: string): Calculation {
  try {
    if (text.length > MOST_CHARACTERS) throw new Complaint("too long");
    return { value: new Parser(tokens(text)).all() };
  } catch (error) {
    if (error instanceof Complaint) return { error: error.message };
    throw error;
  }
}

function tokens(text: string): string[] {
  const found: string[] = [];
  const pattern = /\s*(\d+(?:\.\d+)?|\/\/|\*\*|[-+*/%^()]|\S)/gy;
  for (const [, token] of text.trimEnd().matchAll(pattern)) found.push(token!);
  return found;
}

class Parser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(found: readonly string[]) {
    this.#tokens = found;
  }

  all(): Rational {
    const value = this.#sum();
    if (this.#at < this.#tokens.length) throw this.#unexpected();
    return value;
  }

  #sum(): Rational {
    let value = this.#product();
    for (let operator = this.#take("+", "-"); operator !== undefined; operator = this.#take("+", "-")) {
      const right = this.#product();
      value = bounded(add(value, operator === "+" ? right : negate(right)));
    }
    return value;
  }

  #product(): Rational {
    let value = this.#sign();
    for (;;) {
      const operator = this.#take("*", "/", "//", "%");
      if (operator === undefined) return value;
      const right = this.#sign();
      if (operator !== "*" && right.numerator === 0n) throw new Complaint("division by 0");
      if (operator === "*") value = multiply(value, right);
      else if (operator === "/") value = divide(value, right);
      else {
        const quotient = floor(divide(value, right));
        value = operator === "//" ? quotient : add(value, negate(multiply(quotient, right)));
      }
      value = bounded(value);
    }
  }

  #sign(): Rational {
    const sign = this.#take("+", "-");
    if (sign === undefined) return this.#power();
    const value = this.#sign();
    return sign === "-" ? negate(value) : value;
  }

  #power(): Rational {
    const base = this.#atom();
    return this.#take("^", "**") === undefined ? base : power(base, this.#sign());
  }

  #atom(): Rational {
    const token = this.#tokens[this.#at];
    if (token !== undefined && /^\d/.test(token)) {
      this.#at++;
      return bounded(fromDecimal(token));
    }
    if (this.#take("(") === undefined) throw this.#unexpected();
    const value = this.#sum();
    if (this.#take(")") === undefined)
      throw this.#at < this.#tokens.length ? this.#unexpected() : new Complaint("missing )");
    return value;
  }

  /** The next token, if it is one of these. */
  #take(...wanted: readonly string[]): string | undefined {
    const token = this.#tokens[this.#at];
    if (token === undefined || !wanted.includes(token)) return undefined;
    this.#at++;
    return token;
  }

  #unexpected(): Complaint {
    const token = this.#tokens[this.#at];
    if (token === undefined) return new Complaint(this.#at === 0 ? "nothing to calculate" : "unexpected end");
    // A long number is not repeated, nor a character outside ASCII, which may be half of a surrogate pair.
    return new Complaint(/^[!-~]{1,12}$/.test(token) ? `unexpected ${token}` : "unexpected text");
  }
}

function power(base: Rational, exponent: Rational): Rational {
  if (exponent.denominator !== 1n) throw new Complaint("fractional exponent");
  const times = exponent.numerator < 0n ? -exponent.numerator : exponent.numerator;
  if (exponent.numerator < 0n && base.numerator === 0n) throw new Complaint("division by 0");
  // Checked before it is worked out: 9^(9^9) would never end.
  if (BigInt(digits(base) - 1) * times > BigInt(MOST_DIGITS) || times > 1_000n) throw new Complaint("too large");
  const result = bounded({ numerator: base.numerator ** times, denominator: base.denominator ** times });
  return exponent.numerator < 0n ? rational(result.denominator, result.numerator) : result;
}

function digits({ numerator, denominator }: Rational): number {
  const length = (n: bigint): number => String(n < 0n ? -n : n).length;
  return Math.max(length(numerator), length(denominator));
}

function bounded(value: Rational): Rational {
  if (digits(value) > MOST_DIGITS) throw new Complaint("too large");
  return value;
}
