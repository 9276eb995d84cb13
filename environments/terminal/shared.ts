/** The parts of the simulated terminal that the real one shares: options, trees, tasks, wordings, shown answers. */
export { TERMINAL } from "./episode.ts";
export { type Draft, type Drafts, FAMILIES, type Tree } from "./families.ts";
export { FileSystem } from "./filesystem.ts";
export { type Ending, joinLines } from "./process.ts";
export { render, rules } from "./rules.ts";
export { addThing, type Goal, makeTask, rename, taskOf } from "./tasks.ts";
export type { World } from "./world.ts";
