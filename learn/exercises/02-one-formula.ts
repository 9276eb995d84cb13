/** Exercises of chapter 2: formulas that are right on paper and not in f32, or whose derivative is not a number. */
import { device, type Device, type Expr, fuse, grad, select, sum, type Tensor, tensor } from "../../index.ts";
import { expectClose, expectEqual } from "./expect.ts";

/** Values and slopes of a formula at points. */
async function tabulate(formula: (x: Expr) => Expr, at: readonly number[], on: Device): Promise<[number[], number[]]> {
  const op = fuse("answer", (x) => formula(x));
  const x = tensor(at, { device: on });
  const [values, slopes] = [op(x), grad((x: Tensor) => sum(op(x)))(x)];
  return [[...(await values.read())], [...(await slopes.read())]];
}

/**
 * A square root with a floor
 *
 * Return √x where x > 0, and 0 elsewhere. The start does, and yet its derivative is NaN for x ≤ 0: `select(condition,
 * a, b)` is a where the condition holds, and b elsewhere; it gives the side that is not taken the gradient 0, and √x
 * then multiplies that 0 by its own derivative, 0.5 / √x, which is NaN or infinite there. Both sides are always
 * computed. So the side that is not taken must be harmless, too: choose what goes *into* the root, and choose again
 * after it.
 *
 * @difficulty 2
 * @hint `select(isPositive, x, 1)` is a number that has a harmless root whatever x is.
 */
export function exercise1(x: Expr): Expr {
  return select(x.gt(0), x.sqrt(), 0);
}

export async function check1(answer: typeof exercise1): Promise<void> {
  const [values, slopes] = await tabulate(answer, [-4, -1, 0, 1e-6, 0.25, 9], await device("reference"));
  expectEqual(values.slice(0, 3), [0, 0, 0], "values at −4, −1 and 0, exactly");
  expectClose(values, [0, 0, 0, 1e-3, 0.5, 3], "values at −4, −1, 0, 1e-6, ¼ and 9");
  expectClose(slopes, [0, 0, 0, 500, 1, 1 / 6], "slopes at −4, −1, 0, 1e-6, ¼ and 9");
}

export function solution1(x: Expr): Expr {
  const isPositive = x.gt(0);
  return select(isPositive, select(isPositive, x, 1).sqrt(), 0);
}

export const wrong1: (typeof exercise1)[] = [
  (x) => x.max(0).sqrt(), // 0 · ∞ below 0
  (x) => x.mul(x.gt(0)).sqrt(), // the same
  (x) => x.abs().sqrt(), // not 0 below 0
  (x) => x.max(1e-30).sqrt(), // 1e-15 instead of 0
  (x) => select(x.gt(0), x.max(1e-3).sqrt(), 0), // wrong between 0 and 0.001
  (x) => select(x.gt(0), x.add(1e-3).sqrt(), 0), // another value, and NaN all the same at −4
];

/**
 * log(1 + eˣ)
 *
 * This function (softplus) is −log of a probability in many losses. In f32 eˣ is infinite from x = 89 on, and 1 + eˣ
 * is 1 below x = −17. So the start says ∞ at 100, where the result is 100, and 0 at −20, where it is e⁻²⁰. Mend both,
 * and the derivative, which is 1 / (1 + e⁻ˣ). Expressions have `log1p` for log(1 + u), exact for small u, `abs` and
 * `max`. All is compared relatively, by 1e-5, on the f32 executor.
 *
 * @difficulty 2
 * @hint For x > 0 write it as x + log1p(e^(−x)), for x < 0 as log1p(e^x). What have both exponents in common?
 * @hint It is max(x, 0) + log1p(e^(−|x|)), without a case.
 */
export function exercise2(x: Expr): Expr {
  return x.exp().add(1).log();
}

export async function check2(answer: typeof exercise2): Promise<void> {
  const at = [-80, -20, -1, 0, 1, 9, 10, 10.5, 20, 100];
  const on = await device("wasm");
  try {
    const [values, slopes] = await tabulate(answer, at, on);
    const value = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
    const slope = (x: number): number => 1 / (1 + Math.exp(-x));
    at.forEach((x, i) => {
      expectClose(values[i]!, value(x), `the value at ${x}`, 1e-5 * value(x));
      expectClose(slopes[i]!, slope(x), `the slope at ${x}`, 1e-5 * slope(x));
    });
  } finally {
    on.dispose();
  }
}

export function solution2(x: Expr): Expr {
  return x.max(0).add(x.abs().neg().exp().log1p());
}

export const wrong2: (typeof exercise2)[] = [
  (x) => x.exp().log1p(), // right at −20, infinite at 100
  (x) => select(x.gt(20), x, x.exp().log1p()), // the value is right; the slope at 100 is 0 · ∞
  (x) => select(x.gt(10), x, x.min(10).exp().log1p()), // no longer exact above 10, and half the slope there
  (x) => x.max(0), // right only far from 0
  (x) => x.max(0).add(x.abs().neg().exp().add(1).log()), // 0 at −20
  (x) => x.add(x.neg().exp().log1p()), // infinite at −80 and, in f32, cancels at −20
];
