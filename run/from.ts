/**
 * A run that begins with the weights of another run (`--from`): it has that run's settings, unless its flags give
 * others. The weights, the tokenizer, the text around episodes and the finished warm start are carried over; moments of
 * the optimiser, memories of the method (replay, baselines) and rates that depend on the step begin anew. Its training
 * tasks differ from the earlier run's, its held-out tasks are the same.
 */
import type { Layer } from "./layers.ts";
import { optionsIn, type Value } from "./layout.ts";
import { LOOP } from "./parts.ts";
import type { FromSettings, Preset } from "./preset.ts";
import type { EnvironmentSettings } from "./worldSettings.ts";

/** The run that another one begins with: its path and its settings. */
export interface Earlier {
  readonly settings: FromSettings;
  readonly preset: Preset;
}

/** The settings of its world, in place of that world's defaults. */
export const worldOf = ({ tasks, trainTasks, demoTasks }: Preset): EnvironmentSettings => ({
  tasks,
  trainTasks,
  demoTasks,
});

/** Parts that go on in another world, and with another method. */
const CARRIED = ["model", "sft", "lora", "history", "evaluation", "run"];
/** The limits of episodes and the numbers of the loop, which go on in the same world. */
const OF_WORLD = ["tokenizer", "rollout"];

/**
 * The layer of its settings; the method and the data go on unless another method is named.
 * @param goesOn whether the world and the method are the same
 */
export function layerOf({ preset }: Earlier, goesOn: { readonly world: boolean; readonly method: boolean }): Layer {
  const isCarried = ([key, value]: readonly [string, Value]): boolean => {
    const [part, option] = key.split(".") as [string, string];
    if (CARRIED.includes(part)) return true;
    if (key === "rollout.temperature") return typeof value === "number" || goesOn.method;
    if (OF_WORLD.includes(part)) return goesOn.world;
    if (part === "rl" && Object.hasOwn(LOOP.fields, option)) return goesOn.world;
    return part !== "async" && goesOn.method;
  };
  const values = Object.entries(optionsIn({ ...preset })).filter(isCarried);
  // It has had its warm start; further steps of one train all weights.
  return { values: { ...Object.fromEntries(values), "sft.steps": 0, "sft.warmup": 0 }, by: (key) => `--from (${key})` };
}
