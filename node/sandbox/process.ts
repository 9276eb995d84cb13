/**
 * The process that a judged program runs in: what it is started with and what is taken away from it before the program comes.
 *
 * 1. Node's permission model: no files, no child processes, no worker threads, no native addons, no WASI, no inspector. It does not
 *    cover the network (in Node 20), so:
 * 2. nothing of Node is left to reach (node/sandbox/harness.ts): built-in objects are frozen, text never becomes code, and
 * 3. where there is `prlimit` (Linux), the kernel is told that the process may open no further descriptor: no socket, no file,
 *    whatever code runs in it. And no more memory, also outside of V8's heap, no file contents, a bounded CPU time.
 *
 * The environment is empty but for the time zone; two pipes are all that it shares with its parent. What stays open: the clock, what
 * CPUs leak, faults in V8 and the kernel. Where 3 is missing, 2 alone closes the network, and time alone bounds memory outside of
 * V8's heap, and nothing ends an endless loop whose parent was killed.
 * For hostile code rather than code by a model in training, add a container or a virtual machine around all of this.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { parse } from "node:path";
import { check } from "../../engine/errors.ts";

const PRLIMIT = ["/usr/bin/prlimit", "/bin/prlimit"];

/** Flags of Node that take rights away. `memoryMb` bounds V8's heap of old objects. */
export function sandboxFlags(memoryMb: number): string[] {
  const flags = process.allowedNodeEnvironmentFlags;
  return [
    flags.has("--permission") ? "--permission" : "--experimental-permission", // its name before Node 23.5
    "--no-warnings",
    "--no-addons",
    "--frozen-intrinsics",
    "--disallow-code-generation-from-strings",
    "--unhandled-rejections=none",
    "--random-seed=1", // of Math.random: the same program, the same values
    `--max-old-space-size=${memoryMb}`,
    `--max-semi-space-size=${Math.max(1, Math.min(16, Math.floor(memoryMb / 8)))}`,
  ];
}

/** Starts Node on `source` with no rights, no environment but the time zone, and two pipes. */
export function startSandbox(source: string, memoryMb: number): ChildProcess {
  return spawn(process.execPath, [...sandboxFlags(memoryMb), "-e", source], {
    cwd: parse(process.execPath).root,
    env: { TZ: "UTC" },
    stdio: ["pipe", "pipe", "ignore"],
    windowsHide: true,
  });
}

/** Whether `limitProcess` can do something here. */
export function canLimit(): boolean {
  return process.platform === "linux" && PRLIMIT.some((path) => existsSync(path));
}

/**
 * Has the kernel refuse a running process any new descriptor, file contents, core dump, and more than `memoryMb` and `cpuSeconds` on
 * top of what it has. A process that has ended already is no error. Needs `canLimit()`.
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
