/**
 * `worldgrad`: everything that runs in browsers and in Node. Smaller parts: `worldgrad/engine`, `worldgrad/nn`,
 * `worldgrad/environments`, `worldgrad/rl`, `worldgrad/worker`.
 */
export * from "./engine/index.ts";
export * from "./nn/index.ts";
export * from "./environments/index.ts";
export * from "./rl/index.ts";
export * from "./rl/worker/index.ts";
