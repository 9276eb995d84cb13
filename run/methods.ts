/**
 * The method of a run: the settings that follow from its names (layers.ts). If parts do not fit together, the user gets
 * one line before anything is written. objective.ts makes the objective of these settings.
 */
import { ADVANTAGES } from "../methods/advantages/index.ts";
import { aggregationByName } from "../methods/aggregation.ts";
import { METHODS, splitNames } from "../methods/choice.ts";
import { POLICY_LOSSES } from "../methods/losses/index.ts";
import { PREFERENCE } from "../methods/losses/preference.ts";
import { SUPERVISED } from "../methods/losses/supervised.ts";
import { entryByName } from "../rl/objective/names.ts";
import type { Objective } from "../rl/objective/objective.ts";
import { ALL_PARTS } from "../methods/presets.ts";
import type { Settings } from "./layers.ts";
import { settleNeeds, settleParts } from "./needs.ts";
import { baseOf, type MethodSettings, objectiveFrom, partsOf } from "./objective.ts";
import { settleReward } from "./rewards.ts";
import { usage, UsageError } from "./usage.ts";
import { isBaseline, settleBaseline } from "./baselines.ts";

/** The names of a method with the add-ons of another, as `--method` gives them beside `--grpo-config`. */
export function withAddOns(method: string, more = "grpo"): string {
  return usage(() => {
    refuseOthers(more);
    const addOns = splitNames(more, ALL_PARTS).filter((name) => name !== "grpo");
    const preset = addOns.find((name) => Object.hasOwn(METHODS, name));
    if (preset !== undefined)
      throw new UsageError(`--grpo-config is a method of its own: of --method it takes add-ons only, not ${preset}`);
    return [...splitNames(method, ALL_PARTS), ...addOns].join("+");
  });
}

/**
 * Checks the names of the method, sets the options that follow from them, and drops those of other methods.
 * @throws UsageError with one line if a name is unknown or an option is about a part that the run does not have
 */
export function settleMethod(settings: Settings): void {
  usage(() => {
    const method = settings.get("rl.method")!;
    if (isBaseline(method)) settleBaseline(settings, method);
    else {
      refuseOthers(method);
      const [advantage, loss] = [settings.get("rl.advantage"), settings.get("rl.loss")];
      refuseOtherData(loss ?? "");
      if (advantage !== undefined) entryByName("advantage", ADVANTAGES, advantage);
      if (loss !== undefined) entryByName("policy loss", POLICY_LOSSES, loss);
      const preset = METHODS[baseOf(splitNames(method, ALL_PARTS))]!;
      const used = partsOf({ method, advantage, loss }, ALL_PARTS);
      settings.put("rl.aggregation", aggregationByName(settings.get("rl.aggregation") ?? preset.aggregation));
      settleParts(settings, used);
      settleReward(settings, used[0]!);
      // A rejection alone only drops tokens, so all weights are 1.
      const isAlone = settings.keys("importanceCorrection").length === 0 && settings.keys("rejection").length > 0;
      if (isAlone) settings.put("importanceCorrection.mode", "none");
    }
    settleNeeds(settings);
  });
}

/** Throws for names of methods that are not RL, and of parts that belong to none. */
function refuseOthers(method: string): void {
  const baseline = method.split("+").find(isBaseline);
  if (baseline !== undefined)
    throw new UsageError(`--method ${method}: ${baseline} is no RL and takes no add-ons; leave the others out`);
  for (const name of [method, ...method.split("+")]) refuseOtherData(name);
}

/**
 * The objective of these settings at once, for checks.
 * @param maxLength as for `loadObjective`
 * @throws UsageError with one line if the parts do not fit together
 */
export const objectiveFor = (settings: MethodSettings, maxLength: number): Objective =>
  objectiveFrom(ALL_PARTS, settings, maxLength);

/** Throws for losses over pairs and demonstrations, which have loops of their own: the main job learns from rewards. */
function refuseOtherData(name: string): void {
  if (Object.hasOwn(PREFERENCE, name)) {
    throw new UsageError(`${name} learns from pairs, and the main job from rewards: use trainPreference in code`);
  }
  if (Object.hasOwn(SUPERVISED, name)) {
    const alone = name === "sft" ? "--method sft, by itself" : `--method sft --set sft.loss=${name}`;
    throw new UsageError(`${name} learns from demonstrations, and RL from rewards: ${alone}, or --method rft`);
  }
}

/** The method as part of a folder's name: letters, digits and single dashes. */
export function methodSlug({ method, advantage, loss }: Pick<MethodSettings, "method" | "advantage" | "loss">): string {
  const names = [method, advantage, loss].filter((name) => name !== undefined).join("+");
  return names.replace(/[^A-Za-z0-9_]+/g, "-").replace(/-$/, "");
}
