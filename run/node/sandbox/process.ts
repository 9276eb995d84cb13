/**
 * The process in which a judged program runs, and the rights that are taken from it before the program is sent.
 *
 * 1. Node's permission model: no files, no child processes, no worker threads, no native addons, no WASI, no inspector.
 *    In Node 20 it does not cover the network.
 * 2. The program cannot reach anything of Node (run/node/sandbox/harness.ts): built-in objects are frozen, and text
 *    never becomes code.
 * 3. Where `prlimit` exists (Linux), the kernel refuses the process any further descriptor, so no code in it can open a
 *    socket or a file. The kernel also bounds its memory, including memory outside of V8's heap, and its CPU time, and
 *    lets it write no file contents.
 * 4. On POSIX a shell waits for the end of a pipe, and kills the process if this one dies. A program that sleeps takes
 *    no CPU time, so that the limits of the kernel would never end it.
 *
 * The environment has the time zone only, and the process shares two pipes with its parent and nothing else. Not
 * prevented are reading the clock, leaks through the CPU, and exploits of V8 and the kernel. Without 3, only 2 blocks
 * the network, and only the time limit bounds memory outside of V8's heap. Without 4, a program that loops or sleeps
 * may outlive a parent that was killed. All this is meant for code by a model in training. For hostile code, add a
 * container or a virtual machine around it.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { parse } from "node:path";
import { check } from "../../../engine/errors.ts";

/** Its input ends when this process dies; $0 is the program's process. */
const WATCHER = 'read -r _; kill -s KILL "$0"';
const PRLIMIT = ["/usr/bin/prlimit", "/bin/prlimit"];

/** The flags of Node that remove permissions. `memoryMb` bounds V8's heap of old objects. */
export function sandboxFlags(memoryMb: number): string[] {
  const flags = process.allowedNodeEnvironmentFlags;
  return [
    flags.has("--permission") ? "--permission" : "--experimental-permission", // its name before Node 23.5
    "--no-warnings",
    "--no-addons",
    "--frozen-intrinsics",
    "--disallow-code-generation-from-strings",
    "--unhandled-rejections=none",
    "--random-seed=1", // so that Math.random gives the same values every time
    `--max-old-space-size=${memoryMb}`,
    `--max-semi-space-size=${Math.max(1, Math.min(16, Math.floor(memoryMb / 8)))}`,
  ];
}

/**
 * Starts Node on `source` without permissions, with the time zone as its only environment variable, and with two pipes.
 */
export function startSandbox(source: string, memoryMb: number): ChildProcess {
  const child = spawn(process.execPath, [...sandboxFlags(memoryMb), "-e", source], {
    cwd: parse(process.execPath).root,
    env: { TZ: "UTC" },
    stdio: ["pipe", "pipe", "ignore"],
    windowsHide: true,
  });
  if (process.platform !== "win32" && child.pid !== undefined) endWithThis(child);
  return child;
}

/** Starts the shell that kills a child if this process dies. */
function endWithThis(child: ChildProcess): void {
  const watcher = spawn("/bin/sh", ["-c", WATCHER, String(child.pid)], {
    detached: true, // Ctrl-C of a terminal does not reach it
    cwd: "/",
    env: {},
    stdio: ["pipe", "ignore", "ignore"],
  });
  watcher.on("error", () => undefined); // without a shell the limits remain
  watcher.stdin.on("error", () => undefined);
  child.once("exit", () => watcher.kill("SIGKILL"));
}

/** Whether `limitProcess` works on this system. */
export function canLimit(): boolean {
  return process.platform === "linux" && PRLIMIT.some((path) => existsSync(path));
}

/**
 * Makes the kernel refuse a running process new descriptors, writing file contents, core dumps, and more than
 * `memoryMb` and `cpuSeconds` in addition to what it has used. A process that has ended already is not an error.
 * Requires `canLimit()`.
 */
export async function limitProcess(pid: number, memoryMb: number, cpuSeconds: number): Promise<void> {
  const tool = PRLIMIT.find((path) => existsSync(path))!;
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  const usedKb = Number(/^VmData:\s*(\d+) kB$/m.exec(status)?.[1] ?? NaN);
  if (Number.isNaN(usedKb))
    return check(!existsSync(`/proc/${pid}`), () => `limitProcess: no VmData of process ${pid}`);
  const data = usedKb * 1024 + memoryMb * 2 ** 20;
  const limits = { nofile: 0, fsize: 0, core: 0, data, cpu: cpuSeconds };
  const flags = Object.entries(limits).map(([name, value]) => `--${name}=${value}:${value}`);
  await new Promise<void>((resolve, reject) => {
    execFile(tool, [`--pid=${pid}`, ...flags], { env: {} }, (error) => {
      if (error && existsSync(`/proc/${pid}`)) reject(error);
      else resolve();
    });
  });
}
