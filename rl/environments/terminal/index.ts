/**
 * `terminal`: a Unix-like shell in memory, over generated file trees. The agent types lines of shell and sees what a terminal
 * shows; it ends the episode with `answer TEXT` or `done`. Read it in this order: words.ts, world.ts (what is generated),
 * tasks-*.ts and tasks.ts (what is asked), parser.ts, shell.ts, commands*.ts (what is typed), environment.ts (the episode).
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * read (level 1): read a file whose path is given
 *     What does hen.cfg say?
 *     $ cat hen.cfg
 *     crab
 *     $ answer crab
 *
 * list (level 1): name the only file in a directory
 *     Which file is in rope?
 *     $ ls rope
 *     hen.log
 *     $ answer hen.log
 *
 * lines (level 1): count the lines of a file
 *     How many lines has hen.cfg?
 *     $ wc -l hen.cfg
 *     3 hen.cfg
 *     $ answer 3
 *
 * find (level 2): find the directory in which a file lies
 *     Which directory holds hen.cfg?
 *     $ find . -name hen.cfg
 *     ./snow/hen.cfg
 *     $ answer snow
 *
 * config (level 2): look up a key in a configuration file
 *     Look up seal in hen.cfg
 *     $ grep seal hen.cfg
 *     seal=59
 *     $ answer 59
 *
 * make (level 2): make a directory inside another
 *     Make the directory snow/hen
 *     $ mkdir snow/hen
 *     $ done
 *
 * write (level 2): write a new file with a given text
 *     Write crab to hen.cfg
 *     $ echo crab > hen.cfg
 *     $ done
 *
 * largest (level 3): find the largest number in a file
 *     Find the largest number of hen.log
 *     $ sort -n hen.log | tail -n 1
 *     69
 *     $ answer 69
 *
 * move (level 3): move a file to another directory
 *     Put hen.txt into snow
 *     $ mv hen.txt snow
 *     $ done
 *
 * copy (level 3): copy a file to another directory
 *     Make a copy of hen.txt in snow
 *     $ cp hen.txt snow
 *     $ done
 *
 * clean (level 3): delete the .tmp files of a directory, and no others
 *     Delete all .tmp files in snow
 *     $ rm snow/*.tmp
 *     $ done
 *
 * seek (level 4): find a file somewhere, then read it
 *     Find hen.cfg and say what it says
 *     $ find . -name hen.cfg
 *     ./snow/hen.cfg
 *     $ cat ./snow/hen.cfg
 *     crab
 *     $ answer crab
 *
 * count (level 4): count the lines with a word over all files of a directory
 *     Count lines with hen in rope
 *     $ cat rope/* | grep -c hen
 *     6
 *     $ answer 6
 *
 * follow (level 4): read a file that names another file, then read that
 *     Follow plum.txt and read that file
 *     $ cat plum.txt
 *     snow/hen.cfg
 *     $ cat snow/hen.cfg
 *     crab
 *     $ answer crab
 *
 * relocate (level 4): find the file that says a word, then move it
 *     Find which file says crab; move it to snow
 *     $ grep -rl crab .
 *     ./hawk/hen.txt
 *     $ mv ./hawk/hen.txt snow
 *     $ done
 *
 * The tree differs from seed to seed, the answer never stands in the task, and a changed tree is compared in full. The shell is
 * a model of a terminal, no terminal: no variables, substitutions, loops, jobs, permissions, times or programs. Where it is
 * known to differ from the real one: `wc < file` pads its columns as for a pipe, `cp -r d d/x` copies nothing, and `find` and
 * `grep -r` list in order of names.
 */
import { check } from "../../../engine/errors.ts";
import type { EnvironmentSpec } from "../environment.ts";
import { TerminalEnvironment, type TerminalOptions } from "./environment.ts";
import { randomAction } from "./random.ts";
import { FAMILIES } from "./tasks.ts";

export { TerminalEnvironment, type TerminalOptions } from "./environment.ts";

export const terminal: EnvironmentSpec<TerminalOptions> = {
  name: "terminal",
  description: "work in a Unix-like shell: answer questions about files, or change them",
  families: FAMILIES.map(({ name, level, description }) => ({ name, level, description })),
  make: (options) => new TerminalEnvironment(options),
  expert: (env) => {
    check(env instanceof TerminalEnvironment, () => `terminal.expert: expected a terminal episode, got "${env.name}"`);
    return env.expertAction();
  },
  random: randomAction,
};
