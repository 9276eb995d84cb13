/**
 * `npm run ablate`: methods from the same warm starts, over seeds, with what is chance and what is not. What it consists of is in
 * ablate/plan.ts, who trains when in arms/pool.ts, what it comes to in ablate/results.ts; here are flags, display, Ctrl-C, the end.
 */
import { writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import process from "node:process";
import { listMethods } from "../rl/methods.ts";
import { type AblateOptions, HELP, parseAblate } from "./ablate/options.ts";
import { type Cell, type Plan, planOf } from "./ablate/plan.ts";
import { renderAblation } from "./ablate/render.ts";
import { type CellResult, curveOfCell, resultsOf } from "./ablate/results.ts";
import { tablesOf } from "./ablate/tables.ts";
import { Together } from "./ablate/together.ts";
import { isFinished, type Job, readSummary, stepsOf } from "./arms/job.ts";
import { trainAll } from "./arms/pool.ts";
import { createDisplay, type Display } from "./display/display.ts";
import { stopOnInterrupt } from "./interrupt.ts";
import { report } from "./options.ts";
import { listEnvironments } from "./environments.ts";
import { bundlePage } from "./report/assets.ts";
import type { Summary } from "./report/records.ts";
import { openRun } from "./runFolder.ts";

async function main(): Promise<number> {
  const options = parseAblate(process.argv.slice(2));
  if (options === "help" || options === "list") {
    process.stdout.write(options === "help" ? HELP : `${listMethods()}\n\n${listEnvironments()}\n`);
    return 0;
  }
  const plan = planOf(options);
  const display = createDisplay({ stream: process.stdout, isTTY: process.stdout.isTTY, env: process.env });
  // The children end with us.
  const signal = stopOnInterrupt(() => display.note("stopping after the steps that are under way; press Ctrl-C again to stop at once")); // prettier-ignore
  try {
    display.note(`folder: ${plan.path}`);
    const whole = options.reportOnly || (await train(plan, options, display, signal));
    await show(plan, options, display);
    if (!whole) display.note("stopped; the same command goes on");
    return whole ? 0 : 130;
  } finally {
    display.close();
  }
}

async function train(
  { warmStarts, cells }: Plan,
  { jobs }: AblateOptions,
  display: Display,
  signal: AbortSignal,
): Promise<boolean> {
  // prettier-ignore
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
  return warm && phase(`${cells.length} cells`, cells, (cell) => display.note(lineOf(cell, cells)));
}

/** Tables, results.json and report.html from the cells that are finished. */
async function show({ path, cells }: Plan, options: AblateOptions, display: Display): Promise<void> {
  const finished = cells.filter(isFinished);
  if (finished.length === 0) return display.note("no cell is finished yet");
  const { methods, threshold } = options;
  const own = finished.map(({ env, method, seed, path: folder, preset }): CellResult => {
    return { env, method, seed, points: curveOfCell(folder, openRun(folder).readMetrics(), preset) };
  });
  const results = resultsOf(own, methods, threshold, cells[0]!.preset);
  for (const table of tablesOf(results)) display.table(table);
  const linkOf = (env: string, method: string, seed: number): string => {
    const cell = finished.find((c) => c.env === env && c.method === method && c.seed === seed)!;
    return [...relative(path, cell.path).split(sep), "report.html"].join("/");
  };
  const settings = { options, presets: Object.fromEntries(cells.map(({ env, method, preset }) => [`${env} ${method}`, preset])) }; // prettier-ignore
  const assets = await bundlePage("../ablate/page.ts");
  writeFileSync(join(path, "results.json"), `${JSON.stringify(results, null, 2)}\n`);
  const page = { name: options.name, settings, results, planned: cells.length, linkOf };
  writeFileSync(join(path, "report.html"), renderAblation(page, assets));
  display.note(`report: ${join(path, "report.html")}`);
}

/** What a finished cell came to. */
function lineOf(cell: Cell, cells: readonly Cell[]): string {
  const { before, after } = readSummary(cell) as unknown as Summary;
  const percent = ({ successes, episodes }: Summary["after"]): string =>
    `${((100 * successes) / episodes).toFixed(1)} %`;
  const place = `${cells.filter(isFinished).length} of ${cells.length}`;
  return `${cell.env}, seed ${cell.seed}, ${cell.method}: ${percent(before)} → ${percent(after)} (${place})`;
}

process.exitCode = await main().catch(report);
process.exit();
