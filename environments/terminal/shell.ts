/**
 * The shell: runs a line as a sequence of pipelines over one file system. A pipeline's commands run one after the
 * other, each to its end, with the text between them kept in memory: with finite files that gives what concurrent
 * processes would print.
 *
 * It keeps the working directory between lines, as a session does. It never throws, whatever the line is, and always
 * ends.
 */
import { COMMANDS } from "./commands.ts";
import { Errno } from "./errno.ts";
import { HOME, type FileSystem } from "./filesystem.ts";
import { expandWord } from "./glob.ts";
import { parse, ShellSyntaxError, type Command, type Pipeline } from "./parser.ts";
import { BUDGET, CommandFailure, Killed, Process, type Ending } from "./process.ts";

/** A longer line is refused. */
export const MAX_LINE = 2_000;

export interface LineResult {
  /** The text that appeared on the terminal, standard output and errors as they came. */
  readonly output: string;
  /** Exit code of the last command that ran; 0 for an empty line. */
  readonly code: number;
  /** Set when the line ran `answer` or `done`; what came after it did not run. */
  readonly ending: Ending | undefined;
}

/** A redirection that cannot be made; the message is the shell's. */
class RedirectionFailure extends Error {}

/** One command line's run: what it printed, how it ended, what it may still spend. */
class Run {
  output = "";
  ending: Ending | undefined;
  #left = BUDGET;
  readonly #fs: FileSystem;

  constructor(fs: FileSystem) {
    this.#fs = fs;
  }

  readonly #spend = (work: number): void => {
    this.#left -= work;
    if (this.#left < 0) throw new Killed("Killed");
  };

  readonly #print = (text: string): void => {
    this.#spend(text.length);
    this.output += text;
  };

  /** Runs the pipelines as `&&`, `||` and `;` say; returns the last exit code. */
  all(pipelines: readonly Pipeline[]): number {
    let code = 0;
    for (const { when, commands } of pipelines) {
      if ((when === "&&" && code !== 0) || (when === "||" && code === 0)) continue;
      code = this.#pipeline(commands);
      if (this.ending) break;
    }
    return code;
  }

  #pipeline(commands: readonly Command[]): number {
    const { cwd } = this.#fs;
    let code = 0;
    let between = "";
    for (const [index, command] of commands.entries()) {
      const chunks: string[] = [];
      const isLast = index === commands.length - 1;
      const write = (text: string): void => {
        this.#spend(text.length);
        chunks.push(text);
      };
      code = this.#command(command, between, isLast ? this.#print : write);
      between = chunks.join("");
      if (commands.length > 1) this.#fs.cwd = cwd; // each command of a pipeline is a process of its own
      if (this.ending) break;
    }
    return code;
  }

  /** One command with its redirections; the return value is its exit code. */
  #command(command: Command, stdin: string, stdout: (text: string) => void): number {
    try {
      const words = command.words.flatMap((word) => expandWord(word, this.#fs, this.#spend));
      const streams = this.#redirect(command, { stdin, out: stdout, err: this.#print });
      const name = words[0];
      if (name === undefined) return 0; // only redirections: the files have been made
      const run = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
      if (!run) return notFound(name, this.#fs, streams.err);
      try {
        const finish = (ending: Ending): void => void (this.ending = ending);
        return run(new Process(name, words.slice(1), this.#fs, { ...streams, spend: this.#spend, finish }));
      } catch (error) {
        if (error instanceof CommandFailure) {
          streams.err(`${error.message}\n`);
          return error.code;
        }
        if (error instanceof Errno) {
          streams.err(`${name}: ${error.message}\n`);
          return 1;
        }
        throw error;
      }
    } catch (error) {
      if (!(error instanceof RedirectionFailure)) throw error;
      this.#print(`${error.message}\n`);
      return 1;
    }
  }

  /** Opens the files of the redirections, in order: `>` empties its file even if the command then fails. */
  #redirect(
    command: Command,
    streams: { stdin: string; out: (text: string) => void; err: (text: string) => void },
  ): { stdin: string; out: (text: string) => void; err: (text: string) => void } {
    let { stdin, out, err } = streams;
    for (const { kind, target } of command.redirections) {
      if (kind === "2>&1") {
        err = quietly(out);
        continue;
      }
      const paths = expandWord(target, this.#fs, this.#spend);
      if (paths.length > 1) throw new RedirectionFailure(`${target.text}: ambiguous redirect`);
      const path = paths[0]!;
      try {
        if (kind === "<") {
          stdin = this.#fs.read(path);
          this.#spend(stdin.length);
          continue;
        }
        this.#fs.write(path, "", kind.endsWith(">>"));
      } catch (error) {
        if (!(error instanceof Errno)) throw error;
        throw new RedirectionFailure(`${path}: ${error.message}`);
      }
      const append = (text: string): void => {
        this.#spend(text.length);
        if (text !== "") this.#fs.write(path, text, true);
      };
      if (kind.startsWith("2")) err = quietly(append);
      else out = append;
    }
    return { stdin, out, err };
  }
}

/** Drops messages that cannot be written because the file is gone or full, as a real shell does. */
function quietly(write: (text: string) => void): (text: string) => void {
  return (text) => {
    try {
      write(text);
    } catch (error) {
      if (!(error instanceof Errno)) throw error;
    }
  };
}

/** Writes bash's message for a name that it cannot run; returns the exit code. */
function notFound(name: string, fs: FileSystem, err: (text: string) => void): number {
  if (!name.includes("/")) {
    err(`${name}: command not found\n`);
    return 127;
  }
  const node = fs.peek(name);
  const reason = !node
    ? "No such file or directory"
    : node.kind === "directory"
      ? "Is a directory"
      : "Permission denied";
  err(`${name}: ${reason}\n`);
  return node ? 126 : 127;
}

/** Runs one line typed into the shell. Never throws; the file system and its working directory are changed in place. */
export function runLine(line: string, fs: FileSystem): LineResult {
  if (line.length > MAX_LINE) return { output: "Argument list too long\n", code: 126, ending: undefined };
  const run = new Run(fs);
  try {
    const code = run.all(parse(line, HOME));
    return { output: run.output, code, ending: run.ending };
  } catch (error) {
    if (error instanceof ShellSyntaxError) return { output: `${error.message}\n`, code: 2, ending: undefined };
    if (error instanceof Killed) return { output: `${run.output}Killed\n`, code: 137, ending: undefined };
    throw error;
  }
}
