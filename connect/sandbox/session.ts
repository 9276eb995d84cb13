/**
 * A session of bash in a sandbox: commands in, output and exit codes out. Directory and variables last from command to
 * command. A command that does not end is stopped, and the session goes on; a session that does not answer is given up.
 */
import { randomBytes } from "node:crypto";
import { type SandboxLimits, type Started, startBubblewrap } from "./bubblewrap.ts";
import { HOME_ONLY, type SandboxKind } from "./kinds.ts";
import { CommandOutput } from "./output.ts";

/** What a command may take and show. */
export interface CommandLimits {
  /** Seconds until the command is stopped. */
  readonly seconds: number;
  /** Bytes of output that are shown; of more, the first and the last half of them. */
  readonly outputBytes: number;
}

/** What ended a command that did not end by itself, or ended the session. */
export type CommandProblem = "timeout" | "too much output" | "gone";

/** The result of a command. */
export interface CommandResult {
  /** What it wrote to its output and to its error output, in that order of writing. */
  readonly output: string;
  /** Its exit code; undefined if there was a problem. */
  readonly code: number | undefined;
  readonly problem: CommandProblem | undefined;
}

/** A command is stopped when it has written so many bytes. */
const MOST_BYTES = 2 ** 22;
/** Letters of a command; the shell reads them one by one. */
const MOST_LETTERS = 2 ** 16;
/** Milliseconds from TERM to KILL, and from KILL until the session is given up. */
const [PATIENCE, LAST_PATIENCE] = [200, 4000];
/** Milliseconds that a session has for its end before it is killed. */
const CLOSING = 1000;

/**
 * Output with the errors of an interactive shell, which names no script and no line of one. Such an error may stand
 * within a line: two parts of a pipeline that complain at once write into each other.
 */
export const withoutLines = (text: string): string =>
  text
    .replaceAll(/^(?:bash|environment|\/tmp\/\.state\.[01]): (?:eval: )?(?:line \d+: |(?=warning: ))/gm, "bash: ")
    .replaceAll(/(?<=: )environment: line \d+: /g, "bash: ");

/** Whose command it is; see supervisor.ts. */
type Who = "agent" | "host" | "beside";

interface Running {
  readonly who: Who;
  readonly mark: string;
  readonly output: CommandOutput;
  code: number | undefined;
  /** Called when something about the command may have changed. */
  readonly update: () => void;
}

/** A sandbox with a shell in it. `run` is called for one command at a time. */
export class Session {
  readonly kind: SandboxKind;
  readonly #started: Started;
  #pid: number | undefined;
  #isGone = false;
  #running: Running | undefined;
  /** The last lines of the second channel: the errors of `bwrap`, should it fail. */
  #said = "";

