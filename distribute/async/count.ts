/**
 * Limits of the number of workers, in a file of their own because settings are checked where no worker's code is
 * loaded.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";

/** Throws unless `count` is a possible number of workers. */
export function checkCount(where: string, count: number): void {
  check(
    Number.isInteger(count) && count >= 1 && count <= 64,
    () => `${where}: expected 1 to 64 workers, got ${showValue(count)}`,
  );
}

/** Throws if so many workers cannot share the episodes that the environment can have at a time (`atOnce`). */
export function checkRoom(where: string, count: number, { name, most }: { name: string; most: number }): void {
  check(
    most >= count,
    () => `${where}: ${name} can have ${most} episodes at a time, too few for ${count} workers; take at most ${most}`,
  );
}
