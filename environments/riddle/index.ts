/**
 * The environment of self-play (papers/selfplay): riddles about programs, to be solved and to be proposed. Read it in
 * this order: riddle.ts (riddles and their texts), proposal.ts (valid proposals), play.ts (answers), tasks.ts (riddles
 * that the generator of programs draws).
 *
 *     Say p([5 2 1]): p(x)=x.take(2).sum                    say 7
 *     Say x: p(x)=7 p(x)=x.take(2).sum                      say [3 4]
 *     Write p(x): p(4)=250 p(9)=585                         run x*67-18, then submit
 *     Propose deduction, not x*2 for 5, x.head for [1 2]    propose x.rev for [3 1]
 *     Propose inputs: p(x)=x*67-18                          propose 4 9 2 11
 *
 * It has no name on the command line: `--self-play` plays it, and the held-out tasks of `code` measure what that is
 * worth. No riddle contains a held-out program of `code`.
 */
import type { Rng } from "../../engine/index.ts";
import { readCommand } from "../actions.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame, type Game } from "../game.ts";
import { FAMILIES, familyOf, type RiddleFamily, type RiddleTask } from "./riddle.ts";

/** A plausible answer: a small number, or one of the numbers of the task. */
function random(rng: Rng, task = ""): string {
  const numbers = task.match(/\d+/g) ?? ["1", "2", "3"];
  const number = rng.choice(numbers);
  return rng.choice([`say ${number}`, `propose x+${number} for ${rng.choice(numbers)}`, `submit x+${number}`]);
}

type RiddleGame = Game<Record<never, never>, RiddleFamily, RiddleTask, string>;

const game: RiddleGame = {
  name: "riddle",
  description: "predict, invert and find small programs, and propose such tasks",
  source: "after Absolute Zero, arXiv 2505.03335",
  families: FAMILIES,
  options: {},
  makeTask: async (...drawn) => (await import("./tasks.ts")).makeTask(...drawn),
  start: () => "",
  play: async ({ task, state }, action) => (await import("./play.ts")).play(task, state, readCommand(action)),
  expert: ({ task, turns }) => task.plan[Math.min(turns, task.plan.length - 1)]!,
  random,
};

/** Riddles of the generator; a seed makes one. */
export const riddles: EnvironmentSpec = defineGame(game);

/** An environment with one task for all seeds: to solve a proposed riddle, or to propose one. */
export function taskWorld(task: RiddleTask): EnvironmentSpec {
  const family = task.role === "solve" ? familyOf("solve", task.riddle.kind) : familyOf("propose", task.kind);
  return defineGame<Record<never, never>, RiddleFamily, RiddleTask, string>({
    ...game,
    families: [family],
    makeTask: () => task,
  });
}
