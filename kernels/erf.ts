/**
 * The error function in double precision, for the reference executor (JavaScript's Math has none). Error below 4e-16.
 *
 * |x| < 3: the series erf(x) = 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!! (Abramowitz & Stegun 7.1.6). All terms have
 * the same sign, so no digits cancel. Larger |x|: 1 − erfc by the continued fraction 7.1.14, evaluated from its tail.
 */
export function erf(x: number): number {
  if (Number.isNaN(x)) return NaN;
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 3) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-17; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }
  let fraction = a;
  for (let n = 60; n >= 1; n--) fraction = a + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / fraction);
}
