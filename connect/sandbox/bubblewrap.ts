/**
 * How a sandbox is started with bubblewrap (`bwrap`): which files it sees, what it may use, and as which user. It needs
 * no daemon, no image and no rights beyond those of an ordinary user.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { fail } from "../../engine/errors.ts";
import { DESCRIPTORS, type SandboxKind } from "./kinds.ts";
import { seccompProgram } from "./seccomp.ts";
import { supervisor } from "./supervisor.ts";

/** What a sandbox may use. */
export interface SandboxLimits {
  /** Processes at a time, threads included. */
  readonly processes: number;
  /** MiB of address space that one process may have; all of them together have `processes` times as much. */
  readonly memoryMb: number;
  /** MiB that may be written to each of the file systems of the sandbox's kind. */
  readonly diskMb: number;
  /** Open files of a process. Default 128. */
  readonly openFiles?: number;
  /** Seconds of processor time for one process: the end of a loop that outlives this program. Default 600. */
  readonly cpuSeconds?: number;
}

/** A sandbox that has been started. */
export interface Started {
  readonly child: ChildProcess;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** The supervisor's second channel; before it runs, the errors of `bwrap`. */
  readonly status: Readable;
  /** What commands of the host's read from descriptor `DATA`; no command of an agent's has it. Undefined: no way in. */
  readonly data: Writable | undefined;
  /** Resolves to the number of the supervisor's process, for `signal`; undefined if it never began. */
  readonly pid: Promise<number | undefined>;
  /** Sends the supervisor a signal. @throws if it has just ended */
  readonly signal: (pid: number, name: NodeJS.Signals) => void;
}

/**
 * The host's user as whom sandboxes run if this program runs as root. A sandbox of root's is none: sysctls and files
 * of the host look at the user, whatever the capabilities (`/proc/sys/kernel/core_pattern` could be written).
 */
const HOST_USER = 65_530;

/** The numbers of further descriptors: where `bwrap` says the number of process 1, what it reads, and `DATA`. */
const [INFO, PROGRAM, BASH, SECCOMP] = [3, 7, 8, 9];
const { PASSWD, GROUP, HOSTS, DATA } = DESCRIPTORS;

/**
 * The outermost process. If memory runs out, the sandbox goes first. Descriptors that this program was started with are
 * closed, since Node passes them on.
 */
const OUTER = `
echo 1000 > /proc/self/oom_score_adj
for f in /proc/self/fd/*; do (( \${f##*/} > ${DATA} )) && eval "exec \${f##*/}>&-"; done
"$@" | cat 2>&-`;

function argumentsOf({ user, variables, files, isSealed }: SandboxKind, diskMb: number, hasFilter: boolean): string[] {
  const words = `
    --unshare-all --unshare-user --disable-userns --die-with-parent --new-session --as-pid-1 --cap-drop ALL
    --uid ${user.uid} --gid ${user.gid} --hostname box --clearenv
    ${files(diskMb * 2 ** 20)}
    --info-fd ${INFO} --ro-bind-data ${PROGRAM} /.supervisor --perms 0111 --ro-bind-data ${BASH} /.bash
    ${isSealed ? "--remount-ro /" : ""}`;
  const given = Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
  const filter = hasFilter ? ["--seccomp", String(SECCOMP)] : [];
  const run = ["--chdir", user.home, "/.bash", "-c", 'eval "$(</.supervisor)"', "bash"];
  return [...words.trim().split(/\s+/), ...given, ...filter, ...run];
}

/**
 * Starts a sandbox of a kind. It ends with its input, or with this program.
 *
 * Process 1 runs from a copy of bash that nobody may read: the kernel lets nobody trace such a process, or open its
 * memory and descriptors. Its output passes through `cat`, because Node's pipes are sockets, and `> /dev/stdout` cannot
 * open one.
 */
export function startBubblewrap(kind: SandboxKind, limits: SandboxLimits): Started {
  const filter = seccompProgram();
  const { processes, memoryMb, diskMb, openFiles = 128, cpuSeconds = 600 } = limits;
  // `bwrap` itself writes the copy of bash.
  const [memory, disk] = [memoryMb * 2 ** 20, Math.max(diskMb, 4) * 2 ** 20];
  const rules = [`--as=${memory}`, `--fsize=${disk}`, `--nofile=${openFiles}`, `--cpu=${cpuSeconds}`, "--core=0"];
  const given = argumentsOf(kind, diskMb, filter !== undefined);
  const bash = openSync("/bin/bash", "r");
  const child = spawn(
    "setpriv",
    ["--pdeathsig", "KILL", "bash", "-c", OUTER, "bash", "prlimit", ...rules, "bwrap", ...given],
    {
      stdio: [...Array<"pipe">(BASH).fill("pipe"), bash, filter ? "pipe" : "ignore", "pipe"],
      // A group of its own: Ctrl-C in the terminal of this program is not for the sandbox.
      detached: true,
      cwd: "/",
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
      ...(process.getuid?.() === 0 ? { uid: HOST_USER, gid: HOST_USER } : {}),
    },
  );
  closeSync(bash);
  let problem: Error | undefined;
  child.on("error", (error) => (problem = error));
  // Node makes no pipes if there is no descriptor left for them.
  if (child.stdin === undefined) fail(`no sandbox: ${problem?.message ?? "no descriptors left"}`);
  const pipe = (descriptor: number): Writable & Readable => child.stdio[descriptor] as unknown as Writable & Readable;
  const give = (descriptor: number, data: string | Buffer): void => {
    // Whoever has ended does not read: its exit says so.
    pipe(descriptor)
      .on("error", () => undefined)
      .end(data);
  };
  const { uid, gid, name, home } = kind.user;
  const users = new Map([
    ["root", "0:0::/root:/bin/bash"],
    ["nobody", "65534:65534::/:/bin/false"],
    [name, `${uid}:${gid}::${home}:/bin/bash`],
  ]);
  const groups = new Map([
    ["root", "0:"],
    ["nogroup", "65534:"],
    [name, `${gid}:`],
  ]);
  const lines = (table: Map<string, string>): string => [...table].map(([who, rest]) => `${who}:x:${rest}\n`).join("");
  give(PASSWD, lines(users));
  give(GROUP, lines(groups));
  give(HOSTS, "127.0.0.1 localhost box\n");
  give(PROGRAM, supervisor(processes, Object.keys(kind.variables)));
  if (filter) give(SECCOMP, filter);
  const pid = new Promise<number | undefined>((resolve) => {
    let told = "";
    const said = (): number | undefined => Number(/"child-pid": (\d+)\D/.exec(told)?.[1] ?? NaN) || undefined;
    pipe(INFO).on("data", (chunk: Buffer) => {
      told += chunk.toString("latin1");
      if (said() !== undefined) resolve(said());
    });
    pipe(INFO).on("close", () => resolve(said()));
    child.on("error", () => resolve(undefined));
  });
  const data = pipe(DATA).on("error", () => undefined);
  const signal: Started["signal"] = (to, name) => void process.kill(to, name);
  return { child, stdin: child.stdin!, stdout: child.stdout!, status: child.stderr!, data, pid, signal };
}
