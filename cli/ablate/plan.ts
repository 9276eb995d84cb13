/**
 * What an ablation consists of. In `runs/<name>/`:
 *
 *     warm/<env>/seed<n>/             a run folder that stops where RL begins: the warm start of all methods with this seed
 *     <env>/<method>/seed<n>/         a cell: a whole run folder, which begins RL there
 *     results.json, report.html       what came out
 *
 * Cells with the same environment and seed differ in the method alone: they begin with the same weights, draw the same training
 * tasks in the same order, and are evaluated on the same held-out tasks with the same random numbers.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ENVIRONMENTS } from "../../rl/environments/index.ts";
import type { Job } from "../arms/job.ts";
import { methodSlug } from "../methods.ts";
import { openGiven, UsageError } from "../options.ts";
import { type Preset, presetFor } from "../presets.ts";
import type { AblateOptions } from "./options.ts";

export interface Cell extends Job {
  readonly env: string;
  readonly method: string;
  readonly seed: number;
}

export interface Plan {
  readonly path: string;
  readonly warmStarts: readonly Job[];
  /** Seed by seed, so that what is finished early has all methods in it. */
  readonly cells: readonly Cell[];
}

/** @throws UsageError in one line if a name is unknown, or if what is there was trained with other settings */
export function planOf(options: AblateOptions): Plan {
  const { envs, methods, device } = options;
  const path = join("runs", options.name);
  const seeds = Array.from({ length: options.seeds }, (_, seed) => seed);
  const warmPath = (env: string, seed: number): string => join(path, "warm", env.replace(":", "-"), `seed${seed}`);
  const slugs = methods.map((method) => methodSlug({ method }));
  const warmStarts = seeds.flatMap((seed) =>
    // A warm start knows no method: its folder names plain GRPO, whatever the list of methods is.
    envs.map((env): Job => ({ path: warmPath(env, seed), preset: settings(options, env, "grpo", seed), device })),
  );
  const cells = seeds.flatMap((seed) =>
    envs.flatMap((env) =>
      methods.map((method, m): Cell => {
        const preset = settings(options, env, method, seed);
        const from = warmPath(env, seed);
        return {
          env,
          method,
          seed,
          path: join(path, env.replace(":", "-"), slugs[m]!, `seed${seed}`),
          preset,
          from,
          device,
        };
      }),
    ),
  );
  const same = slugs.findIndex((slug, i) => slugs.indexOf(slug) < i);
  if (same >= 0) throw new UsageError(`--methods: ${methods[slugs.indexOf(slugs[same]!)]} and ${methods[same]} would have one folder`); // prettier-ignore
  for (const job of [...warmStarts, ...cells]) checkSettings(job);
  return { path, warmStarts, cells };
}

/** The main job's settings, with the sizes that the flags say. @param of names an environment, or some of its levels: `calculator:1-2` */
function settings(options: AblateOptions, of: string, method: string, seed: number): Preset {
  const { steps, warmSteps, groups, every, episodes, model, device, quick } = options;
  const [env = "", range] = of.split(":");
  const preset = presetFor({ env, method, seed, steps, model, device, quick, name: undefined, resume: undefined });
  const { warmup } = preset.sft;
  if (warmSteps !== undefined && warmSteps <= warmup)
    throw new UsageError(`--warm-steps: expected more than the ${warmup} in which the rate rises, got ${warmSteps}`);
  return {
    ...preset,
    ...(range === undefined ? {} : { tasks: { levels: levelsOf(of, env, range) } }),
    sft: { ...preset.sft, steps: warmSteps ?? preset.sft.steps },
    rl: { ...preset.rl, groups: groups ?? preset.rl.groups },
    // One size for all evaluations: the points of a curve are of the same tasks.
    evaluation: { every, episodes, finalEpisodes: episodes },
    checkpointEvery: every,
  };
}

function levelsOf(of: string, env: string, range: string): [number, number] {
  const bounds = /^(\d+)(?:-(\d+))?$/.exec(range);
  if (bounds === null) throw new UsageError(`--env: expected levels as in calculator:1-2, got "${of}"`);
  const low = Number(bounds[1]);
  const high = Number(bounds[2] ?? low);
  try {
    ENVIRONMENTS[env]!.make({ levels: [low, high] });
  } catch (error) {
    throw new UsageError(`--env ${of}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return [low, high];
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

/** "rl.steps 40, now 60", or null. A setting that the folder does not know was not there when it was made. */
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
