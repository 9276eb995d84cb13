/** Every op. Tests, the op table in the docs and the micro-benchmark take the definitions from here. */
export * from "./attention.ts";
export * from "./create.ts";
export * from "./crossEntropy.ts";
export * from "./cumsum.ts";
export * from "./dropout.ts";
export * from "./indexing.ts";
export * from "./logProbs.ts";
export * from "./matmul.ts";
export * from "./movement.ts";
export * from "./norm.ts";
export * from "./pointwise.ts";
export * from "./reduce.ts";
export * from "./rotary.ts";
export * from "./softmax.ts";
