/** Who plays in a castle. It is loaded later: no value of ../game.ts here. */
import type { Rng } from "../../engine/index.ts";
import type { GameRules } from "../game.ts";
import type { CASTLE, CastleFamily, CastleState, CastleTask } from "./episode.ts";
import { type CastleNames, namesOf } from "./facts.ts";
import { nextAction, play, startOf, stepsDone } from "./moves.ts";
import { guessesFor, makeTask } from "./tasks.ts";

/** A command of a form that the task needs, with its names, and with everything else drawn at random. */
function guess(rng: Rng, text: string, names: CastleNames): string {
  const { rooms, chests, things } = names;
  const guesses = guessesFor(text, rng, names);
  if (guesses.length > 0) return rng.choice(guesses);
  const subjects = { "go to": rooms, "send page to": rooms, open: chests, seal: chests, take: things, clean: things };
  const [verb, some] = rng.choice(Object.entries(subjects));
  return guessesFor(`${verb} ${rng.choice(some)}`, rng, names)[0]!;
}

export const rules: GameRules<typeof CASTLE, CastleFamily, CastleTask, CastleState> = {
  makeTask,
  start: startOf,
  play,
  expert: nextAction,
  random: (rng, text = "", { size }) => (rng.int(8) === 0 ? "done" : guess(rng, text, namesOf(size))),
  // It guesses, reads what it is told, and gives up unless all went well: only that is worth imitating.
  novice(episode, rng) {
    const { task, state, turns } = episode;
    if (turns === 0) return { action: guess(rng, task.text, task.castle.names), isGuess: true };
    return { action: stepsDone(task, state) === turns ? nextAction(episode) : "done", isGuess: false };
  },
};
