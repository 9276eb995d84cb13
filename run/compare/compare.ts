/**
 * `npm start` with several agents: trains the missing agents of the folder, shows the results, writes the page. The
 * warm start comes first, then all agents at the same time, each in a process of its own with one thread, at most as
 * many as there are processors; the display has a column for each.
 */
import { existsSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { isFinished, readSummary, stepsOf, toldOnce, trainAll } from "../arms/jobs.ts";
import type { Display } from "../display/display.ts";
import { freeFolder } from "../node/flags.ts";
import { lockFolder } from "../node/lock.ts";
import { openRun } from "../node/runFolder.ts";
import type { Observer } from "../observer.ts";
import { bundlePage } from "../page/assets.ts";
import type { Evaluation, Transcript } from "../records.ts";
import { type Said, type StartOptions, TEACHES_NOTHING } from "../startOptions.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import { renderComparison } from "./render.ts";
import { type Comparison, comparisonOf, createComparison, openComparison } from "./settings.ts";
import { outcomeTables, verdictOf } from "./tables.ts";

/** The agents that the comparison is about: their ways through a task are shown side by side. */
const SHOWN = 2;

/** @param said the flags as they were given @returns the exit code */
export async function compare(
  options: StartOptions,
  display: Display,
  signal: AbortSignal,
  said: Said,
): Promise<number> {
  const comparison =
    options.resume === undefined ? begin(options, said) : await openComparison(options.resume, options);
  const { path, arms } = comparison;
  await lockFolder(path);
  const name = relative(".", path);
  display.note(`folder: ${name}`);
  if (comparison.options.quick && !comparison.warm.shipped) display.note(TEACHES_NOTHING);
  if (!(await train(comparison, display, signal))) {
    display.note(`stopped; continue with: npm start -- --resume ${name}`);
    return 130;
  }
  const outcome = outcomeIn(comparison);
  for (const table of outcomeTables(outcome)) display.table(table);
  display.note(verdictOf(outcome));
  const page = join(path, "report.html");
  writeFileSync(join(path, "results.json"), `${JSON.stringify(outcome, null, 2)}\n`);
  writeFileSync(page, renderComparison(comparison, outcome, waysIn(comparison), await bundlePage("compare")));
  display.note(`report: ${relative(".", page)}`);
  display.note(`play one episode: npm run generate -- --run ${relative(".", arms[1]!.path)} --task "…"`);
  return 0;
}

function begin(options: StartOptions, said: Said): Comparison {
  const { env = "home", seed, model, quick } = options;
  const name = [quick ? "quick" : model, env, `seed${seed}`].join("-");
  const path = freeFolder(options.name, name, (taken) => !existsSync(taken));
  const comparison = comparisonOf(path, { ...options, name: undefined });
  createComparison(comparison, said);
  return comparison;
}

/** @returns whether all were completed; if not, the signal stopped them */
async function train({ warm, arms }: Comparison, display: Display, signal: AbortSignal): Promise<boolean> {
  const [jobs, ignore] = [availableParallelism(), (): void => undefined];
  if (!isFinished(warm)) {
    const observer = (): Observer => ({ ...display, transcript: ignore });
    if (!(await trainAll([warm], { jobs: 1, threads: jobs, signal, observer }))) return false;
  }
  const waiting = arms.filter((job) => !isFinished(job));
  if (waiting.length === 0) return true;
  const names = arms.map(({ arm }) => arm.label);
  const total = Math.max(...arms.map(stepsOf));
  display.phase("the same world, the same episodes: what each agent learns", total, 0, names);
  for (const [lane, job] of arms.entries()) if (isFinished(job)) display.update(total, {}, lane);
  /** Held-out episodes of the shown agents, until all of these have played the same task at the same step. */
  const heard = new Map<string, Map<number, Transcript>>();
  const hear = (lane: number, record: Transcript): void => {
    if (record.phase !== "eval" || lane >= SHOWN) return;
    const key = `${record.step} ${record.task}`;
    const records = (heard.get(key) ?? new Map<number, Transcript>()).set(lane, record);
    heard.set(key, records);
    if (records.size < SHOWN) return;
    heard.delete(key);
    // As the progress beside them counts: from the warm start on.
    const sinceWarm = (own: Transcript): Transcript => ({ ...own, step: own.step - warm.preset.sft.steps });
    display.sideBySide(names.slice(0, SHOWN).map((name, i) => ({ name, record: sinceWarm(records.get(i)!) })));
  };
  const warn = toldOnce((text) => display.note(text));
  return trainAll(waiting, {
    jobs,
    signal,
    observer(job) {
      const lane = arms.indexOf(job);
      return {
        phase: ignore,
        update: (step, metrics) => display.update(step, metrics, lane),
        evaluation: (step, score) => display.evaluation(step, score, lane),
        transcript: (record) => hear(lane, record),
        note: (text, isWarning = false) => isWarning && warn(`${names[lane]!}: ${text}`, text),
      };
    },
    onFinished: (job) => display.update(total, {}, arms.indexOf(job)),
  });
}

/** The results of a finished comparison, read from its folders. */
export function outcomeIn({ warm, arms }: Comparison): Outcome {
  return outcomeOf(
    { preset: warm.preset, evaluation: evaluationIn(readSummary(warm)) },
    arms.map((job) => {
      const { arm, path, preset } = job;
      return { arm, preset, after: evaluationIn(readSummary(job)["after"]), metrics: openRun(path).readMetrics() };
    }),
  );
}

/** JSON has null for NaN: then there is no such loss, for nothing was answered or the model broke. */
const evaluationIn = (summary: unknown): Evaluation =>
  Object.fromEntries(
    Object.entries(summary as Evaluation).filter(([, value]) => value !== null),
  ) as unknown as Evaluation;

/** The held-out episodes of each agent. All curves begin with the warm start's evaluation. */
function waysIn({ warm, arms }: Comparison): { label: string; transcripts: Transcript[] }[] {
  const heldOut = (path: string): Transcript[] =>
    openRun(path)
      .readTranscripts()
      .filter(({ phase }) => phase === "eval");
  const first = heldOut(warm.path);
  return arms.map(({ arm, path }) => ({ label: arm.label, transcripts: [...first, ...heldOut(path)] }));
}
