/**
 * Advantage estimators by name. The families, in reading order:
 *
 * - `rl/objective/grpo.ts`, `advantages/group.ts`: one number per rollout, from its group
 * - `advantages/components.ts`: one number per rollout, from several rewards
 * - `advantages/outcome.ts`: one number per rollout, from the rollout alone
 * - `advantages/returns.ts`: returns per token
 * - `advantages/critic.ts`: advantages from a critic's values
 * - `advantages/steps.ts`: steps compared across rollouts
 *
 * Shared code is in `rl/objective/estimator.ts`.
 *
 * The gap property, tested for every estimator: the number of observation tokens between two actions must not change
 * the advantages of the agent's tokens.
 */
import { COMPONENTS } from "./components.ts";
import { CRITIC } from "./critic.ts";
import type { AdvantageEstimator } from "../../rl/objective/estimator.ts";
import { GROUP } from "./group.ts";
import { OUTCOME } from "./outcome.ts";
import { RETURNS } from "./returns.ts";
import { STEPS } from "./steps.ts";
import { mergeTables, type Table } from "../../rl/objective/names.ts";

export { gdpo, type GdpoOptions } from "./components.ts";
export { biLevelGae, type BiLevelOptions, gae, type GaeOptions, vapo } from "./critic.ts";
export { vtrace, type VtraceOptions } from "./critic.ts";
export { gpg, maxRl, opo } from "./group.ts";
export { rae, rft } from "./outcome.ts";
export { passAtK, type PassAtKOptions, rloo } from "./group.ts";
export { optimalTokenBaseline, reinforcePlusPlus, reinforcePlusPlusBaseline, remax } from "./returns.ts";
export { gigpo, type GigpoOptions, milestone, type MilestoneOptions } from "./steps.ts";

/** All estimators by name, for the command line. Each is one entry in the table of its family. */
export const ADVANTAGES: Table<AdvantageEstimator> = mergeTables(GROUP, COMPONENTS, OUTCOME, RETURNS, CRITIC, STEPS);
