/**
 * The options of an adapter (lora.ts). They have a file of their own, so that a list of settings loads no code of
 * adapters.
 */
import { flag, inCode, number, options, type OptionsOf, type Settled } from "../engine/optionTable.ts";

const isModules = (value: unknown): boolean =>
  typeof value === "string" ||
  value instanceof RegExp ||
  (Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === "string"));

const isPatternOf =
  (accepts: (value: number) => boolean) =>
  (value: unknown): boolean =>
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((each: unknown) => typeof each === "number" && accepts(each));

const MODULES = 'names, as in ["q_proj", "v_proj"], or one regular expression of whole names';

/** The options of an adapter as a table, for programs that offer some of them to their users. */
export const LORA = options("lora", {
  r: number(8, "rank: columns of B", { integer: true, min: 1 }),
  loraAlpha: number(8, "α: the adapter is scaled by α/r, with `useRslora` by α/√r", { above: 0 }),
  loraDropout: number(0, "share of an adapter's inputs that are left out in training", { min: 0, below: 1 }),
  targetModules: inCode<string | RegExp | readonly string[]>(
    'layers that get one, by their names in the checkpoint; "all-linear": all but the head. Default: as PEFT has it, ' +
      "q_proj and v_proj, in GPT-2 c_attn",
    `"all-linear", ${MODULES}`,
    isModules,
  ),
  excludeModules: inCode<string | RegExp | readonly string[]>("layers that get none", MODULES, isModules),
  rankPattern: inCode<Readonly<Record<string, number>>>(
    "other ranks, by names of layers or regular expressions of their ends; the first that fits counts",
    'ranks by name, as in { "q_proj": 16, "layers\\.0\\..*": 4 }',
    isPatternOf((r) => Number.isInteger(r) && r >= 1),
  ),
  alphaPattern: inCode<Readonly<Record<string, number>>>(
    "other α, in the same way",
    'numbers > 0 by name, as in { "q_proj": 32 }',
    isPatternOf((alpha) => alpha > 0 && alpha < Infinity),
  ),
  modulesToSave: inCode<readonly string[]>(
    "matrices that are trained whole and saved with the adapter: the head, the embedding",
    'names, as in ["lm_head", "embed_tokens"]',
    (value) => Array.isArray(value) && value.every((name) => typeof name === "string"),
  ),
  useRslora: flag(false, "whether the scale is α/√r (Kalajdzievski 2023, arXiv 2312.03732)"),
  useDora: flag(false, "whether the lengths of rows are trained, too (Liu et al. 2024, arXiv 2402.09353)"),
});
/** Options of `addLora`, with PEFT's meaning and defaults. */
export type LoraOptions = OptionsOf<typeof LORA>;
/** The settings of an adapter, as plain data: names are lists or the text of a regular expression. */
export type LoraSettings = Omit<Settled<typeof LORA.fields>, "targetModules" | "excludeModules"> & {
  readonly targetModules: string | readonly string[];
  readonly excludeModules?: string | readonly string[];
};
