/**
 * Advantage estimators by name, family by family in reading order: one number per rollout from its group
 * (`advantages/group.ts`), from several rewards at once (`advantages/components.ts`), from a rollout alone (`advantages/outcome.ts`),
 * returns per token (`advantages/returns.ts`), with a critic (`advantages/critic.ts`), steps compared across rollouts
 * (`advantages/steps.ts`). What they share is in `advantages/estimator.ts`.
 *
 * Observation gaps must not change what an estimator gives to the agent's tokens (the gap property, tested for every one).
 */
import { COMPONENTS } from "./advantages/components.ts";
import { CRITIC } from "./advantages/critic.ts";
import type { AdvantageEstimator } from "./advantages/estimator.ts";
import { GROUP } from "./advantages/group.ts";
import { OUTCOME } from "./advantages/outcome.ts";
import { RETURNS } from "./advantages/returns.ts";
import { STEPS } from "./advantages/steps.ts";
import { mergeTables, type Table } from "./names.ts";

export { gdpo, type GdpoOptions } from "./advantages/components.ts";
export { biLevelGae, type BiLevelOptions, gae, type GaeOptions, vapo } from "./advantages/critic.ts";
export { vtrace, type VtraceOptions } from "./advantages/critic.ts";
export { type AdvantageEstimator, type Advantages, groupEstimator, moments } from "./advantages/estimator.ts";
export { centred, gpg, grpo, type GrpoOptions, maxRl, none, opo } from "./advantages/group.ts";
export { rae, rft } from "./advantages/outcome.ts";
export { passAtK, type PassAtKOptions, rloo } from "./advantages/group.ts";
export { optimalTokenBaseline, reinforcePlusPlus, reinforcePlusPlusBaseline, remax } from "./advantages/returns.ts";
export { gigpo, type GigpoOptions, milestone, type MilestoneOptions } from "./advantages/steps.ts";

/** By name, for the command line. An estimator is one entry in the table of its family. */
export const ADVANTAGES: Table<AdvantageEstimator> = mergeTables(GROUP, COMPONENTS, OUTCOME, RETURNS, CRITIC, STEPS);
