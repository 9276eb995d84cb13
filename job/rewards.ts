/**
 * The components of a run's return in addition to the outcome: form, use of tools, length and repetition. Each has a
 * small weight, and their sum is capped so that it cannot outweigh the outcome (rl/rewards/composite.ts). Episodes also
 * keep the components separately, for metrics and for GDPO.
 */
import { formatScore, repetitionPenalty, toolEfficiency } from "../rl/rewards/behaviour.ts";
import { composite, type CompositeReward, type RewardComponent } from "../rl/rewards/composite.ts";
import { softOverlong } from "../rl/rewards/length.ts";
import { turnsOf } from "../rl/rewards/turns.ts";
import { sampledCount, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { UsageError } from "./usage.ts";
import type { RewardSettings } from "./parts.ts";
import type { Settings } from "./settings.ts";

/** The default components for GDPO, with common weights. With the outcome only, GDPO would be much the same as GRPO. */
const CUSTOMARY: RewardSettings = { format: 0.2, tools: 0.1 };

/** The settings of the components. @throws UsageError on a cap that would bound nothing */
export function rewardSettings(set: Settings, advantage: string): RewardSettings | undefined {
  const given = set["reward"] as RewardSettings | undefined;
  const { cap, ...weights } = given ?? {};
  if (cap !== undefined && Object.keys(weights).length === 0)
    throw new UsageError(
      "--set reward.cap bounds what the return has beside the outcome, which is nothing; " +
        "add --set reward.format=0.2 or another",
    );
  if (advantage !== "gdpo") return given;
  if (cap !== undefined)
    throw new UsageError(
      "--set reward.cap bounds a sum, and the advantage gdpo compares the components one by one; leave it out",
    );
  return given ?? CUSTOMARY;
}

/** The weights of all components, for GDPO. */
export function rewardWeights(settings: RewardSettings): Record<string, number> {
  return { outcome: 1, ...Object.fromEntries(Object.entries(settings).filter(([name]) => name !== "cap")) };
}

/** The share of the longest completion at which DAPO's overlong punishment begins. */
const OVERLONG_FROM = 0.8;

type Scores = Readonly<Record<keyof Omit<RewardSettings, "cap">, (trajectory: Trajectory) => number>>;

/** Throws on weights and caps that let the components outweigh the outcome. */
export function checkRewards(settings: RewardSettings): void {
  const nothing = (): number => 0;
  compositeOf(settings, { format: nothing, tools: nothing, overlong: nothing, repetition: nothing });
}

/**
 * The function that computes an episode's return.
 * @param maxLength the largest number of tokens that the agent can write in an episode
 */
export function rewardOf(
  settings: RewardSettings,
  template: Template,
  maxLength: number,
): (trajectory: Trajectory) => CompositeReward {
  const textOf = (t: Trajectory): string => {
    const actions = turnsOf(t, template).map(({ action }) => action);
    return actions.join("\n");
  };
  return compositeOf(settings, {
    format: (t) => formatScore(t),
    tools: (t) => toolEfficiency(turnsOf(t, template), { tools: [], unknown: 0 }),
    overlong: (t) => softOverlong(sampledCount(t), { max: maxLength, cache: (1 - OVERLONG_FROM) * maxLength }),
    repetition: (t) => repetitionPenalty(textOf(t)),
  });
}

function compositeOf({ cap, ...weights }: RewardSettings, scores: Scores): (trajectory: Trajectory) => CompositeReward {
  const shaping = Object.entries(weights).map(([name, weight]): RewardComponent<Trajectory> => {
    return { name, weight, kind: "shaping", score: scores[name as keyof Scores] };
  });
  const outcome: RewardComponent<Trajectory> = { name: "outcome", weight: 1, kind: "outcome", score: (t) => t.reward };
  return composite([outcome, ...shaping], cap === undefined ? {} : { cap });
}
