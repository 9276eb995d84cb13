/**
 * # Before 0 · The chain rule, with numbers
 *
 * **What you will understand:** what a gradient is, how it is found by going backwards once through a computation, and
 * why backwards. Everything later in this book is learnt by this rule.
 *
 * Take three numbers and one formula:
 *
 *     L = (a·b + c)²        a = 2, b = −3, c = 10
 *
 * Computed step by step: a·b is −6, plus c is 4, squared is 16. Now the question that all learning asks: *if a were a
 * little larger, how much larger would L be?* That is the slope ∂L/∂a. Who knows the slopes of L by all its numbers
 * knows which way to move each of them so that L becomes smaller. Those slopes together are the **gradient**.
 */

/**
 * ## A number that knows where it came from
 *
 * Beside its number each value notes what it was made of, and for each of these the slope of that one step. These are
 * the only derivatives that anybody has to know, and they are easy: in p = a·b, p grows by b for each unit of a, and
 * by a for each unit of b. In s = p + c it grows by 1 for both. In L = s² it grows by 2·s.
 */

interface Value {
  readonly name: string;
  readonly data: number;
  /** What it was made of, and the slope of this step by each of them. */
  readonly parts: readonly Value[];
  readonly slopes: readonly number[];
  /** ∂L/∂(this value), once `backward` has found it. */
  grad: number;
}
function value(name: string, data: number, parts: readonly Value[] = [], slopes: readonly number[] = []): Value {
  return { name, data, parts, slopes, grad: 0 };
}
const mul = (name: string, a: Value, b: Value): Value => value(name, a.data * b.data, [a, b], [b.data, a.data]);
const add = (name: string, a: Value, b: Value): Value => value(name, a.data + b.data, [a, b], [1, 1]);
const square = (name: string, x: Value): Value => value(name, x.data ** 2, [x], [2 * x.data]);

const [a, b, c] = [value("a", 2), value("b", -3), value("c", 10)];
const product = mul("a·b", a, b);
const sum = add("a·b + c", product, c);
const L = square("L", sum);

/**
 * ## Backwards
 *
 * If a moves by a little, a·b moves by b = −3 times as much; then the sum by 1 times that; then L by 2·4 = 8 times
 * that. So ∂L/∂a = 8 · 1 · (−3) = −24: **along a way the slopes are multiplied.** That is the chain rule.
 *
 * Start at the end, where ∂L/∂L = 1, and hand each part its share: the slope of L by the whole, times the slope of the
 * whole by the part. A slope is complete once everything computed from the value has passed its share back. A value
 * that was used twice gets two shares, and they are added: **where ways meet, slopes are added.** Hence the `+=`.
 */

/** All values behind this one, each before what was made of it. */
function inOrder(end: Value, found: Set<Value> = new Set()): Set<Value> {
  for (const part of end.parts) inOrder(part, found);
  return found.add(end);
}
function backward(end: Value): void {
  const values = [...inOrder(end)];
  for (const one of values) one.grad = 0;
  end.grad = 1;
  for (const whole of values.reverse()) {
    whole.parts.forEach((part, i) => (part.grad += whole.grad * whole.slopes[i]!));
  }
}
function draw({ name, data, grad, parts }: Value, before: string = "", own: string = ""): void {
  const slope = (grad > 0 ? "+" : "") + grad;
  console.log(`${(before + own + name).padEnd(16)} = ${String(data).padStart(3)}   slope of L: ${slope}`);
  const inside = before + (own === "├─ " ? "│  " : own === "" ? "" : "   ");
  parts.forEach((part, i) => draw(part, inside, i + 1 < parts.length ? "├─ " : "└─ "));
}
backward(L);
draw(L);

/**
 * ## Is it true?
 *
 * Move each number by a thousandth and look what L does. The slope is that change, per unit, for a move that is
 * infinitely small; a thousandth is nearly that.
 */

const formula = (a: number, b: number, c: number): number => (a * b + c) ** 2;
console.log();
for (const [i, { name, grad }] of [a, b, c].entries()) {
  const moved = [2, -3, 10].map((x, k) => (k === i ? x + 0.001 : x)) as [number, number, number];
  console.log(`${name} + 0.001: L changes by ${((formula(...moved) - 16) / 0.001).toFixed(2)} per unit; slope ${grad}`);
}

/**
 * ## Why backwards
 *
 * One could also go forwards: from a to the end, then from b, then from c. That is one walk for each number, and a
 * language model has millions of numbers and one L. Backwards it is one walk for all of them, however many there are,
 * and it costs about as much as computing L did. (Griewank and Walther, *Evaluating Derivatives*, 2008, chapter 3.)
 *
 * And what for? Take a small step against the slopes, and L falls. Do it again, and again: that is all of training.
 */

console.log();
let [x, y, z] = [2, -3, 10];
for (let step = 0; step <= 4; step++) {
  const leaves = [value("a", x), value("b", y), value("c", z)] as const;
  const end = square("L", add("sum", mul("a·b", leaves[0], leaves[1]), leaves[2]));
  backward(end);
  console.log(`step ${step}: L = ${end.data.toFixed(3)}`);
  [x, y, z] = leaves.map(({ data, grad }) => data - 0.01 * grad) as [number, number, number];
}

/**
 * ## A number that is used twice
 *
 * In M = (a·b + a)² the number a goes into M on two ways: through a·b, and by itself. M is 16 again, by −6 + 2 = −4.
 * The way through a·b is worth 2·(−4)·(−3) = 24, the other one 2·(−4)·1 = −8: together 16.
 */

console.log();
const M = square("M", add("a·b + a", mul("a·b", a, b), a));
backward(M);
console.log(`M = ${M.data}, ∂M/∂a = ${a.grad}, tried: ${(((2.001 * -3 + 2.001) ** 2 - 16) / 0.001).toFixed(2)}`);

/**
 * ## Break it
 *
 * Keep only the last share of a value that is used twice:
 *
 * ```diff
 * -    whole.parts.forEach((part, i) => (part.grad += whole.grad * whole.slopes[i]!));
 * +    whole.parts.forEach((part, i) => (part.grad = whole.grad * whole.slopes[i]!));
 * ```
 *
 * L does not notice: none of its numbers is used twice. In M one of two ways is forgotten, and the slope is wrong. It
 * is the most common mistake in home-made gradients, and a test on a formula like L does not find it.
 *
 * ## Simplifications so far
 *
 * - Single numbers. Chapter 1 does the same for tensors, whole tables of numbers at once.
 * - `inOrder` calls itself, and a long computation would be too deep for that. Chapter 1 mends it.
 * - Three ops. Everything else is made in the same way: a value, and the slopes of one step.
 *
 * ## In the library
 *
 * `engine/backward.ts` is `backward`, `engine/tape.ts` keeps what a value was made of, and the slopes of each op stand
 * beside it: `engine/ops/pointwise.ts` derives them from the formula itself.
 *
 * ## Exercises
 *
 * 1. Find the two slopes of a quotient.
 * 2. Follow a chain of any number of steps, and multiply the slopes at the right places.
 */
