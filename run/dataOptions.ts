/**
 * The options of the loop for the data settings of a run. Plug-ins with a memory are made once for a run and saved with
 * its checkpoints.
 */
import { showValue } from "../engine/options.ts";
import { ENVIRONMENTS } from "../environments/index.ts";
import { SelfPlayBuffer } from "../papers/selfplay/options.ts";
import type { DataOptions } from "../rl/tasks/play.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import type { PluginContext, PluginEntry } from "../data/entry.ts";
import type { Memory } from "../distribute/worker/index.ts";
import type { Parts } from "./layout.ts";
import { PLUGINS } from "./plugins.ts";
import type { DataSettings, Preset } from "./preset.ts";
import { isRecord } from "./records.ts";
import { type ScheduleData, scheduleOf } from "./schedules.ts";
import { ScriptedPlayers } from "./scriptedPlayers.ts";
import { UsageError } from "./usage.ts";
import { environmentOf, taskOptions } from "./worlds.ts";

/** The options of `trainRl`, and by name those with a memory. @throws if a number is out of range */
export function dataFor(
  settings: DataSettings,
  preset: Preset,
): { options: DataOptions; memories: Record<string, Memory>; buffer: SelfPlayBuffer | undefined } {
  const players = new ScriptedPlayers(preset);
  const context: PluginContext = {
    env: environmentOf(preset),
    envOptions: taskOptions(preset, "train"),
    seed: preset.seed,
    demonstrate: (template, seed) => players.demonstration(template, seed),
  };
  const { temperature, selfPlay, ...chosen } = settings;
  const given = chosen as Parts;
  const plugins = PLUGINS.flatMap((entry) => {
    const pluginOptions = given[entry.name];
    return pluginOptions === undefined ? [] : [pluginOf(entry, pluginOptions, context)];
  });
  const buffer = selfPlay ? new SelfPlayBuffer(selfPlay) : undefined;
  const options: DataOptions = {
    temperature: temperature === undefined ? undefined : scheduleOf(temperature),
    plugins,
  };
  const memories: Record<string, Memory> = Object.fromEntries(
    plugins.filter(isMemory).map((plugin) => [plugin.name, plugin]),
  );
  if (buffer) memories["selfPlay"] = buffer;
  return { options, memories, buffer };
}

const isMemory = (plugin: EpisodePlugin): plugin is EpisodePlugin & Memory =>
  plugin.state !== undefined && plugin.restore !== undefined;

/** @throws UsageError that names the environments a plug-in can work in, if this one is not among them */
function pluginOf(entry: PluginEntry, settings: Parts[string], context: PluginContext): EpisodePlugin {
  const { flag, options, needs } = entry;
  if (needs && !needs.has(context.env)) {
    const names = Object.keys(ENVIRONMENTS).filter((name) => needs.has(ENVIRONMENTS[name]!));
    throw new UsageError(`--${flag.name}: ${context.env.name} ${needs.lack}; those that do: ${names.join(", ")}`);
  }
  if (!isRecord(settings))
    throw new UsageError(`data.${entry.name}: expected an object of options, got ${showValue(settings)}`);
  // `on` turns a switch on and is no option of the plug-in.
  const { on: _, ...pluginOptions } = settings as Record<string, unknown>;
  for (const [option, value] of Object.entries(pluginOptions))
    if (options[option]?.kind === "schedule") pluginOptions[option] = scheduleOf(value as ScheduleData);
  return entry.make(pluginOptions, context);
}
