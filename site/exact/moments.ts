/**
 * The exact mean and variance of the gradient that a method follows, without a sample.
 *
 * A step plays a group of G episodes of each of K tasks. Where `PageMethod.isExact` holds, its gradient is
 *
 *     ĝ = 1/(K·G) · Σ_i ( |A_i|·v_±(e_i) + w(e_i) )
 *
 * v_+ and v_− are the gradients that the library's loss gives an episode alone with advantage 1 and −1 (with the mean
 * over its tokens, the ratio and the clip), and w is ECHO's gradient for its answer. A_i depends on the rewards of the
 * group, and there are three rewards. So it is enough to go through all ways in which G episodes share three rewards,
 * (G+1)(G+2)/2 of them, each with its multinomial probability, and to ask the library's estimator for the advantages.
 * Given its reward, an episode is independent of all others: with m and C, the mean and the covariance of (v_+, v_−, w)
 * over the episodes of one reward r, and u_r = Σ over them of their factors a = (A⁺, A⁻, 1),
 *
 *     E ĝ   = Σ_r E[u_r]·m_r
 *     Var ĝ = Var(Σ_r u_r·m_r) + Σ_r E[Σ_{i of r} a_iᵀ C_r a_i]      (the law of total variance, per coordinate)
 */
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { addScores, type Play, rowsOf, tokenGradients } from "./estimate.ts";
import { EPISODES } from "./policy.ts";
import { TASKS } from "./task.ts";

/** Mean and variance of each coordinate of a step's gradient, [P] each. */
export interface Moments {
  readonly mean: Float64Array;
  readonly variance: Float64Array;
  /** The expected squared distance of `mean` from E ĝ, all coordinates together: 0 where the moments are exact. */
  readonly uncertainty: number;
}

/** All possible rewards, ascending. */
const REWARDS = [...new Set(EPISODES.map(({ reward }) => reward))].toSorted((a, b) => a - b);

/** (v_+, v_−, w) of each episode, [P] each. */
export type Parts = readonly [up: Float64Array, down: Float64Array, world: Float64Array];

/** The gradients of each episode alone: with advantage 1, with advantage −1, and of its answer. */
export function partsOf(objective: Objective, play: Play): Parts[] {
  const withAdvantage = (a: number): Float64Array[] => {
    const all = [...EPISODES.keys()];
    // Each is a step of its own, so that denominators are those of one episode.
    const rows = all.flatMap((e) => rowsOf(objective, [e], play, [constantLike(play.trajectories[e]!, a)]));
    const factors = tokenGradients(objective, all, rows, play);
    return all.map((e, i) => addScores([factors[i]!], [e], play));
  };
  const [up, down] = [withAdvantage(1), withAdvantage(-1)];
  const world = objective.world ? withAdvantage(0) : EPISODES.map(() => new Float64Array(play.space.size));
  return EPISODES.map((_, e) => [minus(up[e]!, world[e]!), minus(down[e]!, world[e]!), world[e]!]);
}

const constantLike = ({ stream }: Trajectory, value: number): Float64Array =>
  new Float64Array(stream.ids.length).fill(value);
const minus = (a: Float64Array, b: Float64Array): Float64Array => a.map((x, k) => x - b[k]!);

/** Number of episodes of each reward in a group, in the order of `REWARDS`. */
type Counts = readonly number[];

/** All ways in which `size` episodes share the rewards from number `from` on. */
function sharings(size: number, from: number = 0): Counts[] {
  if (from === REWARDS.length - 1) return [[size]];
  return Array.from({ length: size + 1 }, (_, n) => n).flatMap((n) =>
    sharings(size - n, from + 1).map((rest) => [n, ...rest]),
  );
}

/** The factors of a group with these counts of rewards, from the method's advantage estimator. */
interface GroupFactors {
  readonly counts: Counts;
  /** u: Σ of the factors (A⁺, A⁻, 1) over the episodes of each reward. */
  readonly sums: readonly (readonly number[])[];
  /** Σ a·aᵀ over the episodes of each reward, by part and part. */
  readonly squares: readonly (readonly (readonly number[])[])[];
}

function factorsOf({ advantage }: Objective, play: Play, counts: Counts): GroupFactors {
  const rewardOf = counts.flatMap((n, r) => Array.from({ length: n }, () => r));
  const group = rewardOf.map((r) => play.trajectories[EPISODES.findIndex(({ reward }) => reward === REWARDS[r])]!);
  const { perToken } = advantage.estimate(group);
  const sums = REWARDS.map(() => [0, 0, 0]);
  const squares = REWARDS.map(() => [0, 1, 2].map(() => [0, 0, 0]));
  rewardOf.forEach((r, i) => {
    const a = perToken[i]![1]!; // at the agent's first word: all its words have the same advantage
    const factors = [Math.max(a, 0), Math.max(-a, 0), 1];
    factors.forEach((x, f) => {
      sums[r]![f]! += x;
      factors.forEach((y, h) => (squares[r]![f]![h]! += x * y));
    });
  });
  return { counts, sums, squares };
}

/** Mean [P] of each part and covariance [P] of each two, coordinate by coordinate, over the episodes of one reward. */
interface ClassMoments {
  readonly probability: number;
  readonly means: readonly Float64Array[];
  readonly covariances: readonly (readonly Float64Array[])[];
}

