/**
 * `worldgrad/methods`: advantages, policy losses, world models, token weights and loss terms, each with its options,
 * formula and source, and `objectiveOf`, which makes an objective from their names.
 */

// Choosing by name
export { listMethods, objectiveOf } from "./presets.ts";
export { METHODS, type MethodChoice } from "./choice.ts";
export { aggregationByName } from "./aggregation.ts";

// Advantages
export { ADVANTAGES } from "./advantages/index.ts";
export { biLevelGae, gae, type GaeOptions, gigpo, type GigpoOptions, gpg } from "./advantages/index.ts";
export { maxRl, milestone, type MilestoneOptions, opo, optimalTokenBaseline } from "./advantages/index.ts";
export { gdpo, type GdpoOptions, rae, rft } from "./advantages/index.ts";
export {
  passAtK,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  remax,
  rloo,
  vapo,
  vtrace,
} from "./advantages/index.ts";
export type { BiLevelOptions, PassAtKOptions, VtraceOptions } from "./advantages/index.ts";

// Policy losses
export { POLICY_LOSSES } from "./losses/index.ts";
export {
  cispo,
  type CispoOptions,
  type DroOptions,
  type GmpoOptions,
  type GspoOptions,
  clipCov,
  dft,
  dppoKl,
  dppoTv,
  dpo,
  type DpoOptions,
  dro,
} from "./losses/index.ts";
export { gmpo, gspo, m2po, type M2poOptions, importanceSampling, klCov, primeRl, reinforce } from "./losses/index.ts";
export { sapo, type SapoOptions, sft, vespo, type VespoOptions } from "./losses/index.ts";
export { webrl, type WebrlOptions } from "./losses/index.ts";
export { PREFERENCE_LOSSES, type PreferenceLoss } from "./losses/index.ts";
export type { ClipCovOptions, DppoOptions, KlCovOptions, PrimeOptions } from "./losses/index.ts";

// Corrections, and coefficients that adapt
export {
  importanceCorrection,
  type ImportanceCorrectionOptions,
  type RejectionOptions,
} from "./importanceCorrection.ts";
export { AdaptiveEntropy, type AdaptiveEntropyOptions } from "./entropy.ts";
export { AdaptiveKl, type AdaptiveKlOptions, DecayingKl, type DecayingKlOptions } from "./kl.ts";
export { type KlChoice, klEstimatorByName } from "./kl.ts";

// World models, weights of tokens, filters
export { actFocus, type ActFocusOptions, UNCERTAINTIES, topEntropy } from "./tokenWeights.ts";
export { paw, type PawOptions } from "./paw.ts";
export { returnPrediction, type ReturnPredictionOptions } from "./returnPrediction.ts";
export { filterRollouts, type FilterOptions, rolloutFilter, type RolloutFilterOptions } from "./filter.ts";
export { gradientProbe, type GradientProbeOptions } from "./gradients.ts";

// Training on demonstrations and preferences
export { type PreferencePair, preferenceRows, type PreferenceRowOptions } from "./preference.ts";
export { sftRows } from "./sft.ts";
export type { SftRowOptions } from "./sft.ts";
export { type PreferenceOptions, trainPreference } from "./preference.ts";
export { type SftOptions, trainSft } from "./sft.ts";
