/**
 * Rewards for the number of tokens that the model sampled. All are at most 0, except the cosine, which includes the
 * outcome.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";

const checkLength = (where: string, length: number): void =>
  check(length >= 0, () => `${where}: length must be at least 0, got ${length}`);

/** −λ·max(0, T − target), without a lower bound. */
export function linearLength(length: number, { target, lambda }: { target: number; lambda: number }): number {
  checkLength("linearLength", length);
  check(lambda >= 0, () => `linearLength: lambda must be at least 0, got ${lambda}`);
  return length > target ? -lambda * (length - target) : 0;
}

/**
 * −α·σ((T − center)/width): smooth, and bounded by α. Arora and Zanette (2025, arXiv 2502.04463) give a right answer
 * the reward 1 − α·σ(·), with the mean and the standard deviation of the lengths of the group's right answers as center
 * and width, and a wrong answer 0. To get that, add 1 and multiply by the outcome.
 * @param options.width above 0, so it cannot be the deviation of a group whose lengths are all equal
 */
export function sigmoidLength(
  length: number,
  { center, width, alpha = 1 }: { center: number; width: number; alpha?: number },
): number {
  checkLength("sigmoidLength", length);
  check(width > 0, () => `sigmoidLength: width must be above 0, got ${width}`);
  check(alpha >= 0, () => `sigmoidLength: alpha must be at least 0, got ${alpha}`);
  return -alpha / (1 + Math.exp((center - length) / width));
}

/**
 * DAPO's soft overlong punishment (Yu et al. 2025, eq. 13), piecewise linear: 0 up to max − cache tokens, then
 * ((max − cache) − T)/cache, −1 beyond max. verl and NeMo go on below −1.
 */
export function softOverlong(length: number, { max, cache }: { max: number; cache: number }): number {
  checkLength("softOverlong", length);
  check(cache > 0 && cache <= max, () => `softOverlong: cache must be in (0, max = ${max}], got ${cache}`);
  if (length <= max - cache) return 0;
  return length > max ? -1 : (max - cache - length) / cache;
}

/**
 * Options of `cosineLength`: `max`, the length in tokens beyond which nothing changes, and the rewards of right and
 * wrong answers at length 0 and at `max`.
 */
export interface CosineLengthOptions {
  readonly max: number;
  /** The rewards of a right answer of length 0 and of one with `max` tokens or more. Default [1, 0.5]. */
  readonly correct?: readonly [short: number, long: number];
  /** The rewards of a wrong answer. Default [−1, −0.5]: a long wrong answer is better than a short one. */
  readonly wrong?: readonly [short: number, long: number];
}

/** The outcome scaled by length along half a cosine (Yeo et al. 2025, and TRL's `get_cosine_scaled_reward`). */
export function cosineLength(length: number, correct: boolean, options: CosineLengthOptions): number {
  checkLength("cosineLength", length);
  checkKeys("cosineLength", options, ["max", "correct", "wrong"]);
  check(options.max > 0, () => `cosineLength: max must be above 0, got ${options.max}`);
  const [short, long] = correct ? (options.correct ?? [1, 0.5]) : (options.wrong ?? [-1, -0.5]);
  const progress = Math.min(1, length / options.max);
  return long + ((short - long) * (1 + Math.cos(Math.PI * progress))) / 2;
}
