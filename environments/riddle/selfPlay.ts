/**
 * The exports for self-play. They are apart from environments/index.ts, so that other bundles do not contain the
 * generator of programs and their machine.
 */
export { riddles, taskWorld } from "./index.ts";
export { proposingTask, type Riddle, type RiddleKind, solvingTask } from "./riddle.ts";
export { drawRiddle } from "./tasks.ts";
export { show } from "../program/machine.ts";
