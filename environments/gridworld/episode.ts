/** The families of `gridworld`, its options, and what an episode knows. */
import { flag, number } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { Rng } from "../../engine/index.ts";
import type { Lake } from "./lake.ts";
import type { BestPolicy } from "./solve.ts";

export interface LakeFamily extends FamilyInfo {
  readonly size: number;
  readonly holes: number;
  readonly slip: number;
  /** Moves until the episode ends. */
  readonly moves: number;
  /** Moves from start to goal on the shortest way around the holes: least and most. */
  readonly distance: readonly [number, number];
}

/** At most 16 moves, the length that demonstrations have by default. */
// prettier-ignore
export const FAMILIES: readonly LakeFamily[] = [
  { name: "field", level: 1, description: "4×4 with two holes, no slipping",
    size: 4, holes: 2, slip: 0, moves: 8, distance: [3, 6] },
  { name: "pond", level: 2, description: "4×4 with five holes, no slipping",
    size: 4, holes: 5, slip: 0, moves: 12, distance: [4, 9] },
  { name: "ice", level: 3, description: "4×4 with three holes; every fifth move slips",
    size: 4, holes: 3, slip: 0.2, moves: 16, distance: [4, 6] },
  { name: "lake", level: 4, description: "6×6 with twelve holes, no slipping",
    size: 6, holes: 12, slip: 0, moves: 16, distance: [7, 14] },
  { name: "glacier", level: 5, description: "6×6 with six holes; every fifth move slips",
    size: 6, holes: 6, slip: 0.2, moves: 16, distance: [5, 9] },
];

export const GRIDWORLD = {
  slip: number(undefined, "probability that a move goes off at a right angle; by default the family's", {
    min: 0,
    below: 1,
  }),
  moves: number(undefined, "moves until the episode ends; by default the family's", {
    integer: true,
    min: 1,
    max: 1_000,
  }),
  blind: flag(
    false,
    "only the task shows the map; thoughts are then one, before the first action: the whole way, which is carried out",
  ),
  dense: flag(false, "no spaces between the cells of a map; a space keeps every cell a token of its own"),
};
/** Options of `gridworld`, beside `EnvironmentOptions`; `GRIDWORLD` says what each does, and its default. */
export type GridworldOptions = OptionsWith<typeof GRIDWORLD>;

export interface LakeTask extends GameTask {
  readonly lake: Lake;
  /** The cell to begin with. */
  readonly start: number;
  readonly moves: number;
  /** The stream of all that is left to chance; that of turn n is `chance.split(n)`. */
  readonly chance: Rng;
  /** The best policy, worked out when it is first asked for. */
  readonly bestPolicy: () => BestPolicy;
}

/** The state is the cell of the player. */
export type LakeEpisode = Episode<typeof GRIDWORLD, LakeTask, number>;
