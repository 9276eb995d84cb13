/**
 * `sokoban`: push boxes (`$`) onto goals (`.`) in small generated rooms, within a number of moves. Boards are in the
 * usual notation (XSB; `-` is floor, `*` a box on a goal, `+` the player on one) without a frame: the edge is a wall. A
 * box in a corner never comes out again: unlike in a shell, a mistake may be final. Read it in this order: room.ts (the
 * rules), solver.ts (all positions of a room, backwards from solved), tasks.ts (what is drawn), this file (the
 * episode).
 *
 * The task families, each with the expert's episode for seed 0, in full for the first (a test plays them again and
 * compares):
 *
 * push (level 1): 4×4, one box, 2 to 5 moves
 *     Push $ onto . in 8 moves
 *     - - - -
 *     - $ - @
 *     - - - -
 *     # . # -
 *     $ up
 *     - - - @
 *     - $ - -
 *     - - - -
 *     # . # -
 *     $ left
 *     - - @ -
 *     - $ - -
 *     - - - -
 *     # . # -
 *     $ left
 *     - @ - -
 *     - $ - -
 *     - - - -
 *     # . # -
 *     $ down
 *     - - - -
 *     - @ - -
 *     - $ - -
 *     # . # -
 *     $ down
 *     All boxes are on goals.
 *
 * walk (level 2): 5×5, one box, 5 to 10 moves
 *     Push $ onto . in 15 moves
 *     - $ . - -
 *     - # - - -
 *     - - # - #
 *     - - - - @
 *     - - - - -
 *     $ left, left, left, up, left, up, up, right
 *     All boxes are on goals.
 *
 * pair (level 3): 5×5, two boxes, 6 to 12 moves
 *     Push $ onto . in 18 moves
 *     - - - # -
 *     # @ $ - -
 *     - - - . $
 *     - - - - -
 *     # - - - .
 *     $ up, right, down, left, down, right, up, right, right, down, down
 *     All boxes are on goals.
 *
 * room (level 4): 6×6 with more walls, two boxes, 10 to 16 moves
 *     Push $ onto . in 24 moves
 *     # - - # - -
 *     # - $ $ - .
 *     # - - - + -
 *     - - # - # -
 *     - - - # - -
 *     - - # - - -
 *     $ left, left, left, up, up, right, down, right, right, left, left, left, down, right, right
 *     All boxes are on goals.
 *
 * trio (level 5): 5×5, three boxes, 10 to 16 moves
 *     Push $ onto . in 24 moves
 *     - . . - -
 *     - . $ - -
 *     - $ # $ #
 *     - - @ - -
 *     - - - - -
 *     $ left, up, up, down, down, right, right, up, up, right, up, left, down, left
 *     All boxes are on goals.
 *
 * Every task can be solved, and the expert's solution has the fewest moves; also after a detour, if that was no dead
 * end. The random baseline solves 9, 0.6, 0.2, 0 and 0 % (in the order above; 1,000 seeds). With `movesPerAction` an
 * action may be several moves, and episodes get shorter in turns.
 *
 * A quarter of all rooms is held out, with their rotations and mirror images, wherever boxes and player stand: no
 * position of a held-out task can come up in training. Not here: rooms of your own, of other shapes, or with more than
 * three boxes.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, SOKOBAN, type SokobanOptions } from "./episode.ts";

export type { SokobanOptions } from "./episode.ts";

/**
 * Push boxes onto goals in a small room, where a wrong push may be for ever: after the game by H. Imabayashi (1982).
 * Every task can be solved, and the expert's solution has the fewest moves.
 */
export const sokoban: EnvironmentSpec<SokobanOptions> = defineGame(
  {
    name: "sokoban",
    description: "push boxes onto goals in a small room, where a wrong push may be for ever",
    source: "after the game by H. Imabayashi, 1982",
    families: FAMILIES,
    options: SOKOBAN,
    thoughts: true,
  },
  () => import("./rules.ts"),
);
