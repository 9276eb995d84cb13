/**
 * The plug-ins of episodes that a run can have (rl/tasks/plugin.ts), in the order in which the loop gets them. Their
 * flags, parts of `--set`, settings in `config.json` and files in checkpoints follow from this list: a new one is a
 * line here, and a file of its own.
 */
import type { Schedule } from "../engine/optionTable.ts";
import { curriculumEntry } from "../data/curricula.ts";
import { dynamicSamplingEntry } from "../data/dynamic.ts";
import { expertPrefixEntry } from "../data/expertPrefix.ts";
import { explorationEntry } from "../data/exploration.ts";
import { hindsightEntry } from "../data/hindsight.ts";
import { imitateExpertEntry } from "../data/imitateExpert.ts";
import type { PluginEntry } from "../data/entry.ts";
import { predictionsEntry } from "../data/predictions.ts";
import { replayEntry } from "../data/replay.ts";
import type { ScheduleData } from "./schedules.ts";

const ALL = [
  explorationEntry,
  curriculumEntry,
  dynamicSamplingEntry,
  expertPrefixEntry,
  predictionsEntry,
  replayEntry,
  hindsightEntry,
  imitateExpertEntry,
] as const;
type Entry = (typeof ALL)[number];

export const PLUGINS: readonly PluginEntry[] = ALL;

/** The options of a plug-in as plain data. */
type AsData<S> = { readonly [K in keyof S]: Schedule extends S[K] ? ScheduleData : S[K] };
/** The settings of a run's plug-ins, by name. */
export type PluginSettings = { readonly [E in Entry as E["name"]]?: AsData<Parameters<E["make"]>[0]> };

interface FlagValue {
  readonly switch: boolean;
  readonly count: number;
  readonly choice: string;
  readonly schedule: string;
}
/** The name of a flag's value among `StartOptions`: `dynamicSampling` of `dynamic-sampling`. */
export type Camel<S extends string> = S extends `${infer A}-${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
/** The values of the flags. */
export type PluginFlags = {
  readonly [E in Entry as Camel<E["flag"]["name"]>]?: FlagValue[E["flag"]["kind"]] | undefined;
};
/** The types of the flags on a command line. */
export type PluginFlagTypes = {
  readonly [E in Entry as E["flag"]["name"]]: {
    readonly type: E["flag"]["kind"] extends "switch" ? "boolean" : "string";
  };
};

export const camel = (flag: string): string => flag.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

const PLACEHOLDER = { switch: "", count: " N", choice: " NAME", schedule: " X" } as const;
/** A flag as it is written on the command line: `--replay N`. */
export const showFlag = ({ name, kind }: PluginEntry["flag"]): string => `--${name}${PLACEHOLDER[kind]}`;
