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
import { type Arm, presetOfArm, setWith, slugOf, withSettings, type Word } from "../../run/arms.ts";
import { withFiles } from "../../run/node/commandLine.ts";
import type { Job } from "../../run/arms/job.ts";
import { openGiven } from "../../run/node/flags.ts";
import { UsageError } from "../../run/usage.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { Preset } from "../../run/preset.ts";
import type { AblateOptions, EnvironmentWord } from "./options.ts";
import { type TrialSettings, trialsOf } from "./tune.ts";

/** A cell: the run of an arm in an environment with a seed. */
export interface Cell extends Job {
  readonly env: string;
  readonly arm: string;
  readonly seed: number;
}

/** The jobs to train: first the warm starts, then the cells that begin there. */
export interface Plan<C extends Cell = Cell> {
  readonly warmStarts: readonly Job[];
  /** Ordered by seed, so that a finished part has all arms in it. */
  readonly cells: readonly C[];
}

/** The settings that tuning chose, by the labels of environment and arm. */
export type Choices = (env: string, arm: string) => TrialSettings;

export interface Trial extends Cell {
  readonly settings: TrialSettings;
}

/** The folder of the whole ablation. */
export const folderOf = ({ name }: AblateOptions): string => join("runs", name);

/** The cells that are reported. @throws UsageError in one line if a folder there was trained with other settings */
export function planOf(options: AblateOptions, choices: Choices = () => ({})): Plan {
  const { envs, arms, seeds } = options;
  const cells = seeds.flatMap((seed) =>
    envs.flatMap((env) =>
      arms.map((arm): Cell => {
        const path = join(folderOf(options), env.slug, arm.slug, `seed${seed}`);
        return cellOf(options, env, withSettings(arm, choices(env.label, arm.label)), seed, path);
      }),
    ),
  );
  return checked({ warmStarts: warmStarts(options, seeds), cells });
}

/** The trials of the tuning, or null without `--tune`. @throws UsageError in one line */
export function tuningOf(asked: AblateOptions): Plan<Trial> | null {
  const { envs, arms, tune } = asked;
  if (tune === undefined) return null;
  const options = { ...asked, passAt: undefined }; // trials are compared by their curves, which need one try per task
  const trials = envs.map((env) => trialsOf(arms, tune, baseOf(options, env, tune.seeds[0]!)));
  const cells = tune.seeds.flatMap((seed) =>
    envs.flatMap((env, e) =>
      [...trials[e]!].flatMap(([arm, all]) =>
        all.map((settings): Trial => {
          const named = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
          const slug = slugOf(named.join()) || "as-it-is";
          const path = join(folderOf(options), "tune", env.slug, arm.slug, slug, `seed${seed}`);
          return { ...cellOf(options, env, withSettings(arm, settings), seed, path), settings };
        }),
      ),
    ),
  );
  return checked({ warmStarts: warmStarts(options, tune.seeds), cells });
}

function warmStarts(options: AblateOptions, seeds: readonly number[]): Job[] {
  // A warm start has no arm: its folder names plain GRPO, whatever the arms are.
  const plain: Arm = { label: "warm start", slug: "warm", method: "grpo_token", settings: {} };
  return seeds.flatMap((seed) =>
    options.envs.map((env): Job => {
      const preset = sized(options, presetOfArm(plain, baseOf(options, env, seed), withFiles));
      return { path: warmPath(options, env, seed), preset, device: options.device };
    }),
  );
}

const warmPath = (options: AblateOptions, env: EnvironmentWord, seed: number): string =>
  join(folderOf(options), "warm", env.slug, `seed${seed}`);

function cellOf(options: AblateOptions, env: EnvironmentWord, arm: Arm, seed: number, path: string): Cell {
  const preset = sized(options, presetOfArm(arm, baseOf(options, env, seed), withFiles));
  const from = warmPath(options, env, seed);
  return { env: env.label, arm: arm.label, seed, path, preset, from, device: options.device };
}

/** The options that all arms have in an environment. */
function baseOf(options: AblateOptions, env: EnvironmentWord, seed: number): StartOptions {
  const { steps, model, device, quick } = options;
  const { environmentFile } = env;
  // A setting without a part belongs to the environment.
  const own = Object.entries(env.settings).map(([key, value]) => [key.includes(".") ? key : `env.${key}`, value]);
  const set = setWith(options.set, Object.fromEntries(own) as Word["settings"]);
  return { env: env.head, environmentFile, seed, steps, model, device, quick, set, name: undefined, resume: undefined };
}

/** Gives all evaluations the same number of tasks, so that the points of a curve have the same tasks. */
function sized({ every, episodes, passAt }: AblateOptions, preset: Preset): Preset {
  const tries = passAt === undefined ? {} : { tries: passAt };
  return {
    ...preset,
    evaluation: { every, episodes, finalEpisodes: episodes, ...tries },
    checkpointEvery: every,
  };
}

function checked<C extends Cell>(plan: Plan<C>): Plan<C> {
  for (const job of [...plan.warmStarts, ...plan.cells]) checkSettings(job);
  return plan;
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
