/**
 * A running command of the shell: its arguments, its three streams, the file system, an option parser, and a budget.
 * Every command is a function `(process) => exit code`.
 *
 * The budget is one number for a whole command line, counted in characters read or written and names looked at. It
 * stands in for the memory limit and the time limit of a real sandbox: a line that exceeds it is killed, with the exit
 * code of SIGKILL. So no input can hang an episode, and no command needs a limit of its own.
 */
import { Errno } from "./errno.ts";
import { joinPath, sortedChildren, type FileSystem, type Node } from "./filesystem.ts";

/** Work that one command line may do. A typical one does less than 1,000. */
export const BUDGET = 2_000_000;

/** Thrown when the budget of a command line is spent. */
export class Killed extends Error {}

/** Ends a command with a message on the error stream. */
export class CommandFailure extends Error {
  readonly code: number;
  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}

/** The agent's ending of the episode. */
export interface Ending {
  readonly kind: "answer" | "done";
  /** The answer; empty for `done`. */
  readonly text: string;
}

export interface Streams {
  readonly stdin: string;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly spend: (work: number) => void;
  readonly finish: (ending: Ending) => void;
}

/** Options, and what is left without them. */
export interface Parsed {
  /** Letter → value; a flag without a value is "". A letter that was given twice keeps its last value. */
  readonly flags: ReadonlyMap<string, string>;
  readonly operands: readonly string[];
}

export class Process {
  readonly name: string;
  readonly args: readonly string[];
  readonly fs: FileSystem;
  readonly stdin: string;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly spend: (work: number) => void;
  readonly finish: (ending: Ending) => void;

  constructor(name: string, args: readonly string[], fs: FileSystem, streams: Streams) {
    this.name = name;
    this.args = args;
    this.fs = fs;
    this.stdin = streams.stdin;
    this.out = streams.out;
    this.err = streams.err;
    this.spend = streams.spend;
    this.finish = streams.finish;
  }

  /** Prints `name: message` on the error stream; returns the exit code, to be returned. */
  complain(message: string, code = 1): number {
    this.err(`${this.name}: ${message}\n`);
    return code;
  }

  /** Ends the command with `name: message`. */
  refuse(message: string, code = 1): never {
    throw new CommandFailure(`${this.name}: ${message}`, code);
  }

  /** Ends the command with `name: message` and the hint that GNU tools give after a wrong call. */
  misuse(message: string, code = 1): never {
    const usage = this.name === "grep" ? "\nUsage: grep [OPTION]... PATTERNS [FILE]..." : "";
    this.refuse(`${message}${usage}\nTry '${this.name} --help' for more information.`, code);
  }

  /**
   * Runs `body`; a file-system error in it is printed as `name: describe(reason)`. Returns whether it went well.
   * @param describe the message for the reason, such as `(r) => "cannot access 'x': " + r`
   */
  attempt(describe: (reason: string) => string, body: () => void): boolean {
    this.spend(1);
    try {
      body();
      return true;
    } catch (error) {
      if (!(error instanceof Errno)) throw error;
      this.complain(describe(error.message));
      return false;
    }
  }

  /** The text of a file, or of the standard input for `-`. @throws Errno */
  read(path: string): string {
    const text = path === "-" ? this.stdin : this.fs.read(path);
    this.spend(text.length);
    return text;
  }

  /**
   * Splits arguments as getopt does: `-abc`, `-n5`, `-n 5`, options after operands, `--` ends them.
   * @param known letters of the options, each followed by ":" if it takes a value, as in "in:r"
   * @param code the exit code of a wrong call
   * @param args what to split, if not the command's arguments as they are
   * @param long long names and the letters that they stand for; one that takes a value is written --name=value
   */
  parse(
    known: string,
    code = 1,
    long: Readonly<Record<string, string>> = {},
    args: readonly string[] = this.args,
  ): Parsed {
    const flags = new Map<string, string>();
    const operands: string[] = [];
    for (let i = 0; i < args.length; i++) {
      const arg = args[i]!;
      if (arg === "--") {
        operands.push(...args.slice(i + 1));
        break;
      }
      if (arg.startsWith("--")) {
        const [name, ...value] = arg.slice(2).split("=");
        if (!Object.hasOwn(long, name!)) this.misuse(`unrecognized option '${arg}'`, code);
        flags.set(long[name!]!, value.join("="));
        continue;
      }
      if (!arg.startsWith("-") || arg === "-") {
        operands.push(arg);
        continue;
      }
      for (let j = 1; j < arg.length; j++) {
        const letter = arg[j]!;
        const position = letter === ":" ? -1 : known.indexOf(letter);
        if (position < 0) this.misuse(`invalid option -- '${letter}'`, code);
        if (known[position + 1] !== ":") {
          flags.set(letter, "");
          continue;
        }
        const value = arg.slice(j + 1) || args[++i];
        if (value === undefined) this.misuse(`option requires an argument -- '${letter}'`, code);
        flags.set(letter, value);
        break;
      }
    }
    return { flags, operands };
  }
}

/** A name as GNU tools quote it in messages. */
export function quote(name: string): string {
  return name.includes("'") ? `"${name}"` : `'${name}'`;
}

/** Lines of a text without their line ends; a text that does not end in one has a last line all the same. */
export function splitLines(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

/** Each line with a line end. */
export function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

/** Visits a node and all below it, parents first, in order; `visit` returns false to stay out of a directory. */
export function walk(
  process: Process,
  path: string,
  node: Node,
  visit: (path: string, node: Node, depth: number) => boolean,
  depth = 0,
): void {
  process.spend(1 + path.length);
  if (!visit(path, node, depth) || node.kind === "file") return;
  for (const [name, child] of sortedChildren(node)) walk(process, joinPath(path, name), child, visit, depth + 1);
}
