/** `npm run examples`: runs every example and fails if one fails, or if one is too long to read at once. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "./packageFolder.ts";

const MAX_LINES = 80;
/** The limit of an example that writes a whole method out. */
const MAX_LINES_OF: Readonly<Record<string, number>> = { "grpo.ts": 200 };

const folder = join(packageFolder, "examples");
const failures: string[] = [];
for (const name of readdirSync(folder)) {
  const lines = readFileSync(join(folder, name), "utf8").split("\n").length - 1;
  const most = MAX_LINES_OF[name] ?? MAX_LINES;
  if (lines > most) failures.push(`${name} has ${lines} lines, expected at most ${most}`);
  if (!name.endsWith(".ts")) continue; // tests/browser runs the page
  console.log(`\n--- examples/${name}`);
  const start = performance.now();
  const { status } = spawnSync("npx", ["tsx", join(folder, name)], { stdio: "inherit" });
  if (status !== 0) failures.push(`${name} failed`);
  console.log(`--- ${((performance.now() - start) / 1000).toFixed(1)} s`);
}
if (failures.length > 0) throw new Error(failures.join("; "));
