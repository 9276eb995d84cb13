/** The exercises of chapter 7: weights for old episodes, and decoupled PPO. The library judges both. */
import { append, device, emptyStream, grad, importanceCorrection, ppoClip, sum, tensor } from "../../index.ts";
import type { Tensor, Trajectory } from "../../index.ts";
import { expectClose } from "./expect.ts";

export type Level = "token" | "sequence";

/**
 * # Truncated importance sampling
 *
 * Write the weights of one episode's tokens. You get the log-probabilities of its tokens under the policy that learns,
 * π, and under the one that played, μ. At the level `token` a token's weight is min(r_t, max), r_t being its own ratio
 * π/μ. At the level `sequence` every token has the same weight, min(ρ, max), ρ being the product of all r_t.
 *
 * Mind that episodes may be long: the product of the first 2500 ratios of an episode of 5000 tokens may be larger than
 * the largest number there is, although ρ is 1.
 *
 * @difficulty 1
 * @hint Multiply by adding: ρ is e to the sum of all log-probability differences.
 */
export function exercise1(learner: readonly number[], sampler: readonly number[], level: Level, max: number): number[] {
  return learner.map((_, t) => (level === "token" ? sampler[t]! : max));
}

export function solution1(learner: readonly number[], sampler: readonly number[], level: Level, max: number): number[] {
  const logRatios = learner.map((logProb, t) => logProb - sampler[t]!);
  const whole = logRatios.reduce((a, b) => a + b, 0);
  return logRatios.map((own) => Math.min(Math.exp(level === "token" ? own : whole), max));
}

type Answer1 = typeof exercise1;
const ratio = (a: readonly number[], b: readonly number[]): number[] => a.map((x, t) => Math.exp(x - b[t]!));
const product = (x: readonly number[]): number => x.reduce((a, b) => a * b, 1);

export const wrong1: readonly Answer1[] = [
  // upside down
  (learner, sampler, level, max) => solution1(sampler, learner, level, max),
  // no cap for a whole episode
  (learner, sampler, level, max) => solution1(learner, sampler, level, level === "token" ? max : Infinity),
  // overflows in the middle of a long episode
  (learner, sampler, level, max) =>
    ratio(learner, sampler).map((r, _, all) => Math.min(level === "token" ? r : product(all), max)),
  // the product of capped ratios in place of the capped product
  (learner, sampler, level, max) => {
    const capped = ratio(learner, sampler).map((r) => Math.min(r, max));
    return capped.map((r) => (level === "token" ? r : product(capped)));
  },
  // the geometric mean, as GSPO has it
  (learner, sampler, level, max) => {
    const mean = learner.reduce((a, lp, t) => a + lp - sampler[t]!, 0) / learner.length;
    return solution1(learner, sampler, "token", max).map((w) =>
      level === "token" ? w : Math.min(Math.exp(mean), max),
    );
  },
];

/** An episode in which the sampler drew these tokens. */
function episodeOf(sampler: readonly number[]): Trajectory {
  const stream = emptyStream();
  append(stream, "prompt", 0, [0]);
  append(
    stream,
    "action",
    0,
    sampler.map(() => 1),
    { oldLogProbs: sampler },
  );
  const outcome = { group: 0, reward: 1, stepRewards: [1], stopReason: "completed", masked: false } as const;
  return { stream, ...outcome, env: "", task: "", seed: 0, info: {} };
}

export function check1(answer: Answer1): void {
  const long = (value: (t: number) => number): number[] => Array.from({ length: 5000 }, (_, t) => value(t));
  const cases: readonly (readonly [what: string, learner: readonly number[], sampler: readonly number[]])[] = [
    ["log π −1, −0.5, −2 and log μ −1.2, −1.5, −1.1", [-1, -0.5, -2], [-1.2, -1.5, -1.1]],
    ["log π −0.1, −3 and log μ −1.5, −2: ρ is below max, a ratio above it", [-0.1, -3], [-1.5, -2]],
    ["log π −0.5, −0.5 and log μ −1.5, −0.6: ρ is above max", [-0.5, -0.5], [-1.5, -0.6]],
    ["log π −0.5, −0.5 and log μ −1, −1: ρ is above max, no ratio is", [-0.5, -0.5], [-1, -1]],
    [
      "5000 tokens, whose log π − log μ is 1 in the first half and −1 in the second",
      long((t) => (t < 2500 ? -0.5 : -1.5)),
      long((t) => (t < 2500 ? -1.5 : -0.5)),
    ],
  ];
  for (const [what, learner, sampler] of cases) {
    for (const level of ["token", "sequence"] as const) {
      const episode = episodeOf(sampler);
      const statistics = { logProbs: [Float64Array.from([0, ...learner])] };
      const advantages = [new Float64Array(learner.length + 1).fill(1)];
      const [weights] = importanceCorrection({ level, max: 2 }).weights([episode], statistics, advantages);
      const got = answer(learner, sampler, level, 2);
      // A few weights of a long episode are enough.
      const few = (x: ArrayLike<number>): number[] => Array.from(x).filter((_, t) => t < 2 || t === learner.length - 1);
      expectClose(got.length, learner.length, `${what}: the number of weights`);
      const some = learner.length > 3 ? "the first two weights and the last" : "the weights";
      expectClose(few(got), few(weights!.subarray(1)), `${what}, max = 2: ${some} at the level ${level}`);
    }
  }
}

