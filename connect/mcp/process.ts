/**
 * An MCP server that is started as a child process and spoken to over its standard input and output.
 *
 * The process leads a group of its own, and the whole group ends with the session: a wrapper (`npx`, `sh -c`, `uvx`)
 * passes no signal on, so that the server behind it would stay (modelcontextprotocol/typescript-sdk#2023). The group is
 * asked first (SIGTERM), because a server has things to end that left the group, such as browsers and containers, and
 * killed if it is still there after two seconds. If this process dies without a word, a shell that waits for the end of
 * a pipe does the same.
 */
import { Lines } from "./lines.ts";

/** An MCP server that is started for a session, as a child process; it gets no variable that is not named here. */
export interface McpCommand {
  readonly command: string;
  readonly args?: readonly string[];
  /** Environment variables, beside a few harmless ones (PATH, HOME, …) that the client's library passes on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

type Socket = import("node:net").Socket;
type ChildProcess = import("node:child_process").ChildProcessWithoutNullStreams;
type Watcher = import("node:child_process").ChildProcessByStdio<import("node:stream").Writable, null, null>;
type Types = typeof import("@modelcontextprotocol/sdk/types.js");
type Message = import("@modelcontextprotocol/sdk/types.js").JSONRPCMessage;

/** Milliseconds from the request to end until processes that are still there are killed. */
const GRACE = 2000;
/** The shell script of the watcher. Its input ends when the process that started it dies; $0 is the group. */
const WATCHER = `read -r _; kill -s TERM -- "-$0"; sleep ${GRACE / 1000}; kill -s KILL -- "-$0"`;

const processes = (): typeof import("node:child_process") => globalThis.process.getBuiltinModule("node:child_process");

/** A transport of the SDK's client: a server in a process group. POSIX only. */
export class ServerProcess {
  onmessage: ((message: Message) => void) | undefined;
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  readonly #child: ChildProcess;
  readonly #started: Promise<void>;
  /** The reason for ending a server that wrote what it must not. */
  fault: string | undefined;
  readonly #types: Types;
  readonly #heard: Lines;
  #watcher: Watcher | undefined;
  #ending: Promise<void> | undefined;

  /** @param env all variables that the process gets */
  constructor(
    { command, args = [], cwd }: McpCommand,
    env: Record<string, string>,
    maxMessageBytes: number,
    types: Types,
  ) {
    this.#types = types;
    this.#heard = new Lines(maxMessageBytes);
    const child = processes().spawn(command, [...args], { detached: true, env, ...(cwd === undefined ? {} : { cwd }) });
    this.#child = child;
    this.#started = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("spawn", () => {
        child.on("error", (error) => this.onerror?.(error));
        resolve();
      });
    });
    this.#started.then(
      () => (this.#watcher = watcherOf(child.pid!)),
      () => undefined, // who calls `start` gets the error
    );
    child.stdin.on("error", (error) => this.onerror?.(error));
    child.stdout.on("data", (chunk: Buffer) => this.#hear(chunk));
    // Processes that a dead server leaves behind would keep its output open and hide its death.
    child.once("exit", () => void this.#end());
    child.once("close", () => this.onclose?.());
  }

  get stderr(): ChildProcess["stderr"] {
    return this.#child.stderr;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  start(): Promise<void> {
    return this.#started;
  }

  send(message: Message): Promise<void> {
    return new Promise((resolve) => {
      if (this.#child.stdin.write(`${JSON.stringify(message)}\n`)) resolve();
      else this.#child.stdin.once("drain", resolve);
    });
  }

  /** Ends all processes of the group; returns when they are gone. */
  async close(): Promise<void> {
    const { stdin, stdout, stderr } = this.#child;
    await this.#end();
    // A process that left the group may hold them open.
    for (const stream of [stdin, stdout, stderr]) stream.destroy();
  }

  #end(): Promise<void> {
    const { pid } = this.#child;
    this.#ending ??=
      pid === undefined ? Promise.resolve() : endGroup(pid).then(() => void this.#watcher?.kill("SIGKILL"));
    return this.#ending;
  }

  #hear(chunk: Buffer): void {
    if (this.fault !== undefined) return;
    try {
      for (const message of this.#heard.read(chunk)) {
        const read = this.#types.JSONRPCMessageSchema.safeParse(message);
        if (read.success) this.onmessage?.(read.data);
      }
    } catch (error) {
      this.fault = `the server wrote ${(error as Error).message}`;
      this.onerror?.(error as Error);
      void this.close();
    }
  }
}

/** Asks all processes of a group to end, and kills those that are still there after `GRACE`. */
async function endGroup(group: number): Promise<void> {
  const reaches = (signal: NodeJS.Signals | 0): boolean => {
    try {
      return globalThis.process.kill(-group, signal);
    } catch {
      return false; // nobody is left
    }
  };
  reaches("SIGTERM");
  for (let waited = 0; reaches(0); waited += 20) {
    if (waited >= GRACE) return void reaches("SIGKILL");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Starts the shell that ends a group if this process dies. Without a shell the group ends with its session only. */
function watcherOf(group: number): Watcher {
  const watcher = processes().spawn("/bin/sh", ["-c", WATCHER, String(group)], {
    detached: true, // Ctrl-C of a terminal does not reach it
    cwd: "/",
    env: { PATH: "/usr/bin:/bin" },
    stdio: ["pipe", "ignore", "ignore"],
  });
  watcher.on("error", () => undefined);
  watcher.stdin.on("error", () => undefined);
  // Neither of the two keeps this process alive. In Bun a pipe has no `unref`, and does not.
  watcher.unref();
  (watcher.stdin as Partial<Socket>).unref?.();
  return watcher;
}

/** Ends a process and all that it started, on Windows, which has no groups. */
export function endTree(pid: number): void {
  const taskkill = processes().spawn("taskkill", ["/pid", String(pid), "/T", "/F"], {
    stdio: "ignore",
    windowsHide: true,
  });
  taskkill.on("error", () => undefined); // it is part of Windows
}
