/**
 * The jobs of an ablation and their folders. In `runs/<name>/`:
 *
 *     warm/<env>/seed<n>/                   the warm start of all arms with this seed, which stops where RL begins
 *     tune/<env>/<arm>/<trial>/seed<n>/     trials before the comparison, on seeds of their own (tune.ts)
 *     <env>/<arm>/seed<n>/                  a cell: a whole run folder, which begins RL at the warm start
 *     results.json, report.html, success.svg   the results
 *
 * Cells with the same environment and seed differ in the arm alone: they begin with the same weights, draw the same
 * training tasks in the same order, and are evaluated on the same held-out tasks with the same random numbers.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Arm, setWith, slugOf, withSettings } from "../../run/arms.ts";
import { armJob, type Job, warmJob } from "../../run/arms/jobs.ts";
import { openGiven } from "../../run/node/flags.ts";
import { UsageError } from "../../run/usage.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { AblateOptions, EnvironmentWord } from "./options.ts";
import { type TrialSettings, trialsOf } from "./tune.ts";

/** A cell: the run of an arm in an environment with a seed. */
export interface Cell extends Job {
  readonly env: string;
  readonly arm: string;
  readonly seed: number;
  /** What tuning tries or has chosen. */
  readonly settings: TrialSettings;
}

/** The jobs to train: first the warm starts, then the cells that begin there. */
export interface Plan {
  readonly warmStarts: readonly Job[];
  /** Ordered by seed, so that a finished part has all arms in it. */
  readonly cells: readonly Cell[];
}

/** The settings that tuning chose, by the labels of environment and arm. */
export type Choices = (env: string, arm: string) => TrialSettings;

/** The folder of the whole ablation. */
export const folderOf = ({ name }: AblateOptions): string => join("runs", name);

/** The cells that are reported. @throws UsageError in one line if a folder there was trained with other settings */
export function planOf(options: AblateOptions, choices: Choices = () => ({})): Plan {
  return planFor(options, options.seeds, ({ label, slug }) =>
    options.arms.map((arm) => [arm, choices(label, arm.label), join(slug, arm.slug)]),
  );
}

/** The trials of the tuning, or null without `--tune`. @throws UsageError in one line */
export function tuningOf(options: AblateOptions): Plan | null {
  const { envs, arms, tune } = options;
  if (tune === undefined) return null;
  const trials = new Map(envs.map((env) => [env, trialsOf(arms, tune, baseOf(options, env, tune.seeds[0]!))]));
  // Trials are compared by their curves, which need one try per task.
  return planFor({ ...options, passAt: undefined }, tune.seeds, (env) =>
    [...trials.get(env)!].flatMap(([arm, all]) =>
      all.map((settings) => {
        const named = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
        return [arm, settings, join("tune", env.slug, arm.slug, slugOf(named.join()) || "as-it-is")];
      }),
    ),
  );
}

/** @param runs of an environment with each seed: the arm, what differs from it, and the folder */
function planFor(
  options: AblateOptions,
  seeds: readonly number[],
  runs: (env: EnvironmentWord) => readonly (readonly [arm: Arm, settings: TrialSettings, folder: string])[],
): Plan {
  const warmStarts: Job[] = [];
  const cells: Cell[] = [];
  for (const seed of seeds) {
    for (const env of options.envs) {
      const base = baseOf(options, env, seed);
      const pathOf = (folder: string): string => join(folderOf(options), folder, `seed${seed}`);
      const warm = sized(options, warmJob(pathOf(join("warm", env.slug)), base));
      warmStarts.push(warm);
      for (const [arm, settings, folder] of runs(env)) {
        const job = sized(options, armJob(pathOf(folder), withSettings(arm, settings), base, warm.path));
        cells.push({ ...job, env: env.label, arm: arm.label, seed, settings });
      }
    }
  }
  for (const job of [...warmStarts, ...cells]) checkSettings(job);
  return { warmStarts, cells };
}

/** The options that all arms have in an environment. */
function baseOf(options: AblateOptions, env: EnvironmentWord, seed: number): StartOptions {
  const { steps, model, device, quick } = options;
  const { environmentFile } = env;
  // A setting without a part belongs to the environment.
  const own = Object.entries(env.settings).map(([key, value]) => [key.includes(".") ? key : `env.${key}`, value]);
  const set = setWith(options.set, Object.fromEntries(own) as Arm["settings"]);
  return { env: env.head, environmentFile, seed, steps, model, device, quick, set, name: undefined, resume: undefined };
}

/** Gives all evaluations the same number of tasks, so that the points of a curve have the same tasks. */
function sized({ every, episodes, passAt }: AblateOptions, job: Job): Job {
  const tries = passAt === undefined ? {} : { tries: passAt };
  const evaluation = { every, episodes, finalEpisodes: episodes, ...tries };
  return { ...job, preset: { ...job.preset, evaluation, checkpointEvery: every } };
}

function checkSettings({ path, preset }: Job): void {
  if (!existsSync(path)) return;
  const found = openGiven("name", path).config["preset"];
  const difference = firstDifference(found, JSON.parse(JSON.stringify(preset)), "");
  if (difference === null) return;
  throw new UsageError(
    `--name: ${path} was trained with other settings (${difference}); give the same flags, or another --name`,
  );
}

/** "rl.steps 40, now 60", or null. A setting that the folder does not have did not exist when it was made. */
function firstDifference(old: unknown, now: unknown, at: string): string | null {
  if (typeof old !== "object" || typeof now !== "object" || old === null || now === null) {
    return old === now ? null : `${at} ${JSON.stringify(old)}, now ${JSON.stringify(now)}`;
  }
  const [a, b] = [old as Record<string, unknown>, now as Record<string, unknown>];
  for (const key of Object.keys(a)) {
    const difference = firstDifference(a[key], b[key], at === "" ? key : `${at}.${key}`);
    if (difference !== null) return difference;
  }
  return null;
}
