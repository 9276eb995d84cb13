/**
 * `terminal`: a Unix-like shell in memory, over generated file trees. The agent types lines of shell; `answer TEXT` or
 * `done` ends the episode. Read it in this order: ../words.ts, world.ts (what is generated), families.ts and tasks.ts
 * (what is asked), parser.ts, shell.ts, commands*.ts (what is typed), rules.ts (the episode). The tasks and the shell
 * are loaded when an episode first needs them. docs/worlds.md shows episodes, and says where a real shell differs.
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
    expert: true,
  },
  () => import("./rules.ts"),
);
