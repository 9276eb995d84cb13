/**
 * Derivatives that are no gradients of scalars, from the gradients of any order that the engine has: forward products
 * with a tangent (two reverse sweeps: Townsend 2017, "A new trick for calculating Jacobian vector products"), whole
 * Jacobians and Hessians (a sweep for each row).
 */
import { add, grad, mul, noGrad, reshape, slice, stack, sum, type Tensor, type Tree } from "../engine/index.ts";
import { treeLeaves, treeLeavesLike, zerosLike } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { sameShape, showShape } from "../engine/types.ts";

/** The result of `jvp`. */
export interface JvpResult {
  readonly value: Tensor;
  /** ∂f/∂x · v, in the shape of the value. */
  readonly tangent: Tensor;
}

/**
 * The derivative of `f` at `at` in the direction `tangent`: J·v. The gradient g(u) = Jᵀu is linear in u, and its
 * derivative by u in the direction v is J·v.
 *
 * @param f takes the tree and returns a float tensor of any shape
 * @param tangent of the same structure and shapes as `at`
 * @throws if shapes differ, or if an op of `f` has no second derivative
 *
 * @example
 * jvp((x: Tensor) => mul(x, x), tensor([1, 2]), tensor([1, 0]));   // value [1, 4], tangent [2, 0]
 */
export function jvp<T extends Tree>(f: (tree: T) => Tensor, at: T, tangent: T): JvpResult {
  const direction = treeLeavesLike(tangent, at, "jvp: the tangent");
  treeLeaves(at).forEach((x, i) => {
    const v = direction[i]!;
    check(
      sameShape(x.shape, v.shape),
      () => `jvp: expected a tangent of shape ${showShape(x.shape)}, got ${showShape(v.shape)}`,
    );
  });
  const value = noGrad(() => f(at));
  const along = (u: Tensor): Tensor => {
    const gradient = treeLeaves(grad((tree: T) => sum(mul(f(tree), u)))(at));
    return gradient.map((g, i) => sum(mul(g, direction[i]!))).reduce((a, b) => add(a, b));
  };
  return { value, tangent: grad(along)(zerosLike(value)) };
}

/**
 * All first derivatives of `f`: row n is the gradient of its nth element. It costs a gradient for each element of the
 * result. The derivative of another one is one of it, too: `jacobian(jacobian(f))`.
 * @param f takes a float tensor and returns one
 * @returns a function of such a tensor: [...result, ...argument]
 */
export function jacobian(f: (x: Tensor) => Tensor): (x: Tensor) => Tensor {
  return (x) => {
    const { shape, size } = noGrad(() => f(x));
    const element = (n: number) => (y: Tensor) => reshape(slice(reshape(f(y), [size]), [n], [n + 1]), []);
    const rows = Array.from({ length: size }, (_, n) => grad(element(n))(x));
    return reshape(stack(rows), [...shape, ...x.shape]);
  };
}

/**
 * All second derivatives of a scalar function. A product with a vector alone is cheaper:
 * `grad((x) => sum(mul(grad(f)(x), v)))`, two sweeps.
 * @returns a function of a tensor: [...argument, ...argument]
 */
export const hessian = (f: (x: Tensor) => Tensor): ((x: Tensor) => Tensor) => jacobian(grad(f));
