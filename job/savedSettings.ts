/**
 * Checks the parts of a `config.json` that no flag sets and no other table checks: a file may have been written by
 * hand, or by another version.
 */
import { number, options, REQUIRED, text } from "../engine/optionTable.ts";
import type { Preset } from "./preset.ts";
import { COUNT, type Fields, only, WHOLE } from "./parts.ts";
import { isRecord } from "./records.ts";
import { usage, UsageError } from "./usage.ts";

const RATE = { above: 0 };
const SIZES = {
  hiddenSize: number(REQUIRED, "width of the model", COUNT),
  layers: number(REQUIRED, "number of blocks", COUNT),
  heads: number(REQUIRED, "number of attention heads", COUNT),
  intermediateSize: number(REQUIRED, "width of the feed-forward layers", COUNT),
  maxPositions: number(REQUIRED, "largest number of tokens of an episode", COUNT),
  ropeTheta: number(REQUIRED, "base of the rotary embedding", RATE),
  initializerRange: number(REQUIRED, "standard deviation of the initial weights", RATE),
};
const STEPS = {
  steps: number(REQUIRED, "number of updates", WHOLE),
  checkpointEvery: number(undefined, "number of steps between two checkpoints", COUNT),
};
const RUN = {
  env: text(REQUIRED, "name of the environment"),
  seed: number(REQUIRED, "seed of all random numbers", { integer: true }),
  checkpointEvery: number(REQUIRED, "number of steps between two checkpoints", COUNT),
};

/**
 * Checks that the settings of a `config.json` have all parts of a run, each an object, with numbers for sizes, steps
 * and seed.
 * @throws UsageError with one line
 */
export function savedSettings(path: string, given: unknown): Preset {
  const file = `${path}: its config.json`;
  const preset = isRecord(given) ? given : {};
  const part = (name: string): Record<string, unknown> => {
    const value = preset[name];
    if (!isRecord(value)) throw new UsageError(`${file} has no settings "${name}" of the main job`);
    return value;
  };
  const [model, sft, rl] = [part("model"), part("sft"), part("rl")];
  for (const name of ["tokenizer", "rollout", "evaluation"]) part(name);
  const others = ["data", "async", "lora", "pretrained", "from", "tasks", "trainTasks", "demoTasks", "environmentFile"];
  for (const name of others) if (preset[name] !== undefined) part(name);
  const read = (where: string, fields: Fields, values: object): void =>
    void options(where, fields).read(only(values, fields) as never);
  usage(() => {
    read(file, RUN, preset);
    read(`${file}: model`, SIZES, model);
    read(`${file}: sft`, STEPS, sft);
    read(`${file}: rl`, { ...STEPS, method: text(REQUIRED, "name of the method") }, rl);
  });
  return preset as unknown as Preset;
}
