/**
 * Exact fractions over BigInt, always in lowest terms with a positive denominator, so that equal numbers are equal
 * objects in value and in print. No floating point anywhere: 1/10 + 2/10 is 3/10.
 */

export interface Rational {
  readonly numerator: bigint;
  /** Positive. */
  readonly denominator: bigint;
}

/** The fraction in lowest terms; `denominator` must not be 0. */
export function rational(numerator: bigint, denominator: bigint = 1n): Rational {
  const sign = denominator < 0n ? -1n : 1n;
  const divisor = sign * commonDivisor(numerator, denominator);
  return { numerator: numerator / divisor, denominator: denominator / divisor };
}

/** Greatest common divisor (Euclid), positive unless both are 0. */
export function commonDivisor(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
}

export function add(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
}

export function negate(a: Rational): Rational {
  return { numerator: -a.numerator, denominator: a.denominator };
}

export function multiply(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.numerator, a.denominator * b.denominator);
}

/** a / b; `b` must not be 0. */
export function divide(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator, a.denominator * b.numerator);
}

/** The largest integer that is not above `a`. */
export function floor({ numerator, denominator }: Rational): Rational {
  const towardsZero = numerator / denominator;
  return rational(numerator % denominator < 0n ? towardsZero - 1n : towardsZero);
}

/** The exact value of digits with at most one point: `2500`, `-7`, `2.50`. */
export function fromDecimal(text: string): Rational {
  const [whole = "", decimals = ""] = text.split(".");
  return rational(BigInt(whole + decimals), 10n ** BigInt(decimals.length));
}

/** The fraction as text: `7` or `-5/3`. */
export function toText({ numerator, denominator }: Rational): string {
  return denominator === 1n ? String(numerator) : `${numerator}/${denominator}`;
}

export function isEqual(a: Rational, b: Rational): boolean {
  return a.numerator === b.numerator && a.denominator === b.denominator;
}
