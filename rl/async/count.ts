/** How many workers there may be. It stands by itself because settings are checked where no worker's code is loaded. */
import { check } from "../../engine/errors.ts";

/** Throws unless `count` is a possible number of workers. */
export function checkCount(where: string, count: number): void {
  check(Number.isInteger(count) && count >= 1 && count <= 64, () => `${where}: expected 1 to 64 workers, got ${count}`);
}
