/**
 * `npx tsx bench/scale.ts`: tokens per second with many workers on other machines, where it saturates, and on which
 * assumptions. Simulated up to 10,000 workers (scale/simulate.ts), from what was measured with 1, 2 and 4 processes on
 * one machine (`--measure`, scale/measure.ts) and from assumptions about larger models; each is a flag, and `--help`
 * lists them. Prints tables in Markdown, for docs/scale.md, and writes a page.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { report } from "../run/node/flags.ts";
import { bundleScript } from "../run/page/assets.ts";
import { assumedCase, type Case, measuredCase, resultOf } from "./scale/cases.ts";
import { readMeasured } from "./scale/measured.ts";
import { markdown, renderScale } from "./scale/render.ts";
import { HELP, parseScale, type ScaleOptions } from "./scale/settings.ts";

async function measure({ common, measured, files }: ScaleOptions): Promise<void> {
  // The learner's executor and those of the processes that play have one thread each.
  process.env["WORLDGRAD_THREADS"] = "1";
  const { benchPreset, measureAll } = await import("./scale/measure.ts");
  const result = await measureAll({
    workers: [1, 2, 4],
    steps: measured.measuredSteps,
    fill: 3,
    staleness: common.staleness,
    wait: measured.wait,
    sizes: [1e5, 1e6, 1e7, 4e7],
    preset: benchPreset(),
    places: 16,
    say: (line) => console.error(line),
  });
  writeFileSync(files.from, `${JSON.stringify(result)}\n`);
}

async function main(args: readonly string[]): Promise<number> {
  const options = parseScale(args);
  if (options === "help") {
    console.log(HELP);
    return 0;
  }
  const { common, assumed, files } = options;
  if (options.measure) await measure(options);
  const measured = readMeasured(files.from);
  const cases: Case[] = [
    ...measured.settings.map((setting) => measuredCase(measured, setting, common)),
    assumedCase({ weights: assumed.weights, what: "weights" }, assumed, common),
    assumedCase({ weights: assumed.adapter, what: "an adapter" }, assumed, common),
  ];
  const results = cases.map((one) => {
    console.error(one.name);
    return resultOf(one);
  });
  const page = { measured, results, config: { common, assumed, measured: options.measured } };
  mkdirSync(dirname(files.page), { recursive: true });
  writeFileSync(files.page, renderScale(page, await bundleScript("../../bench/scale/page.ts")));
  console.log(markdown(page));
  console.error(`wrote ${files.page}`);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = report(error);
}
process.exit();
