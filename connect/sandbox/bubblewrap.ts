/**
 * How a sandbox is started with bubblewrap (`bwrap`): which files it sees, what it may use, and as which user. It needs
 * no daemon, no image and no rights beyond those of an ordinary user.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { fail } from "../../engine/errors.ts";
import { seccompProgram } from "./seccomp.ts";
import { supervisor, VARIABLES } from "./supervisor.ts";

/** The working directory, and the only one beside /tmp that can be written. */
export const HOME: string = VARIABLES["HOME"]!;

/** What a sandbox may use. */
export interface SandboxLimits {
  /** Processes at a time, threads included. */
  readonly processes: number;
  /** MiB of address space that one process may have; all of them together have `processes` times as much. */
  readonly memoryMb: number;
  /** MiB that may be written below the home directory; as much again below /tmp and below /dev/shm. */
  readonly diskMb: number;
}

/** A sandbox that has been started. */
export interface Started {
  readonly child: ChildProcess;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** The supervisor's second channel; before it runs, the errors of `bwrap`. */
  readonly status: Readable;
  /** Resolves to the number of process 1 as the host counts; undefined if it never began. */
  readonly pid: Promise<number | undefined>;
}

/**
 * The host's user as whom sandboxes run if this program runs as root. A sandbox of root's is none: sysctls and files
 * of the host look at the user, whatever the capabilities (`/proc/sys/kernel/core_pattern` could be written).
 */
const HOST_USER = 65_530;

/** User and group inside; a process there has no rights on anything that it does not own. */
const INSIDE = { uid: 1000, gid: 1000, name: "user" };

/** Seconds of processor time for one process: the end of a loop that outlives this program. */
const CPU_SECONDS = 600;

/**
 * The outermost process. If memory runs out, the sandbox goes first. Descriptors that this program was started with are
 * closed, since Node passes them on.
 */
const OUTER = `
echo 1000 > /proc/self/oom_score_adj
for f in /proc/self/fd/*; do (( \${f##*/} > 9 )) && eval "exec \${f##*/}>&-"; done
"$@" | cat 2>&-`;

/** The numbers of further descriptors: where `bwrap` says the number of process 1, and what it reads. */
const [INFO, PASSWD, GROUP, HOSTS, PROGRAM, BASH, SECCOMP] = [3, 4, 5, 6, 7, 8, 9];

function argumentsOf({ diskMb }: SandboxLimits, hasFilter: boolean): string[] {
  const bytes = diskMb * 2 ** 20;
  const { uid, gid } = INSIDE;
  const words = `
    --unshare-all --unshare-user --disable-userns --die-with-parent --new-session --as-pid-1
    --uid ${uid} --gid ${gid} --hostname box --clearenv
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib
    --symlink usr/lib64 /lib64
    --ro-bind-try /etc/alternatives /etc/alternatives --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache
    --ro-bind-data ${PASSWD} /etc/passwd --ro-bind-data ${GROUP} /etc/group --ro-bind-data ${HOSTS} /etc/hosts
    --proc /proc --ro-bind /proc/sys /proc/sys --dev /dev
    --size ${bytes} --tmpfs /dev/shm --remount-ro /dev
    --size ${bytes} --tmpfs /tmp --size ${bytes} --tmpfs ${HOME}
    --info-fd ${INFO} --ro-bind-data ${PROGRAM} /.supervisor --perms 0111 --ro-bind-data ${BASH} /.bash
    --remount-ro / --chdir ${HOME}`;
  const variables = Object.entries(VARIABLES).flatMap(([name, value]) => ["--setenv", name, value]);
  const filter = hasFilter ? ["--seccomp", String(SECCOMP)] : [];
  return [...words.trim().split(/\s+/), ...variables, ...filter, "/.bash", "-c", 'eval "$(</.supervisor)"', "bash"];
}

/**
 * Starts a sandbox. It ends with its input, or with this program.
 *
 * Process 1 runs from a copy of bash that nobody may read: the kernel lets nobody trace such a process, or open its
 * memory and descriptors. Its output passes through `cat`, because Node's pipes are sockets, and `> /dev/stdout` cannot
 * open one.
 */
export function startBubblewrap(limits: SandboxLimits): Started {
  const filter = seccompProgram();
  const memory = limits.memoryMb * 2 ** 20;
  const disk = limits.diskMb * 2 ** 20;
  const rules = [`--as=${memory}`, `--fsize=${disk}`, "--nofile=128", `--cpu=${CPU_SECONDS}`, "--core=0"];
  const given = argumentsOf(limits, filter !== undefined);
  const bash = openSync("/bin/bash", "r");
  const child = spawn(
    "setpriv",
    ["--pdeathsig", "KILL", "bash", "-c", OUTER, "bash", "prlimit", ...rules, "bwrap", ...given],
    {
      stdio: [...Array<"pipe">(BASH).fill("pipe"), bash, filter ? "pipe" : "ignore"],
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
  const { uid, gid, name } = INSIDE;
  give(
    PASSWD,
    `root:x:0:0::/:/bin/sh\n${name}:x:${uid}:${gid}::${HOME}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n`,
  );
  give(GROUP, `root:x:0:\n${name}:x:${gid}:\nnogroup:x:65534:\n`);
  give(HOSTS, "127.0.0.1 localhost box\n");
  give(PROGRAM, supervisor(limits.processes));
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
  return { child, stdin: child.stdin!, stdout: child.stdout!, status: child.stderr!, pid };
}
