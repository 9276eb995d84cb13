/** Exercises of chapter 4: the rotation of a vector by its position, and attention in one pass. */
import { Rng } from "../../index.ts";
import { expectClose, expectEqual } from "./expect.ts";

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * b[i]!, 0);
const vector = (rng: Rng, size: number): number[] => Array.from({ length: size }, () => rng.normal());

/**
 * Rotary positions by hand
 *
 * Return `x` (D numbers, D even) turned by `position`. Numbers j and j + D/2, for j from 0 to D/2 − 1, are a point of a
 * plane; it turns by the angle φ = position · 10000^(−2j/D): (a, b) becomes (a·cos φ − b·sin φ, b·cos φ + a·sin φ).
 */
export function exercise1(x: readonly number[], position: number): number[] {
  return x.map((value) => value * Math.cos(position));
}

export function check1(answer: typeof exercise1): void {
  const rng = new Rng(1);
  expectClose(answer([1, 0], 1), [Math.cos(1), Math.sin(1)], "(1, 0) at position 1, one plane, angle 1");
  expectClose(answer([0, 1], 1), [-Math.sin(1), Math.cos(1)], "(0, 1) at position 1");
  const angle = 10000 ** (-2 / 4); // of j = 1 with D = 4
  expectClose(answer([0, 1, 0, 0], 3), [0, Math.cos(3 * angle), 0, Math.sin(3 * angle)], "(0, 1, 0, 0) at position 3");
  const [q, k] = [vector(rng, 8), vector(rng, 8)];
  expectClose(answer(q, 0), q, "any vector at position 0");
  const productAt = (m: number, n: number): number => dot(answer(q, m), answer(k, n));
  expectClose(productAt(105, 102), productAt(5, 2), "q·k at positions 105 and 102, and at 5 and 2");
  expectClose(dot(answer(q, 7), answer(q, 7)), dot(q, q), "the squared length of q at position 7, and of q");
}

export function solution1(x: readonly number[], position: number): number[] {
  const half = x.length / 2;
  return x.map((value, i) => {
    const angle = position * 10000 ** ((-2 * (i % half)) / x.length);
    const other = i < half ? -x[i + half]! : x[i - half]!;
    return value * Math.cos(angle) + other * Math.sin(angle);
  });
}

export const wrong1: readonly (typeof exercise1)[] = [
  /** Neighbours as planes: also a rotation, but not this one. */
  (x, position) =>
    x.map((value, i) => {
      const angle = position * 10000 ** ((-2 * (i >> 1)) / x.length);
      return value * Math.cos(angle) + (i % 2 === 0 ? -x[i + 1]! : x[i - 1]!) * Math.sin(angle);
    }),
  /** One angle for all planes. */
  (x, position) => {
    const half = x.length / 2;
    const other = (i: number): number => (i < half ? -x[i + half]! : x[i - half]!);
    return x.map((value, i) => value * Math.cos(position) + other(i) * Math.sin(position));
  },
  /** Turns backwards. */
  (x, position) => solution1(x, -position),
  /** The exponent without the 2. */
  (x, position) => {
    const half = x.length / 2;
    return x.map((value, i) => {
      const angle = position * 10000 ** (-(i % half) / x.length);
      return value * Math.cos(angle) + (i < half ? -x[i + half]! : x[i - half]!) * Math.sin(angle);
    });
  },
];

/** A key's score and its value, D numbers. */
export interface Key {
  readonly score: number;
  readonly value: readonly number[];
}

/**
 * Attention in one pass
 *
 * One query reads many keys. Return Σ e^score · value / Σ e^score over `keys` (at least one; each has a `score` and a
 * `value` of D numbers), but keep only running sums: each key is handed to you once and then forgotten, so the list of
 * scores cannot be stored, and the largest score is not known at the start. As e^1000 is too large for a number, sum
 * e^(score − m) with m the largest score *so far*. When m grows, multiply the sums that you have by e^(old m − new m).
 */
