/**
 * Locks, which keep two processes from training into one folder. A lock is the file `FOLDER.pid` beside the folder,
 * which names its owner: the process id, when the process began, and the machine. If that process is gone, the lock is
 * stale, and the next process takes it. Systems reuse process ids, so the time when the process began is compared as
 * well, where the system reports it (Linux).
 */
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { fail } from "../../engine/errors.ts";
import { isRecord } from "../records.ts";
import { makeFolder, named } from "./disk.ts";

interface Owner {
  readonly pid: number;
  /** The start of the process, in ticks since that of the machine; "" if it is not known. */
  readonly began: string;
  readonly host: string;
}

/** Options of a lock: the time to wait for the other process to end, before an error names it. */
export interface LockOptions {
  readonly patienceMs?: number;
}

const LOOK_AGAIN_MS = 100;
/** The time after which a process that was removing a stale lock counts as dead. */
const TURN_MS = 5000;

/**
 * Takes the lock of a folder, which need not exist yet; the folder around it is made.
 * @returns a function that gives the lock back; the end of the process does so, too
 * @throws WorldgradError naming the process that has it
 */
export async function lockFolder(path: string, { patienceMs = 0 }: LockOptions = {}): Promise<() => void> {
  const file = `${path}.pid`;
  makeFolder(dirname(file));
  const until = performance.now() + patienceMs;
  for (;;) {
    const owner = take(file);
    if (owner === null) break;
    if (performance.now() >= until) refuse(path, file, owner);
    await new Promise((next) => setTimeout(next, LOOK_AGAIN_MS));
  }
  const release = (): void => {
    process.off("exit", release);
    rmSync(file, { force: true });
  };
  process.on("exit", release);
  return release;
}

function refuse(path: string, file: string, { pid, host }: Owner): never {
  const where = host === hostname() ? "" : ` on ${host}`;
  return fail(`${path} is being trained by process ${pid}${where}; wait for it, or remove ${file} if there is none`);
}

/** Takes the lock, or returns its owner. */
function take(file: string): Owner | null {
  const mine = `${file}.${process.pid}.tmp`;
  const me: Owner = { pid: process.pid, began: beganAt(process.pid), host: hostname() };
  named(mine, () => writeFileSync(mine, `${JSON.stringify(me)}\n`));
  try {
    for (;;) {
      try {
        linkSync(mine, file); // atomic: the file appears with its content, or existed before
        removeLeft(file);
        return null;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      const owner = ownerIn(file);
      if (owner !== undefined && isAlive(owner)) return owner;
      removeStale(file);
    }
  } finally {
    rmSync(mine, { force: true });
  }
}

/**
 * Removes a stale lock. Several processes may find it stale; one at a time removes it, after checking again: otherwise
 * the second would remove the new lock of the first.
 */
function removeStale(file: string): void {
  const turn = `${file}.stale`;
  try {
    mkdirSync(turn);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    // The process whose turn it is needs a moment, unless it died during it.
    const age = Date.now() - (statSync(turn, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > TURN_MS) rmSync(turn, { recursive: true, force: true });
    return;
  }
  const owner = ownerIn(file);
  if (owner === undefined || !isAlive(owner)) rmSync(file, { force: true });
  rmSync(turn, { recursive: true, force: true });
}

/** Removes files of processes that died while they took the lock. Only the owner of the lock calls this. */
function removeLeft(file: string): void {
  rmSync(`${file}.stale`, { recursive: true, force: true });
  const prefix = `${basename(file)}.`;
  for (const name of readdirSync(dirname(file))) {
    const pid = name.startsWith(prefix) ? /^(\d+)\.tmp$/.exec(name.slice(prefix.length))?.[1] : undefined;
    if (pid === undefined) continue;
    const left = join(dirname(file), name);
    if (!isAlive(ownerIn(left) ?? { pid: Number(pid), began: "", host: hostname() })) rmSync(left, { force: true });
  }
}

function ownerIn(file: string): Owner | undefined {
  try {
    const owner: unknown = JSON.parse(readFileSync(file, "utf8"));
    return isRecord(owner) && Number.isInteger(owner["pid"]) ? (owner as unknown as Owner) : undefined;
  } catch {
    return undefined; // it was given back meanwhile, or is damaged
  }
}

function isAlive({ pid, began, host }: Owner): boolean {
  // Whether a process on another machine is alive cannot be seen from here.
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false; // EPERM: it is somebody else's, and lives
  }
  const [state] = statOf(pid);
  // It has ended, and whoever started it has not asked how: the first process of a container, say, that asks nobody.
  if (state === "Z" || state === "X") return false;
  return began === "" || beganAt(pid) === began;
}

/** The 22nd field of /proc/PID/stat; empty where there is no such file. */
const beganAt = (pid: number): string => statOf(pid)[19] ?? "";

/** The fields of /proc/PID/stat from the third on; the second, the program's name in brackets, may hold spaces. */
function statOf(pid: number): readonly string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
