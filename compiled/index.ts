/**
 * `worldgrad/compiled`: a trained model that only acts, for pages that shall be small: its weights and the kernels of
 * its own sizes in one file, and the few lines that run them.
 */
export { type CompileOptions, compileModel } from "./compile.ts";
export { type CompiledActOptions, type CompiledModel, openCompiled } from "./model.ts";
