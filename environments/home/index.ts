/**
 * `home`: a machine that the agent does not know, and that stays the same for a whole run. Which directory a file lies
 * in, which program opens its ending and which account owns a directory are facts that no task states and no
 * demonstration shows, since each demonstration may come from a home of its own (`home: -1`, with the same names). Only
 * the machine itself tells them, in the error messages of commands that had them wrong. So this is a world in which it
 * can be measured what predicting the world is worth: an agent that learns to predict the messages learns what it
 * needs, before any reward says so; its controls take that away, by hints that say less (`hints`) and by messages that
 * cannot be predicted (`facts: "random"`). Questions of several kinds need the same facts; of each file half of the
 * kinds are asked only in held-out tasks, so that what is tested are facts, and not known answers.
 *
 * Read it in this order: facts.ts (what a home is), ../facts/hints.ts and hints.ts (what error messages say of it),
 * tasks.ts (what is asked, and which pairs are held out), contents.ts (what a file says), shell.ts (the commands), this
 * file (options, the expert, the baseline).
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * size (level 1): say how many letters a file has: its directory
 *     How large is tamobi.log?
 *     $ size tamobi.log in labomi
 *     65
 *     $ answer 65
 *
 * read (level 2): say what a file says: its directory, and the program for its ending
 *     What does falido.txt say?
 *     $ read falido.txt in kebula with lemare
 *     kafoke
 *     $ answer kafoke
 *
 * count (level 2): count the lines of a file: its directory, and the program for its ending
 *     How many lines has tamobi.log?
 *     $ count tamobi.log in labomi with bukeki
 *     65
 *     $ answer 65
 *
 * delete (level 2): delete a file: its directory, and the account that owns the directory
 *     Delete rorema.csv
 *     $ delete rorema.csv in dalumo as bereki
 *     $ done
 *
 * lock (level 2): lock a file: its directory, and the account that owns the directory
 *     Lock tamobi.log
 *     $ lock tamobi.log in labomi as fotime
 *     $ done
 *
 * copy (level 3): copy a file to another: the directories of both, and the account that owns the second
 *     Copy falido.txt to meliki.log
 *     $ copy falido.txt in kebula to fedamu as dalibe
 *     $ done
 *
 * follow (level 3): say what the file behind an alias says: which file, its directory, and the program for its ending
 *     What does bofefe say?
 *     $ read tukifu.csv in badaki with korabe
 *     demeto
 *     $ answer demeto
 *
 * tally (level 3): count the lines of the file behind an alias: its name, its directory, and the program for its ending
 *     How many lines has taradi?
 *     $ count domare.cfg in badaki with mimaki
 *     75
 *     $ answer 75
 *
 * `What does falido.txt say?` once more: what `read falido.txt in lakodo with lemare` is answered with each of the
 * `hints`:
 *
 *     none: No such file or directory
 *     tried: No such file or directory; lakodo has lutoli.log difome.csv, lemare opens .txt
 *     reverse: No such file or directory; kebula has falido.txt, lemare opens .txt
 *     statement: No such file or directory; falido.txt is in kebula, .txt opens with lemare
 *     suggestion: No such file or directory; did you mean falido.txt in kebula with lemare?
 *
 * What it is not: `terminal`, whose tasks say all that their commands need. Nothing can be found out by looking,
 * because directories cannot be listed, and nothing be inferred, because facts are drawn. Not modelled: what the other
 * files of a home say (they are empty), copies (nobody can read one), and what a lock prevents.
 */
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { type HomeNames, namesOf } from "./facts.ts";
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
 * A machine that the agent does not know and that stays the same for a whole run: what is where, and what opens what,
 * only its error messages tell. It measures what predicting the world is worth. Made for this project; the setting is
 * ECHO's, arXiv 2605.24517.
 */
export const home: EnvironmentSpec<HomeOptions> = defineGame<typeof HOME, HomeFamily, HomeTask, HomeState>({
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
  // It guesses, reads what it is told, and gives up: only the last of these is worth imitating.
  novice(episode, rng) {
    const { task, state, turns } = episode;
    if (turns === 0) return { action: guess(rng, task.text, task.facts.names), isGuess: true };
    return { action: state.isTold ? expert(episode) : "done", isGuess: false };
  },
});
