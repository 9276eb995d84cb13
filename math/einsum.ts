/**
 * Sums of products by subscripts, as NumPy's and PyTorch's `einsum`: operands are multiplied two at a time, from left
 * to right, and each pair is one matrix product.
 */
import { broadcastTo, gather, matmul, mul, permute, reshape, sum, type Tensor, tensor } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { checkTensor } from "../engine/operands.ts";
import { showValue } from "../engine/options.ts";
import { showShape } from "../engine/types.ts";

/** A tensor whose axes have names: a letter each, and "…1", "…0" for those that an ellipsis stands for. */
interface Named {
  readonly x: Tensor;
  readonly axes: readonly string[];
}

/**
 * The sum over all subscripts that the result does not have, of the product of the operands' elements.
 *
 * @param subscripts a letter for each axis of each operand, `->`, the letters of the result: `"bqd,bkd->bqk"`. Without
 *   `->` the result has the letters that occur once, in alphabetical order. `...` stands for further axes, which
 *   broadcast. A letter twice in an operand is its diagonal: `"ii->"` is the trace.
 * @returns where nothing is to be computed (`"ij->ij"`) it shares memory with the operand (see `assign`)
 * @throws if letters and axes do not fit, or a letter's sizes differ and neither is 1 (which broadcasts, as in PyTorch)
 *
 * @example
 * einsum("bqd,bkd->bqk", queries_BQD, keys_BKD);   // all dot products: [B, Q, K]
 * einsum("i,j->ij", x_I, y_J);                     // outer product
 * einsum("...ii->...i", x_BNN);                    // diagonals: [B, N]
 */
export function einsum(subscripts: string, ...operands: readonly Tensor[]): Tensor {
  const { inputs, output } = parse(subscripts, operands);
  const sizes = sizesOf(subscripts, inputs);
  check(
    output.every((axis) => sizes.has(axis)),
    () => `einsum: "${subscripts}": a subscript of the result is in no operand`,
  );
  // An axis of size 1 is left out: the operand is the same all along it.
  const all = inputs.map((named) => squeezed(diagonal(named)));
  const [first, ...others] = all as [Named, ...Named[]];
  const product = others.reduce((before, next, i) => {
    const later = others.slice(i + 1).flatMap(({ axes }) => axes);
    return contract(before, next, new Set([...output, ...later]));
  }, first);
  return inOrder(summed(product, new Set(output)), output, sizes);
}

function parse(subscripts: string, operands: readonly Tensor[]): { inputs: Named[]; output: string[] } {
  check(typeof subscripts === "string", () => `einsum: subscripts must be a text first, got ${showValue(subscripts)}`);
  const said = `einsum: "${subscripts}"`;
  operands.forEach((x) => checkTensor("einsum", x));
  const compact = subscripts.replaceAll(" ", "");
  const isForm = /^(?:[A-Za-z]|\.\.\.|,)*(?:->(?:[A-Za-z]|\.\.\.)*)?$/.test(compact);
  check(isForm, () => `${said}: expected letters, commas, "..." and one "->", as in "ij,jk->ik"`);
  const [left, right] = compact.split("->") as [string, string | undefined];
  const parts = left.split(",");
  check(parts.length === operands.length, () => `${said} has ${parts.length} operands, got ${operands.length} tensors`);
  const inputs = operands.map((x, i): Named => ({ x, axes: axesIn(parts[i]!, x.shape, said) }));
  const seen = inputs.flatMap(({ axes }) => axes);
  const dots = [...new Set(seen.filter((axis) => axis.startsWith("…")))].sort(byDepth);
  if (right === undefined) {
    const once = [...new Set(seen)].filter(
      (axis) => /^\w$/.test(axis) && seen.indexOf(axis) === seen.lastIndexOf(axis),
    );
    return { inputs, output: [...dots, ...once.sort()] };
  }
  const output = right.split("...");
  check(output.length <= 2, () => `${said}: the result has "..." twice`);
  const named = output.length === 2 ? [...output[0]!, ...dots, ...output[1]!] : [...right];
  check(new Set(named).size === named.length, () => `${said}: the result has a subscript twice`);
  return { inputs, output: named };
}

/** "…1" before "…0": the depth counts from the last axis, as axes are aligned when they broadcast. */
const byDepth = (a: string, b: string): number => Number(b.slice(1)) - Number(a.slice(1));

function axesIn(part: string, shape: readonly number[], said: string): string[] {
  const pieces = part.split("...");
  check(pieces.length <= 2, () => `${said}: "${part}" has "..." twice`);
  const letters = pieces.join("").length;
  const hidden = shape.length - letters;
  const fits = pieces.length === 2 ? hidden >= 0 : hidden === 0;
  check(fits, () => `${said}: "${part}" has ${letters} subscripts, and its tensor the shape ${showShape(shape)}`);
  if (pieces.length === 1) return [...part];
  return [...pieces[0]!, ...Array.from({ length: hidden }, (_, i) => `…${hidden - 1 - i}`), ...pieces[1]!];
}

