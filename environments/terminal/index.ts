/**
 * `terminal`: a Unix-like shell in memory, over generated file trees. The agent types lines of shell and sees what a
 * terminal shows; it ends the episode with `answer TEXT` or `done`. Read it in this order: ../words.ts, world.ts (what
 * is generated), families.ts, tasks-*.ts and tasks.ts (what is asked), parser.ts, shell.ts, commands*.ts (what is
 * typed), this file (the episode). The tasks and the shell are loaded when an episode first needs them.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * read (level 1): read a file whose path is given
 *     Read rilite/betoda.log and answer
 *     $ cat rilite/betoda.log
 *     bedeki
 *     $ answer bedeki
 *
 * list (level 1): name the only file in a directory
 *     Name the file in firida
 *     $ ls firida
 *     tudoka.log
 *     $ answer tudoka.log
 *
 * lines (level 1): count the lines of a file
 *     How many lines has rilite/betoda.log?
 *     $ wc -l rilite/betoda.log
 *     4 rilite/betoda.log
 *     $ answer 4
 *
 * find (level 2): find the directory in which a file lies
 *     Where is betoda.log?
 *     $ find . -name betoda.log
 *     ./firida/betoda.log
 *     $ answer firida
 *
 * config (level 2): look up a key in a configuration file
 *     Look up bilole in rilite/tudoka.cfg
 *     $ grep bilole rilite/tudoka.cfg
 *     bilole=58
 *     $ answer 58
 *
 * make (level 2): make a directory inside another
 *     Make the directory firida/tudoka
 *     $ mkdir firida/tudoka
 *     $ done
 *
 * write (level 2): write a new file with a given text
 *     Make a file rilite/betoda.log that says bedeki
 *     $ echo bedeki > rilite/betoda.log
 *     $ done
 *
 * largest (level 3): find the largest number in a file
 *     Find the largest number of rilite/tudoka.log
 *     $ sort -n rilite/tudoka.log | tail -n 1
 *     97
 *     $ answer 97
 *
 * move (level 3): move a file to another directory
 *     Put dabede.txt into firida
 *     $ mv dabede.txt firida
 *     $ done
 *
 * copy (level 3): copy a file to another directory
 *     Make a copy of dabede.txt in firida
 *     $ cp dabede.txt firida
 *     $ done
 *
 * clean (level 3): delete the .tmp files of a directory, and no others
 *     Remove the .tmp files from firida
 *     $ rm firida/*.tmp
 *     $ done
 *
 * seek (level 4): find a file somewhere, then read it
 *     Look for betoda.log and read it
 *     $ find . -name betoda.log
 *     ./firida/betoda.log
 *     $ cat ./firida/betoda.log
 *     bedeki
 *     $ answer bedeki
 *
 * count (level 4): count the lines with a word over all files of a directory
 *     Count lines with kitudo in firida
 *     $ cat firida/* | grep -c kitudo
 *     9
 *     $ answer 9
 *
 * follow (level 4): read a file that names another file, then read that
 *     Follow mubilo.cfg and read that file
 *     $ cat mubilo.cfg
 *     firida/betoda.log
 *     $ cat firida/betoda.log
 *     bedeki
 *     $ answer bedeki
 *
 * relocate (level 4): find the file that says a word, then move it
 *     Find which file says todabe; move it to firida
 *     $ grep -rl todabe .
 *     ./rilite/kalabe.log
 *     $ mv ./rilite/kalabe.log firida
 *     $ done
 *
 * The tree differs from seed to seed, the answer never stands in the task, and a changed tree is compared in full. The
 * shell is a model of a terminal, no terminal: no variables, substitutions, loops, jobs, permissions, times or
 * programs. Where it is known to differ from the real one: `wc < file` pads its columns as for a pipe, `cp -r d d/x`
 * copies nothing, and `find` and `grep -r` list in order of names.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { TERMINAL, type TerminalOptions } from "./episode.ts";
import { FAMILIES } from "./families.ts";

export type { TerminalOptions } from "./episode.ts";

/**
 * A Unix-like shell in memory, over generated file trees: answer questions about files, or change them. Lines of shell
 * are actions; `answer TEXT` or `done` ends the episode. Made for this project; the setting is ECHO's,
 * arXiv 2605.24517.
 */
export const terminal: EnvironmentSpec<TerminalOptions> = defineGame(
  {
    name: "terminal",
    description: "work in a Unix-like shell: answer questions about files, or change them",
    source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
    families: FAMILIES,
    options: TERMINAL,
  },
  () => import("./rules.ts"),
);
