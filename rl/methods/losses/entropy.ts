/** The coefficient of an entropy bonus that follows the entropy. */
import { check } from "../../../engine/errors.ts";
import { number, options, type OptionsOf, REQUIRED } from "../../../engine/optionTable.ts";
import { checkRange } from "../tokenStatistics.ts";

export const ADAPTIVE_ENTROPY = options("AdaptiveEntropy", {
  target: number(
    REQUIRED,
    "nats per token: at or below it there is a bonus, above it none. TRL's 0.2 only stops a collapse; better is what a run begins with",
    { min: 0 },
  ),
  coefficient: number(0, "coefficient at the beginning", { min: 0 }),
  delta: number(0.005, "by how much a step changes the coefficient", { above: 0 }),
  min: number(0, "smallest coefficient", { min: 0 }),
  max: number(1, "largest coefficient", { min: 0 }),
});
export type AdaptiveEntropyOptions = OptionsOf<typeof ADAPTIVE_ENTROPY>;

/**
 * c ← c + Δ where the entropy of a step was at most the target, c − Δ where it was above, within [min, max]; a step's bonus has the
 * weight c·1[entropy of the step before ≤ target] (Skywork-OR1, He et al. 2025, arXiv 2505.22312, §4; as in TRL's
 * `use_adaptive_entropy`). Its `state` is part of a run's: save it with a checkpoint.
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
    [this.#target, this.#delta, this.#min, this.#max, this.#value] = [target, delta, min, max, coefficient];
  }

  /** Of the next step: 0 while the entropy is above the target. */
  get coefficient(): number {
    return this.#last !== undefined && this.#last > this.#target ? 0 : this.#value;
  }

  /** @param entropy mean over the trained tokens of a step; one that is not finite changes nothing */
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
    checkRange("AdaptiveEntropy", "value", value, 0);
    [this.#value, this.#last] = [value, last ?? undefined];
  }
}
