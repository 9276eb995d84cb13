/**
 * All that a page needs in which a compiled agent acts; `dist/compiledAgent.min.js` is this module and what it imports,
 * in one file.
 */
export { openCompiled } from "./model.ts";
export { HistoryTemplate } from "../data/index.ts";
export { Rng } from "../engine/random.ts";
export { byteTokenizer } from "../nn/index.ts";
export { tokenizerFromJSON } from "../pretrained/index.ts";
export { SPECIAL_TOKENS, Template } from "../rl/index.ts";
