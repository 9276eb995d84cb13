/**
 * kernels/index.ts
 */
export { constant, Expr, expr, type ExprLike, where as select } from "./expr.ts";
export type { AdapterProfile, Program, WasmKernel, WgslKernel } from "./kernel.ts";
export type { CustomSpec, Problem } from "./specs.ts";
