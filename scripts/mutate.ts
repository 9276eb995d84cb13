/**
 * `npm run mutate`: mutation tests of losses and estimators. Each is changed in one small place (a sign, a mask, an
 * index, a denominator, …; scripts/mutate/mutants.ts), the tests run, and one of them must fail. Files on disk stay as
 * they are: the edits exist in the module that the test runner loads (scripts/mutate/instrument.ts).
 *
 * It prints the survivors and the share that was killed. About one edit in twenty changes no number and cannot be
 * killed, so survivors are to be read, and are no failure. The exit code is 1 if a test fails without any edit; 2 for
 * wrong flags, or if the tests do not run.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { instrument } from "./mutate/instrument.ts";
import { type Job, JOB_VARIABLE, type Outcome } from "./mutate/job.ts";
import { editOf, type Mutant } from "./mutate/mutants.ts";
import { allMutants, readTarget, targetFiles, testFiles } from "./mutate/targets.ts";
import { packageFolder } from "./packageFolder.ts";

const HELP = `npm run mutate -- [--only PATTERN] [--jobs N] [--list]
  --only PATTERN  mutants whose line in the list matches this regular expression, such as methods/kl or "sign"
  --jobs N        processes at once, default 2
  --list          prints the mutants and runs nothing`;

const lineOf = (mutant: Mutant): string => `${mutant.file}:${mutant.line}  ${mutant.kind}  ${editOf(mutant)}`;

/** Runs all tests in another process, which tries these mutants. */
async function runTests(path: string, job: Job): Promise<Outcome> {
  writeFileSync(path, JSON.stringify(job));
  const vitest = join(packageFolder, "node_modules/vitest/vitest.mjs");
  const config = fileURLToPath(new URL("mutate/vitest.config.ts", import.meta.url));
  const child = spawn(process.execPath, [vitest, "run", "--config", config], {
    cwd: packageFolder,
    env: { ...process.env, [JOB_VARIABLE]: path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const end = (): void => void child.kill();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, end);
  const code = await new Promise((resolve) => child.on("close", resolve));
  try {
    const result = JSON.parse(readFileSync(job.outcome, "utf8")) as Outcome;
    // The outcome has the failing tests. vitest itself fails on a file that cannot be loaded, or a crash.
    const crash = code === 0 ? [] : [`vitest ended with ${String(code)}:\n${output.slice(-2000)}`];
    return { ...result, broken: [...result.broken, ...crash] };
  } catch {
    throw new Error(`the tests did not run to their end:\n${output.slice(-4000)}`);
  }
}

/** Gives each process every `jobs`-th mutant; all of them load equal modules. */
async function tryAll(mutants: readonly Mutant[], chosen: readonly number[], jobs: number): Promise<Outcome> {
  const modules = Object.fromEntries(
    targetFiles().map((file) => {
      const ofFile = mutants.flatMap((mutant, id) => (mutant.file === file ? [[id, mutant] as const] : []));
      return [join(packageFolder, file), instrument(readTarget(file), ofFile)];
    }),
  );
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-mutate-"));
  const job = { root: packageFolder, modules, tests: testFiles() };
  try {
    const outcomes = await Promise.all(
      Array.from({ length: Math.min(jobs, chosen.length) }, (_, n) => {
        const [path, outcome] = [join(folder, `${n}.json`), join(folder, `${n}-outcome.json`)];
        return runTests(path, { ...job, mutants: chosen.filter((_, k) => k % jobs === n), outcome });
      }),
    );
    const [survived, unreached] = [outcomes.flatMap((o) => o.survived), outcomes.flatMap((o) => o.unreached)];
    return { survived, unreached, broken: [...new Set(outcomes.flatMap(({ broken }) => broken))] };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: "" },
      jobs: { type: "string", default: "2" },
      list: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const [only, jobs] = [new RegExp(values.only), Number(values.jobs)];
  if (!Number.isInteger(jobs) || jobs < 1)
    throw new Error(`--jobs must be a whole number of at least 1, got ${values.jobs}`);
  const mutants = allMutants();
  const chosen = mutants.flatMap((mutant, id) => (only.test(lineOf(mutant)) ? [id] : []));
  if (chosen.length === 0) throw new Error(`no mutant matches ${String(only)}`);
  if (values.list) {
    for (const id of chosen) console.log(lineOf(mutants[id]!));
    return 0;
  }
  const begun = performance.now();
  const { survived, unreached, broken } = await tryAll(mutants, chosen, jobs);
  for (const id of chosen) {
    if (survived.includes(id)) console.log(`SURVIVED  ${lineOf(mutants[id]!)}`);
    if (unreached.includes(id)) console.log(`SURVIVED, no test reaches it  ${lineOf(mutants[id]!)}`);
  }
  for (const test of broken) console.log(`BROKEN without an edit, or after one was undone: ${test}`);
  const count = chosen.length - survived.length - unreached.length;
  const share = ((100 * count) / chosen.length).toFixed(1);
  const seconds = ((performance.now() - begun) / 1000).toFixed(0);
  console.log(`${chosen.length} edits: ${count} killed (${share} %), ${chosen.length - count} survived; ${seconds} s`);
  return broken.length > 0 ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(`mutate: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 2;
}
