/** The options of `terminal`, and what an episode knows. */
import { number } from "../../engine/optionTable.ts";
import { type Episode, NAMED, STRICT } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { FileSystem } from "./filesystem.ts";
import type { TerminalTask } from "./tasks.ts";

export const TERMINAL = {
  size: number(1, "number and depth of directories, number of files, length of contents", {
    integer: true,
    min: 1,
    max: 4,
  }),
  maxOutput: number(1_000, "longest observation in characters; longer ones lose their middle", {
    integer: true,
    min: 40,
  }),
  ...NAMED,
  slips: STRICT.slips,
  formatWeight: number(0, "weight of the share of commands without error; solving counts most", { min: 0, below: 1 }),
};
/** Options of `terminal`, beside `EnvironmentOptions`; `TERMINAL` says what each does, and its default. */
export type TerminalOptions = OptionsWith<typeof TERMINAL>;

export interface TerminalState {
  readonly fs: FileSystem;
  /** The number of the plan's commands that have been run. */
  readonly planned: number;
}

export type TerminalEpisode = Episode<typeof TERMINAL, TerminalTask, TerminalState>;
