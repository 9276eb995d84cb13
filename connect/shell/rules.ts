/** The rules of `shell`, loaded with its first episode, in Node only. */
import type { FamilyInfo, GameRules } from "../../environments/index.ts";
import { rules as ofTerminal } from "../../environments/terminal/shared.ts";
import { type BashState, close, planned, play, start } from "./bash.ts";
import type { FamilyName } from "./families.ts";
import type { SHELL } from "./options.ts";
import { makeTask, type ShellTask } from "./tasks.ts";

export const rules: GameRules<typeof SHELL, FamilyInfo & { readonly name: FamilyName }, ShellTask, BashState> = {
  makeTask(rng, family, options) {
    const task = makeTask(rng, family, options);
    if (options.answers === "own") return task;
    const { files } = makeTask(rng.split("another machine"), family, options);
    return { ...task, others: files };
  },
  start,
  play,
  expert: planned,
  random: (rng, task, options) => ofTerminal.random(rng, task, { ...options, formatWeight: 0 }),
  close,
};
