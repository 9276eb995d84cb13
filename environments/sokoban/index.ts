/**
 * `sokoban`: push boxes (`$`) onto goals (`.`) in small generated rooms, within a number of moves. The agent says a
 * direction. Read it in this order: room.ts (the rules), solver.ts (all positions of a room, backwards from solved),
 * rules.ts (what is drawn, and the episode). docs/worlds.md shows episodes, and says how often chance solves one.
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
    expert: true,
    thoughts: true,
  },
  () => import("./rules.ts"),
);
