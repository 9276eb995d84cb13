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
 *
 * @difficulty 1
 * @hint For i below D/2 the partner of x_i is x_(i + D/2), with a minus; for the others it is x_(i − D/2).
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

/** What is kept while keys go by. */
export interface Sums {
  /** The largest score so far; −∞ before the first key. */
  readonly largest: number;
  /** Σ e^(score − largest) over the keys so far. */
  readonly total: number;
  /** Σ e^(score − largest) · value, D numbers. */
  readonly out: readonly number[];
}

/**
 * Attention in one pass
 *
 * One query reads many keys, and Σ e^score · value / Σ e^score is wanted. No list of scores may be kept, and the
 * largest score is not known at the start. As e^1000 is too large for a number, the sums are kept of e^(score − m) with
 * m the largest score *so far*. Given the sums before a key, return those with it: when m grows, multiply what you have
 * by e^(old m − new m). The result is `out` / `total` after the last key.
 *
 * @difficulty 1
 * @hint Both sums shrink by the same factor, and the new key's weight is e^(score − new m).
 * @hint e^−∞ is 0, so the first key needs no case of its own.
 */
export function exercise2({ total, out }: Sums, { score, value }: Key): Sums {
  const weight = Math.exp(score);
  return { largest: score, total: total + weight, out: out.map((x, d) => x + weight * value[d]!) };
}

export function check2(answer: typeof exercise2): void {
  const scored = (...scores: number[]): Key[] => scores.map((score, i) => ({ score, value: [i, 1] }));
  const cases: [what: string, keys: readonly Key[]][] = [
    ["one key", scored(5)],
    ["scores 0 and log 3, that is weights 1/4 and 3/4", scored(0, Math.log(3))],
    ["scores log 3 and 0: the largest comes first", scored(Math.log(3), 0)],
    ["two scores of 1000: weights 1/2", scored(1000, 1000)],
    ["two scores of −1000: weights 1/2", scored(-1000, -1000)],
    ["scores −1000, 0, 1000", scored(-1000, 0, 1000)],
  ];
  const rng = new Rng(2);
  cases.push([
    "50 random keys",
    Array.from({ length: 50 }, () => ({ score: 5 * rng.normal(), value: vector(rng, 3) })),
  ]);
  for (const [what, keys] of cases) {
    const D = keys[0]!.value.length;
    let sums: Sums = { largest: -Infinity, total: 0, out: Array.from({ length: D }, () => 0) };
    for (const [k, key] of keys.entries()) {
      // Only these numbers are handed on: nothing else is remembered.
      const { largest, total, out } = answer(sums, { score: key.score, value: [...key.value] });
      sums = { largest, total, out: Array.from(out).slice(0, D) };
      const seen = keys.slice(0, k + 1);
      const most = Math.max(...seen.map(({ score }) => score));
      const where = `${what}, after key ${k + 1}`;
      expectEqual(sums.largest, most, `${where}: the largest score`);
      const weights = seen.map(({ score }) => Math.exp(score - most));
      const all = weights.reduce((a, b) => a + b);
      expectClose(sums.total, all, `${where}: the sum of e^(score − largest)`);
      const wanted = Array.from({ length: D }, (_, d) =>
        seen.reduce((sum, { value }, i) => sum + weights[i]! * value[d]!, 0),
      );
      expectClose(sums.out, wanted, `${where}: the sum of e^(score − largest) · value`);
    }
  }
}

export function solution2({ largest, total, out }: Sums, { score, value }: Key): Sums {
  const next = Math.max(largest, score);
  const shrink = Math.exp(largest - next); // e^−∞ = 0 for the first key, when there is nothing to shrink
  const weight = Math.exp(score - next);
  return { largest: next, total: total * shrink + weight, out: out.map((x, d) => x * shrink + weight * value[d]!) };
}

const kept: Key[] = [];
export const wrong2: readonly (typeof exercise2)[] = [
  /** m grows, but what was summed before is not adapted. */
  ({ largest, total, out }, { score, value }) => {
    const next = Math.max(largest, score);
    const weight = Math.exp(score - next);
    return { largest: next, total: total + weight, out: out.map((x, d) => x + weight * value[d]!) };
  },
  /** The weight is taken with the old m. */
  ({ largest, total, out }, { score, value }) => {
    const next = Math.max(largest, score);
    const [shrink, weight] = [Math.exp(largest - next), Math.exp(score - largest)];
    return { largest: next, total: total * shrink + weight, out: out.map((x, d) => x * shrink + weight * value[d]!) };
  },
  /** m is the last score, not the largest. */
  ({ largest, total, out }, { score, value }) => {
    const shrink = Math.exp(largest - score);
    return { largest: score, total: total * shrink + 1, out: out.map((x, d) => x * shrink + value[d]!) };
  },
  /** Keeps all keys of all queries, and goes over them again. */
  (_, key) => {
    kept.push(key);
    const largest = Math.max(...kept.map(({ score }) => score));
    const weights = kept.map(({ score }) => Math.exp(score - largest));
    const total = weights.reduce((a, b) => a + b);
    return {
      largest,
      total,
      out: key.value.map((_, d) => kept.reduce((sum, { value }, i) => sum + weights[i]! * value[d]!, 0)),
    };
  },
];
