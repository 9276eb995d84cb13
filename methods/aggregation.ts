/** Aggregations by name, including the names of other trainers. */
import { fail } from "../engine/errors.ts";
import { type Aggregation, AGGREGATIONS } from "../rl/objective/aggregation.ts";

/** Names that TRL (`loss_type`) and SkyRL (`prompt_mean`) use for these aggregations. */
export const AGGREGATION_ALIASES: Readonly<Record<string, Aggregation>> = {
  dapo: "token-mean",
  bnpo: "token-mean",
  grpo: "seq-mean-token-mean",
  dr_grpo: "seq-mean-token-sum-norm",
  cispo: "token-mean",
  vespo: "token-mean",
  sapo: "seq-mean-token-mean",
  luspo: "seq-mean-token-sum",
  prompt_mean: "prompt-mean-token-mean",
};

/** The aggregation of this name, or of this alias. */
export function aggregationByName(name: string): Aggregation {
  const found =
    AGGREGATIONS.find((a) => a === name) ??
    (Object.hasOwn(AGGREGATION_ALIASES, name) ? AGGREGATION_ALIASES[name] : undefined);
  const known = [...AGGREGATIONS, ...Object.keys(AGGREGATION_ALIASES)];
  return found ?? fail(`aggregation: unknown name "${name}", expected ${known.join(", ")}`);
}
