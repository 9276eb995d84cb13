/**
 * Advantage estimators by name, family by family in reading order: one number per rollout from its group
 * (`advantages/group.ts`), from several rewards at once (`advantages/components.ts`), from a rollout alone (`advantages/outcome.ts`),
 * returns per token (`advantages/returns.ts`), with a critic (`advantages/critic.ts`), steps compared across rollouts
 * (`advantages/steps.ts`). What they share is in `advantages/estimator.ts`.
 *
 * Observation gaps must not change what an estimator gives to the agent's tokens (the gap property, tested for every one).
 */
import { COMPONENTS } from "./components.ts";
import { CRITIC } from "./critic.ts";
import type { AdvantageEstimator } from "./estimator.ts";
import { GROUP } from "./group.ts";
import { OUTCOME } from "./outcome.ts";
import { RETURNS } from "./returns.ts";
import { STEPS } from "./steps.ts";
import { mergeTables, type Table } from "../names.ts";

export { gdpo, type GdpoOptions } from "./components.ts";
export { biLevelGae, type BiLevelOptions, gae, type GaeOptions, vapo } from "./critic.ts";
export { vtrace, type VtraceOptions } from "./critic.ts";
export { type AdvantageEstimator, type Advantages, groupEstimator } from "./estimator.ts";
export { centred, gpg, grpo, type GrpoOptions, maxRl, none, opo } from "./group.ts";
export { rae, rft } from "./outcome.ts";
export { passAtK, type PassAtKOptions, rloo } from "./group.ts";
export { optimalTokenBaseline, reinforcePlusPlus, reinforcePlusPlusBaseline, remax } from "./returns.ts";
export { gigpo, type GigpoOptions, milestone, type MilestoneOptions } from "./steps.ts";

/** By name, for the command line. An estimator is one entry in the table of its family. */
export const ADVANTAGES: Table<AdvantageEstimator> = mergeTables(GROUP, COMPONENTS, OUTCOME, RETURNS, CRITIC, STEPS);
