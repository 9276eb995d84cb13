/**
 * `npm run bench`: worldgrad beside other engines. `options.ts` has the flags, `cases/` what is measured, `contenders/`
 * the engines, `measure.ts` the way of measuring. Tests check correctness; `promises.ts` (`--check`) checks what is
 * promised about speed.
 */
import { availableParallelism } from "node:os";
import { report } from "../run/node/flags.ts";
import { casesFor, runCases, settingFor } from "./run.ts";
import { HELP, parseBench } from "./options.ts";

async function main(args: readonly string[]): Promise<number> {
  const options = parseBench(args, availableParallelism());
  if (options === "help") {
    console.log(HELP);
    return 0;
  }
  // The recorded command has no --results: the path says nothing about the measurement.
  const kept = args.filter((arg, i) => !arg.startsWith("--results") && args[i - 1] !== "--results");
  const command = `npm run bench -- ${kept.join(" ")}`.trim();
  if (options.mode === "report") return (await import("./report.ts")).writeReport(options);
  if (options.mode === "check") return (await import("./promises.ts")).checkPromises(options, command);
  const cases = casesFor(options.words);
  if (options.mode === "list") {
    for (const { name } of cases) console.log(name);
    return 0;
  }
  await runCases(cases, await settingFor(options, command));
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = report(error);
}
