/**
 * `npm run bench -- --check`: what the project promises about speed, measured side by side on this machine. It prints
 * one line for each promise with its figure and its threshold. The exit code is 1 if a line is "short", or "missing": a
 * promise that was not measured is not kept. Only PyTorch may be missing, because not every machine can have it.
 */
import { allCases } from "./cases/index.ts";
import { nameOf, SIZES } from "./cases/model.ts";
import { UsageError } from "../run/usage.ts";
import { findAdapter } from "./machine.ts";
import type { Measurement } from "./measure.ts";
import type { BenchOptions } from "./options.ts";
import { runCases, settingFor } from "./run.ts";
import { ratio } from "./statistics.ts";

export type Results = ReadonlyMap<string, ReadonlyMap<string, Measurement>>;

export interface Claim {
  readonly line: number;
  readonly what: string;
  readonly figure: (results: Results) => number | undefined;
  readonly limit: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit: string;
  /** The measurement to compare with. If its contender cannot do the case, there is nothing to compare. */
  readonly rival?: readonly [test: string, contender: string];
  /** Whether the figure may be missing, as where PyTorch is not installed. */
  readonly optional?: boolean;
}

const times = (results: Results, test: string, contender: string): readonly number[] | undefined =>
  results.get(test)?.get(contender)?.rounds;

/** Speed of `fast` as a multiple of the speed of `slow`. */
function speedup(results: Results, test: string, slow: string, fast: string): number | undefined {
  const [a, b] = [times(results, test, slow), times(results, test, fast)];
  return a && b && ratio(a, b);
}

const milliseconds = (results: Results, test: string, contender: string): number | undefined =>
  results.get(test)?.get(contender)?.ms?.median;

const [SMALL, ...LARGER] = SIZES.map((shape) => `step/${nameOf(shape)}`) as [string, ...string[]];
const DECODE = "decode/B128";
const FORWARD = "forward/B128-T64-C128-L2";
const PROFILE = `profile/${nameOf(SIZES[0]!)}`;

const flopsOf = new Map(allCases().map(({ name, flops }) => [name, flops]));

/** Rate in FLOP per millisecond. */
function flopRate(results: Results, test: string, contender: string): number | undefined {
  const ms = milliseconds(results, test, contender);
  return ms === undefined ? undefined : flopsOf.get(test)! / ms;
}

const quotient = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? undefined : a / b;

const THREADS = ["worldgrad", "worldgrad-threads"] as const;

/** Time of an RL step, as a multiple of the time of its FLOPs at the rate of the training step. */
function rlOverhead(results: Results): number | undefined {
  const figures = results.get("rl/terminal")?.get("worldgrad-threads")?.figures;
  const rate = flopRate(results, SMALL, "worldgrad-threads");
  const [rollout, learning, gflop] = ["rollout ms", "learning ms", "GFLOP"].map((name) => figures?.[name]);
  if (rollout === undefined || learning === undefined || gflop === undefined || rate === undefined) return undefined;
  return (rollout + learning) / ((gflop * 1e9) / rate);
}

/** Milliseconds of a step outside matrix products and attention. */
function otherMs(results: Results): number | undefined {
  const figures = results.get(PROFILE)?.get("worldgrad-webgpu")?.figures;
  if (figures === undefined) return undefined;
  return Object.entries(figures).reduce((total, [name, ms]) => total + (/matmul|attention/i.test(name) ? 0 : ms), 0);
}

const trainingClaims = (test: string): Claim[] => [
  {
    line: 3,
    what: `${test}, one thread, beside jax-js`,
    figure: (r) => speedup(r, test, "jax-js", "worldgrad"),
    rival: [test, "jax-js"],
    limit: { atLeast: 2 },
    unit: "×",
  },
  {
    line: 3,
    what: `${test}, two threads, beside jax-js`,
    figure: (r) => speedup(r, test, "jax-js", "worldgrad-threads"),
    rival: [test, "jax-js"],
    limit: { atLeast: 3 },
    unit: "×",
  },
  {
    line: 3,
    what: `${test}, one thread, beside PyTorch on one`,
    figure: (r) => speedup(r, test, "torch", "worldgrad"),
    limit: { atLeast: 0.5 },
    unit: "×",
    optional: true,
  },
];

