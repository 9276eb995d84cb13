/**
 * `home`: a machine of unknown facts that stays the same for a whole run: which directory a file lies in, which program
 * opens it, who owns a directory. The agent types `size`, `read`, `count`, `delete`, `lock` and `copy`, then `answer
 * TEXT` or `done`. Read it in this order: facts.ts (what a home is), ../facts/hints.ts (what error messages say of it),
 * tasks.ts (what is asked, and which pairs are held out), contents.ts (what a file says), shell.ts (the commands), this
 * file (the expert, the baseline). docs/worlds.md shows episodes, and says what is not modelled.
 */
import type { Rng } from "../../engine/index.ts";
import type { FactWorld } from "../facts/questions.ts";
import { defineGame } from "../game.ts";
import { type HomeNames, namesOf } from "./facts.ts";
import { questionsAbout } from "./questions.ts";
import { type HomeEpisode, type HomeState, play } from "./shell.ts";
import { FAMILIES, familyOf, HOME, type HomeFamily, type HomeOptions, type HomeTask, makeTask } from "./tasks.ts";

export type { HomeOptions } from "./tasks.ts";

function expert({ task, state: { isTold, changes } }: HomeEpisode): string {
  const { command, answer } = task.family;
  // Once something has been changed, nothing is left to do: it was the right change, or the task is lost.
  if (!isTold && changes.length === 0) return command(task);
  return answer ? `answer ${answer(task)}` : "done";
}

/** A command of the right form, with the names of the task, and with everything else drawn at random. */
function guess(rng: Rng, text: string, names: HomeNames): string {
  const family = familyOf(text) ?? rng.choice(FAMILIES);
  const files = text.match(/\b[a-z]{6}\b(?:\.[a-z]{3})?/g) ?? [
    `${rng.choice(names.stems)}.${rng.choice(names.endings)}`,
  ];
  return family.guess(rng, files, names);
}

/**
 * A machine that the agent does not know and that stays the same for a whole run: only its error messages tell what is
 * where, and what opens what. It measures what predicting its answers is worth. Made for this project; the setting is
 * ECHO's, arXiv 2605.24517.
 */
export const home: FactWorld<HomeOptions> = {
  ...defineGame<typeof HOME, HomeFamily, HomeTask, HomeState>({
    name: "home",
    description: "a machine that the agent does not know: what is where, and what opens what, its error messages tell",
    source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
    families: FAMILIES,
    options: HOME,
    makeTask,
    start: () => ({ changes: [], isTold: false, told: { isCounted: false, isShown: false } }),
    play,
    expert,
    random: (rng, text = "", { size }) => (rng.int(8) === 0 ? "done" : guess(rng, text, namesOf(size))),
    // It guesses, answers if the guess was right, and else gives up: only what follows the guess is worth imitating.
    novice(episode, rng) {
      const { task, state, turns } = episode;
      if (turns === 0) return { action: guess(rng, task.text, task.facts.names), isGuess: true };
      return { action: state.isTold ? expert(episode) : "done", isGuess: false };
    },
  }),
  facts: (options) => Promise.resolve(questionsAbout(options)),
};
