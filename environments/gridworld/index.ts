/**
 * `gridworld`: a frozen lake as text, after Gym's FrozenLake. The agent says a direction and sees the map; it is to
 * reach `G` and not to fall into `O`, within a number of moves. Read it in this order: lake.ts (the rules), solve.ts
 * (the best policy), rules.ts (what is drawn, and the episode). docs/worlds.md shows episodes, and says how often the
 * best policy fails.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, GRIDWORLD, type GridworldOptions } from "./episode.ts";

export type { GridworldOptions } from "./episode.ts";

/**
 * A frozen lake as text, after Gym's FrozenLake (arXiv 1606.01540): the agent says a direction, sees the map, and is to
 * reach the goal around the holes, on ice that may be slippery. The expert is the best policy for the moves that are
 * left; on ice it fails, too.
 */
export const gridworld: EnvironmentSpec<GridworldOptions> = defineGame(
  {
    name: "gridworld",
    description: "cross a frozen lake to the goal, around the holes, on ice that may be slippery",
    source: "after FrozenLake, Gym, arXiv 1606.01540",
    families: FAMILIES,
    options: GRIDWORLD,
    expert: true,
    thoughts: true,
  },
  () => import("./rules.ts"),
);
