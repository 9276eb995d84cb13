/**
 * `gridworld`: a frozen lake as text, after Gym's FrozenLake. The agent (`@`) says a direction and sees the map; it is
 * to reach `G` and not to fall into `O`, within a number of moves. Maps, goals and starts are drawn anew for every
 * task. Read it in this order: lake.ts (the rules), tasks.ts (what is drawn), solve.ts (the best policy), this file
 * (the episode).
 *
 * The task families, each with the expert's episode for seed 0, in full for the first (a test plays them again and
 * compares):
 *
 * field (level 1): 4×4 with two holes, no slipping
 *     Reach G in 8 moves
 *     O . . .
 *     . . G .
 *     @ . . .
 *     . O . .
 *     $ up
 *     O . . .
 *     @ . G .
 *     . . . .
 *     . O . .
 *     $ right
 *     O . . .
 *     . @ G .
 *     . . . .
 *     . O . .
 *     $ right
 *     You reach G.
 *
 * pond (level 2): 4×4 with five holes, no slipping
 *     Reach G in 12 moves
 *     O O . G
 *     . . . O
 *     O O . .
 *     . . @ .
 *     $ up, up, up, right
 *     You reach G.
 *
 * ice (level 3): 4×4 with three holes; every fifth move slips
 *     Reach G in 16 moves on ice
 *     O . . .
 *     . . G .
 *     . . . O
 *     @ O . .
 *     $ left, left, left, left, left, left, up, right, up, right
 *     You reach G.
 *
 * lake (level 4): 6×6 with twelve holes, no slipping
 *     Reach G in 16 moves
 *     O O . . . .
 *     . . . O O .
 *     O . . O @ O
 *     O . . O . .
 *     . O O O . .
 *     G . . . . .
 *     $ down, down, down, left, left, left, left
 *     You reach G.
 *
 * glacier (level 5): 6×6 with six holes; every fifth move slips
 *     Reach G in 16 moves on ice
 *     . O @ O . .
 *     . . . O O .
 *     . . . . . .
 *     . . . . . .
 *     . O . . . G
 *     . O . . . .
 *     $ down, left, down, right, down, right, right, right, down
 *     You reach G.
 *
 * On ice every fifth move goes off at a right angle, half of them to each side. The expert knows the map and the odds,
 * no slip in advance: it is the policy that reaches the goal most often, found by value iteration for exactly the moves
 * that are left. It goes against the edge, as above, where any other way could end in a hole. It reaches the goal in 87
 * % of `ice` and 86 % of `glacier`, and always in the other families; the random baseline in 9, 3, 9, 0 and 2 % (in the
 * order above; 1,000 seeds). So demonstrations on ice have failures among them: leave out those with reward 0 if they
 * are not wanted.
 *
 * A quarter of all maps is held out, with their rotations and mirror images, whatever the start.
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
    thoughts: true,
  },
  () => import("./rules.ts"),
);
