/**
 * The tasks of `gridworld` (map, goal and start anew for every seed, always with a way to the goal), its answers and
 * its scripted players. It is loaded later: it imports no value of ../game.ts.
 */
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/random.ts";
import type { GameRules, Move } from "../game.ts";
import {
  canonicalGrid,
  type Direction,
  DIRECTIONS,
  moveHelp,
  neighbour,
  readMoves,
  showGrid,
  tryAll,
} from "../grid.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import type { GRIDWORLD, LakeEpisode, LakeFamily, LakeTask } from "./episode.ts";
import { glyphs, type Lake, slipped } from "./lake.ts";
import { type BestPolicy, solve } from "./solve.ts";

/** On ice, the least probability with which the best policy solves a task. */
const LEAST_SUCCESS = 0.7;

/**
 * Whether this lake, in any orientation, is kept for held-out tasks. The start plays no part: training never has a
 * held-out map.
 */
export function isHeldOutLake(lake: Lake): boolean {
  return isHeldOut(canonicalGrid(glyphs(lake), lake.size));
}

/** A lake of the family and a cell to start from. */
export function drawLake(rng: Rng, family: LakeFamily, split: Split): { lake: Lake; start: number } {
  const { size, slip, moves } = family;
  const [nearest, farthest] = family.distance;
  return drawUntil("gridworld", () => {
    const cells = rng.shuffle(Array.from({ length: size ** 2 }, (_, cell) => cell));
    const lake: Lake = { size, goal: cells[0]!, holes: new Set(cells.slice(1, 1 + family.holes)), slip };
    if (isHeldOutLake(lake) !== (split === "heldout")) return undefined;
    const away = distances(lake);
    let starts = cells.filter((cell) => nearest <= away[cell]! && away[cell]! <= farthest);
    if (slip > 0) {
      const policy = solve(lake, moves);
      starts = starts.filter((cell) => policy.success(cell, moves) >= LEAST_SUCCESS);
    }
    return starts.length === 0 ? undefined : { lake, start: rng.choice(starts) };
  });
}

/**
 * Moves from every cell to the goal around the holes, without slipping; Infinity where there is no way, and in holes.
 */
function distances(lake: Lake): number[] {
  const away = Array.from({ length: lake.size ** 2 }, () => Infinity);
  away[lake.goal] = 0;
  const queue = [lake.goal];
  for (const cell of queue)
    for (const direction of DIRECTIONS) {
      const next = neighbour(cell, direction, lake.size);
      if (next === undefined || lake.holes.has(next) || away[next]! < Infinity) continue;
      away[next] = away[cell]! + 1;
      queue.push(next);
    }
  return away;
}

type Chosen = SettledOptions<typeof GRIDWORLD>;

const mapOf = (lake: Lake, cell: number, { dense }: Chosen): string => showGrid(glyphs(lake, cell), lake.size, dense);
const movesLeft = ({ task, turns }: LakeEpisode): number => task.moves - turns;

function makeTask(rng: Rng, family: LakeFamily, options: Chosen): LakeTask {
  const { split, slip = family.slip, moves = family.moves } = options;
  const { lake: drawn, start } = drawLake(rng, family, split);
  const lake = { ...drawn, slip };
  const text = `Reach G in ${moves} moves${slip > 0 ? " on ice" : ""}\n${mapOf(lake, start, options)}`;
  let policy: BestPolicy | undefined;
  return { text, lake, start, moves, chance: rng.split("slips"), bestPolicy: () => (policy ??= solve(lake, moves)) };
}

/**
 * The episode ends at the goal, in a hole, or when there are no moves left. An action that is no direction costs a
 * move.
 */
function play(episode: LakeEpisode, action: string): Move<number> {
  const { task, state, options, turns } = episode;
  const { lake, chance } = task;
  const wanted = readMoves(action, 1)?.[0];
  const went = wanted && slipped(wanted, lake.slip, chance.split(turns).uniform());
  const cell = went === undefined ? state : (neighbour(state, went, lake.size) ?? state);
  const move = { state: cell, failed: went === undefined, info: { slipped: went !== wanted } };
  if (cell === lake.goal) return { ...move, observation: "You reach G.", ending: { kind: "goal", score: 1 } };
  if (lake.holes.has(cell)) return { ...move, observation: "You fall into O.", ending: { kind: "hole", score: 0 } };
  if (movesLeft(episode) === 1) return { ...move, observation: "No moves left.", ending: { kind: "moves", score: 0 } };
  const seen = options.blind ? "You see nothing." : mapOf(lake, cell, options);
  return { ...move, observation: went === undefined ? moveHelp(1) : seen };
}

/** The best move from here, with the moves that are left. @throws after the end */
function expert(episode: LakeEpisode): Direction {
  const left = movesLeft(episode);
  check(left > 0, () => "gridworld: there are no moves left; the episode is over");
  return episode.task.bestPolicy().best(episode.state, left);
}

/** The probability that the expert, from here on, reaches the goal: no policy has a higher one. */
export const expertSuccess = (episode: LakeEpisode): number =>
  episode.task.bestPolicy().success(episode.state, movesLeft(episode));

/** All moves of the expert from here to the goal, if nothing slips. */
function plan({ task, state, turns }: LakeEpisode): string {
  const moves: Direction[] = [];
  for (let cell = state, left = task.moves - turns; cell !== task.lake.goal && left > 0; left--) {
    const move = task.bestPolicy().best(cell, left);
    moves.push(move);
    cell = neighbour(cell, move, task.lake.size) ?? cell;
  }
  return `plan ${moves.join(" ")}.`;
}

/**
 * A look at all four moves: `edge` (nothing moves), `hole`, `goal`, or how many more moves the shortest way to the goal
 * has from there, around the holes. Where nothing slips the expert takes a move with the fewest. A blind agent has a
 * plan before its first action, and no thoughts after it.
 */
function thoughts(episode: LakeEpisode, rng: Rng): string {
  const { task, state, options, turns } = episode;
  if (options.blind) return turns === 0 ? plan(episode) : "";
  const { lake } = task;
  const away = distances(lake);
  const meets = (direction: Direction): string => {
    const next = neighbour(state, direction, lake.size);
    if (next === undefined) return "edge";
    if (next === lake.goal) return "goal";
    return lake.holes.has(next) ? "hole" : `${away[next]!} more`;
  };
  return tryAll(meets, rng);
}

export const rules: GameRules<typeof GRIDWORLD, LakeFamily, LakeTask, number> = {
  makeTask,
  start: ({ start }) => start,
  play,
  expert,
  random: (rng) => rng.choice(DIRECTIONS),
  thoughts,
  reseed: (task, seed) => ({ ...task, chance: new Rng(seed).split("slips") }),
};
