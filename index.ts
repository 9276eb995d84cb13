/**
 * `worldgrad`: everything that runs in browsers and in Node. Its parts are packages of their own, too:
 * `worldgrad/engine`, `worldgrad/nn`, `worldgrad/rl`, and so on.
 */
export * from "./engine/index.ts";
export * from "./nn/index.ts";
export * from "./rl/index.ts";
export * from "./methods/index.ts";
export * from "./data/index.ts";
export * from "./papers/index.ts";
export * from "./environments/index.ts";
export * from "./pretrained/index.ts";
export * from "./math/index.ts";
export * from "./compiled/index.ts";
export * from "./connect/index.ts";
export * from "./distribute/index.ts";
export * from "./distribute/worker/index.ts";
