/** `npm start` with several agents: trains the missing agents of the folder, shows the results, writes the page. */
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import type { Display } from "../display/display.ts";
import { lockFolder } from "../node/lock.ts";
import { UsageError } from "../usage.ts";
import type { StartOptions } from "../startOptions.ts";
import { writeComparison } from "./report.ts";
import { outcomeIn } from "./folders.ts";
import { type Comparison, comparisonOf, createComparison, openComparison } from "./settings.ts";
import { outcomeTables, verdictOf } from "./tables.ts";
import { trainComparison } from "./train.ts";

/** @returns the exit code */
export async function compare(options: StartOptions, display: Display, signal: AbortSignal): Promise<number> {
  const comparison =
    options.resume === undefined ? begin(options) : await openComparison(options.resume, options.device);
  const { path } = comparison;
  await lockFolder(path);
  const name = relative(".", path);
  display.note(`folder: ${name}`);
  const isWhole = await trainComparison(comparison, display, signal);
  if (!isWhole) {
    display.note(`stopped; continue with: npm start -- --resume ${name}`);
    return 130;
  }
  const outcome = outcomeIn(comparison);
  for (const table of outcomeTables(outcome)) display.table(table);
  display.note(verdictOf(outcome));
  display.note(`report: ${relative(".", await writeComparison(comparison, outcome))}`);
  display.note(`play one episode: npm run generate -- --run ${relative(".", comparison.arms[1]!.path)} --task "…"`);
  return 0;
}

function begin(options: StartOptions): Comparison {
  const { env = "home", seed, model, quick } = options;
  const chosen = options.name ?? [quick ? "quick" : model, env, `seed${seed}`].join("-");
  const path = join("runs", chosen);
  // A name that the user gave is used or refused; a default name gets a number if it is taken.
  if (options.name !== undefined && existsSync(path))
    throw new UsageError(`--name: ${path} exists; continue it with --resume ${path}, or choose another name`);
  let free = path;
  for (let n = 2; existsSync(free); n++) free = `${path}-${n}`;
  const comparison = comparisonOf(free, { ...options, name: undefined });
  createComparison(comparison);
  return comparison;
}
