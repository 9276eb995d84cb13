/** What a world of unknown facts outside of this folder needs (connect/host): options, dealt facts, questions. */
export { settleOptions } from "../options.ts";
export { selectFamilies } from "../selection.ts";
export { drawWord, nameMaker } from "../words.ts";
export { WORLD_SEED } from "./options.ts";
export { preferred } from "./questions.ts";
export { dealt, heldOutKinds, remembered } from "./world.ts";
