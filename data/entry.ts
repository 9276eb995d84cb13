/**
 * Entries: the flag, options and settings by which a run names a plug-in of episodes. Each plug-in declares its entry,
 * beside its class.
 */
import type { Given, OptionTable } from "../engine/optionTable.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../rl/environment.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";

/** The parts of a run that a plug-in may be made of. */
export interface PluginContext {
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  readonly seed: number;
  /** The expert's episode of the task of a seed. */
  readonly demonstrate: (template: Template, seed: number) => Promise<Trajectory>;
}

/**
 * The flag that turns a plug-in on. Its value is an option of the plug-in: a number of which 0 is off (`count`), one of
 * the `choices`, each with its options, or a number that may depend on the step (`schedule`). A `switch` has no value.
 */
export type PluginFlag = { readonly name: string; readonly about: string } & (
  | { readonly kind: "switch" }
  | { readonly kind: "count" | "schedule"; readonly option: string }
  | { readonly kind: "choice"; readonly option: string; readonly choices: Readonly<Record<string, object>> }
);

/** A plug-in as flags and settings name it: `--FLAG`, `--set NAME.OPTION=VALUE`. */
export interface PluginEntry<
  N extends string = string,
  G extends PluginFlag = PluginFlag,
  F extends OptionTable["fields"] = OptionTable["fields"],
> {
  readonly name: N;
  readonly flag: G;
  /** The options that can be written as text. */
  readonly options: F;
  /** The part that an error names beside the flag if `check` refuses. Default: the advantage. */
  readonly against?: "advantage" | "loss" | "groupSize";
  /** The needs of an environment, and the error text for one that lacks them. */
  readonly needs?: { has(env: EnvironmentSpec): boolean; readonly lack: string };
  make(settings: Given<F>, context: PluginContext): EpisodePlugin;
}

/** The need of an expert, for `needs`. */
export const EXPERT: PluginEntry["needs"] = { has: (env) => env.expert !== undefined, lack: "has no expert" };

/** Declares an entry: returns it with the types of its name, flag and options. */
export const pluginEntry = <const N extends string, const G extends PluginFlag, F extends OptionTable["fields"]>(
  entry: PluginEntry<N, G, F>,
): PluginEntry<N, G, F> => entry;
