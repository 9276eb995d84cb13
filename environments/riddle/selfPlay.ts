/**
 * What self-play takes of the worlds. It is apart from environments/index.ts, so that nobody else's bundle has the
 * generator and the machine of programs.
 */
export { riddles, taskWorld } from "./index.ts";
export { proposingTask, type Riddle, type RiddleKind, solvingTask } from "./riddle.ts";
export { drawRiddle } from "./tasks.ts";
export { show } from "../program/machine.ts";
