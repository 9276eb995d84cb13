/**
 * A run that begins with the weights of another run (`--from`): it has that run's settings wherever its own flags say
 * nothing else. The weights, the tokenizer, the text around episodes and the warm start that they have had are carried
 * over; moments of the optimiser, memories of the method (replay, baselines) and rates that depend on the step are not:
 * they begin anew. Its training tasks are others than the earlier run's, its held-out tasks the same.
 */
import type { DataSettings } from "./data.ts";
import type { EnvironmentSettings } from "./environments.ts";
import { methodSettings } from "./methods.ts";
import type { MethodSettings } from "./objective.ts";
import { LOOP, only } from "./parts.ts";
import type { FromSettings, Preset } from "./preset.ts";
import type { Settings } from "./shownSettings.ts";
import type { StartOptions } from "./startOptions.ts";
import { UsageError } from "./usage.ts";

/** The run that another one begins with: where it is, and its settings. */
export interface Earlier {
  readonly settings: FromSettings;
  readonly preset: Preset;
}

/** The settings of its world, in place of that world's defaults. */
export function worldOf({ tasks, trainTasks, demoTasks, rollout, tokenizer }: Preset): EnvironmentSettings {
  const { temperature: _, ...limits } = rollout;
  return {
    ...(tasks ? { tasks } : {}),
    ...(trainTasks ? { trainTasks } : {}),
    ...(demoTasks ? { demoTasks } : {}),
    limits,
    tokenizer,
  };
}

/** Sizes and rates of RL. */
export const loopOf = ({ rl }: Preset): Partial<Preset["rl"]> => ({
  steps: rl.steps,
  ...only(rl, LOOP.fields),
  betas: rl.betas,
});

/**
 * The method and the data: those of the flags if they name a method, otherwise the earlier run's.
 * @param data what the flags say of the data, which then replaces all of it
 * @throws UsageError if the flags change a method that they do not name
 */
export function methodOf(
  { preset: { rl, data: earlierData } }: Earlier,
  flags: StartOptions,
  set: Settings,
  data: DataSettings | undefined,
): { readonly method: MethodSettings; readonly data: DataSettings | undefined } {
  const loop = new Set(["steps", "betas", "checkpointEvery", ...Object.keys(LOOP.fields)]);
  const [said, none] = [methodSettings(flags, set), methodSettings({})].map((method) => JSON.stringify(method));
  if (said !== none)
    throw new UsageError(
      `--from: the method is ${rl.method} with its settings; to change one of them name the method, too: ` +
        `--method ${rl.method}`,
    );
  const method = Object.fromEntries(
    Object.entries(rl).filter(([name]) => !loop.has(name)),
  ) as unknown as MethodSettings;
  const { temperature, ...others } = earlierData ?? {};
  const scheduled = temperature === undefined || flags.temperature !== undefined ? others : { ...others, temperature };
  return { method, data: data ?? (Object.keys(scheduled).length > 0 ? scheduled : undefined) };
}
