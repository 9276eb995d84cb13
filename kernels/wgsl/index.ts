/** Every WGSL kernel generator: (spec, adapter profile) → program. `wasm/index.ts` exports the same names. */
export { cacheAttention } from "./cacheAttention.ts";
export { cast } from "./cast.ts";
export { copy, fill } from "./copy.ts";
export { cumsum } from "./cumsum.ts";
export { custom } from "./custom.ts";
export { gather, takeAlong, writeRows } from "./gather.ts";
export { packTensors } from "./packTensors.ts";
export { pointwise } from "./pointwise.ts";
export { random } from "./random.ts";
export { reduce } from "./reduce.ts";
export { scatterAdd, scatterAlong } from "./scatter.ts";
export { attention, attentionBackward } from "./attention.ts";
export { logProbs, logProbsBackward } from "./logProbs.ts";
export { matmul } from "./matmul.ts";
export { norm, normBackward } from "./norm.ts";
export { rotary } from "./rotary.ts";
export { sample } from "./sample.ts";
export { softmax, softmaxBackward } from "./softmax.ts";
