/** The options of the worlds with a real bash. */
import { number, oneOf } from "../../engine/optionTable.ts";
import type { OptionsWith } from "../../environments/index.ts";
import { TERMINAL } from "../../environments/terminal/shared.ts";

const COUNT = { integer: true, min: 1 };

/** What all worlds with a real bash have. */
export const BASH = {
  size: TERMINAL.size,
  maxOutput: TERMINAL.maxOutput,
  seconds: number(2, "seconds that a command may take", { above: 0, max: 3600 }),
  sessions: number(16, "sandboxes at a time", COUNT),
  processes: number(32, "processes that a sandbox may have at a time", { integer: true, min: 8 }),
  memoryMb: number(1024, "MiB of address space that a process may have", { integer: true, min: 64 }),
  answers: oneOf(
    ["own", "other"],
    "own",
    "whose answers the agent is shown: its machine's, or as a control another one's, where the same lines are run",
  ),
  diskMb: number(4, "MiB that may be written to the home directory, and as many to /tmp", COUNT),
};

export const SHELL = { ...BASH, everyday: TERMINAL.everyday, slips: TERMINAL.slips };
/** Options of `shell`, beside `EnvironmentOptions`; `SHELL` says what each does, and its default. */
export type ShellOptions = OptionsWith<typeof SHELL>;
