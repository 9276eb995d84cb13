/** Writes the results of a comparison into its folder: results.json, and the page. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundlePage } from "../page/assets.ts";
import { waysIn } from "./folders.ts";
import type { Outcome } from "./outcome.ts";
import { renderComparison } from "./render.ts";
import type { Comparison } from "./settings.ts";

/** @returns the path of the page */
export async function writeComparison(comparison: Comparison, outcome: Outcome): Promise<string> {
  writeFileSync(join(comparison.path, "results.json"), `${JSON.stringify(outcome, null, 2)}\n`);
  const path = join(comparison.path, "report.html");
  writeFileSync(path, renderComparison(comparison, outcome, waysIn(comparison), await bundlePage("compare")));
  return path;
}
