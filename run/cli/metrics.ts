/** `npm run metrics -- --run runs/<name> --report-to tensorboard`: writes a run's metrics for other programs. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { openGiven, parse, report, runPath } from "../node/flags.ts";
import { lockFolder } from "../node/lock.ts";
import { outliveOutput, outputTaken } from "../node/output.ts";
import { reportersIn } from "../startOptions.ts";
import { UsageError } from "../usage.ts";

const HELP = `worldgrad: write the metrics of a run for other programs, into its folder

  npm run metrics -- --run runs/NAME --report-to LIST

  --run PATH        run folder; or one of run folders: a comparison, or runs/ itself
  --report-to LIST  tensorboard, csv; a comma between them
  --help            this text
`;

const FLAGS = { run: { type: "string" }, "report-to": { type: "string" }, help: { type: "boolean" } } as const;

/** The run folders that a path stands for. */
function runsIn(path: string): string[] {
  const isRun = (folder: string): boolean => existsSync(join(folder, "config.json"));
  if (isRun(path) || !existsSync(path)) return [path];
  const within = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const runs = within.map(({ name }) => join(path, name)).filter(isRun);
  return runs.length > 0 ? runs : [path];
}

async function main(): Promise<number> {
  outliveOutput();
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const { "report-to": to } = values;
  const run = runPath(values);
  if (typeof to !== "string") throw new UsageError("--report-to: expected tensorboard, csv or both, a comma between");
  const names = reportersIn(to);
  for (const path of runsIn(run)) {
    const folder = openGiven("run", path);
    const release = await lockFolder(folder.path);
    folder.reportTo(names);
    release();
    process.stdout.write(`${folder.path}: ${folder.readMetrics().length} lines for ${names.join(" and ")}\n`);
  }
  return 0;
}

process.exitCode = await main().catch(report);
await outputTaken();
