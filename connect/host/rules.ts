/** The rules of `host`, loaded with its first episode, in Node only. */
import type { GameRules } from "../../environments/index.ts";
import { type BashState, close, planned, play, start } from "../shell/bash.ts";
import { guess, type HOST, type HostFamily, type HostTask, makeTask } from "./tasks.ts";

export const rules: GameRules<typeof HOST, HostFamily, HostTask, BashState> = {
  makeTask,
  start,
  play,
  expert: planned,
  random: (rng, task = "", { size }) => (rng.int(8) === 0 ? "done" : guess(rng, task, size)),
  // It guesses, reads what the script says, and gives up: only what follows the guess is worth imitating.
  novice: ({ task, turns, options }, rng) =>
    turns === 0 ? { action: guess(rng, task.text, options.size), isGuess: true } : { action: "done", isGuess: false },
  close,
};