function classMoments(parts: readonly Parts[], { probabilities }: Play, task: number, reward: number): ClassMoments {
  const own = [...EPISODES.keys()].filter((e) => EPISODES[e]!.task === task && EPISODES[e]!.reward === reward);
  const total = own.reduce((sum, e) => sum + probabilities[e]!, 0);
  const expected = (valueOf: (e: number, k: number) => number): Float64Array => {
    const result = new Float64Array(parts[0]![0].length);
    for (const e of own) {
      const share = probabilities[e]! / total;
      for (let k = 0; k < result.length; k++) result[k]! += share * valueOf(e, k);
    }
    return result;
  };
  const means = [0, 1, 2].map((f) => expected((e, k) => parts[e]![f]![k]!));
  const covariances = means.map((mean, f) =>
    means.map((other, h) => expected((e, k) => (parts[e]![f]![k]! - mean[k]!) * (parts[e]![h]![k]! - other[k]!))),
  );
  return { probability: total * TASKS.length, means, covariances };
}

const logFactorial = (n: number): number => (n < 2 ? 0 : Math.log(n) + logFactorial(n - 1));

/** The probability of a group with these counts, given the probability of each reward. */
function multinomial(counts: Counts, probabilities: readonly number[]): number {
  const size = counts.reduce((a, b) => a + b, 0);
  return Math.exp(
    counts.reduce(
      (sum, n, r) => sum + (n === 0 ? 0 : n * Math.log(probabilities[r]!) - logFactorial(n)),
      logFactorial(size),
    ),
  );
}

/** For each task, the moments of its episodes by reward. They do not depend on the size of a group. */
export type Prepared = readonly (readonly ClassMoments[])[];

export function prepare(objective: Objective, play: Play): Prepared {
  const parts = partsOf(objective, play);
  return TASKS.map((_, task) => REWARDS.map((reward) => classMoments(parts, play, task, reward)));
}

/** The exact moments of a step's gradient. @param prepared for the same objective, see `prepare` */
export function exactMoments(objective: Objective, play: Play, prepared: Prepared, groupSize: number): Moments {
  const { size } = play.space;
  const [mean, variance] = [new Float64Array(size), new Float64Array(size)];
  const groups = sharings(groupSize).map((counts) => factorsOf(objective, play, counts));
  const scale = 1 / (TASKS.length * groupSize);
  for (const classes of prepared) {
    const rewards = classes.map(({ probability }) => probability);
    addGroup(groups, rewards, classes, scale, { mean, variance });
  }
  return { mean, variance, uncertainty: 0 };
}

/** Adds what one task's group contributes; tasks are independent, so their variances add up. */
function addGroup(
  groups: readonly GroupFactors[],
  rewards: readonly number[],
  classes: readonly ClassMoments[],
  scale: number,
  into: { readonly mean: Float64Array; readonly variance: Float64Array },
): void {
  const weights = groups.map(({ counts }) => multinomial(counts, rewards));
  const expected = (valueOf: (group: GroupFactors) => number): number =>
    groups.reduce((sum, group, i) => sum + weights[i]! * valueOf(group), 0);
  // The factors by class: reward and part.
  const flat = classes.flatMap(({ means }, r) => means.map((m, f) => ({ r, f, m })));
  const first = flat.map(({ r, f }) => expected(({ sums }) => sums[r]![f]!));
  const covariance = flat.map((a, i) =>
    flat.map((b, j) => expected(({ sums }) => (sums[a.r]![a.f]! - first[i]!) * (sums[b.r]![b.f]! - first[j]!))),
  );
  const within = classes.map((_, r) =>
    [0, 1, 2].map((f) => [0, 1, 2].map((h) => expected((g) => g.squares[r]![f]![h]!))),
  );
  for (let k = 0; k < into.mean.length; k++) {
    flat.forEach(({ m }, i) => {
      into.mean[k]! += scale * first[i]! * m[k]!;
      flat.forEach((other, j) => (into.variance[k]! += scale ** 2 * covariance[i]![j]! * m[k]! * other.m[k]!));
    });
    classes.forEach(({ covariances }, r) =>
      covariances.forEach((row, f) =>
        row.forEach((c, h) => (into.variance[k]! += scale ** 2 * within[r]![f]![h]! * c[k]!)),
      ),
    );
  }
}

/** Gradients of the same steps by a method whose mean is known. */
export interface Control {
  readonly gradients: readonly Float64Array[];
  readonly mean: Float64Array;
}

/**
 * Mean and variance of sampled gradients. With a control variate c the mean is that of ĝ − β(c − E c), where β gives
 * this the least variance: noise that ĝ and c share cancels. (β from the same steps makes a bias of the order of 1/n.)
 */
export function sampledMoments(gradients: readonly Float64Array[], control?: Control): Moments {
  const { mean, variance } = plainMoments(gradients);
  if (control === undefined) return { mean, variance, uncertainty: total(variance) / gradients.length };
  const others = plainMoments(control.gradients);
  const together = gradients.reduce(
    (sum, g, i) => sum + g.reduce((s, x, k) => s + (x - mean[k]!) * (control.gradients[i]![k]! - others.mean[k]!), 0),
    0,
  );
  const beta = together / (gradients.length - 1) / total(others.variance);
  const rest = plainMoments(gradients.map((g, i) => g.map((x, k) => x - beta * control.gradients[i]![k]!)));
  return {
    mean: rest.mean.map((x, k) => x + beta * control.mean[k]!),
    variance,
    uncertainty: total(rest.variance) / gradients.length,
  };
}

const total = (x: Float64Array): number => x.reduce((a, b) => a + b, 0);

function plainMoments(gradients: readonly Float64Array[]): Omit<Moments, "uncertainty"> {
  const n = gradients.length;
  const size = gradients[0]!.length;
  const [mean, variance] = [new Float64Array(size), new Float64Array(size)];
  for (const g of gradients) for (let k = 0; k < size; k++) mean[k]! += g[k]! / n;
  for (const g of gradients) for (let k = 0; k < size; k++) variance[k]! += (g[k]! - mean[k]!) ** 2 / (n - 1);
  return { mean, variance };
}