const CPU_CLAIMS: readonly Claim[] = [
  ...["matmul/NN:512x512x512", "matmul/NN:1024x1024x1024"].flatMap((test): Claim[] => [
    {
      line: 1,
      what: `${test}, one thread, beside tfjs`,
      figure: (r) => speedup(r, test, "tfjs", "worldgrad"),
      limit: { atLeast: 1 },
      unit: "×",
    },
    {
      line: 1,
      what: `${test}, two threads beside one`,
      figure: (r) => speedup(r, test, "worldgrad", "worldgrad-threads"),
      limit: { atLeast: 1.7 },
      unit: "×",
    },
  ]),
  {
    line: 2,
    what: "softmax/1024x1024, time beside tfjs's",
    figure: (r) => speedup(r, "softmax/1024x1024", "worldgrad", "tfjs"),
    limit: { atMost: 1.2 },
    unit: "×",
  },
  {
    line: 2,
    what: "block/B4-T64-C128-H4, forward and backward, one thread",
    figure: (r) => milliseconds(r, "block/B4-T64-C128-H4", "worldgrad"),
    limit: { atMost: 10 },
    unit: " ms",
  },
  ...[SMALL, ...LARGER].flatMap(trainingClaims),
  ...THREADS.map((who): Claim => ({
    line: 5,
    what: `${DECODE}, FLOP rate beside the training forward's, ${who}`,
    figure: (r) => quotient(flopRate(r, DECODE, who), flopRate(r, FORWARD, who)),
    limit: { atLeast: 0.5 },
    unit: "×",
  })),
  {
    line: 5,
    what: "rl/terminal, time beside what its FLOPs cost at the training step's rate",
    figure: rlOverhead,
    limit: { atMost: 1.5 },
    unit: "×",
  },
];

const GPU_CLAIMS: readonly Claim[] = [
  {
    line: 4,
    what: `${SMALL} on webgpu (SwiftShader), beside jax-js`,
    figure: (r) => speedup(r, SMALL, "jax-js-webgpu", "worldgrad-webgpu"),
    limit: { atLeast: 2 },
    unit: "×",
  },
  {
    line: 4,
    what: `${SMALL} on webgpu (SwiftShader), all but matmul and attention`,
    figure: otherMs,
    limit: { atMost: 60 },
    unit: " ms",
  },
];

export interface Verdict {
  readonly verdict: "ok" | "short" | "missing" | "left out";
  readonly text: string;
}

export function judge(claim: Claim, results: Results): Verdict {
  const { line, what, limit, unit, optional } = claim;
  const figure = claim.figure(results);
  const [sign, bound] = "atLeast" in limit ? ["≥", limit.atLeast] : ["≤", limit.atMost];
  const start = `${line}  ${what}:`;
  if (figure === undefined) {
    const reason = claim.rival && results.get(claim.rival[0])?.get(claim.rival[1])?.reason;
    if (reason !== undefined) return { verdict: "left out", text: `${start} ${claim.rival![1]} cannot (${reason})` };
    return { verdict: optional ? "left out" : "missing", text: `${start} not measured, ${sign} ${bound}${unit}` };
  }
  const holds = "atLeast" in limit ? figure >= limit.atLeast : figure <= limit.atMost;
  return { verdict: holds ? "ok" : "short", text: `${start} ${figure.toFixed(2)}${unit}, ${sign} ${bound}${unit}` };
}

/** Cases and contenders of each line. A case of an earlier line is measured again only on another adapter. */
const PLAN: readonly {
  readonly line: number;
  readonly cases: readonly string[];
  readonly contenders: readonly string[];
  readonly adapter?: string;
}[] = [
  { line: 1, cases: ["matmul/NN:512x512x512", "matmul/NN:1024x1024x1024"], contenders: [...THREADS, "tfjs"] },
  { line: 2, cases: ["softmax/1024x1024", "block/B4-T64-C128-H4"], contenders: ["worldgrad", "jax-js", "tfjs"] },
  { line: 3, cases: [SMALL, ...LARGER], contenders: [...THREADS, "jax-js", "torch"] },
  { line: 5, cases: [SMALL, DECODE, FORWARD, "rl/terminal"], contenders: [...THREADS] },
  { line: 4, cases: [SMALL, PROFILE], contenders: ["worldgrad-webgpu", "jax-js-webgpu"], adapter: "swiftshader" },
];

/**
 * Measures the lines that `words` name, or all.
 * @returns the exit code @throws UsageError for a word that is no line, because a check of nothing would pass
 */
export async function checkPromises(options: BenchOptions, command: string): Promise<number> {
  const lines = PLAN.map(({ line }) => String(line)).toSorted();
  const stranger = options.words.find((word) => !lines.includes(word));
  if (stranger !== undefined)
    throw new UsageError(`--check: expected lines out of ${lines.join(", ")}, got "${stranger}"`);
  const wanted = (line: number): boolean => options.words.length === 0 || options.words.includes(String(line));
  const claims = [...CPU_CLAIMS, ...GPU_CLAIMS].filter(({ line }) => wanted(line));
  const results = new Map<string, Map<string, Measurement>>();
  for (const { line, cases, contenders, adapter } of PLAN) {
    if (!wanted(line)) continue;
    const found = adapter === undefined ? undefined : findAdapter(adapter);
    const setting = await settingFor({ ...options, contenders }, command, found);
    const tests = allCases().filter(
      ({ name }) => cases.includes(name) && !(results.has(name) && adapter === undefined),
    );
    for (const [name, measured] of await runCases(tests, setting)) {
      results.set(name, new Map([...(results.get(name) ?? []), ...measured]));
    }
  }
  let code = 0;
  for (const claim of claims) {
    const { verdict, text } = judge(claim, results);
    if (verdict === "short" || verdict === "missing") code = 1;
    console.log(`${verdict.padEnd(8)} ${text}`);
  }
  return code;
}
