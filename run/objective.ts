/**
 * The objective of a run, from its settings. Parts that most runs have are there at once; those of other methods are
 * loaded by the runs that name them, so that a page does not wait for all methods.
 */
import type { AdvantageEstimator } from "../rl/objective/estimator.ts";
import { GROUP } from "../methods/advantages/group.ts";
import type { Aggregation } from "../rl/objective/aggregation.ts";
import {
  type MethodChoice,
  METHOD,
  type MethodParts,
  METHODS,
  objectiveFrom as compose,
  splitNames,
} from "../methods/choice.ts";
import { CLIPPED } from "../rl/objective/clipped.ts";
import { type Objective, worldsOf } from "../rl/objective/objective.ts";
import { ECHO_WORLD } from "../rl/objective/echo.ts";
import type { Parts } from "./layout.ts";
import type { OutcomeCriticOptions, RewardSettings } from "./rewardOptions.ts";
import { rewardWeights } from "./rewardWeights.ts";
import { type ScheduleData, scheduleOf } from "./schedules.ts";

import { usage, UsageError } from "./usage.ts";
import { isBaseline } from "./baselines.ts";

/** A method as names and numbers: its form in a run's settings (layout.ts). */
export interface MethodSettings extends Omit<MethodChoice, "method" | "aggregation" | "options"> {
  /** A preset and its add-ons, as in `dapo+echo+actfocus`. */
  readonly method: string;
  readonly aggregation: Aggregation;
  /** Options of the parts, by part and option. */
  readonly options?: Parts;
  /** The outcome, if it is not the environment's own, and the components of the return in addition to it. */
  readonly reward?: RewardSettings;
  readonly outcomeCritic?: OutcomeCriticOptions;
  /** For the method `sft`: true leaves out the novice's demonstrations. */
  readonly expertsOnly?: boolean;
}

/** Parts of GRPO, its relatives and ECHO. */
const AT_HAND: MethodParts = { advantages: GROUP, losses: CLIPPED, worlds: ECHO_WORLD, tokenWeights: {}, terms: {} };

/**
 * The objective of these settings, with the code of its parts.
 * @param maxLength L_max of Dr. GRPO's aggregation: the largest number of tokens that the agent writes in an episode
 * @throws UsageError with one line if the parts do not fit together
 */
export async function loadObjective(settings: MethodSettings, maxLength: number): Promise<Objective> {
  const parts = isAtHand(settings) ? AT_HAND : (await import("../methods/presets.ts")).ALL_PARTS;
  return objectiveFrom(parts, settings, maxLength);
}

/** Whether nothing has to be loaded for a method. A name that is not known here may be one of all. */
function isAtHand({ method, advantage, loss }: MethodSettings): boolean {
  const names = method.split("+");
  const preset = METHODS[baseOf(names)]!;
  const { advantages, losses, worlds } = AT_HAND;
  return (
    Object.hasOwn(advantages, advantage ?? preset.advantage) &&
    Object.hasOwn(losses, loss ?? preset.loss) &&
    names.every((name) => Object.hasOwn(METHODS, name) || Object.hasOwn(worlds, name))
  );
}

/**
 * The objective of these settings, made of these parts.
 * @param maxLength L_max of Dr. GRPO's aggregation: the largest number of tokens that the agent writes in an episode
 * @throws UsageError with one line if the parts do not fit together
 */
export function objectiveFrom(parts: MethodParts, settings: MethodSettings, maxLength: number): Objective {
  const { method, options = {}, reward, critic } = settings;
  // A baseline has no objective; this one needs no reference, no critic and no memory.
  if (isBaseline(method)) return compose(parts, { method: "grpo", advantage: "none", loss: "reinforce" });
  return usage(() => {
    const used = partsOf(settings, parts);
    const all: Record<string, object> =
      used[0] === "gdpo" && reward ? { gdpo: { weights: rewardWeights(reward) } } : {};
    for (const [part, values] of Object.entries(options))
      all[part] = { ...all[part], ...(part === "echo" ? echoOptions(values) : values) };
    const choice = Object.fromEntries(
      Object.entries(settings).filter(([name]) => Object.hasOwn(METHOD.fields, name)),
    ) as MethodChoice;
    const needsLength = choice.aggregation === "seq-mean-token-sum-norm";
    const objective = compose(parts, {
      ...choice,
      options: all,
      maxLength: needsLength ? (choice.maxLength ?? maxLength) : undefined,
      critic: readsValues(parts, used[0]!) ? critic : undefined,
    });
    checkSense(parts, settings, objective);
    return objective;
  });
}

/** ECHO's options with λ as a function of the step. Its weights by tool need the run's template (toolWeights.ts). */
function echoOptions(given: Parts[string]): object {
  const { tools: _, ...values } = given;
  return values["lambda"] === undefined ? values : { ...values, lambda: scheduleOf(values["lambda"] as ScheduleData) };
}

const readsValues = ({ advantages }: MethodParts, name: string): boolean =>
  advantages[name]?.make().needs?.includes("values") ?? false;

/** Throws if a combination is possible but would not do what its names promise. */
function checkSense(parts: MethodParts, settings: MethodSettings, objective: Objective): void {
  const { method, critic } = settings;
  const base = baseOf(splitNames(method, parts));
  const { advantage } = objective;
  if (METHODS[base]!.critic && objective.critic === undefined) throw criticless(parts, base, advantage);
  if (critic && objective.critic === undefined) {
    throw new UsageError(`--set critic.${Object.keys(critic)[0]!}: the advantage ${advantage.name} has no critic`);
  }
  const hasWorld = learnsWorld(settings, objective);
  if (objective.rewardFrom && !hasWorld) {
    throw new UsageError(
      "--set rl.rewardFrom: before that step nothing is learnt but a world model, and the method has none: " +
        "add +echo or +paw, with a weight above 0",
    );
  }
  if (advantage.name === "none" && !hasWorld && !objective.kl && !objective.entropy) {
    throw new UsageError(
      "--advantage none learns from no reward, and the method has no world model: " +
        "add +echo or +paw, with a weight above 0",
    );
  }
}

/** Whether the objective learns a world model. `--lambda 0` switches ECHO off. */
export const learnsWorld = ({ options }: Pick<MethodSettings, "options">, objective: Objective): boolean =>
  worldsOf(objective).some(({ name }) => name !== "echo" || options?.["echo"]?.["lambda"] !== 0);

/** The preset among the parts; add-ons alone are added to GRPO. */
export const baseOf = (parts: readonly string[]): string =>
  parts.find((name) => Object.hasOwn(METHODS, name)) ?? "grpo";

/**
 * The error for a preset with a critic and an advantage without one: that would be another method, which has a name.
 */
function criticless(parts: MethodParts, base: string, { name }: AdvantageEstimator): UsageError {
  const fitting = Object.keys(parts.advantages)
    .filter((each) => readsValues(parts, each))
    .join(", ");
  return new UsageError(
    `--method ${base} has a critic, which --advantage ${name} does not read: ` +
      `choose one of ${fitting}, or --method grpo`,
  );
}

/** The names of advantage, loss and add-ons. */
export function partsOf(
  { method, advantage, loss }: Pick<MethodSettings, "method" | "advantage" | "loss">,
  all: MethodParts,
): string[] {
  const parts = splitNames(method, all);
  const preset = METHODS[baseOf(parts)]!;
  return [advantage ?? preset.advantage, loss ?? preset.loss, ...parts.filter((name) => !Object.hasOwn(METHODS, name))];
}
