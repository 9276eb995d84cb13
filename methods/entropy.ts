/** The coefficient of an entropy bonus, adapted to the entropy. */
import { check } from "../engine/errors.ts";
import { number, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import { checkRange } from "../rl/objective/tokenStatistics.ts";

export const ADAPTIVE_ENTROPY = options("AdaptiveEntropy", {
  target: number(
    REQUIRED,
    "entropy in nats per token: at or below it there is a bonus, above it none; TRL's 0.2 only stops a collapse, the " +
      "entropy at the start of a run is better",
    { min: 0 },
  ),
  coefficient: number(0, "coefficient at the beginning", { min: 0 }),
  delta: number(0.005, "how much a step changes the coefficient", { above: 0 }),
  min: number(0, "smallest coefficient", { min: 0 }),
  max: number(1, "largest coefficient", { min: 0 }),
});
/**
 * Options of `AdaptiveEntropy`: the target in nats per token has to be given; by default the coefficient begins at 0
 * and a step moves it by 0.005 within [0, 1] (docs/methods.md, `entropy.…`).
 */
export type AdaptiveEntropyOptions = OptionsOf<typeof ADAPTIVE_ENTROPY>;

/**
 * An adaptive coefficient of the entropy bonus. After a step, c ← c + Δ if the step's entropy was at most the target,
 * else c ← c − Δ, within [min, max]. The bonus of the next step has the weight c·1[entropy of the step before ≤ target]
 * (Skywork-OR1, He et al. 2025, arXiv 2505.22312, §4; as in TRL's `use_adaptive_entropy`). Save its `state` with a
 * checkpoint: a resumed run needs it.
 */
export class AdaptiveEntropy {
  readonly #target: number;
  readonly #delta: number;
  readonly #min: number;
  readonly #max: number;
  #value: number;
  #last: number | undefined;

  constructor(given: AdaptiveEntropyOptions) {
    const { target, coefficient, delta, min, max } = ADAPTIVE_ENTROPY.read(given);
    check(min < max, () => `AdaptiveEntropy: min must be below max, got ${min} and ${max}`);
    check(coefficient <= max, () => `AdaptiveEntropy: coefficient must be at most max, ${max}, got ${coefficient}`);
    [this.#target, this.#delta, this.#min, this.#max] = [target, delta, min, max];
    this.#value = Math.max(min, coefficient);
  }

  /** The coefficient for the next step: 0 while the entropy is above the target. */
  get coefficient(): number {
    return this.#last !== undefined && this.#last > this.#target ? 0 : this.#value;
  }

  /**
   * Adapts the coefficient after a step.
   * @param entropy the mean over the step's trained tokens; a value that is not finite changes nothing
   */
  update(entropy: number): void {
    if (!Number.isFinite(entropy)) return;
    const step = entropy <= this.#target ? this.#delta : -this.#delta;
    this.#value = Math.min(this.#max, Math.max(this.#min, this.#value + step));
    this.#last = entropy;
  }

  state(): { readonly value: number; readonly last: number | null } {
    return { value: this.#value, last: this.#last ?? null };
  }

  restore({ value, last }: { readonly value: number; readonly last: number | null }): void {
    checkRange("AdaptiveEntropy", "value", value, this.#min, this.#max);
    [this.#value, this.#last] = [value, last ?? undefined];
  }
}
