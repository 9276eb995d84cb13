/**
 * `patch`: mend a small repository of programs (../program/syntax.ts) that call each other, of which one or two have a
 * wrong token. The agent says `ls`, `read FILE`, `edit FILE OLD->NEW`, `undo FILE`, `test` and `submit`. Read it in
 * this order: edits.ts, repository.ts (files, diffs), episode.ts, rules.ts (tasks, answers). docs/worlds.md shows
 * episodes, and says where other rewards come from.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, PATCH, type PatchOptions } from "./episode.ts";

export type { PatchOptions } from "./episode.ts";

/**
 * Small repositories to mend, after SWE-RL (Wei et al. 2025, arXiv 2502.18449): `ls`, `read FILE`, `edit FILE OLD->NEW`
 * (a SEARCH/REPLACE block in one line), `undo FILE`, `test`, and `submit`, which also runs hidden tests.
 */
export const patch: EnvironmentSpec<PatchOptions> = defineGame(
  {
    name: "patch",
    description: "mend a small repository so that its tests pass",
    source: "after SWE-RL, arXiv 2502.18449",
    families: FAMILIES,
    options: PATCH,
    expert: true,
    novice: true,
  },
  () => import("./rules.ts"),
);
