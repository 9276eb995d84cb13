/** Shorthand for the `samples` of ops: small random inputs, deterministic, away from kinks where asked. */
import type { SampleInput } from "./op.ts";
import type { Rng } from "./random.ts";
import { sizeOf, type Shape } from "./types.ts";

export function filled(shape: Shape, next: (index: number) => number): SampleInput {
  return { shape, dtype: "f32", data: Array.from({ length: sizeOf(shape) }, (_, i) => next(i)) };
}

/** A vector of these values. */
export const listed = (values: readonly number[]): SampleInput => filled([values.length], (i) => values[i]!);

/** Standard normal values. */
export const normal = (rng: Rng, shape: Shape): SampleInput => filled(shape, () => rng.normal());

/** Uniform values in [low, high] that keep 0.1 distance from every kink (on both sides, if the interval has them). */
export function uniform(rng: Rng, shape: Shape, low: number, high: number, kinks: readonly number[] = []): SampleInput {
  return filled(shape, () => {
    for (;;) {
      const x = low + (high - low) * rng.uniform();
      if (kinks.every((kink) => Math.abs(x - kink) >= 0.1)) return x;
    }
  });
}

/** Integers in [0, n). */
export const integers = (rng: Rng, shape: Shape, n: number): SampleInput => ({
  ...filled(shape, () => rng.int(n)),
  dtype: "i32",
});

/** Zeros and ones, about half of each. */
export const mask = (rng: Rng, shape: Shape): SampleInput => filled(shape, () => rng.int(2));

/** [4, 4]: rows of equal values, a row with two ties, and one in which an element has nearly all probability. */
export const tiedOrFar = (): SampleInput => ({
  ...listed([0, 0, 0, 0, 8, 8, 8, 8, 1, -0, 1, 0, 0, 20, -20, -0]),
  shape: [4, 4],
});
