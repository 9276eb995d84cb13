/**
 * # 1 · A tape of tensors, and whether its gradients are right
 *
 * **What you will understand:** how gradients are computed backwards through tensors of any shape, why the gradient of
 * a gradient then needs no further code, and how to find out whether a derivative that somebody wrote is right.
 *
 * In `learn/00-micro.ts` a `Value` is a vector with a `grad`, and `push` adds to the `grad` of the parents. Here the
 * chain rule is the same, and three things change: values become **tensors**, numbers with a shape (`[4, 2]` is 4 rows
 * of 2, `[]` is a single number); how a tensor was made is a **note** beside it, and all notes together are the *tape*;
 * and a gradient is a tensor that ops have computed, so it can have notes, too, and be differentiated again.
 *
 * What each op must know is its **vector-Jacobian product** (vjp). Let y = f(x), let L be the single number at the end,
 * and let g = ∂L/∂y, which has the shape of y. Then
 *
 *     vjp(g)_i = ∂L/∂x_i = Σ_j g_j · ∂y_j/∂x_i
 *
 * That is the vector g times the matrix of all ∂y_j/∂x_i, the Jacobian. Nobody stores this matrix: for y_i = x_i² it
 * has n² entries, of which n are not 0, and the vjp is just 2·x_i·g_i. (A survey: Baydin et al., JMLR 18 (153), 2018.)
 */
import { apply, checkGradient, device, matmul, mean, mul as theirMul, Rng, square } from "../index.ts";
import { sub as theirSub, tanh as theirTanh, tensor, type Tensor as TheirTensor } from "../index.ts";

type Shape = readonly number[];
interface Tensor {
  readonly shape: Shape;
  readonly data: readonly number[]; // row-major: neighbours along the last axis are neighbours here
  readonly note?: Note; // a constant has none
}
interface Note {
  readonly inputs: readonly Tensor[];
  readonly vjp: (g: Tensor) => readonly Tensor[]; // from ∂L/∂(this tensor) to ∂L/∂input, for each input
}
function fill(shape: Shape, of: (i: number) => number): Tensor {
  const length = shape.reduce((n, size) => n * size, 1);
  return { shape, data: Array.from({ length }, (_, i) => of(i)) };
}
const number = (x: number): Tensor => fill([], () => x);
/** Something to differentiate by: its note leads nowhere. */
const leaf = (x: Tensor): Tensor => ({ ...x, note: { inputs: [], vjp: () => [] } });
/** What an op returns. It takes a note only if a leaf is behind an input: nobody asks for gradients of constants. */
const noted = (y: Tensor, inputs: readonly Tensor[], vjp: Note["vjp"]): Tensor =>
  inputs.some((x) => x.note !== undefined) ? { ...y, note: { inputs, vjp } } : y;

/**
 * ## Ops, and shapes that differ
 *
 * A bias of shape [2] is added to each row of a [4, 2] matrix. This is **broadcasting**: shapes are aligned at the
 * right, and an axis that is missing or has size 1 is repeated. `offset` does it by reading the same number again.
 *
 * Backwards: each element of the bias has moved four results, so its gradient is the sum of theirs. `sumTo` *adds* at
 * the places where broadcasting *reads*. `gradients`, below, calls it for all ops, so the result of a vjp may have the
 * shape of y. And vjps are made of ops themselves: that is all that second derivatives will need.
 */

/** Which element of a tensor of shape `own` is read as element i when it is repeated to `shape`. */
function offset(i: number, shape: Shape, own: Shape): number {
  let [at, stride] = [0, 1];
  for (let d = 1; d <= own.length; d++) {
    if (own.at(-d) !== 1) at += (i % shape.at(-d)!) * stride;
    i = Math.floor(i / shape.at(-d)!);
    stride *= own.at(-d)!;
  }
  return at;
}
function pointwise(f: (x: number, y: number) => number, a: Tensor, b: Tensor): Tensor {
  const length = Math.max(a.shape.length, b.shape.length);
  const shape = Array.from({ length }, (_, d) => Math.max(a.shape.at(d - length) ?? 1, b.shape.at(d - length) ?? 1));
  return fill(shape, (i) => f(a.data[offset(i, shape, a.shape)]!, b.data[offset(i, shape, b.shape)]!));
}
const add = (a: Tensor, b: Tensor): Tensor =>
  noted(
    pointwise((x, y) => x + y, a, b),
    [a, b],
    (g) => [g, g],
  );
const mul = (a: Tensor, b: Tensor): Tensor =>
  noted(
    pointwise((x, y) => x * y, a, b),
    [a, b],
    (g) => [mul(g, b), mul(g, a)],
  );
