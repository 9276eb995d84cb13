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
import type { EnvironmentSpec } from "../environment.ts";
import { defineGame, type Episode, type Game, type Move } from "../game.ts";
import { number } from "../../engine/optionTable.ts";
import type { OptionsWith } from "../options.ts";
import { FAMILIES, type Family } from "./families.ts";
import type { FileSystem } from "./filesystem.ts";
import { randomAction } from "./random.ts";
import type { TerminalTask } from "./tasks.ts";

const TERMINAL = {
  size: number(1, "number and depth of directories, number of files, length of contents", {
    integer: true,
    min: 1,
    max: 4,
  }),
  maxOutput: number(1_000, "longest observation in characters; longer ones lose their middle", {
    integer: true,
    min: 40,
  }),
  formatWeight: number(0, "weight of the share of commands without error; solving counts most", { min: 0, below: 1 }),
};
/**
 * Options of `terminal`, beside `EnvironmentOptions`: the `size` of its file tree, 1 (default) to 4; `maxOutput`, the
 * longest observation in characters (default 1,000; longer ones lose their middle); and `formatWeight`, what the share
 * of commands with exit code 0 adds to the reward at the end (default 0: the reward is 1 if the task is solved, else
 * 0).
 */
export type TerminalOptions = OptionsWith<typeof TERMINAL>;

interface TerminalState {
  readonly fs: FileSystem;
  /** How many of the plan's commands have been run. */
  readonly planned: number;
}

type TerminalEpisode = Episode<typeof TERMINAL, TerminalTask, TerminalState>;

/**
 * Every action is a line of shell; every observation is what a terminal would show for it. `answer TEXT` or `done` ends
 * the episode.
 */
async function play(episode: TerminalEpisode, action: string): Promise<Move<TerminalState>> {
  const { runLine } = await import("./shell.ts");
  const { task, state, options, turns, toolErrors } = episode;
  const { maxOutput, formatWeight } = options;
  const isPlanned = action.trim() === task.plan[state.planned] && state.fs.isAtHome;
  const fs = state.fs.copy();
  const { output, code, ending } = runLine(action, fs);
  const failed = code !== 0;
  const move: Move<TerminalState> = {
    observation: render(output, code, maxOutput),
    state: { fs, planned: state.planned + (isPlanned ? 1 : 0) },
    failed,
    info: { exitCode: code },
  };
  if (!ending) return move;
  const score = task.verify(ending, fs) ? 1 : 0;
  const cleanShare = 1 - (toolErrors + (failed ? 1 : 0)) / (turns + 1);
  return { ...move, ending: { kind: ending.kind, score }, reward: score + formatWeight * cleanShare };
}

/**
 * What the terminal shows: the output without its last line end, cut in the middle if too long, and a non-zero exit
 * code.
 */
export function render(output: string, code: number, limit: number): string {
  let text = output.endsWith("\n") ? output.slice(0, -1) : output;
  if (text.length > limit) {
    const half = Math.floor((limit - 32) / 2); // 32: room for the marker
    // A surrogate pair is never cut in two.
    const start = /[\uD800-\uDBFF]$/.test(text.slice(0, half)) ? half - 1 : half;
    const end = /^[\uDC00-\uDFFF]/.test(text.slice(-half)) ? half - 1 : half;
    const missing = text.length - start - end;
    text = `${text.slice(0, start)}\n[... ${missing} characters ...]\n${text.slice(text.length - end)}`;
  }
  if (code === 0) return text;
  return text === "" ? `[exit ${code}]` : `${text}\n[exit ${code}]`;
}

export const game: Game<typeof TERMINAL, Family, TerminalTask, TerminalState> = {
  name: "terminal",
  description: "work in a Unix-like shell: answer questions about files, or change them",
  source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
  families: FAMILIES,
  options: TERMINAL,
  makeTask: async (...drawn) => (await import("./tasks.ts")).makeTask(...drawn),
  start: ({ fs }) => ({ fs, planned: 0 }),
  play,
  // It goes back home if the agent has wandered off, and else runs the first command of the plan that has not been run.
  // It cannot repair a tree that has been damaged.
  expert: ({ task: { plan }, state: { fs, planned } }) => (fs.isAtHome ? (plan[planned] ?? "done") : "cd"),
  random: randomAction,
};

/**
 * A Unix-like shell in memory, over generated file trees: answer questions about files, or change them. Lines of shell
 * are actions; `answer TEXT` or `done` ends the episode. Made for this project; the setting is ECHO's,
 * arXiv 2605.24517.
 */
export const terminal: EnvironmentSpec<TerminalOptions> = defineGame(game);
