/** The weights of the components of an episode's return (rewards.ts). */
import type { RewardSettings } from "./rewardOptions.ts";

/** The components that can be added to the outcome. */
export const COMPONENTS = ["format", "malformed", "tools", "overlong", "repetition"] as const;

/** The weights among the settings. */
export const weightsOf = (settings: RewardSettings): Readonly<Record<string, number>> =>
  Object.fromEntries(
    COMPONENTS.flatMap((name) => (settings[name] === undefined ? [] : [[name, settings[name]] as const])),
  );

/** The weights of all components, for GDPO. */
export const rewardWeights = (settings: RewardSettings): Record<string, number> => ({
  outcome: 1,
  ...weightsOf(settings),
});
