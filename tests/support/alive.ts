/** Whether processes run that should end when another one does. */
import { readFileSync } from "node:fs";
import process from "node:process";
import { expect } from "vitest";

/** Whether a process runs; one that has ended and that nobody has asked about does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Expects that processes end within some time. */
export async function gone(pids: readonly number[]): Promise<void> {
  for (let i = 0; i < 1_000 && pids.some(isAlive); i++) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(pids.filter(isAlive)).toEqual([]);
}
