/**
 * `worldgrad/math`: what is made of the engine's ops alone, on every executor and with gradients: sums of products by
 * subscripts, derivatives that are no gradients of scalars, sorting, a norm.
 */
export { einsum } from "./einsum.ts";
export { hessian, jacobian, jvp, type JvpResult } from "./derivatives.ts";
export { sort, type Sorted, type SortOptions, topk, type TopkOptions } from "./sort.ts";
export { vectorNorm } from "./vectorNorm.ts";
