/** The WebAssembly kernels: one generator per family of `specs.ts`, under the same names as in `wgsl/`. */
export { attention } from "./attention.ts";
export { attentionBackward } from "./attentionBackward.ts";
export { cacheAttention } from "./cacheAttention.ts";
export { cast } from "./cast.ts";
export { copy, fill } from "./copy.ts";
export { cumsum } from "./cumsum.ts";
export { custom } from "./custom.ts";
export { gather, scatterAdd, scatterAlong, takeAlong, writeRows } from "./gather.ts";
export { logProbs, logProbsBackward } from "./logProbs.ts";
export { matmul } from "./matmul.ts";
export { norm, normBackward } from "./norm.ts";
export { packTensors } from "./packTensors.ts";
export { pointwise } from "./pointwise.ts";
export { random } from "./random.ts";
export { reduce } from "./reduce.ts";
export { rotary } from "./rotary.ts";
export { sample } from "./sample.ts";
export { softmax, softmaxBackward } from "./softmax.ts";
