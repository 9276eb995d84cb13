/** Appends lines to a file: all of them or, if the disk is full, none. */
import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from "node:fs";

/** Appends a text. @throws as `node:fs` does; the file is then as long as it was */
export function appendWhole(path: string, text: string): void {
  const file = openSync(path, "a");
  try {
    const before = fstatSync(file);
    const bytes = Buffer.from(text);
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
    } catch (error) {
      if (before.isFile()) ftruncateSync(file, before.size);
      throw error;
    }
  } finally {
    closeSync(file);
  }
}
