/**
 * The options of an adapter (lora.ts). They have a file of their own, so that a list of settings loads no code of
 * adapters.
 */
import { flag, inCode, number, options, type OptionsOf, type Settled } from "../engine/optionTable.ts";

const isModules = (value: unknown): boolean =>
  typeof value === "string" ||
  value instanceof RegExp ||
  (Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === "string"));

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