  /** @param start starts the supervisor, by default in bubblewrap */
  constructor(limits: SandboxLimits, kind: SandboxKind = HOME_ONLY, start = startBubblewrap) {
    this.kind = kind;
    const started = (this.#started = start(kind, limits));
    void started.pid.then((pid) => (this.#pid = pid));
    const end = (): void => {
      this.#isGone = true;
      this.#running?.update();
    };
    started.stdin.on("error", end);
    started.stdout.on("data", (chunk: Buffer) => {
      if (this.#running?.who === "agent") this.#running.output.add(chunk);
      this.#running?.update();
    });
    started.status.on("data", (chunk: Buffer) => this.#hear(chunk));
    started.child.on("error", (error) => {
      this.#said += error.message;
      end();
    });
    started.child.on("exit", end);
    // Nobody reads what a job in the background writes between two commands; it waits until somebody does.
    started.stdout.pause();
  }

  #hear(chunk: Buffer): void {
    const said = this.#said + chunk.toString("latin1");
    this.#said = said.slice(-2000);
    const running = this.#running;
    if (running === undefined) return;
    if (running.who !== "agent") running.output.add(chunk);
    const code = new RegExp(`${running.mark}:(\\d+)\n`).exec(said)?.[1];
    if (code !== undefined) running.code = Number(code);
    running.update();
  }

  /** The last line of the errors of a sandbox that could not be started; undefined if it said nothing. */
  get error(): string | undefined {
    const isStatus = /^[0-9a-f]{32}:\d+$/;
    return this.#said.split("\n").findLast((line) => line.trim() !== "" && !isStatus.test(line));
  }

  /** The number of process 1, as the host counts; undefined if it never began. */
  get pid(): Promise<number | undefined> {
    return this.#started.pid;
  }

  /** Runs a command of the agent, which begins where the last one ended. It never rejects. */
  async run(command: string, limits: CommandLimits): Promise<CommandResult> {
    const { output, code, problem } = await this.#ask("agent", command, limits);
    return { output: withoutLines(output.text()), code: problem ? undefined : code, problem };
  }

  /**
   * Runs a command of the host's, which reads nothing that an agent has left behind but files. It never rejects.
   * @returns the bytes of its output; undefined if it failed, or wrote more than `outputBytes`
   */
  async runForHost(command: string, limits: CommandLimits): Promise<Buffer | undefined> {
    const { output, code, problem } = await this.#ask("host", command, limits);
    return problem !== undefined || code !== 0 ? undefined : output.bytes();
  }

  /**
   * Runs a command of the host's as `runForHost` does, while all that the agent has begun goes on. What programs of the
   * command write can be forged then, unless it goes elsewhere. It never rejects.
   * @param data bytes that the command reads from descriptor 10
   */
  async runBeside(command: string, limits: CommandLimits, data?: Buffer): Promise<CommandResult> {
    if (data !== undefined) this.#started.data!.write(data);
    const { output, code, problem } = await this.#ask("beside", command, limits);
    return { output: output.text(), code: problem ? undefined : code, problem };
  }

  #ask(
    who: Who,
    command: string,
    { seconds, outputBytes }: CommandLimits,
  ): Promise<{ output: CommandOutput; code: number | undefined; problem: CommandProblem | undefined }> {
    const mark = randomBytes(16).toString("hex");
    const output = new CommandOutput(mark, outputBytes);
    let problem: CommandProblem | undefined;
    if (this.#isGone) return Promise.resolve({ output, code: undefined, problem: "gone" });
    if (command.length > MOST_LETTERS || command.includes("\0")) {
      output.add(Buffer.from(`${mark}bash: a command has at most ${MOST_LETTERS} letters, and no NUL${mark}\n`));
      return Promise.resolve({ output, code: 126, problem });
    }
    return new Promise((resolve) => {
      const timers: NodeJS.Timeout[] = [];
      let ending: NodeJS.Timeout | undefined;
      const finish = (): void => {
        timers.forEach(clearTimeout);
        clearTimeout(ending);
        const { code } = this.#running!;
        this.#running = undefined;
        if (!this.#isGone) this.#started.stdout.pause();
        resolve({ output, code, problem });
      };
      const giveUp = (): void => {
        problem = "gone";
        finish();
        this.close();
      };
      const stop = (reason: CommandProblem): void => {
        if (problem !== undefined) return;
        problem = reason;
        this.#signal("SIGUSR1");
        timers.push(
          setTimeout(() => this.#signal("SIGUSR2"), PATIENCE),
          setTimeout(giveUp, PATIENCE + LAST_PATIENCE),
        );
      };
      const update = (): void => {
        if (this.#running?.mark !== mark) return;
        if (this.#running.code !== undefined && output.hasEnded) finish();
        // Another process may have read the mark.
        else if (this.#running.code !== undefined && !this.#isGone) ending ??= setTimeout(finish, PATIENCE);
        else if (this.#isGone) giveUp();
        else if (output.total > (who === "agent" ? MOST_BYTES : outputBytes)) stop("too much output");
      };
      this.#running = { who, mark, output, code: undefined, update };
      timers.push(setTimeout(() => stop("timeout"), 1000 * seconds));
      this.#started.stdout.resume();
      this.#started.stdin.write(`${mark}\0${who}\0${command}\0`);
    });
  }

  #signal(name: NodeJS.Signals): void {
    if (this.#pid === undefined || this.#isGone) return;
    try {
      this.#started.signal(this.#pid, name);
    } catch {
      // It has just ended.
    }
  }

  /** Ends the sandbox with all its processes. A second call does nothing. */
  close(): void {
    const { stdin, stdout, data, child } = this.#started;
    if (stdin.writableEnded) return;
    this.#signal("SIGUSR2");
    this.#isGone = true;
    // Process 1 ends with its input, and what is left in the sandbox with process 1.
    stdin.end();
    data?.destroy();
    stdout.resume();
    setTimeout(() => child.kill("SIGKILL"), CLOSING).unref();
  }
}
