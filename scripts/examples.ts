/**
 * `npm run examples`: runs every example. It fails if an example fails, is too long to read at once, or does not end
 * with the line that its head promises ("Its last line: `…`").
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "./packageFolder.ts";

const MAX_LINES = 80;
/** Examples that write a whole method out (docs/programs.md), and their limit of lines. */
const PROGRAMS = ["actfocus", "dapo", "dpo", "grpo", "gspo", "paw", "ppo", "rloo", "vtrace"];
const MAX_LINES_OF: Readonly<Record<string, number>> = Object.fromEntries(PROGRAMS.map((name) => [`${name}.ts`, 200]));

const folder = join(packageFolder, "examples");
const failures: string[] = [];
for (const { name } of readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile())) {
  const source = readFileSync(join(folder, name), "utf8");
  const lines = source.split("\n").length - 1;
  const most = MAX_LINES_OF[name] ?? MAX_LINES;
  // tests/project/cookbook.long.test.ts holds the notebook.
  if (lines > most && !name.endsWith(".ipynb")) failures.push(`${name} has ${lines} lines, expected at most ${most}`);
  if (!name.endsWith(".ts")) continue; // tests/browser opens the page and those in embed/
  console.log(`\n--- examples/${name}`);
  const start = performance.now();
  const { status, stdout } = spawnSync("npx", ["tsx", join(folder, name)], {
    stdio: ["inherit", "pipe", "inherit"],
    encoding: "utf8",
  });
  console.log(stdout.trimEnd());
  if (status !== 0) failures.push(`${name} failed`);
  const promised = /Its last line: `([^`]+)`/.exec(source)?.[1];
  const last = stdout.trimEnd().split("\n").at(-1);
  if (promised !== undefined && last !== promised) failures.push(`${name} ends with "${last}", not "${promised}"`);
  console.log(`--- ${((performance.now() - start) / 1000).toFixed(1)} s`);
}
if (failures.length > 0) throw new Error(failures.join("; "));
