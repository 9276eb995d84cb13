/** Runs cases one after another, prints each and appends its results. */
import { UsageError } from "../run/usage.ts";
import { type Case, chooseCases, isMeant } from "./cases/case.ts";
import { allCases } from "./cases/index.ts";
import { matmulCase } from "./cases/matmul.ts";
import { type Contender } from "./contenders/index.ts";
import { type Adapter, available, commit, findAdapter, load, machine } from "./machine.ts";
import { measure, type Measurement, Stable } from "./measure.ts";
import { type BenchOptions, splitWords } from "./options.ts";
import { appendResults, type ResultLine } from "./results.ts";
import { measureRoofline } from "./roofline.ts";
import { rooflineShare, type Rooflines, showCase } from "./table.ts";

/** FLOPs above which a software adapter is left out: at about 3 GFLOP/s a call would take minutes. */
const SOFTWARE_LIMIT = 1.2e9;

/** FLOPs above which tfjs is left out: it trains at about 3 GFLOP/s, and a step would take a minute. */
const TFJS_LIMIT = 1e10;

/** Options, contenders and machine of a run. */
export interface Setting {
  readonly options: BenchOptions;
  readonly contenders: readonly Contender[];
  readonly adapter: Adapter;
  readonly machine: Rooflines;
  readonly info: Omit<ResultLine, "case" | "flops" | "bytes" | "result">;
}

export async function settingFor(
  options: BenchOptions,
  command: string,
  adapter: Adapter = findAdapter(),
): Promise<Setting> {
  const { contenders, missing } = available(options.contenders, adapter);
  const here = machine();
  const info = {
    time: new Date().toISOString(),
    commit: commit(),
    machine: here,
    adapter: adapter.description,
    command,
    threads: options.threads,
    load: load(),
  };
  const say = options.json ? console.error : console.log;
  const processors = `${here.cpu}, ${here.cores} processors, Node ${here.node}`;
  say(`${processors}, WebGPU adapter: ${adapter.description}, commit ${info.commit}`);
  for (const line of missing) say(line);
  if (info.load > 0.5) say(`this machine is busy (load ${info.load} per processor): trust ratios, not times`);
  if (!contenders.some(({ executor }) => executor === "wasm")) {
    const none = { flops: 0, bytes: 0 };
    return { options, contenders, adapter, machine: { one: none, all: none }, info };
  }
  const one = await measureRoofline(1);
  const all = options.threads > 1 ? await measureRoofline(options.threads) : one;
  const show = ({ flops, bytes }: typeof one): string =>
    `${(flops / 1e9).toFixed(1)} GFLOP/s, ${(bytes / 1e9).toFixed(1)} GB/s`;
  say(`roofline, measured: ${show(one)} on one thread; ${show(all)} on ${options.threads}\n`);
  return { options, contenders, adapter, machine: { one, all }, info };
}

/** @returns the measurements by case and contender */
export async function runCases(
  cases: readonly Case[],
  setting: Setting,
): Promise<Map<string, Map<string, Measurement>>> {
  const { options, contenders, adapter } = setting;
  const { rounds, warmMs, threads, patience } = options;
  const settings = { rounds, warmMs, threads, patience, env: adapter.env };
  const stable = new Stable(settings);
  const all = new Map<string, Map<string, Measurement>>();
  try {
    for (const test of cases) {
      const asked = contenders.filter((c) => test.asks(c) && !isTooMuch(test, c, adapter));
      const left = contenders.filter((c) => test.asks(c) && !asked.includes(c)).map(({ name }) => name);
      if (left.length > 0)
        (options.json ? console.error : console.log)(`${test.name}: left out, as too slow: ${left.join(", ")}`);
      if (asked.length === 0) continue;
      const results = await measure(test, asked, stable, settings);
      all.set(test.name, new Map(results.map((result) => [result.contender, result])));
      report(test, results, setting);
    }
  } finally {
    await stable.stopAll();
  }
  return all;
}

const isTooMuch = (test: Case, contender: Contender, adapter: Adapter): boolean =>
  (contender.executor === "webgpu" && adapter.software && test.flops > SOFTWARE_LIMIT) ||
  (contender.engine === "plain" && test.flops > 3e9) ||
  (contender.engine === "tfjs" && test.alone && test.flops > TFJS_LIMIT);

function report(test: Case, results: readonly Measurement[], setting: Setting): void {
  const { options, contenders, machine: rooflines, info } = setting;
  const lines = results.map((result): ResultLine => {
    const contender = contenders.find((c) => c.name === result.contender)!;
    const share = result.ms && rooflineShare(test, contender, result.ms.median, rooflines);
    return {
      ...info,
      case: test.name,
      flops: test.flops,
      bytes: test.bytes,
      ...(test.work === undefined ? {} : { work: test.work }),
      result,
      ...(share === undefined ? {} : { roofline: share }),
    };
  });
  if (options.json) console.log(JSON.stringify({ case: test.name, results }));
  else console.log(`${showCase(test, results, contenders, rooflines)}\n`);
  if (options.results !== undefined) appendResults(options.results, lines);
}

/** Cases that the words of the command line name. @throws UsageError if a word fits none */
export function casesFor(words: readonly string[]): Case[] {
  const { shapes, names } = splitWords(words);
  const all = allCases();
  const unknown = names.find((name) => !all.some((test) => isMeant(test.name, name)));
  if (unknown !== undefined) throw new UsageError(`there is no case "${unknown}" (--list shows all)`);
  const products = shapes.map((shape) => matmulCase(shape));
  return shapes.length > 0 && names.length === 0 ? products : [...products, ...chooseCases(all, names)];
}
