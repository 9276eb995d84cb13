/**
 * Several environments in one run: `--env calculator+tools`, or with weights `--env calculator:3+tools:1`. The name of
 * such a mixture says what it is made of, so that settings, threads and workers need no more.
 */
import type { TaskOptions } from "./preset.ts";
import { DEFAULTS } from "./parts.ts";
import { UsageError } from "./usage.ts";
import type { EnvironmentSettings } from "./worldSettings.ts";

/** An environment in the name of a mixture. */
export interface MixturePart {
  readonly name: string;
  readonly weight: number;
}

/**
 * The environments that a name stands for: those of a mixture, or the one of this name.
 * @throws UsageError on a weight that is no number above 0, and on a name that is there twice
 */
export function partsOf(env: string): readonly MixturePart[] {
  if (!env.includes("+")) return [{ name: env, weight: 1 }];
  const parts = env.split("+").map((part) => {
    const [name = "", weight, ...more] = part.split(":");
    const isWeight = weight === undefined || (/^\d+(\.\d+)?$/.test(weight) && Number(weight) > 0);
    if (name !== "" && isWeight && more.length === 0) return { name, weight: Number(weight ?? 1) };
    throw new UsageError(`--env: expected names with weights above 0, as in calculator:3+tools:1, got "${env}"`);
  });
  const twice = parts.find(({ name }, i) => parts.findIndex((other) => other.name === name) !== i);
  if (twice !== undefined) throw new UsageError(`--env: ${twice.name} is there twice in "${env}"`);
  return parts;
}

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