/** The size of every axis: the largest among the operands. */
function sizesOf(subscripts: string, inputs: readonly Named[]): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const { x, axes } of inputs)
    axes.forEach((axis, d) => {
      const [size, known = 1] = [x.shape[d]!, sizes.get(axis)];
      check(
        size === known || size === 1 || known === 1,
        () => `einsum: "${subscripts}": subscript ${axis} has sizes ${known} and ${size}`,
      );
      sizes.set(axis, known === 1 ? size : known);
    });
  return sizes;
}

/** The tensor along the diagonal of each axis that it has more than once. */
function diagonal({ x, axes }: Named): Named {
  const twice = axes.find((axis, d) => axes.indexOf(axis) !== d);
  if (twice === undefined) return { x, axes };
  const [first, second] = [axes.indexOf(twice), axes.lastIndexOf(twice)];
  const n = x.shape[first]!;
  check(n === x.shape[second], () => `einsum: no diagonal of axes with sizes ${n} and ${x.shape[second]!}`);
  const others = axes.map((_, d) => d).filter((d) => d !== first && d !== second);
  const square = permute(x, [...others, first, second]);
  const rest = others.map((d) => x.shape[d]!);
  const flat = reshape(square, [...rest, n * n]);
  const places = tensor(
    Int32Array.from({ length: n }, (_, i) => i * (n + 1)),
    { device: x.device },
  );
  const line = gather(flat, places, { axis: rest.length });
  return diagonal({ x: line, axes: [...others.map((d) => axes[d]!), twice] });
}

/** Without the axes of size 1. */
function squeezed({ x, axes }: Named): Named {
  const kept = axes.filter((_, d) => x.shape[d] !== 1);
  return {
    x: reshape(
      x,
      x.shape.filter((n) => n !== 1),
    ),
    axes: kept,
  };
}

/** Summed over the axes that are not kept. */
function summed({ x, axes }: Named, kept: ReadonlySet<string>): Named {
  const axis = axes.flatMap((name, d) => (kept.has(name) ? [] : [d]));
  return axis.length === 0 ? { x, axes } : { x: sum(x, { axis }), axes: axes.filter((name) => kept.has(name)) };
}

/** The product of two, summed over what no later one and no result has. */
function contract(a: Named, b: Named, kept: ReadonlySet<string>): Named {
  const [left, right] = [summed(a, new Set([...kept, ...b.axes])), summed(b, new Set([...kept, ...a.axes]))];
  const shared = left.axes.filter((axis) => right.axes.includes(axis));
  const batch = shared.filter((axis) => kept.has(axis));
  const inner = shared.filter((axis) => !kept.has(axis));
  const rows = left.axes.filter((axis) => !shared.includes(axis));
  const columns = right.axes.filter((axis) => !shared.includes(axis));
  const sizes = new Map([left, right].flatMap(({ x, axes }) => axes.map((axis, d) => [axis, x.shape[d]!] as const)));
  const size = (axes: readonly string[]): number => axes.reduce((n, axis) => n * sizes.get(axis)!, 1);
  const axes = [...batch, ...rows, ...columns];
  if (axes.length === batch.length) {
    const order = [...batch, ...inner];
    return summed({ x: mul(inOrder(left, order, sizes), inOrder(right, order, sizes)), axes: order }, kept);
  }
  const matrix = (named: Named, m: readonly string[], n: readonly string[]): Tensor =>
    reshape(inOrder(named, [...batch, ...m, ...n], sizes), [size(batch), size(m), size(n)]);
  // Whose axes lie the other way round is read so by the product and not copied first.
  const transA = isSame(left.axes, [...batch, ...inner, ...rows]);
  const transB = isSame(right.axes, [...batch, ...columns, ...inner]);
  const product = matmul(
    transA ? matrix(left, inner, rows) : matrix(left, rows, inner),
    transB ? matrix(right, columns, inner) : matrix(right, inner, columns),
    { transA, transB },
  );
  return {
    x: reshape(
      product,
      axes.map((axis) => sizes.get(axis)!),
    ),
    axes,
  };
}

const isSame = (a: readonly string[], b: readonly string[]): boolean => a.join() === b.join();

/** With the axes in this order; those that it lacks are added, the same all along. */
function inOrder({ x, axes }: Named, order: readonly string[], sizes: ReadonlyMap<string, number>): Tensor {
  const own = order.filter((axis) => axes.includes(axis));
  const placed = isSame(own, axes)
    ? x
    : permute(
        x,
        own.map((axis) => axes.indexOf(axis)),
      );
  if (own.length === order.length) return placed;
  const shape = order.map((axis) => (axes.includes(axis) ? sizes.get(axis)! : 1));
  return broadcastTo(
    reshape(placed, shape),
    order.map((axis) => sizes.get(axis)!),
  );
}
