/**
 * `shell`: a real bash. Each episode has a sandbox of its own with generated files, in which lines of shell are run;
 * `answer TEXT` or `done` ends the episode. It runs on Linux, in Node. docs/shell.md says what the sandbox holds.
 */
import { defineGame, type EnvironmentSpec, type FamilyInfo, type LoadedGame } from "../../environments/index.ts";
import { FAMILIES } from "./families.ts";
import { type BASH, SHELL, type ShellOptions } from "./options.ts";

export { taskFolder, type TaskFolder } from "./folder.ts";
export type { ShellOptions } from "./options.ts";

/**
 * Milliseconds for all that is not a command of the agent's: a sandbox is started in 0.1 s and judged in 0.02 s, on a
 * machine that is busy in far more.
 */
const PATIENCE = 30_000;

/** What the heads of all worlds with a real bash say. */
export const headOf = (
  name: string,
): Pick<LoadedGame<typeof BASH, FamilyInfo>, "close" | "atOnce" | "limits" | "check"> => ({
  close: true,
  atOnce: ({ sessions }) => sessions,
  limits: ({ seconds }) => ({ reset: PATIENCE, step: 1000 * seconds + PATIENCE }),
  check: async (options) => (await import("./bash.ts")).checkSandbox(name, options),
});

/** A real bash in a sandbox: answer questions about files, or change them. The setting is ECHO's, arXiv 2605.24517. */
export const shell: EnvironmentSpec<ShellOptions> = defineGame(
  {
    name: "shell",
    description: "work in a real bash, in a sandbox: answer questions about files, or change them",
    source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
    families: FAMILIES,
    options: SHELL,
    expert: true,
    ...headOf("shell"),
  },
  () => import("./rules.ts"),
);
