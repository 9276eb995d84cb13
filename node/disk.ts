/** Calls of the file system whose errors say which file they are about. */
import { statSync } from "node:fs";

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
