/** What a task's episode runs on, whatever engine is behind it. */
import { WorldgradError } from "../../engine/errors.ts";
import type { CommandLimits, CommandResult } from "../sandbox/session.ts";
import type { HarborTask, Variables } from "./task.ts";

/** A script of the host's. */
export interface HostScript {
  /** Its absolute path inside; `bash` runs it. */
  readonly file: string;
  readonly env: Variables;
  readonly seconds: number;
  /** Where its output goes, an absolute path inside. */
  readonly log: string;
  /** Whether stand-ins for apt-get, pip, uv and curl come first on its PATH. */
  readonly standIns?: boolean;
}

/** How a script of the host's ended: its exit code; undefined: it was stopped, or the machine is gone. */
export interface ScriptEnd {
  readonly code: number | undefined;
  readonly isLate: boolean;
}

/** A file that the host reads at the end: its bytes, or why they are not taken. */
export type FoundFile = { readonly bytes: Buffer } | { readonly problem: string } | undefined;

/** A machine of one episode. Of what an agent can bring about nothing throws: it is told by the results. */
export interface Machine {
  /** Runs a command of the agent's in its shell, whose directory and variables last. */
  run(command: string, limits: CommandLimits): Promise<CommandResult>;
  /** Unpacks an archive of tar's format into a new directory inside. @returns whether it is there */
  put(archive: Buffer, to: string): Promise<boolean>;
  /**
   * Files that were made or changed since the machine was started and that tests in Python load of their own accord
   * (conftest.py, *.pth, …): the way in which such tests are made to say yes. A few at most. Undefined: nobody looked.
   */
  suspects(): Promise<readonly string[] | undefined>;
  /** Runs a script of the host's in the task's directory, beside whatever the agent has begun. */
  script(script: HostScript): Promise<ScriptEnd>;
  /** Removes files. */
  remove(paths: readonly string[]): Promise<void>;
  /** Ends all processes of the agent's and of scripts. @returns false if the machine is gone */
  stop(): Promise<boolean>;
  /** Reads a file, after `stop`: no link, and no more than so many bytes. Undefined: there is none. */
  read(path: string, most: number): Promise<FoundFile>;
  close(): void;
}

/** An engine: it builds tasks, once each, and starts machines with them. */
export interface Engine {
  /** @throws WorldgradError in one line if it cannot be used here */
  check(): Promise<void>;
  /** Builds a task unless that was done. @throws BuildError */
  build(task: HarborTask): Promise<void>;
  /** A machine with the built task, in which nothing of tests or solution is. */
  start(task: HarborTask): Promise<Machine>;
}

/** The error of a task that cannot be built here, in one line. */
export class BuildError extends WorldgradError {}

/** The directories of Harbor that a task finds. */
export const LOGS = ["/logs/verifier", "/logs/agent", "/logs/artifacts"] as const;
