/**
 * `patch`: mend a small repository of programs (../program/syntax.ts) that call each other. The task says what each
 * file should do; one or two of them have a wrong token. `read FILE` shows a file, `edit FILE OLD->NEW` replaces a text
 * that occurs exactly once, `test` runs the visible tests of `f` and shows the first that fails, `submit` ends the
 * episode and also runs hidden tests. There are also `ls`, and `undo FILE`, which undoes all edits of a file. Read it
 * in this order: edits.ts, repository.ts (files, diffs), episode.ts and tasks.ts (tasks), play.ts (answers), this file.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * number (level 1): a file with two calculations
 *     Mend f: times 50, take off 50
 *     $ read f
 *     x*50-67
 *     $ edit f 67->50
 *     x*50-50
 *     $ test
 *     pass
 *     $ submit
 *
 * list (level 1): a file with two operations of a list
 *     Mend f: without first 3, count
 *     $ read f
 *     x.drop(2).len
 *     $ edit f 2->3
 *     x.drop(3).len
 *     $ test
 *     pass
 *     $ submit
 *
 * callee (level 2): a file that calls another, one of them wrong
 *     Mend f: g, plus 48; g: under 6, first one
 *     $ read f
 *     x.g+48
 *     $ read g
 *     x.below(4).head
 *     $ edit g 4->6
 *     x.below(6).head
 *     $ test
 *     pass
 *     $ submit
 *
 * files (level 3): three files, one of them with two lines, one wrong
 *     Mend f: s is g, h; s times s, add 50; g: above 3; h: sum
 *     $ read f
 *     s=x.g.h
 *     s*s+50
 *     $ read g
 *     x.above(7)
 *     $ edit g 7->3
 *     x.above(3)
 *     $ test
 *     pass
 *     $ submit
 *
 * two (level 4): a file that calls another, both wrong
 *     Mend f: g, add 75; g: backwards, last one
 *     $ read f
 *     x.g+70
 *     $ edit f 70->75
 *     x.g+75
 *     $ read g
 *     x.rev.min
 *     $ edit g min->last
 *     x.rev.last
 *     $ test
 *     pass
 *     $ submit
 *
 * The reward is 1 if all tests pass. The info of `submit` also has the outcome, the similarity of the submitted files
 * to the right ones, and both patches as unified diffs. From these papers/rewards/program.ts computes other rewards:
 * `--reward swerl`, the similarity of the patches (which needs no test), `coderl` and `ppocoder`.
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
    novice: true,
  },
  () => import("./rules.ts"),
);
