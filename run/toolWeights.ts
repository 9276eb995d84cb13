/** `--set echo.tools=NAME:WEIGHT+…`: ECHO's weight by the tool that wrote the answer. */
import type { ToolWeights } from "../connect/toolWeights.ts";
import { type Option, text } from "../engine/optionTable.ts";
import type { Parts } from "./layout.ts";

/** The weights in a text such as `cat:1+ls:0+*:0.5`; undefined if it is none. */
export function toolWeightsOf(text: string): ToolWeights | undefined {
  const pairs = text.split("+").map((pair): readonly [string, number] => {
    const colon = pair.lastIndexOf(":"); // names may have colons, too
    const [name, weight] = [pair.slice(0, Math.max(0, colon)).trim(), pair.slice(colon + 1).trim()];
    return [name, weight === "" ? NaN : Number(weight)];
  });
  const names = new Set(pairs.map(([name]) => name));
  const areWeights = pairs.every(([name, weight]) => /^\S+$/.test(name) && weight >= 0 && weight < Infinity);
  return areWeights && names.size === pairs.length ? Object.fromEntries(pairs) : undefined;
}

export const TOOL_WEIGHTS: Option<string> = {
  ...text(undefined, "factors on λ by the tool that wrote the answer; `*` is any other, 1 if it is not given"),
  expected: "different names with weights ≥ 0, as in cat:1+ls:0+*:0.5",
  accepts: (value) => typeof value === "string" && toolWeightsOf(value) !== undefined,
};

/** The weights by tool of a run; undefined: it has none. */
export function toolWeightsIn({ options }: { readonly options?: Parts }): ToolWeights | undefined {
  const tools = options?.["echo"]?.["tools"];
  return typeof tools === "string" ? toolWeightsOf(tools) : undefined;
}
