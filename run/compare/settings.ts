/**
 * The comparison of `npm start` without a method on the command line: agents that begin with the same weights in the
 * same unknown world and differ in the tokens that they learn from. In `runs/<name>/`:
 *
 *     comparison.json     the settings, from which it can be continued
 *     flags.json          the flags that it was begun with
 *     warm/               a run folder that stops where RL begins
 *     <arm>/              a whole run folder for each agent, with its own report
 *     results.json        the results
 *     report.html         the agents side by side
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AGENT_FLAGS, type Arm, parseArms } from "../arms.ts";
import { armJob, checkFinished, type Job, warmJob } from "../arms/jobs.ts";
import { environmentSettings } from "../environments.ts";
import { COMPARISON } from "../node/comparison.ts";
import { FLAGS_FILE, flagsText } from "../node/flagsFile.ts";
import { sealed, unsealed } from "../node/sealed.ts";
import { shippedWarmStart } from "../node/shippedWarmStart.ts";
import { loadUserFilesOf } from "../node/userFiles.ts";
import { UsageError } from "../usage.ts";
import type { Said, StartOptions } from "../startOptions.ts";
import { camel } from "../plugins.ts";

export interface Comparison {
  readonly path: string;
  readonly options: StartOptions;
  readonly warm: Job;
  /** The agents. The comparison is about the first two; the others are there to measure these against. */
  readonly arms: readonly (Job & { readonly arm: Arm })[];
}

/** @throws UsageError in one line if a name is unknown or the settings of an agent do not fit together */
export function comparisonOf(path: string, options: StartOptions): Comparison {
  const quick = quickOf(options);
  const { env = "home", arms = environmentSettings(env).arms! } = options;
  const all = parseArms(arms);
  const chosen = quick && options.arms === undefined ? all.slice(0, 2) : all;
  if (chosen.length < 2)
    throw new UsageError(`--arms: expected two agents or more, got "${arms}"; for one alone use --method`);
  const base = { ...(quick ?? options), env, arms: undefined };
  const warm = { ...warmJob(join(path, "warm"), base), shipped: quick !== undefined };
  const jobs = chosen.map((arm) => ({ arm, ...armJob(join(path, arm.slug), arm, base, warm.path) }));
  return { path, options, warm, arms: jobs };
}

/** With `--quick`: RL that takes a minute and shows what two agents learn. */
const QUICK = { steps: 60, set: ["evaluation.every=10", "evaluation.episodes=60", "evaluation.finalEpisodes=100"] };

/**
 * The settings that `--quick` stands for if a warm start of them lies beside the source; undefined if it stands for
 * settings that learn nothing.
 */
function quickOf(options: StartOptions): StartOptions | undefined {
  // On the reference, which is for checks, a minute would be hours.
  if (!options.quick || options.device === "reference") return undefined;
  const { set = [] } = options;
  const own = QUICK.set.filter((text) => !set.some((other) => other.startsWith(text.split("=")[0]!)));
  const long = {
    ...options,
    quick: false,
    arms: undefined,
    steps: options.steps ?? QUICK.steps,
    set: [...own, ...set],
  };
  return shippedWarmStart(warmJob("", long).preset) && long;
}

/** Whether this command line is about several agents; it is about one if it names a method. @throws UsageError */
export function isAboutSeveral(options: StartOptions): boolean {
  const { env = "home", arms } = options;
  const values: object = options;
  const ofOne = OF_ONE.find((flag) => (values as Readonly<Record<string, unknown>>)[camel(flag)] !== undefined);
  if (arms === undefined) return ofOne === undefined && environmentSettings(env).arms !== undefined;
  if (ofOne === undefined) return true;
  throw new UsageError(
    `--${ofOne} sets one agent, but --arms names several; give it to an agent, as in --arms ` +
      `"grpo,grpo+echo[lambda=0.1]"`,
  );
}

/** Flags that belong to one agent, and not to the world or the warm start, which all share. */
const OF_ONE = ["model-path", "from", "method", ...AGENT_FLAGS.filter((flag) => flag !== "steps")];

/** Makes the folder with its settings, or not at all. */
export function createComparison({ path, options, arms }: Comparison, said: Said): void {
  const unfinished = `${path}.tmp`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  writeFileSync(join(unfinished, COMPARISON), sealed({ ...options, agents: arms.map(({ arm }) => arm.slug) }));
  writeFileSync(join(unfinished, FLAGS_FILE), flagsText(said));
  renameSync(unfinished, path);
}

export const isComparison = (path: string): boolean => existsSync(join(path, COMPARISON));

/** Reads the comparison in this folder, to continue it. @throws UsageError if its settings cannot be read */
export async function openComparison(
  path: string,
  { device, reportTo }: Pick<StartOptions, "device" | "reportTo">,
): Promise<Comparison> {
  const file = join(path, COMPARISON);
  const { agents: _, ...options } = unsealed(file, (problem) => {
    throw new UsageError(`--resume: ${file}: ${problem}`);
  }) as unknown as StartOptions & { readonly agents: unknown };
  await loadUserFilesOf({ ...options, env: options.env ?? "home" });
  const comparison = comparisonOf(path, { ...options, device, reportTo: reportTo ?? options.reportTo });
  checkFinished([comparison.warm, ...comparison.arms]);
  return comparison;
}
