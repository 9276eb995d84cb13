/**
 * `npm run stories`: reinforcement learning on stories260K, a pretrained model of 260 thousand parameters that others
 * made (A. Karpathy's TinyStories models). Two jobs: `tell`, a story about a given word that ends and does not repeat
 * itself (stories/tell.ts), and `cast`, a story that model and world write in turn, with ECHO on the world's sentences
 * (stories/cast.ts). `stories/arms.ts` has the methods and the controls.
 *
 * Each finished run is a line of OUT/results.jsonl; what is there is not run again, so a run that was stopped goes on,
 * and two processes with different seeds may share a folder. At the end OUT/report.md has the tables.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { device as makeDevice } from "../engine/index.ts";
import { UsageError, wholeNumber } from "../run/usage.ts";
import { parse, report } from "../run/node/flags.ts";
import { ARMS, type Job, runArm, type RunRecord, type Settings, SETTINGS, START } from "./stories/arms.ts";
import { heldOutTexts, startModel } from "./stories/model.ts";
import { reportOf } from "./stories/report.ts";

const HELP = `worldgrad: reinforcement learning on a pretrained model of 260 thousand parameters

  npm run stories -- [flags]

  --job NAME     tell | cast                                (default: both)
  --seeds LIST   whole numbers, commas between them         (default 0,1,2,3,4)
  --steps N      optimiser steps of each run, in place of those of the published tables
  --quick        two steps of two groups of two, to see it work
  --out DIR      where results.jsonl and report.md go       (default runs/stories)
  --help         this text
`;
const FLAGS = {
  job: { type: "string" },
  seeds: { type: "string" },
  steps: { type: "string" },
  quick: { type: "boolean" },
  out: { type: "string" },
  help: { type: "boolean" },
} as const;
const QUICK: Settings = { steps: 2, groups: 2, groupSize: 2, times: 1 };

function readRuns(path: string): RunRecord[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
  return lines.map((line, n) => {
    try {
      return JSON.parse(line) as RunRecord;
    } catch {
      throw new UsageError(`--out: line ${n + 1} of ${path} is no JSON; was a run killed in mid-line? Delete the line`);
    }
  });
}

async function main(args: readonly string[]): Promise<number> {
  const values = parse(args, FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const {
    job,
    steps,
    seeds = "0,1,2,3,4",
    out = values["quick"] ? "runs/stories-quick" : "runs/stories",
  } = values as Partial<Record<string, string>>;
  if (job !== undefined && !Object.hasOwn(ARMS, job))
    throw new UsageError(`--job: expected tell or cast, got "${job}"`);
  const jobs = job === undefined ? (Object.keys(ARMS) as Job[]) : [job as Job];
  const chosen = seeds.split(",").map((seed) => wholeNumber("seeds", seed, 0));
  const path = join(out, "results.jsonl");
  mkdirSync(out, { recursive: true });

  const settingsOf = (name: Job): Settings => ({
    ...(values["quick"] ? QUICK : SETTINGS[name]),
    ...(steps === undefined ? {} : { steps: wholeNumber("steps", steps, 2) }),
  });
  /** Read anew before each run, since another process may write, too. */
  const isDone = (name: Job, arm: string, seed: number): boolean =>
    readRuns(path).some((run) => {
      if (run.job !== name) return false;
      if (JSON.stringify(run.settings) !== JSON.stringify(settingsOf(name))) {
        throw new UsageError(
          `--out: ${path} has runs with other settings, ${JSON.stringify(run.settings)}; name another`,
        );
      }
      return run.arm === arm && run.seed === seed;
    });
  const device = await makeDevice("wasm");
  const start = startModel(device);
  const common = { device, start, texts: await heldOutTexts(start) };
  for (const seed of chosen) {
    for (const name of jobs) {
      for (const arm of [START, ...Object.keys(ARMS[name])]) {
        if (isDone(name, arm, seed)) continue;
        const run = await runArm(common, name, arm, seed, settingsOf(name));
        appendFileSync(path, `${JSON.stringify(run)}\n`);
        const shown = Object.entries(run.figures).map(([figure, value]) => `${figure} ${value.toFixed(3)}`);
        console.log(`${name}, seed ${seed}, ${arm}: ${shown.join(", ")} (${run.seconds.toFixed(0)} s)`);
      }
    }
  }
  const text = reportOf(readRuns(path));
  writeFileSync(join(out, "report.md"), text);
  console.log(`\n${text}\n${path}, ${join(out, "report.md")}`);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = report(error);
}
