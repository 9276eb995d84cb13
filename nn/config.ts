/** The configuration of a model. */
export { estimateParameters, longestText, modelConfig, validateConfig, windowOf } from "./config/model.ts";
export type { Family, ModelConfig, ModelOptions } from "./config/model.ts";
export type { RopeScaling } from "./config/ropeScaling.ts";