export function exercise2(keys: Iterable<Key>): number[] {
  let total = 0;
  let out: number[] = [];
  for (const { score, value } of keys) {
    const weight = Math.exp(score);
    total += weight;
    out = value.map((x, d) => (out[d] ?? 0) + weight * x);
  }
  return out.map((x) => x / total);
}

export function check2(answer: typeof exercise2): void {
  const scored = (...scores: number[]): Key[] => scores.map((score, i) => ({ score, value: [i, 1] }));
  expectClose(answer(scored(5)), [0, 1], "one key: its value");
  expectClose(answer(scored(0, Math.log(3))), [0.75, 1], "scores 0 and log 3, that is weights 1/4 and 3/4");
  expectClose(answer(scored(Math.log(3), 0)), [0.25, 1], "scores log 3 and 0: the largest comes first");
  expectClose(answer(scored(1000, 1000)), [0.5, 1], "two scores of 1000: weights 1/2");
  expectClose(answer(scored(-1000, -1000)), [0.5, 1], "two scores of −1000: weights 1/2");
  const rng = new Rng(2);
  const keys = Array.from({ length: 50 }, () => ({ score: 5 * rng.normal(), value: vector(rng, 3) }));
  const weights = keys.map(({ score }) => Math.exp(score));
  const total = weights.reduce((a, b) => a + b);
  const wanted = [0, 1, 2].map((d) => keys.reduce((sum, { value }, i) => sum + (weights[i]! * value[d]!) / total, 0));
  let passes = 0;
  const once = {
    *[Symbol.iterator](): Generator<Key> {
      passes++;
      for (const { score, value } of keys) {
        const lent = { score, value: [...value] };
        yield lent;
        lent.score = NaN; // forgotten: an answer that kept the object has only NaN
        lent.value.fill(NaN);
      }
    },
  };
  expectClose(answer(once), wanted, "50 random keys, each there only while you are at it");
  expectEqual(passes, 1, "passes over the keys");
}

export function solution2(keys: Iterable<Key>): number[] {
  let [largest, total] = [-Infinity, 0];
  let out: number[] = [];
  for (const { score, value } of keys) {
    const next = Math.max(largest, score);
    const shrink = Math.exp(largest - next); // e^−∞ = 0 for the first key, when there is nothing to shrink
    const weight = Math.exp(score - next);
    total = total * shrink + weight;
    out = value.map((x, d) => (out[d] ?? 0) * shrink + weight * x);
    largest = next;
  }
  return out.map((x) => x / total);
}

export const wrong2: readonly (typeof exercise2)[] = [
  /** m grows, but what was summed before is not adapted. */
  (keys) => {
    let [largest, total] = [-Infinity, 0];
    let out: number[] = [];
    for (const { score, value } of keys) {
      largest = Math.max(largest, score);
      const weight = Math.exp(score - largest);
      total += weight;
      out = value.map((x, d) => (out[d] ?? 0) + weight * x);
    }
    return out.map((x) => x / total);
  },
  /** m begins at 0: scores that are all far below 0 give 0 / 0. */
  (keys) => {
    let [largest, total] = [0, 0];
    let out: number[] = [];
    for (const { score, value } of keys) {
      const next = Math.max(largest, score);
      const weight = Math.exp(score - next);
      total = total * Math.exp(largest - next) + weight;
      out = value.map((x, d) => (out[d] ?? 0) * Math.exp(largest - next) + weight * x);
      largest = next;
    }
    return out.map((x) => x / total);
  },
  /** Keeps all keys and goes over them again. */
  (keys) => {
    const all = [...keys];
    const largest = Math.max(...all.map(({ score }) => score));
    const weights = all.map(({ score }) => Math.exp(score - largest));
    const total = weights.reduce((a, b) => a + b);
    return all[0]!.value.map((_, d) => all.reduce((sum, { value }, i) => sum + (weights[i]! * value[d]!) / total, 0));
  },
];
