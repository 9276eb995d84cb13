/** `--set echo.tools=NAME:WEIGHT+…`: ECHO's weight by the tool that wrote the answer. */
import type { ToolWeights } from "../connect/toolWeights.ts";
import type { Parts } from "./layout.ts";
import { byName, numbersByName } from "./numbersByName.ts";

export const TOOL_WEIGHTS = byName(
  "factors on λ by the tool that wrote the answer; `*` is any other, 1 if it is not given",
  "weights ≥ 0, as in cat:1+ls:0+*:0.5",
  (weight) => weight >= 0 && weight < Infinity,
);

/** The weights by tool of a run; undefined: it has none. */
export function toolWeightsIn({ options }: { readonly options?: Parts }): ToolWeights | undefined {
  const tools = options?.["echo"]?.["tools"];
  return typeof tools === "string" ? numbersByName(tools) : undefined;
}
