/**
 * Policy losses by name. The families, in reading order:
 *
 * - `losses/sapo.ts`: a gate in the place of PPO's clip, which is in `rl/objective/clipped.ts`
 * - `losses/weighted.ts`: weights on the log-probability
 * - `losses/covariance.ts`, `losses/secondMoment.ts`: statistics over the whole step
 * - `losses/sequence.ts`: losses of whole sequences
 * - `losses/supervised.ts`: losses that ignore the advantage
 * - `losses/preference.ts`: losses over pairs of answers
 *
 * Shared code is in `rl/objective/policyLoss.ts`; KL penalties are in `rl/objective/kl.ts`.
 */
import { mergeTables, type Table } from "../../rl/objective/names.ts";
import { CLIPPED } from "../../rl/objective/clipped.ts";
import { COVARIANCE } from "./covariance.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
import { PREFERENCE } from "./preference.ts";
import { SAPO_LOSS } from "./sapo.ts";
import { SECOND_MOMENT } from "./secondMoment.ts";
import { SEQUENCE } from "./sequence.ts";
import { SUPERVISED } from "./supervised.ts";
import { WEIGHTED } from "./weighted.ts";

export { sapo, type SapoOptions } from "./sapo.ts";
export { clipCov, type ClipCovOptions, klCov, type KlCovOptions } from "./covariance.ts";
export type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
export { dpo, type DpoOptions, PREFERENCE_LOSSES, type PreferenceLoss } from "./preference.ts";
export { m2po, type M2poOptions, secondMomentMask } from "./secondMoment.ts";
export { gmpo, type GmpoOptions, gspo, type GspoOptions, vespo, type VespoOptions } from "./sequence.ts";
export { webrl, type WebrlOptions } from "./sequence.ts";
export { dft, sft } from "./supervised.ts";
export { cispo, type CispoOptions, dppoKl, type DppoOptions, dppoTv, dro } from "./weighted.ts";
export { type DroOptions, importanceSampling, primeRl, type PrimeOptions, reinforce } from "./weighted.ts";

/** All policy losses by name, for the command line. Each is one entry in the table of its family. */
export const POLICY_LOSSES: Table<PolicyLoss> = mergeTables(
  CLIPPED,
  SAPO_LOSS,
  WEIGHTED,
  COVARIANCE,
  SECOND_MOMENT,
  SEQUENCE,
  SUPERVISED,
  PREFERENCE,
);