/** The log-probabilities of one token under three policies, and its advantage. */
export interface OldToken {
  /** log π: of the policy as it is now, in the second pass over the episodes of a step. */
  readonly now: number;
  /** log π_start: of the policy before the step. */
  readonly start: number;
  /** log μ: of the policy that played, which may be much older. */
  readonly sampler: number;
  readonly advantage: number;
}

/**
 * # Decoupled PPO
 *
 * PPO's clip does two things with one ratio: it corrects for the policy that played, and it keeps the policy of this
 * step near where the step began. Decoupled PPO (arXiv 2110.00641) has a ratio for each. Per token it maximises
 *
 *     min(π_start/μ, 2) · min(q·A, clip(q, 0.8, 1.2)·A),    q = π/π_start
 *
 * where the first factor is a constant. Return the number c for which the gradient of that is c·∇log π.
 *
 * @difficulty 2
 * @hint Where the clip is active the gradient is 0, as in chapter 5.
 * @hint Elsewhere ∇q = q ∇log π, and the first factor stands before it.
 */
export function exercise2({ now, sampler, advantage }: OldToken): number {
  return Math.exp(now - sampler) * advantage;
}

export function solution2({ now, start, sampler, advantage }: OldToken): number {
  const q = Math.exp(now - start);
  const isClipped = advantage > 0 ? q > 1.2 : q < 0.8;
  return isClipped ? 0 : Math.min(Math.exp(start - sampler), 2) * q * advantage;
}

export const wrong2: readonly (typeof exercise2)[] = [
  // PPO: one ratio to the sampler, clipped
  ({ now, sampler, advantage }) => {
    const r = Math.exp(now - sampler);
    return (advantage > 0 ? r > 1.2 : r < 0.8) ? 0 : r * advantage;
  },
  // the weight is left out
  (token) => solution2({ ...token, sampler: token.start }),
  // clipped on both sides, whatever the sign of A
  (token) => (Math.abs(Math.exp(token.now - token.start) - 1) > 0.2 ? 0 : solution2(token)),
  // the derivative of q without q: ∇q = q·∇log π
  (token) => solution2(token) / Math.exp(token.now - token.start),
  // no cap
  ({ now, start, sampler, advantage }) => {
    const isClipped = solution2({ now, start, sampler: start, advantage }) === 0;
    return isClipped ? 0 : Math.exp(now - sampler) * advantage;
  },
];

export async function check2(answer: typeof exercise2): Promise<void> {
  const tokens: OldToken[] = [-1, 1].flatMap((advantage) =>
    [0.5, 0.9, 1.1, 1.5].flatMap((q) =>
      [0.25, 1, 5].map((weight) => ({ now: Math.log(q) - 2, start: -2, sampler: -2 - Math.log(weight), advantage })),
    ),
  );
  const on = await device("reference");
  const column = (value: (token: OldToken) => number): Tensor =>
    tensor(Float64Array.from(tokens, value), { device: on, dtype: on.float });
  const loss = (logProbs: Tensor): Tensor => {
    const segments = { ids: tensor(new Int32Array(tokens.length), { device: on }), count: 1 };
    const [oldLogProbs, advantages, mask] = [column((x) => x.start), column((x) => x.advantage), column(() => 1)];
    return sum(ppoClip().tokenLoss({ logProbs, oldLogProbs, advantages, mask, segments }));
  };
  const slopes = await grad(loss)(column((x) => x.now)).read();
  on.dispose();
  for (const [i, token] of tokens.entries()) {
    const { now, start, sampler, advantage } = token;
    const wanted = -slopes[i]! * Math.min(Math.exp(start - sampler), 2);
    const ratios = `π/π_start ${Math.exp(now - start).toFixed(2)}, π_start/μ ${Math.exp(start - sampler).toFixed(2)}`;
    expectClose(answer(token), wanted, `the factor of a token with ${ratios}, A ${advantage}`);
  }
}
