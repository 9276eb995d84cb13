/** Exercises of chapter 1: a vjp that is made of ops, and a numeric derivative without the error of order h². */
import { device, grad, log, mul, softmax, stopGradient, sub, sum, type Tensor, tensor } from "../../index.ts";
import { expectClose, expectEqual } from "./expect.ts";

/**
 * The vjp of softmax
 *
 * Each row of y = softmax(x) is e^x_i / Σ_j e^x_j, so that ∂y_j/∂x_i = y_j·([i = j] − y_i), where [i = j] is 1 if i is
 * j and 0 if not. Other rows have no influence. Given y and g = ∂L/∂y, both of shape [rows, columns], return ∂L/∂x. Use
 * the library's ops, so that the result can be differentiated again: `mul` and `sub` broadcast, and
 * `sum(x, { axis: 1, keepdims: true })` sums each row and returns the shape [rows, 1]. Derive it: an answer that asks
 * `grad` is refused.
 *
 * @difficulty 2
 * @hint Write ∂L/∂x_i = Σ_j g_j·∂y_j/∂x_i and put the formula in: the term with [i = j] gives g_i·y_i, which is there
 * already.
 * @hint The other term is −y_i times a sum over j that does not depend on i: one number for each row.
 */
export function exercise1(g: Tensor, y: Tensor): Tensor {
  return mul(g, y); // the part with i = j
}

export async function check1(answer: typeof exercise1): Promise<void> {
  const asked = /\b(grad|softmax|valueAndGrad|vjpByLibrary)\b/.exec(String(answer))?.[0];
  if (asked !== undefined) throw new Error(`expected a formula of g and y, got one that asks ${asked}`);
  const on = await device("reference");
  const x = tensor([1, -2, 0.5, 3, 3, -1], { device: on, shape: [2, 3] });
  const g = tensor([0.3, -1, 2, 1, 0.5, -0.7], { device: on, shape: [2, 3] });
  const got = answer(g, softmax(x));
  expectEqual(got.shape, [2, 3], "the shape of ∂L/∂x");
  const wanted = grad((x: Tensor) => sum(mul(softmax(x), g)))(x);
  expectClose(await got.read(), await wanted.read(), "∂L/∂x", 1e-12);
  // As a function of y and g it has gradients of its own: the second order.
  const byG = grad((g: Tensor) => sum(mul(answer(g, softmax(x)), g)))(g);
  const twice = grad((g: Tensor) => sum(mul(vjpByLibrary(g, softmax(x)), g)))(g);
  expectClose(await byG.read(), await twice.read(), "the gradient of Σ g·∂L/∂x by g", 1e-12);
  // y depends on x, so the gradient by x goes through y as well.
  const byX = grad((x: Tensor) => sum(mul(answer(g, softmax(x)), g)))(x);
  const through = grad((x: Tensor) => sum(mul(vjpByLibrary(g, softmax(x)), g)))(x);
  expectClose(await byX.read(), await through.read(), "the gradient of Σ g·∂L/∂x by x", 1e-12);
}

/** Σ_j g_j·y_j·([i = j] − y_i) = y_i·(g_i − Σ_j g_j·y_j) */
function vjpByLibrary(g: Tensor, y: Tensor): Tensor {
  return mul(y, sub(g, sum(mul(g, y), { axis: 1, keepdims: true })));
}

export function solution1(g: Tensor, y: Tensor): Tensor {
  return mul(y, sub(g, sum(mul(g, y), { axis: 1, keepdims: true })));
}

export const wrong1: (typeof exercise1)[] = [
  (g, y) => mul(y, sub(g, sum(mul(g, y)))), // sums over both rows
  (g, y) => mul(y, sub(g, sum(mul(g, y), { axis: 0, keepdims: true }))), // over the columns
  (g, y) => sub(mul(g, y), sum(mul(g, y), { axis: 1, keepdims: true })), // not times y_i
  (g, y) => mul(y, sub(g, sum(g, { axis: 1, keepdims: true }))), // not times y_j
  (g, y) => sum(mul(g, y), { axis: 1, keepdims: true }), // of another shape
  (g, y) => mul(y, sub(g, sum(mul(g, stopGradient(y)), { axis: 1, keepdims: true }))), // cuts y out of the graph
  (g, y) => grad((x: Tensor) => sum(mul(softmax(x), g)))(log(y)), // lets the library derive it
];

/**
 * A slope that central differences do not reach
 *
 * Return f′(x) with an error of at most 2e-12 · max(1, |f′(x)|), from at most 8 evaluations of f. The central
 * difference C(h) is wrong by a·h² + b·h⁴ + …, and C(2h) by 4·a·h² + 16·b·h⁴ + …, with the same a and b: find the
 * combination from which a is gone. Then the best step is no longer 1e-5. Which one is it? (The functions in the
 * check have derivatives of about 1.)
 *
 * @difficulty 2
 * @hint 4·C(h) − C(2h) has no a left. What is it, when f′ is what you want?
 * @hint What is left of the error is of order h⁴, and rounding costs about 1e-16 / h. Where are they equal?
 */
export function exercise2(f: (x: number) => number, x: number): number {
  const h = 1e-5;
  return (f(x + h) - f(x - h)) / (2 * h);
}

export function check2(answer: typeof exercise2): void {
  const cases: [name: string, f: (x: number) => number, x: number, slope: number][] = [
    ["eˣ at 1", Math.exp, 1, Math.E],
    ["sin x at 2", Math.sin, 2, Math.cos(2)],
    ["√x at 2", Math.sqrt, 2, 0.5 / Math.sqrt(2)],
    ["tanh x at 0.4", Math.tanh, 0.4, 1 - Math.tanh(0.4) ** 2],
    ["x⁵ at 1.3", (x) => x * x * x * x * x, 1.3, 5 * 1.3 ** 4],
  ];
  for (const [name, f, x, slope] of cases) {
    let calls = 0;
    const counted = (x: number): number => {
      calls++;
      return f(x);
    };
    expectClose(answer(counted, x), slope, `the slope of ${name}`, 2e-12 * Math.max(1, Math.abs(slope)));
    if (calls > 8) throw new Error(`${name}: expected at most 8 evaluations of f, got ${calls}`);
  }
}

export function solution2(f: (x: number) => number, x: number): number {
  const central = (h: number): number => (f(x + h) - f(x - h)) / (2 * h);
  const h = 3e-4; // h⁴ is 1e-14, and rounding errors are 2⁻⁵³ / h = 4e-13
  return (4 * central(h) - central(2 * h)) / 3;
}

const centralOf =
  (f: (x: number) => number, x: number) =>
  (h: number): number =>
    (f(x + h) - f(x - h)) / (2 * h);
export const wrong2: (typeof exercise2)[] = [
  (f, x) => (f(x + 1e-8) - f(x)) / 1e-8, // forward
  (f, x) => centralOf(f, x)(6e-6), // the best step of the central difference, for functions like these
  (f, x) => centralOf(f, x)(1e-12), // the smaller, the better
  (f, x) => 2 * centralOf(f, x)(3e-4) - centralOf(f, x)(6e-4), // takes the error for one of order h
  (f, x) => (4 * centralOf(f, x)(1e-6) - centralOf(f, x)(2e-6)) / 3, // too small a step
  (f, x) => (4 * centralOf(f, x)(2e-2) - centralOf(f, x)(4e-2)) / 3, // too large a step
];
