/** Exercises before chapter 0: the slopes of one more op, and the chain rule along a chain. */
import { expectClose } from "./expect.ts";

/**
 * The slopes of a quotient
 *
 * For y = a / b return ∂y/∂a and ∂y/∂b, in this order. Think of what happens to y if a grows a little, and if b does.
 *
 * @difficulty 1
 * @hint With b fixed, y = a · (1/b) is a straight line in a.
 * @hint With a fixed, y = a · b^(−1). The derivative of b^(−1) is −b^(−2).
 */
export function exercise1(a: number, b: number): [byA: number, byB: number] {
  return [a / b, a / b];
}

export function check1(answer: typeof exercise1): void {
  for (const [a, b] of [
    [6, 3],
    [1, -2],
    [0, 4],
    [-5, 0.5],
  ] as const) {
    const h = 1e-5;
    const tried = [(a + h) / b - (a - h) / b, a / (b + h) - a / (b - h)].map((change) => change / (2 * h));
    expectClose(answer(a, b), tried, `the slopes of ${a} / ${b}`, 1e-4);
  }
}

export function solution1(a: number, b: number): [byA: number, byB: number] {
  return [1 / b, -a / b ** 2];
}

export const wrong1: (typeof exercise1)[] = [
  (a, b) => [1 / b, a / b ** 2], // y falls as b grows
  (a, b) => [b, a], // those of a product
  (a, b) => [1 / b, -a / b], // not over b²
  (a, b) => [-a / b ** 2, 1 / b], // in the other order
];

/** A step of a chain: a function of one number, and its slope at any place. */
export interface Step {
  readonly f: (x: number) => number;
  readonly slope: (x: number) => number;
}

/**
 * The slope of a chain
 *
 * A number x goes through some steps, one after the other: y = f₃(f₂(f₁(x))). Return ∂y/∂x. Mind the place at which
 * each slope is asked: a step does not see x, it sees what the steps before it made of x.
 *
 * @difficulty 1
 * @hint Carry two numbers along: the value so far, and the slope so far.
 * @hint The slope of a step is asked at the value *before* that step.
 */
export function exercise2(steps: readonly Step[], x: number): number {
  return steps.reduce((product, { slope }) => product * slope(x), 1);
}

export function check2(answer: typeof exercise2): void {
  const squared: Step = { f: (x) => x * x, slope: (x) => 2 * x };
  const sine: Step = { f: Math.sin, slope: Math.cos };
  const plus: Step = { f: (x) => x + 3, slope: () => 1 };
  const chains = { "x²": [squared], "sin x²": [squared, sine], "(sin x + 3)²": [sine, plus, squared], "x itself": [] };
  for (const [name, steps] of Object.entries(chains)) {
    for (const x of [0, 0.7, -2]) {
      const through = (start: number): number => steps.reduce((value, { f }) => f(value), start);
      const tried = (through(x + 1e-5) - through(x - 1e-5)) / 2e-5;
      expectClose(answer(steps, x), tried, `the slope of ${name} at ${x}`, 1e-6);
    }
  }
}

export function solution2(steps: readonly Step[], x: number): number {
  let [value, slope] = [x, 1];
  for (const step of steps) {
    slope *= step.slope(value);
    value = step.f(value);
  }
  return slope;
}

export const wrong2: (typeof exercise2)[] = [
  (steps, x) => steps.reduce((sum, { slope }) => sum + slope(x), 0), // adds along a way
  (steps, x) => {
    let [value, slope] = [x, 1];
    for (const step of steps) slope *= step.slope((value = step.f(value))); // asked behind the step
    return slope;
  },
  (steps, x) => solution2([...steps].reverse(), x), // the last step first
  (steps, x) => steps.at(-1)?.slope(x) ?? 1, // the last step alone
];
