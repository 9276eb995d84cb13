/**
 * `npm run ablate`: trains arms from the same warm starts over several seeds and says how much of a difference may be
 * chance. ablate/plan.ts says what is trained, arms/jobs.ts trains it, ablate/results.ts computes the results. This
 * file has the display, Ctrl-C and the output.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import process from "node:process";
import { listMethods } from "../../methods/presets.ts";
import { type AblateOptions, type EnvironmentWord, HELP, parseAblate } from "./options.ts";
import { type Cell, type Choices, folderOf, type Plan, planOf, tuningOf } from "./plan.ts";
import { pictureOf } from "./picture.ts";
import { curveOfCell, type CellCurve } from "./points.ts";
import { renderAblation } from "./render.ts";
import { type CellResult, resultsOf } from "./results.ts";
import { type LinkOf, tablesOf, type Times } from "./tables.ts";
import { Together } from "./together.ts";
import { chooseTrial, type Tuning } from "./tune.ts";
import { checkFinished, isFinished, type Job, readSummary, stepsOf, toldOnce, trainAll } from "../../run/arms/jobs.ts";
import { createDisplay, type Display } from "../../run/display/display.ts";
import { missingNote } from "../../run/display/table.ts";
import { listEnvironments } from "../../run/environments.ts";
import { environmentOf, taskOptions } from "../../run/worlds.ts";
import { loadEnvironment } from "../../run/node/environmentFile.ts";
import { isUserFile } from "../../run/startOptions.ts";
import { stopOnInterrupt } from "../../run/node/interrupt.ts";
import { report } from "../../run/node/flags.ts";
import { bundlePage } from "../../run/page/assets.ts";
import type { Evaluation, Summary } from "../../run/records.ts";
import { displayOutput, outliveOutput, outputTaken } from "../../run/node/output.ts";
import { openRun } from "../../run/node/runFolder.ts";
import { listBaselines } from "../../run/baselines.ts";

async function main(): Promise<number> {
  outliveOutput();
  const said = parseAblate(process.argv.slice(2));
  if (said === "help" || said === "list") {
    process.stdout.write(said === "help" ? HELP : `${listMethods()}\n\n${listBaselines()}\n\n${listEnvironments()}\n`);
    return 0;
  }
  const options = { ...said, envs: await Promise.all(said.envs.map(loaded)) };
  const { reportOnly } = options;
  const trials = tuningOf(options);
  if (trials === null) planOf(options); // throws before anything is shown if the settings are wrong
  const display = createDisplay({ stream: displayOutput, isTTY: process.stdout.isTTY, env: process.env });
  // The signal also ends the child processes.
  const signal = stopOnInterrupt(() =>
    display.note("stopping after the steps that are under way; press Ctrl-C again to stop at once"),
  );
  const train = async (plan: Plan, what: string): Promise<boolean> =>
    reportOnly ? plan.cells.every(isFinished) : trainPlan(plan, what, options.jobs, display, signal);
  try {
    display.note(`folder: ${folderOf(options)}`);
    let isWhole = trials === null || (await train(trials, "trials"));
    if (isWhole) {
      const { tuning, choices } = chooseAll(trials?.cells ?? [], options);
      const plan = planOf(options, choices);
      isWhole = await train(plan, "cells");
      await show(plan, options, tuning, display);
    } else display.note("the trials are not finished yet, and nothing is chosen");
    if (reportOnly) return 0;
    if (!isWhole) display.note("stopped; the same command goes on");
    return isWhole ? 0 : 130;
  } finally {
    display.close();
  }
}

/** The word with its environment loaded, if it names a file. */
async function loaded(word: EnvironmentWord): Promise<EnvironmentWord> {
  if (!isUserFile(word.head)) return word;
  const { env: head, environmentFile } = await loadEnvironment(word.head);
  return { ...word, head, environmentFile };
}

async function trainPlan(
  { warmStarts, cells }: Plan,
  what: string,
  jobs: number,
  display: Display,
  signal: AbortSignal,
): Promise<boolean> {
  checkFinished([...warmStarts, ...cells]);
  const phase = async <J extends Job>(
    name: string,
    all: readonly J[],
    onFinished?: (job: J) => void,
  ): Promise<boolean> => {
    const steps = (of: readonly J[]): number => of.reduce((sum, job) => sum + stepsOf(job), 0);
    const missing = all.filter((job) => !isFinished(job));
    const before = steps(all.filter(isFinished));
    const place = `${name}, ${jobs} at a time (${all.length - missing.length} finished already)`;
    display.phase(place, before + steps(missing), before);
    if (missing.length === 0) return true;
    const warn = toldOnce((text) => display.note(text));
    const together = new Together(
      (done, metrics) => display.update(before + done, metrics),
      (job, text) => warn(`${job.path}: ${text}`, text),
    );
    return trainAll(missing, {
      jobs,
      signal,
      observer: (job) => together.observer(job),
      onFinished(job) {
        onFinished?.(job);
        together.finished(job);
      },
    });
  };
  const warm = await phase(`${warmStarts.length} warm starts`, warmStarts);
  return warm && phase(`${cells.length} ${what}`, cells, (cell) => display.note(lineOf(cell, cells)));
}

