/**
 * `npm run ablate`: trains arms from the same warm starts over several seeds and says how much of a difference may be
 * chance. ablate/plan.ts says what is trained, arms/pool.ts trains it, ablate/results.ts computes the results. This
 * file has the display, Ctrl-C and the output.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import process from "node:process";
import { listMethods } from "../../methods/presets.ts";
import { type AblateOptions, type EnvironmentWord, HELP, parseAblate } from "./options.ts";
import { type Cell, type Choices, folderOf, type Plan, planOf, type Trial, tuningOf } from "./plan.ts";
import { pictureOf } from "./picture.ts";
import { curveOfCell, type CellCurve } from "./points.ts";
import { renderAblation } from "./render.ts";
import { type CellResult, resultsOf } from "./results.ts";
import { tablesOf, type Times } from "./tables.ts";
import { Together } from "./together.ts";
import { chooseTrial, type TrialSettings, type Tuning } from "./tune.ts";
import { checkFinished, isFinished, type Job, readSummary, stepsOf } from "../../run/arms/job.ts";
import { trainAll } from "../../run/arms/pool.ts";
import { createDisplay, type Display } from "../../run/display/display.ts";
import { missingNote } from "../../run/display/table.ts";
import { listEnvironments } from "../../run/environments.ts";
import { environmentOf, taskOptions } from "../../run/worlds.ts";
import { isEnvironmentFile, loadEnvironment } from "../../run/node/environmentFile.ts";
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
  const tuning = tuningOf(options);
  if (tuning === null) planOf(options); // throws before anything is shown if the settings are wrong
  const display = createDisplay({ stream: displayOutput, isTTY: process.stdout.isTTY, env: process.env });
  // The signal also ends the child processes.
  const signal = stopOnInterrupt(() =>
    display.note("stopping after the steps that are under way; press Ctrl-C again to stop at once"),
  );
  const train = (plan: Plan, what: string): Promise<boolean> =>
    options.reportOnly
      ? Promise.resolve(plan.cells.every(isFinished))
      : trainPlan(plan, what, options, display, signal);
  try {
    display.note(`folder: ${folderOf(options)}`);
    const isTuned = tuning === null || (await train(tuning, "trials"));
    const found = tuning !== null && isTuned ? chooseAll(tuning, options) : undefined;
    const plan = isTuned ? planOf(options, found?.choices) : null;
    const whole = plan !== null && ((await train(plan, "cells")) || options.reportOnly);
    if (plan === null) display.note("the trials are not finished yet, and nothing is chosen");
    else await show(plan, options, found?.tuning ?? [], display);
    if (!whole && !options.reportOnly) display.note("stopped; the same command goes on");
    return whole || options.reportOnly ? 0 : 130;
  } finally {
    display.close();
  }
}

/** The word with its environment loaded, if it names a file. */
async function loaded(word: EnvironmentWord): Promise<EnvironmentWord> {
  if (!isEnvironmentFile(word.head)) return word;
  const { env: head, environmentFile } = await loadEnvironment(word.head);
  return { ...word, head, environmentFile };
}

async function trainPlan(
  { warmStarts, cells }: Plan,
  what: string,
  { jobs }: AblateOptions,
  display: Display,
  signal: AbortSignal,
): Promise<boolean> {
  checkFinished([...warmStarts, ...cells]);
  const phase = <J extends Job>(name: string, all: readonly J[], onFinished: (job: J) => void): Promise<boolean> => {
    const missing = all.filter((job) => !isFinished(job));
    const before = all.filter(isFinished).reduce((sum, job) => sum + stepsOf(job), 0);
    const total = all.reduce((sum, job) => sum + stepsOf(job), 0);
    display.phase(`${name}, ${jobs} at a time (${all.length - missing.length} finished already)`, total, before);
    if (missing.length === 0) return Promise.resolve(true);
    const together = new Together();
    const tell = (): void => display.update(before + together.done, together.metrics);
    return trainAll(missing, {
      jobs,
      signal,
      onMessage(job, message) {
        if (message.kind !== "phase" && message.kind !== "step") return;
        together.hear(job, message);
        tell();
      },
      onFinished(job) {
        onFinished(job);
        together.finished(job);
        tell();
      },
    });
  };
  const warm = await phase(`${warmStarts.length} warm starts`, warmStarts, () => undefined);
  return warm && phase(`${cells.length} ${what}`, cells, (cell) => display.note(lineOf(cell, cells)));
}

/** The best trial of every arm in every environment. All trials must be finished. */
function chooseAll({ cells }: Plan<Trial>, options: AblateOptions): { tuning: Tuning[]; choices: Choices } {
  const { envs, arms, tune } = options;
  const chosen = new Map<string, TrialSettings>();
  const tuning = envs.flatMap(({ label: env }) =>
    arms.flatMap(({ label: arm }) => {
      const own = cells.filter((cell) => cell.env === env && cell.arm === arm);
      if (own.length === 0) return [];
      const trials = [...new Map(own.map(({ settings }) => [JSON.stringify(settings), settings])).values()];
      const played = trials.map((settings) => ({
        settings,
        curves: own
          .filter((cell) => JSON.stringify(cell.settings) === JSON.stringify(settings))
          .map((cell) => curveOf(cell, options).points),
      }));
      const found = chooseTrial({ env, arm, seeds: tune!.seeds }, played);
      chosen.set(JSON.stringify([env, arm]), found.settings);
      return [found.tuning];
    }),
  );
  return { tuning, choices: (env, arm) => chosen.get(JSON.stringify([env, arm])) ?? {} };
}

function curveOf(cell: Cell, { show }: Pick<AblateOptions, "show">): CellCurve {
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
    return { env, arm, seed, ...curveOf(cell, options), families };
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
  const times: Times = (env, arm) => finished.filter((c) => c.env === env && c.arm === arm).map(secondsOf);
  for (const table of tablesOf(results, times)) display.table(table);
  const linkOf = (env: string, arm: string, seed: number): string => {
    const cell = finished.find((c) => c.env === env && c.arm === arm && c.seed === seed)!;
    return [...relative(path, cell.path).split(sep), "report.html"].join("/");
  };
  const settings = {
    options,
    presets: Object.fromEntries(cells.map(({ env, arm, preset }) => [`${env} ${arm}`, preset])),
  };
  const assets = await bundlePage("ablate");
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "results.json"), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(path, "success.svg"), pictureOf(results));
  const page = { name: options.name, settings, results, planned: cells.length, linkOf, times };
  writeFileSync(join(path, "report.html"), renderAblation(page, assets));
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
