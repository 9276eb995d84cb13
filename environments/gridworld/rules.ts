/** What a lake answers, and who crosses it. It is loaded later: no value of ../game.ts here. */
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/random.ts";
import type { GameRules, Move } from "../game.ts";
import { type Direction, DIRECTIONS, moveHelp, neighbour, readMoves, showGrid, tryAll } from "../grid.ts";
import type { SettledOptions } from "../options.ts";
import type { GRIDWORLD, LakeEpisode, LakeFamily, LakeTask } from "./episode.ts";
import { glyphs, type Lake, slipped } from "./lake.ts";
import { type BestPolicy, solve } from "./solve.ts";
import { distances, drawLake } from "./tasks.ts";

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
  return { ...move, observation: went === undefined ? moveHelp(1) : mapOf(lake, cell, options) };
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

/**
 * A look at all four moves: `edge` (nothing moves), `hole`, `goal`, or how many more moves the shortest way to the goal
 * has from there, around the holes. Where nothing slips the expert takes a move with the fewest.
 */
function thoughts({ task: { lake }, state }: LakeEpisode, rng: Rng): string {
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
