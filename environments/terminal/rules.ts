/**
 * The answers of `terminal`, and its scripted players: an expert, and a random player, which observes nothing. It is
 * loaded later: it imports no value of ../game.ts.
 */
import type { Rng } from "../../engine/index.ts";
import type { GameRules, Move } from "../game.ts";
import { drawWord, EXTENSIONS, isHeldOut, NAMES } from "../words.ts";
import type { TERMINAL, TerminalEpisode, TerminalState } from "./episode.ts";
import type { Family } from "./families.ts";
import { runLine } from "./shell.ts";
import { makeTask, type TerminalTask } from "./tasks.ts";

/**
 * A plausible line of shell with names of the task, if it is given, else of the training split; one in five ends the
 * episode.
 */
function randomAction(rng: Rng, task: string = "", { everyday }: { readonly everyday: boolean }): string {
  const isName = (word: string): boolean => (everyday ? NAMES.includes(word) : isHeldOut(word) !== undefined);
  const names = task.split(/[^a-z]/).filter(isName);
  const other = (): string => (everyday ? rng.choice(NAMES) : drawWord(rng, "train"));
  const word = (): string => (names.length > 0 ? rng.choice(names) : other());
  const file = (): string => `${word()}.${rng.choice(EXTENSIONS)}`;
  const path = (): string => (rng.int(2) === 0 ? file() : `${word()}/${file()}`);
  const number = (): string => String(1 + rng.int(20));
  const commands: readonly (() => string)[] = [
    () => "ls",
    () => `ls ${word()}`,
    () => `cd ${word()}`,
    () => `cat ${path()}`,
    () => `wc -l ${path()}`,
    () => `grep ${word()} ${path()}`,
    () => `grep -rl ${word()} .`,
    () => `find . -name ${file()}`,
    () => `sort -n ${path()} | tail -n 1`,
    () => `cat ${word()}/* | grep -c ${word()}`,
    () => `mkdir ${word()}/${word()}`,
    () => `echo ${word()} > ${path()}`,
    () => `mv ${path()} ${word()}`,
    () => `cp ${path()} ${word()}`,
    () => `rm ${word()}/*.tmp`,
  ];
  const endings: readonly (() => string)[] = [
    () => `answer ${word()}`,
    () => `answer ${number()}`,
    () => `answer ${file()}`,
    () => "done",
  ];
  return rng.choice(rng.int(5) === 0 ? endings : commands)();
}

/**
 * Every action is a line of shell; every observation is what a terminal would show for it. `answer TEXT` or `done` ends
 * the episode.
 */
function play(episode: TerminalEpisode, action: string): Move<TerminalState> {
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
 * The text that the terminal shows: the output without its last line end, cut in the middle if too long, and a non-zero
 * exit code.
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

export const rules: GameRules<typeof TERMINAL, Family, TerminalTask, TerminalState> = {
  makeTask,
  start: ({ fs }) => ({ fs, planned: 0 }),
  play,
  // It goes back home if the agent has wandered off, and else runs the first command of the plan that has not been run.
  // It cannot repair a tree that has been damaged.
  expert: ({ task: { plan }, state: { fs, planned } }) => (fs.isAtHome ? (plan[planned] ?? "done") : "cd"),
  random: randomAction,
};
