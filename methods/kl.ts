/**
 * The KL penalty as plain data: estimators by name, verl's names included, and coefficients that change from step to
 * step.
 */
import { fail } from "../engine/errors.ts";
import { flag, number, oneOf, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import { KL_ESTIMATORS, type KlClamp, type KlController, type KlEstimator } from "../rl/objective/kl.ts";
import { checkRange } from "../rl/objective/tokenStatistics.ts";

/** verl's names for estimators. Its `low_var_kl` also clamps; see `klClampByName`. */
const KL_ALIAS_NAMES = ["kl", "mse", "low_var_kl"] as const;
export const KL_ALIASES: Readonly<Record<string, KlEstimator>> = { kl: "k1", mse: "k2", low_var_kl: "k3" };

/** The estimator of this name, or of this alias. */
export function klEstimatorByName(name: string): KlEstimator {
  const found =
    KL_ESTIMATORS.find((k) => k === name) ?? (Object.hasOwn(KL_ALIASES, name) ? KL_ALIASES[name] : undefined);
  return (
    found ??
    fail(`kl: unknown estimator "${name}", expected ${[...KL_ESTIMATORS, ...Object.keys(KL_ALIASES)].join(", ")}`)
  );
}

/**
 * The clamp that belongs to a name: that of verl's `low_var_kl`, log-ratio ±20 and value ±10 (verl's
 * `core_algos.kl_penalty`). The names k1, k2, k3 are the plain estimators.
 */
export const klClampByName = (name: string): KlClamp | undefined =>
  name === "low_var_kl" ? { logRatio: 20, value: 10 } : undefined;

const FOLLOWED = {
  beta: number(REQUIRED, "β, the weight of the penalty; if there is a target, its value at the start", { min: 0 }),
  target: number(REQUIRED, "the KL that β is adapted to reach", { above: 0 }),
  horizon: number(10_000, "how many episodes it takes until a KL that is 20 % too high has raised β by a fifth", {
    above: 0,
  }),
};
export const ADAPTIVE_KL = options("AdaptiveKl", FOLLOWED);
/**
 * Options of `AdaptiveKl`: β at the start and the target KL have to be given, the horizon is 10,000 episodes by default
 * (docs/methods.md, `kl.beta`, `kl.target`, `kl.horizon`).
 */
export type AdaptiveKlOptions = OptionsOf<typeof ADAPTIVE_KL>;

export const DECAYING_KL = options("DecayingKl", {
  beta: number(REQUIRED, "β, the weight of the penalty in the first step", { min: 0 }),
  decay: number(REQUIRED, "what β is multiplied by after each step", { above: 0, max: 1 }),
});
/** Options of `DecayingKl`: β at the start and its factor from step to step. */
export type DecayingKlOptions = OptionsOf<typeof DECAYING_KL>;

/**
 * A KL coefficient that decays: β ← decay·β after each step. VPT (Baker et al. 2022, arXiv 2206.11795) keeps RL near
 * the imitation policy and lets go of it slowly, with β = .2 and decay .9995.
 */
export class DecayingKl implements KlController {
  #beta: number;
  readonly #decay: number;

  constructor(given: DecayingKlOptions) {
    const { beta, decay } = DECAYING_KL.read(given);
    [this.#beta, this.#decay] = [beta, decay];
  }

  get beta(): number {
    return this.#beta;
  }

  update(): void {
    this.#beta *= this.#decay;
  }

  resume(beta: number): void {
    checkRange("DecayingKl", "beta", beta, 0);
    this.#beta = beta;
  }
}

/** A KL penalty as plain data. */
export const KL_PENALTY = options("kl", {
  ...FOLLOWED,
  target: number(undefined, "the KL that β is adapted to reach (`AdaptiveKl`); by default β is constant", { above: 0 }),
  decay: number(1, "what β is multiplied by after each step (`DecayingKl`; VPT: .9995)", { above: 0, max: 1 }),
  estimator: oneOf(
    [...KL_ESTIMATORS, ...KL_ALIAS_NAMES],
    undefined,
    "the estimator of the KL, by default k3 in the loss, where k1 has a gradient of 0 on average without " +
      "`importance`, and k1 in the reward, where no other is right; verl's names are accepted too, low_var_kl with " +
      "its clamps: log-ratio ±20, value ±10",
  ),
  in: oneOf(
    ["loss", "reward"],
    "loss",
    "where the penalty is: a term of the loss, or r̃_t = r_t − β·kl_t before advantages are estimated",
  ),
  importance: flag(false, "whether the penalty is multiplied by the ratio (TRL's `use_bias_correction_kl`)"),
});
/**
 * A KL penalty as plain data, for `objectiveOf`: `beta` has to be given; by default β is constant and the penalty is a
 * term of the loss. The estimator is k3 by default, and k1 in the reward (docs/methods.md, `kl.…`).
 */
export type KlChoice = OptionsOf<typeof KL_PENALTY>;

/**
 * A KL coefficient that adapts to the measured KL: β ← β·(1 + clip(kl/target − 1, ±.2)·n/horizon) (Ziegler et al. 2019,
 * arXiv 1909.08593, §2.2). Save its `beta` with a checkpoint and give it to `resume`: a resumed run needs it.
 *
 * n/horizon counts as 1 at most, so a step changes β by a fifth at most. Otherwise n > 5·horizon would make β negative
 * in the first step, where the KL is 0; and with a bound at 0 it would never rise again.
 */
export class AdaptiveKl implements KlController {
  #beta: number;
  readonly #target: number;
  readonly #horizon: number;

  constructor(given: AdaptiveKlOptions) {
    const { beta, target, horizon } = ADAPTIVE_KL.read(given);
    [this.#beta, this.#target, this.#horizon] = [beta, target, horizon];
  }

  /** The coefficient for the next step. */
  get beta(): number {
    return this.#beta;
  }

  /**
   * Adapts β after a step.
   * @param kl the step's mean KL; a value that is not finite changes nothing
   * @param samples the number of episodes in the step
   */
  update(kl: number, samples: number): void {
    if (!Number.isFinite(kl)) return;
    const error = Math.min(0.2, Math.max(-0.2, kl / this.#target - 1));
    this.#beta *= 1 + error * Math.min(1, samples / this.#horizon);
  }

  /** Continues with the β of a checkpoint. */
  resume(beta: number): void {
    checkRange("AdaptiveKl", "beta", beta, 0);
    this.#beta = beta;
  }
}