/** The best trial of every arm in every environment. All trials must be finished. */
function chooseAll(trials: readonly Cell[], options: AblateOptions): { tuning: Tuning[]; choices: Choices } {
  const { envs, arms, tune, show } = options;
  const found = envs.flatMap(({ label: env }) =>
    arms.flatMap(({ label: arm }) => {
      const own = trials.filter((cell) => cell.env === env && cell.arm === arm);
      const played = [...new Set(own.map(({ settings }) => settings))].map((settings) => ({
        settings,
        curves: own.flatMap((cell) => (cell.settings === settings ? [curveOf(cell, show).points] : [])),
      }));
      return played.length === 0 ? [] : [chooseTrial({ env, arm, seeds: tune!.seeds }, played)];
    }),
  );
  return {
    tuning: found.map(({ tuning }) => tuning),
    choices: (env, arm) => found.find(({ tuning }) => tuning.env === env && tuning.arm === arm)?.settings ?? {},
  };
}

function curveOf(cell: Cell, show: readonly string[]): CellCurve {
  const parameters = Number(summaryOf(cell).facts!["parameters"]);
  return curveOfCell(cell.path, openRun(cell.path).readMetrics(), cell.preset, { parameters, show });
}

const summaryOf = (cell: Cell): Summary => readSummary(cell) as unknown as Summary;

/** Shows the tables and writes results.json, success.svg and report.html from the cells that are finished. */
async function show({ cells }: Plan, options: AblateOptions, tuning: Tuning[], display: Display): Promise<void> {
  const path = folderOf(options);
  const finished = cells.filter(isFinished);
  if (finished.length === 0) return display.note("no cell is finished yet");
  const own = finished.map((cell): CellResult => {
    const { before, after } = summaryOf(cell);
    const { env, arm, seed } = cell;
    const families = { before: ratesOf(before), after: ratesOf(after) };
    return { env, arm, seed, ...curveOf(cell, options.show), families };
  });
  const unknown = options.show.find((name) =>
    own.every(({ points }) => points.every((point) => point.shown[name] === null)),
  );
  if (unknown !== undefined) display.note(`--show: no line has a metric "${unknown}"`);
  const { rl, evaluation } = cells[0]!.preset;
  const results = resultsOf(own, {
    arms: options.arms.map(({ label }) => label),
    threshold: options.threshold,
    trainingEpisodes: rl.groups * rl.groupSize,
    heldOutEpisodes: evaluation.finalEpisodes,
    shown: options.show,
    tuning,
    rewarded: (env) => rewardedFamilies(cells.find((cell) => cell.env === env)!),
  });
  const cellsOf = (env: string, arm: string): Cell[] => finished.filter((c) => c.env === env && c.arm === arm);
  const times: Times = (env, arm) => cellsOf(env, arm).map(secondsOf);
  for (const table of tablesOf(results, times)) display.table(table);
  const linkOf: LinkOf = (env, arm, seed) => {
    const cell = cellsOf(env, arm).find((c) => c.seed === seed)!;
    return [...relative(path, cell.path).split(sep), "report.html"].join("/");
  };
  const settings = {
    options,
    presets: Object.fromEntries(cells.map(({ env, arm, preset }) => [`${env} ${arm}`, preset])),
  };
  const page = { name: options.name, settings, results, planned: cells.length, linkOf, times };
  const html = renderAblation(page, await bundlePage("ablate"));
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "results.json"), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(path, "success.svg"), pictureOf(results));
  writeFileSync(join(path, "report.html"), html);
  display.note(`report: ${join(path, "report.html")}`);
}

const ratesOf = ({ families = {} }: Evaluation): CellResult["families"]["before"] =>
  Object.fromEntries(
    Object.entries(families).map(([name, { successes, episodes }]) => [name, { successes, episodes }]),
  );

/** The families of tasks that a cell trains on. */
function rewardedFamilies({ preset }: Cell): string[] {
  const { families, levels: [low, high] = [1, Infinity] } = taskOptions(preset, "train");
  const all = environmentOf(preset).families.filter(({ level }) => low <= level && level <= high);
  return all.map(({ name }) => name).filter((name) => families?.includes(name) ?? true);
}

/** The seconds that a cell's RL steps took, without evaluations. */
const secondsOf = ({ path }: Cell): number =>
  openRun(path)
    .readMetrics()
    .reduce((sum, line) => sum + (line.phase === "rl" ? Number(line["step_time"] ?? 0) : 0), 0);

/** One line with the result of a finished cell. */
function lineOf(cell: Cell, cells: readonly Cell[]): string {
  const { before, after } = summaryOf(cell);
  const percent = (of: Summary["after"]): string =>
    `${of.episodes === 0 ? "–" : `${((100 * of.successes) / of.episodes).toFixed(1)} %`}${missingNote(of)}`;
  const place = `${cells.filter(isFinished).length} of ${cells.length}`;
  return `${cell.env}, seed ${cell.seed}, ${cell.arm}: ${percent(before)} → ${percent(after)} (${place})`;
}

process.exitCode = await main().catch(report);
await outputTaken();
process.exit();