const sub = (a: Tensor, b: Tensor): Tensor => add(a, mul(b, number(-1)));
function tanh(x: Tensor): Tensor {
  const y: Tensor = noted({ ...x, data: x.data.map(Math.tanh) }, [x], (g) => [mul(g, sub(number(1), mul(y, y)))]);
  return y; // its derivative is 1 − y²
}
/** Sums over the axes along which a tensor of `shape` would be repeated to x's. Backwards, g is repeated. */
function sumTo(x: Tensor, shape: Shape): Tensor {
  if (shape.join() === x.shape.join()) return x;
  const data = [...fill(shape, () => 0).data];
  x.data.forEach((value, i) => (data[offset(i, x.shape, shape)]! += value));
  return noted({ shape, data }, [x], (g) => [
    mul(
      g,
      fill(x.shape, () => 1),
    ),
  ]);
}

/**
 * ## Backwards, without recursion
 *
 * A tensor can hand on its gradient when everything that was computed from it has handed on theirs. An order in which
 * inputs stand before what uses them is called topological; `gradients` walks it from the end. `00-micro` finds it with
 * a function that calls itself, and a chain of ten thousand ops makes the call stack overflow. Here the stack is an
 * array. A tensor comes to its top twice: first its inputs are put above it, then, when they are done, it is done. The
 * example is money that grows by 1/n, n times. Each sum uses a tensor twice, so two parts of a gradient meet there.
 */

function topologicalOrder(root: Tensor): Tensor[] {
  const [opened, done, stack] = [new Set<Tensor>(), new Set<Tensor>(), [root]];
  for (let x = stack.at(-1); x !== undefined; x = stack.at(-1)) {
    if (opened.has(x)) done.add(stack.pop()!);
    else stack.push(...x.note!.inputs.filter((input) => input.note !== undefined && !opened.has(input)));
    opened.add(x);
  }
  return [...done];
}
/** ∂L/∂x for every x with a note behind L, which is a single number. */
function gradients(L: Tensor): Map<Tensor, Tensor> {
  const sums = new Map([[L, number(1)]]); // ∂L/∂L
  for (const y of topologicalOrder(L).toReversed()) {
    y.note!.vjp(sums.get(y)!).forEach((d, i) => {
      const x = y.note!.inputs[i]!;
      if (x.note === undefined) return;
      const [before, part] = [sums.get(x), sumTo(d, x.shape)];
      sums.set(x, before === undefined ? part : add(before, part));
    });
  }
  return sums;
}
const [n, start] = [20_000, leaf(number(1))];
let money = start;
for (let i = 0; i < n; i++) money = add(money, mul(money, number(1 / n)));
console.log(`∂ end / ∂ start = ${gradients(money).get(start)!.data[0]!.toFixed(5)}, e = ${Math.E.toFixed(5)}`);

/**
 * ## Differences, and which step
 *
 * Is a derivative right? That can also be tried out: move x a little. By Taylor's theorem
 *
 *     (f(x + h) − f(x)) / h         = f′(x) + h·f″(x)/2 + …        forward difference
 *     (f(x + h) − f(x − h)) / 2h    = f′(x) + h²·f‴(x)/6 + …       central difference: f″ cancels
 *
 * So the smaller h, the better? No: f is rounded, by up to u·|f| with u = 2⁻⁵³, and this error is divided by h. The sum
 * h²·|f‴|/6 + u·|f|/h is smallest at h = (3·u·|f/f‴|)^⅓, near 1e-5. Both errors, for √x at 2, where f‴/6 = 1/(64·√2):
 */

console.log("\nh        forward   central h²·|f‴|/6   u·|f|/h");
for (let k = 1; k <= 13; k += 2) {
  const [h, u, f] = [Number(`1e-${k}`), 2 ** -53, Math.sqrt];
  const slopes = [(f(2 + h) - f(2)) / h, (f(2 + h) - f(2 - h)) / (2 * h)];
  const errors = [...slopes.map((slope) => Math.abs(slope - 0.5 / f(2))), (h * h) / 64 / f(2), (u * f(2)) / h];
  console.log([`1e-${k}`.padEnd(6), ...errors.map((error) => error.toExponential(0).padStart(9))].join(" "));
}

/**
 * ## A layer: all derivatives at once, and one by one
 *
 * L is the mean of (tanh(x·w) − t)² for four inputs x of three numbers each. A matrix product is a product and a sum: x
 * of shape [4, 3, 1] times w of shape [3, 2] is [4, 3, 2], w repeated; summed over the axis of 3 that is [4, 1, 2].
 *
 * To try out n derivatives one by one takes 2·n evaluations of L. But the slope of L along a direction v, whose
 * elements are drawn at random, must be Σ v_i·∂L/∂w_i. Two evaluations test that, and all derivatives with it: wrong
 * ones pass only if their errors, times the random v_i, add up to 0. If the sum is wrong, trying one by one says where.
 */

