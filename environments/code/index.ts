/**
 * `code`: write a program that passes its tests, in a small language of our own. The agent says `run PROGRAM`; the
 * answer is the program's outputs on the tests that the task shows, or where it does not compile. `submit` ends the
 * episode, and the program that was run last is judged by hidden tests, too (`submit PROGRAM` does both). Read it in
 * this order: ../program/syntax.ts (the language), ../program/machine.ts (running programs), episode.ts and tasks.ts
 * (tasks), play.ts (answers), this file.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * number (level 1): one calculation
 *     Write p(x): x, take off 21. p(14)=-7 p(9)=-12
 *     $ run x-21
 *     -7 -12: pass
 *     $ submit
 *
 * list (level 1): two operations of a list
 *     Write p(x): x, 2 in front, first one. p([5 2 1])=5 p([6 5 3])=6
 *     $ run x.take(2).head
 *     5 6: pass
 *     $ submit
 *
 * steps (level 2): two calculations
 *     Write p(x): x, times 67, minus 18. p(4)=250 p(9)=585
 *     $ run x*67-18
 *     250 585: pass
 *     $ submit
 *
 * chain (level 2): three operations of a list
 *     Write p(x): x, 2 in front, reversed, first one. p([5 6 4])=6 p([6 4 9])=4
 *     $ run x.take(2).rev.head
 *     6 4: pass
 *     $ submit
 *
 * name (level 3): a value that is used twice
 *     Write p(x): s is x, first one; s times s, take off 67. p([5 6 4])=-42 p([6 4 9])=-31
 *     $ run s=x.head;s*s-67
 *     -42 -31: pass
 *     $ submit
 *
 * examples (level 4): two calculations, of which only tests tell
 *     Write p(x): p(11)=4 p(5)=-8 p(14)=10
 *     $ run x*2-18
 *     4 -8 10: pass
 *     $ submit
 *
 * The reward is 1 if all tests pass. Other rewards are chosen outside: the last step's info has the outcome and the
 * similarity to the reference, from which papers/rewards/program.ts computes the rewards of CodeRL and PPOCoder
 * (`--reward coderl`, `--reward ppocoder`). A program may pass a visible test by writing its output; hidden tests have
 * other inputs, and longer lists.
 *
 * Answers follow from the task's text and the actions, so a world model can predict all of them.
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
    novice: true,
  },
  () => import("./rules.ts"),
);
