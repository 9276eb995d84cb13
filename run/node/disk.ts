/** File system calls whose errors name the file, and whose effects survive a loss of power. */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import process from "node:process";

/**
 * Runs a function on a file. Node's errors about an open descriptor, such as a full disk, do not name the file; this
 * adds it.
 */
export function named<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (error instanceof Error && "syscall" in error && !error.message.includes(path)) error.message += ` '${path}'`;
    throw error;
  }
}

/** Whether there is something at `path`. Unlike `existsSync` it throws if the disk has an error. */
export const has = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined;

/** Opens a file or a folder, does something with it, flushes it to the disk and closes it. */
export function flushed<T>(path: string, flags: string, act: (file: number) => T): T {
  return named(path, () => {
    const file = openSync(path, flags);
    try {
      const result = act(file);
      fsyncSync(file);
      return result;
    } finally {
      closeSync(file);
    }
  });
}

/** Writes a file, and flushes it to the disk. */
export const writeFlushed = (path: string, data: Uint8Array | string): void =>
  flushed(path, "w", (file) => writeFileSync(file, data));

/** Writes a file under a temporary name (`FILE.PID.tmp`) first: readers see the old file or the new one. */
export function writeAtomically(path: string, data: Uint8Array | string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFlushed(temporary, data);
  renameSync(temporary, path);
  flushFolder(dirname(path));
}

/**
 * Flushes a folder, so that names made, changed or removed in it last. Windows cannot open folders and needs none of
 * this.
 */
export function flushFolder(path: string): void {
  if (process.platform !== "win32") flushed(path, "r", () => undefined);
}

/** Makes a folder, unless another process has made it meanwhile. */
function makeOne(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

/** Makes a folder and those that contain it, unless they are there, so that their names survive a loss of power. */
export function makeFolder(path: string): void {
  const missing: string[] = [];
  for (let at = resolve(path); !has(at); at = dirname(at)) missing.push(at);
  // One by one: of a read-only disk the recursive call says that there is no such file.
  for (const at of missing.toReversed()) {
    makeOne(at);
    flushFolder(dirname(at));
  }
}
