/** Gradients of scalar functions of trees of tensors: `grad` and `valueAndGrad`. The sweep itself is in backward.ts. */
import { backward } from "./backward.ts";
import { handle, leaf } from "./leaf.ts";
import { freeGraph, keepGraph } from "./sweepMemory.ts";
import { check } from "./errors.ts";
import { checkTensor } from "./operands.ts";
import { onesLike } from "./ops/create.ts";
import { showValue } from "./options.ts";
import { scope } from "./scope.ts";
import { recordingOutside, whileRecording } from "./tape.ts";
import { Tensor } from "./tensor.ts";
import { mapTree, treeFromLeaves, treeLeaves, type Tree, type TreeNode } from "./tree.ts";
import { isFloat, showType } from "./types.ts";

/** The values as a constant: no gradient flows through (sg(·) in the papers). Shares memory (see `assign`). */
export function stopGradient(x: Tensor): Tensor {
  checkTensor("stopGradient", x);
  return handle(x);
}

function checkFunction(where: string, f: unknown): void {
  check(typeof f === "function", () => `${where}: expected a function of a tree of tensors, got ${showValue(f)}`);
}

/** The result of `valueAndGrad`. */
export interface ValueAndGrad<T extends Tree, A> {
  /** The scalar that was differentiated. */
  readonly value: Tensor;
  /** d value / d parameters, in the structure of the parameters. */
  readonly grads: T;
  /** The further results of the function. */
  readonly aux: A;
}

/**
 * The value and the gradient of a scalar function of a tree of float tensors.
 *
 * @param f takes the tree, returns a tensor with one element, or `[that tensor, aux]` with any further results to keep
 * @returns a function of a tree of the same structure; value, gradients and tensors in `aux` belong to the current
 *   scope, all other tensors made by `f` are freed
 * @throws if the value is no scalar float, if a leaf is no float, or if a value that the backward pass needs was
 *   overwritten or freed by an inner scope
 *
 * @example
 * const f = valueAndGrad((w: Tensor) => sum(mul(w, w)));
 * const { value, grads } = f(tensor([1, 2, 3]));   // value 14, grads [2, 4, 6]
 */
export function valueAndGrad<T extends Tree, A = undefined>(
  f: (tree: T) => Tensor | readonly [Tensor, A],
): (tree: T) => ValueAndGrad<T, A> {
  checkFunction("valueAndGrad", f);
  return (tree) => {
    // An outer recording differentiates this gradient once more: then the graph has to survive.
    const outer = recordingOutside();
    return outer ? differentiate(f, tree, true) : scope(() => differentiate(f, tree, false), "valueAndGrad");
  };
}

function differentiate<T extends Tree, A>(
  f: (tree: T) => Tensor | readonly [Tensor, A],
  tree: T,
  keepsGraph: boolean,
): ValueAndGrad<T, A> {
  const watched = mapTree(tree, watchedLeaf);
  const result = whileRecording(() => f(watched));
  const [value, aux] = (Array.isArray(result) ? result : [result]) as [Tensor, A];
  check(
    value instanceof Tensor,
    () => `valueAndGrad: the function must return a tensor, or [tensor, aux]; it returned ${String(result)}`,
  );
  check(
    value.size === 1 && isFloat(value.dtype),
    () => `valueAndGrad: expected a scalar float, got ${showType(value)}`,
  );
  const keep = new Set([value, ...tensorsIn(aux)]);
  const memory = keepsGraph ? keepGraph : freeGraph(keep);
  const gradients = backward([value], [onesLike(value)], treeLeaves(watched), memory);
  if (!keepsGraph) for (const x of keep) x.node = undefined;
  return { value, grads: treeFromLeaves(tree, gradients), aux };
}

function watchedLeaf(x: Tensor, path: string): Tensor {
  check(isFloat(x.dtype), () => `valueAndGrad: can only differentiate floats, got ${showType(x)} at "${path}"`);
  return leaf(x, path);
}

/** As `valueAndGrad`, the gradient only. */
export function grad<T extends Tree>(f: (tree: T) => Tensor): (tree: T) => T {
  checkFunction("grad", f);
  const both = valueAndGrad<T>(f);
  return (tree) => (recordingOutside() ? both(tree).grads : scope(() => both(tree).grads, "grad"));
}

function tensorsIn(value: unknown): Tensor[] {
  if (value instanceof Tensor) return [value as Tensor];
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(tensorsIn);
  if ("withTensors" in value) return treeLeaves(value as TreeNode);
  return Object.getPrototypeOf(value) === Object.prototype ? Object.values(value).flatMap(tensorsIn) : [];
}
