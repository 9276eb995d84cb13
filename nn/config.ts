/** Model configurations: ours (`config/model.ts`) and Hugging Face's `config.json` (`config/huggingface.ts`). */
export { estimateParameters, longestText, modelConfig, validateConfig, windowOf } from "./config/model.ts";
export type { Family, ModelConfig, ModelOptions } from "./config/model.ts";
export { configFromHuggingFace, configToHuggingFace } from "./config/huggingface.ts";
export type { RopeScaling } from "./config/rope.ts";
