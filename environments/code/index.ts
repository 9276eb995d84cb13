/**
 * `code`: write a program that passes its tests, in a small language of our own. The agent says `run PROGRAM`, whose
 * answer is the program's outputs on the visible tests, and `submit`, which also runs hidden ones. Read it in this
 * order: ../program/syntax.ts (the language), ../program/machine.ts (running programs), episode.ts and tasks.ts
 * (tasks), play.ts (answers). docs/worlds.md shows episodes, and says where other rewards come from.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, CODE, type CodeOptions } from "./episode.ts";

export type { CodeOptions } from "./episode.ts";

/**
 * Programs to write in a small language with a parser and a machine of its own (environments/program), after CodeRL
 * (Le et al. 2022, arXiv 2207.01780): `run PROGRAM` shows its outputs on the task's tests, `submit` also runs hidden
 * tests.
 */
export const code: EnvironmentSpec<CodeOptions> = defineGame(
  {
    name: "code",
    description: "write a small program that passes its tests",
    source: "after CodeRL, arXiv 2207.01780",
    families: FAMILIES,
    options: CODE,
    expert: true,
    novice: true,
  },
  () => import("./rules.ts"),
);
