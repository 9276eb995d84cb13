/** Calls of the file system whose errors say which file they are about, and whose effects last. */
import { closeSync, fsyncSync, openSync, statSync } from "node:fs";
import process from "node:process";

/**
 * Does something with a file. Node does not name the file in errors of a descriptor, such as a full disk in the middle
 * of writing; here they do.
 */
export function named<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (error instanceof Error && "syscall" in error && !error.message.includes(path)) error.message += ` '${path}'`;
    throw error;
  }
}

/** Whether there is something at `path`. Unlike `existsSync` it throws if the disk cannot tell. */
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

/** Makes what was made, renamed or removed in the folder last. Windows cannot open folders and does not need this. */
export function flushFolder(path: string): void {
  if (process.platform !== "win32") flushed(path, "r", () => undefined);
}
