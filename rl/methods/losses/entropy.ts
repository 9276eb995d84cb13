/** The coefficient of an entropy bonus that follows the entropy. */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import { checkRange } from "../tokenStatistics.ts";

export interface AdaptiveEntropyOptions {
  /** In nats per token: at or below it there is a bonus, above it none. TRL's 0.2 stops no more than a collapse; better is what a run begins with. */
  readonly target: number;
  /** At the beginning; default 0 */
  readonly coefficient?: number;
  /** By how much a step changes it; default 0.005 */
  readonly delta?: number;
  /** Bounds; default 0 and 1 */
  readonly min?: number;
  readonly max?: number;
}

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

  constructor(options: AdaptiveEntropyOptions) {
    checkKeys("AdaptiveEntropy", options, ["target", "coefficient", "delta", "min", "max"]);
    const { target, coefficient = 0, delta = 0.005, min = 0, max = 1 } = options;
    checkRange("AdaptiveEntropy", "target", target, 0);
    check(delta > 0, () => `AdaptiveEntropy: delta must be > 0, got ${delta}`);
    check(min >= 0 && min < max, () => `AdaptiveEntropy: expected 0 ≤ min < max, got ${min} and ${max}`);
    checkRange("AdaptiveEntropy", "coefficient", coefficient, 0);
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
