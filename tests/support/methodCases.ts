/** Every method of RL once, for tests that play all of them: presets, losses, estimators, and what may be added. */
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { type MethodChoice, METHODS } from "../../methods/choice.ts";
import type { ImportanceCorrectionOptions } from "../../methods/importanceCorrection.ts";
import { KL_ESTIMATORS } from "../../rl/objective/kl.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { PREFERENCE } from "../../methods/losses/preference.ts";
import { SUPERVISED } from "../../methods/losses/supervised.ts";
import { UNCERTAINTIES } from "../../methods/tokenWeights.ts";

/** One of these on top of each method in turn, so that each is there several times. */
const ADD_ONS: readonly (Partial<MethodChoice> & { readonly plus?: string })[] = [
  { plus: "echo" },
  { plus: "paw" },
  ...UNCERTAINTIES.map((uncertainty) => ({ plus: "actfocus", options: { actfocus: { uncertainty } } })),
  { plus: "top_entropy" },
  { plus: "echo+paw+actfocus" },
  ...(
    [
      { level: "token", mode: "truncate" },
      { level: "sequence", mode: "mask", max: 3 },
    ] satisfies ImportanceCorrectionOptions[]
  ).map((importanceCorrection) => ({ importanceCorrection })),
  ...KL_ESTIMATORS.map((estimator) => ({ kl: { beta: 0.1, estimator } })),
  { kl: { beta: 0.1, in: "reward", target: 0.05 } },
  { entropy: 0.01, maskTruncated: true },
];

const inPresets = (part: "loss" | "advantage"): string[] => Object.values(METHODS).map((method) => method[part]);
/** The losses that learn from rewards. */
export const withoutPairs: readonly string[] = Object.keys(POLICY_LOSSES).filter(
  (n) => ![...Object.keys(PREFERENCE), ...Object.keys(SUPERVISED)].includes(n),
);

/** All presets, and what no preset has. */
const CHOICES: readonly MethodChoice[] = [
  ...Object.keys(METHODS).map((method) => ({ method })),
  ...withoutPairs.filter((n) => !inPresets("loss").includes(n)).map((loss) => ({ method: "grpo", loss })),
  ...Object.keys(ADVANTAGES)
    .filter((n) => !inPresets("advantage").includes(n))
    .map((advantage) => ({ method: "grpo", advantage })),
];
/** By name: all presets, losses and estimators, each with one of the add-ons. */
export const METHOD_CASES: readonly [string, MethodChoice][] = CHOICES.map((choice, i) => {
  const { plus, ...more } = ADD_ONS[i % ADD_ONS.length]!;
  // Without rewards only the world model learns; V-trace weighs by the ratios itself.
  const safe =
    choice.advantage === "none" ? { plus: "echo" } : choice.method === "vtrace" ? { plus } : { plus, ...more };
  const { plus: name, ...rest } = safe as (typeof ADD_ONS)[number];
  const method = [choice.method!, ...(name === undefined ? [] : [name])].join("+");
  const full = { ...choice, ...rest, method, maxLength: 8 };
  const { maxLength: _, ...shown } = full;
  return [JSON.stringify(shown), full];
});
