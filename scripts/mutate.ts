/**
 * `npm run mutate`: can the tests see a mistake? Every loss and estimator is changed in one small place (a sign, a
 * mask, an index, a denominator, …; scripts/mutate/mutants.ts), the tests run, and one of them has to fail. The files
 * on disk stay as they are: the edits exist in the module that the test runner loads (scripts/mutate/instrument.ts).
 *
 * It prints what survives, and the share that was killed. Some edits change no number and cannot be killed, about one
 * in twenty: so survivors are read, and do not fail. Exit code 1 if a test fails without any edit; 2 for wrong flags.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { instrument } from "./mutate/instrument.ts";
import { type Job, JOB_VARIABLE, type Outcome } from "./mutate/job.ts";
import { editOf, type Kind, KINDS, type Mutant } from "./mutate/mutants.ts";
import { allMutants, readTarget, targetFiles, testFiles } from "./mutate/targets.ts";
import { packageFolder } from "./packageFolder.ts";

const HELP = `npm run mutate -- [--only PATTERN] [--tests PATTERN] [--jobs N] [--list] [--quiet]
  --only PATTERN  mutants whose line in the list matches this regular expression, as methods/losses/kl or "sign"
  --tests PATTERN files of tests that match this; what the others would kill survives
  --jobs N        processes at once, default 2
  --list          prints the mutants and runs nothing
  --quiet         prints survivors only`;

interface Options {
  readonly only: RegExp;
  readonly tests: RegExp;
  readonly jobs: number;
  readonly list: boolean;
  readonly quiet: boolean;
}

/** The options, or the line that says what is wrong with the arguments. */
function optionsOf(args: readonly string[]): Options | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        only: { type: "string", default: "" },
        tests: { type: "string", default: "" },
        jobs: { type: "string", default: "2" },
        list: { type: "boolean", default: false },
        quiet: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) return HELP;
    const jobs = Number(values.jobs);
    if (!Number.isInteger(jobs) || jobs < 1)
      return `mutate: --jobs must be a whole number of at least 1, got ${values.jobs}`;
    return {
      only: new RegExp(values.only),
      tests: new RegExp(values.tests),
      jobs,
      list: values.list,
      quiet: values.quiet,
    };
  } catch (error) {
    return `mutate: ${error instanceof Error ? error.message : String(error)}`;
  }
}

const lineOf = (mutant: Mutant): string => `${mutant.file}:${mutant.line}  ${mutant.kind}  ${editOf(mutant)}`;

