/** The rules and the scripted players of `code`. It is loaded later, so it imports no value of ../game.ts. */
import type { Rng } from "../../engine/index.ts";
import { readCommand } from "../actions.ts";
import type { NoviceMove } from "../../rl/environment.ts";
import type { GameRules } from "../game.ts";
import { drawCalculation, drawReduction, drawSelection } from "../program/draw.ts";
import type { CODE, CodeEpisode, CodeFamily, CodeTask } from "./episode.ts";
import { play } from "./play.ts";
import { makeTask } from "./tasks.ts";

/** Runs the reference program, and submits it. */
const expert = ({ task: { solution }, state }: CodeEpisode): string =>
  state === solution ? "submit" : `run ${solution}`;

/** A random program of the kind that tasks ask for, independent of this task. */
function randomProgram(rng: Rng): string {
  const parts = [drawSelection, drawReduction, (r: Rng) => drawCalculation(r, 99, ["+", "-", "*"])];
  return `x${Array.from({ length: 1 + rng.int(3) }, () => rng.choice(parts)(rng).code).join("")}`;
}

const random = (rng: Rng): string => `${rng.choice(["run", "run", "submit"])} ${randomProgram(rng)}`;

/** Writes a program with a part missing or wrong, or the right program, and submits what it has run. */
function novice({ task: { solution }, state }: CodeEpisode, rng: Rng): NoviceMove {
  if (state !== "") return { action: "submit", isGuess: false };
  const parts = solution.match(/^s=x|;s\*s|^x|\.[a-z]+(\(\d+\))?|[-+*]\d+/g)!;
  const at = 1 + rng.int(parts.length - 1);
  const others = randomProgram(rng).match(/\.[a-z]+(\(\d+\))?|[-+*]\d+/g)!;
  const wrong = parts.with(at, rng.int(2) === 0 ? others[0] : "").join("");
  return { action: `run ${rng.int(3) === 0 ? solution : wrong}`, isGuess: true };
}

export const rules: GameRules<typeof CODE, CodeFamily, CodeTask, string> = {
  makeTask,
  start: () => "",
  play: (episode, action) => play(episode, readCommand(action)),
  expert,
  random,
  novice,
};
