/** The settings of several environments in one run, put together from those of each. */
import type { TaskOptions } from "./preset.ts";
import { DEFAULTS } from "./parts.ts";
import type { EnvironmentSettings } from "./worldSettings.ts";

/** An environment of a mixture, and its own settings. */
interface MemberSettings {
  readonly name: string;
  readonly settings: EnvironmentSettings;
}

/**
 * The settings of a mixture, which nobody has tuned: the room that the largest of them needs; as many demonstrations,
 * steps of warm start and groups as all together, so that each learns as much as alone; the lowest of their rates; the
 * mean of their shares. Each keeps its own tasks.
 */
export function mixedSettings(members: readonly MemberSettings[]): EnvironmentSettings {
  /** The values of an option in all of them, the default where one says nothing. */
  const values = (part: keyof EnvironmentSettings, option: string): number[] =>
    members.flatMap(({ settings }) => {
      const own = (settings[part] as Readonly<Record<string, unknown>> | undefined)?.[option];
      const value = own ?? DEFAULTS[`${part === "limits" ? "rollout" : part}.${option}`];
      return typeof value === "number" ? [value] : [];
    });
  const merged = (part: keyof EnvironmentSettings, how: Readonly<Record<string, Merge>>): Record<string, number> =>
    Object.fromEntries(
      Object.entries(how).flatMap(([option, merge]) => {
        const own = values(part, option);
        return own.length === 0 ? [] : [[option, merge(own)]];
      }),
    );
  const tasks = (of: (settings: EnvironmentSettings) => TaskOptions | undefined): TaskOptions | undefined => {
    const all = members.flatMap(({ name, settings }) =>
      Object.entries(of(settings) ?? {}).map(([option, value]) => [`${name}.${option}`, value]),
    );
    return all.length === 0 ? undefined : (Object.fromEntries(all) as TaskOptions);
  };
  const isSaid = (part: "sft" | "tokenizer", option: string, value: boolean): boolean =>
    members.some(({ settings }) => (settings[part] as Record<string, unknown> | undefined)?.[option] === value);
  return {
    tasks: tasks(({ tasks: own }) => own),
    trainTasks: tasks(({ trainTasks }) => trainTasks),
    demoTasks: tasks(({ demoTasks }) => demoTasks),
    tasksOfSeed: (seed) => tasks(({ tasksOfSeed }) => tasksOfSeed?.(seed)) ?? {},
    limits: merged("limits", { maxTurns: most, maxActionTokens: most, maxObservationTokens: most }),
    maxPositions: most(members.map(({ settings }) => settings.maxPositions ?? 0)),
    // A world without a smaller model of its own needs the usual one.
    small: members.every(({ settings }) => settings.small) ? merged("small", { layers: most, heads: most }) : {},
    tokenizer: {
      ...merged("tokenizer", { vocabSize: most, corpusEpisodes: most }),
      ...(isSaid("tokenizer", "novices", true) ? { novices: true } : {}),
    },
    sft: {
      ...merged("sft", {
        demonstrations: sum,
        steps: sum,
        batchSize: most,
        noviceShare: mean,
        observationWeight: mean,
      }),
      ...(isSaid("sft", "imitateNovices", false) ? { imitateNovices: false } : {}),
    },
    rl: merged("rl", { steps: most, groups: sum, groupSize: most, lr: least }),
  };
}

type Merge = (values: readonly number[]) => number;
const most: Merge = (values) => Math.max(...values);
const least: Merge = (values) => Math.min(...values);
const sum: Merge = (values) => values.reduce((a, b) => a + b, 0);
const mean: Merge = (values) => sum(values) / values.length;