const rng = new Rng(1);
const random = (shape: Shape): Tensor => fill(shape, () => rng.normal());
const [x, t, w] = [random([4, 3, 1]), random([4, 1, 2]), leaf(random([3, 2]))];
function lossOf(w: Tensor, activation = tanh): Tensor {
  const error = sub(activation(sumTo(mul(x, w), [4, 1, 2])), t);
  return mul(sumTo(mul(error, error), []), number(1 / 8));
}
const dot = (a: Tensor, b: Tensor): Tensor => sumTo(mul(a, b), []);
/** The gradient of f at w (swept) against central differences (tried). */
function check(what: string, f: (w: Tensor) => Tensor): void {
  const gradient = gradients(f(w)).get(w)!;
  const along = (v: Tensor): { text: string; error: number } => {
    const at = (h: number): number => f(add(w, mul(v, number(h)))).data[0]!;
    const [swept, tried] = [dot(gradient, v).data[0]!, (at(1e-5) - at(-1e-5)) / 2e-5];
    return { text: `swept ${swept.toFixed(6)}, tried ${tried.toFixed(6)}`, error: Math.abs(swept - tried) };
  };
  console.log(`\n${what}\n  along v: ${along(random(w.shape)).text}`);
  const single = w.data.map((_, i) => along(fill(w.shape, (j) => Number(j === i))));
  const worst = single.reduce((a, b) => (b.error > a.error ? b : a));
  console.log(`  worst, element ${single.indexOf(worst)}: ${worst.text}`);
}
check("the gradient of L", lossOf);

/**
 * ## The gradient of a gradient, and a derivative that is wrong
 *
 * Σ v_i·∂L/∂w_i with a fixed v is itself a single number that ops have computed from w. Its gradient is the matrix of
 * all second derivatives times v, at the price of one more sweep. It needs nothing new, and neither does its check.
 * Then somebody forgets the square in 1 − y². L is still right, and training may even work. The check tells.
 */

const v = random(w.shape);
check("the gradient of v·∂L/∂w", (w) => dot(gradients(lossOf(w)).get(w)!, v));
const wrongTanh = (x: Tensor): Tensor => noted(tanh(x), [x], (g) => [mul(g, sub(number(1), tanh(x)))]);
check("L with the vjp g·(1 − y) for tanh", (w) => lossOf(w, wrongTanh));

/**
 * ## The same with the library
 *
 * `checkGradient` asks this of any function of tensors. It combines the differences for h and 2h so that h²·f‴ cancels
 * (Richardson), and computes from the values that it saw what rounding may explain. `order: 2` also takes the gradient
 * for a function of its own: of the 6 weights, and of the one g that the sweep begins with. Last, a copy of `tanh` gets
 * the wrong vjp.
 */

await device("reference"); // plain loops in f64
const [xs, ts, ws] = [x, t, w].map(({ data, shape }) => tensor(data, { shape: shape.filter((n) => n > 1) }));
const theirLoss = (w: TheirTensor, activation: (x: TheirTensor) => TheirTensor = theirTanh): TheirTensor =>
  mean(square(theirSub(activation(matmul(xs!, w)), ts!)));
const report = await checkGradient((w) => theirLoss(w), ws!, { order: 2 });
console.log(`\nthe library: ${report.wrong} of ${report.elements} derivatives are wrong`);
const vjp: typeof theirTanh.op.vjp = ({ g, y }) => [theirMul(g[0]!, theirSub(1, y[0]!))];
const wrong = (x: TheirTensor): TheirTensor => apply({ ...theirTanh.op, vjp }, [x], { args: [null] })[0]!;
await checkGradient((w) => theirLoss(w, wrong), ws!).catch((error: Error) => console.log(error.message));

/**
 * ## Break it
 *
 * A tensor that is used twice gets two parts of its gradient. Keep the last part alone:
 *
 * ```diff
 * -      sums.set(x, before === undefined ? part : add(before, part));
 * +      sums.set(x, part);
 * ```
 *
 * Of the two ways through each sum of the money only the one through its interest is left, (1/n)ⁿ = 0. In the layer,
 * only error·error uses a tensor twice, so every element is half of what it should be.
 *
 * ## Simplifications so far
 *
 * - Data are lists of numbers, computed one by one, and shapes that do not fit are not refused.
 * - Notes are always taken, also of what vjps compute. Nothing is ever changed in place, so no note can be out of date.
 *
 * ## In the library
 *
 * `engine/tape.ts` takes notes only inside `grad`, with the version of each input: an overwritten one is an error.
 * `engine/backward.ts` is `gradients`, only for what leads to a leaf. `engine/ops/matmul.ts` holds no n·k·m products.
 * `engine/check.ts` is the check; `engine/differences.ts` derives its step and what it allows.
 *
 * ## Exercises
 *
 * 1. Write the vjp of the softmax of each row, so that its gradient can be differentiated again.
 * 2. Write a numeric derivative that is more exact than a central difference with any step.
 */
