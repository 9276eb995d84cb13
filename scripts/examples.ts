/**
 * `npm run examples`: runs every example, two at a time. It fails if an example fails, is too long to read at once, or
 * does not end with the line that its head promises ("Its last line: `…`").
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { packageFolder } from "./packageFolder.ts";

const MAX_LINES = 80;
/** Examples that write a whole method out (docs/programs.md), and their limit of lines. */
const PROGRAMS = ["actfocus", "dapo", "dpo", "grpo", "gspo", "paw", "ppo", "rloo", "vtrace"];
const MAX_LINES_OF: Readonly<Record<string, number>> = Object.fromEntries(PROGRAMS.map((name) => [`${name}.ts`, 200]));

const folder = join(packageFolder, "examples");
const failures: string[] = [];
const programs: string[] = [];
for (const { name } of readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile())) {
  const lines = readFileSync(join(folder, name), "utf8").split("\n").length - 1;
  const most = MAX_LINES_OF[name] ?? MAX_LINES;
  // tests/project/cookbook.long.test.ts holds the notebook.
  if (lines > most && !name.endsWith(".ipynb")) failures.push(`${name} has ${lines} lines, expected at most ${most}`);
  if (name.endsWith(".ts")) programs.push(name); // tests/browser opens the page and those in embed/
}

/** Runs an example, and shows what it printed when it has ended. */
async function run(name: string): Promise<void> {
  const start = performance.now();
  let [printed, complained] = ["", ""];
  // One thread each, as two run at a time; the numbers are the same.
  const env = { ...process.env, WORLDGRAD_THREADS: "1" };
  const child = spawn("npx", ["tsx", join(folder, name)], { stdio: ["ignore", "pipe", "pipe"], env });
  child.stdout.on("data", (part: Buffer) => (printed += part.toString()));
  child.stderr.on("data", (part: Buffer) => (complained += part.toString()));
  const [status] = (await once(child, "close")) as [number | null];
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`\n--- examples/${name}\n${printed.trimEnd()}\n${complained}--- ${seconds} s`);
  if (status !== 0) failures.push(`${name} failed`);
  const promised = /Its last line: `([^`]+)`/.exec(readFileSync(join(folder, name), "utf8"))?.[1];
  const last = printed.trimEnd().split("\n").at(-1);
  if (promised !== undefined && last !== promised) failures.push(`${name} ends with "${last}", not "${promised}"`);
}

async function runAll(): Promise<void> {
  for (let name = programs.shift(); name !== undefined; name = programs.shift()) await run(name);
}
await Promise.all([runAll(), runAll()]);
if (failures.length > 0) throw new Error(failures.join("; "));