/** Runs all tests in another process, which tries these mutants. */
async function runTests(folder: string, name: string, job: Omit<Job, "outcome">): Promise<Outcome> {
  const [path, outcome] = [join(folder, `${name}.json`), join(folder, `${name}-outcome.json`)];
  writeFileSync(path, JSON.stringify({ ...job, outcome } satisfies Job));
  const vitest = join(packageFolder, "node_modules/vitest/vitest.mjs");
  const config = fileURLToPath(new URL("mutate/vitest.config.ts", import.meta.url));
  const child = spawn(process.execPath, [vitest, "run", "--config", config], {
    cwd: packageFolder,
    env: { ...process.env, [JOB_VARIABLE]: path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const progress = setInterval(() => {
    if (process.stderr.isTTY && existsSync(outcome))
      process.stderr.write(`\r${name}: ${killedIn(outcome)} of ${job.mutants.length} killed `);
  }, 2000);
  const end = (): void => void child.kill();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, end);
  const code = await new Promise((resolve) => child.on("close", resolve));
  clearInterval(progress);
  try {
    const result = JSON.parse(readFileSync(outcome, "utf8")) as Outcome;
    // The outcome has the tests that fail; vitest itself complains of a file that cannot be loaded, or of a crash.
    return code === 0
      ? result
      : { ...result, broken: [...result.broken, `vitest ended with ${String(code)}:\n${output.slice(-2000)}`] };
  } catch {
    throw new Error(`the tests did not run to their end:\n${output.slice(-4000)}`);
  }
}

/** How many mutants are killed so far. The file is written after every file of tests and may be half written. */
function killedIn(outcome: string): string {
  try {
    return String(Object.keys((JSON.parse(readFileSync(outcome, "utf8")) as Outcome).killed).length);
  } catch {
    return "…";
  }
}

/** Gives every `jobs`-th mutant to each process; all of them load the same modules. */
async function tryAll(
  mutants: readonly Mutant[],
  chosen: readonly number[],
  { jobs, tests }: Options,
): Promise<Outcome> {
  const modules = Object.fromEntries(
    targetFiles().map((file) => {
      const own = mutants.flatMap((mutant, id) => (mutant.file === file ? [[id, mutant] as const] : []));
      return [join(packageFolder, file), instrument(readTarget(file), own)];
    }),
  );
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-mutate-"));
  try {
    const shards = Array.from({ length: Math.min(jobs, chosen.length) }, (_, n) =>
      chosen.filter((_, k) => k % jobs === n),
    );
    const outcomes = await Promise.all(
      shards.map((ids, n) =>
        runTests(folder, `job${n}`, {
          root: packageFolder,
          modules,
          mutants: ids,
          tests: testFiles().filter((path) => tests.test(path)),
        }),
      ),
    );
    return {
      killed: Object.assign({}, ...outcomes.map(({ killed }) => killed)) as Outcome["killed"],
      reached: outcomes.flatMap(({ reached }) => reached),
      broken: [...new Set(outcomes.flatMap(({ broken }) => broken))],
      seconds: outcomes.reduce<Record<string, number>>((sum, { seconds }) => {
        for (const [file, s] of Object.entries(seconds)) sum[file] = (sum[file] ?? 0) + s;
        return sum;
      }, {}),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function main(): Promise<number> {
  const options = optionsOf(process.argv.slice(2));
  if (typeof options === "string") {
    console.error(options);
    return options === HELP ? 0 : 2;
  }
  const mutants = allMutants();
  const chosen = mutants.flatMap((mutant, id) => (options.only.test(lineOf(mutant)) ? [id] : []));
  if (chosen.length === 0) {
    console.error(`mutate: no mutant matches ${String(options.only)}`);
    return 2;
  }
  if (options.list) {
    for (const id of chosen) console.log(lineOf(mutants[id]!));
    console.log(summary(chosen.map((id) => mutants[id]!)));
    return 0;
  }
  const begun = performance.now();
  const { killed, reached, broken, seconds } = await tryAll(mutants, chosen, options);
  const wasReached = new Set(reached);
  for (const id of chosen) {
    const killer = killed[id];
    const verdict =
      killer === undefined ? `SURVIVED${wasReached.has(id) ? "" : ", no test comes here"}` : `killed by ${killer}`;
    if (!options.quiet || killer === undefined) console.log(`${lineOf(mutants[id]!)}\n    ${verdict}`);
  }
  for (const test of broken) console.log(`BROKEN without any edit, or by one that was undone: ${test}`);
  console.log(summary(chosen.map((id) => mutants[id]!)));
  const slowest = Object.entries(seconds).toSorted(([, a], [, b]) => b - a);
  console.log(
    `slowest: ${slowest
      .slice(0, 8)
      .map(([file, s]) => `${file} ${s.toFixed(0)} s`)
      .join(", ")}`,
  );
  const total = ((performance.now() - begun) / 1000).toFixed(0);
  const count = Object.keys(killed).length;
  const share = ((100 * count) / chosen.length).toFixed(1);
  console.log(`${chosen.length} edits: ${count} killed (${share} %), ${chosen.length - count} survived; ${total} s`);
  return broken.length > 0 ? 1 : 0;
}

function summary(mutants: readonly Mutant[]): string {
  const count = (kind: Kind): number => mutants.filter((m) => m.kind === kind).length;
  return (Object.keys(KINDS) as Kind[])
    .map((kind) => `${String(count(kind)).padStart(6)}  ${kind}: ${KINDS[kind]}`)
    .join("\n");
}

process.exitCode = await main();
