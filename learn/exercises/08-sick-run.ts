/** The exercises of chapter 8: a triage by numbers, which the project's doctor judges, and a mask that leaks. */
import type { MetricsRecord, Transcript, TranscriptToken } from "../../run/records.ts";
import { diagnose } from "../../studies/doctor/diagnose.ts";
import { expectEqual } from "./expect.ts";

/** What a run logged, a value for each of its steps. */
export interface Curves {
  readonly success: readonly number[];
  readonly reward: readonly number[];
  readonly entropy: readonly number[];
  readonly gradNorm: readonly number[];
  /** The mean of |log p of the learner − log p of the sampler|; all episodes are fresh. */
  readonly difference: readonly number[];
}
export type Fault = "nonFinite" | "logProbMismatch" | "rewardHacking" | "entropyBlowUp" | "entropyCollapse" | "none";

/**
 * # Triage
 *
 * Name the first fault that a run's curves show, causes before consequences:
 *
 * 1. `nonFinite`: some gradient norm is not a finite number.
 * 2. `logProbMismatch`: on some step sampler and learner differ by more than 0.001 nats.
 * 3. `rewardHacking`: from the first quarter of the steps to the last the mean reward rises by more than 0.1, and the
 *    mean success does not rise by more than 0.05.
 * 4. `entropyBlowUp`: the mean entropy of any four steps in a row is at least twice that of the first step, and
 *    0.5 nats or more above it, and the mean success does not rise by more than 0.05 (from the first quarter to
 *    the last, as in 3).
 * 5. `entropyCollapse`: in the last quarter the mean entropy is at most 0.02, and the mean success is below 0.9. (An
 *    agent that has solved its task need not try anything else.)
 *
 * If there is none of these it is `none`. All runs have at least 16 steps, a multiple of four.
 *
 * @difficulty 2
 * @hint Write the quantities first: mean of the first quarter, of the last, the largest mean of four steps in a
 * row.
 * @hint `Number.isFinite` is false for NaN and for ∞; NaN > 1 is false, too.
 */
export function exercise1(curves: Curves): Fault {
  return curves.success.at(-1)! > 0.5 ? "none" : "entropyCollapse";
}

const mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;

export function solution1({ success, reward, entropy, gradNorm, difference }: Curves): Fault {
  const size = success.length / 4;
  const late = (x: readonly number[]): number => mean(x.slice(-size));
  const rise = (x: readonly number[]): number => late(x) - mean(x.slice(0, size));
  if (!gradNorm.every((x) => Number.isFinite(x))) return "nonFinite";
  if (difference.some((x) => x > 1e-3)) return "logProbMismatch";
  const achieves = rise(success) > 0.05;
  if (rise(reward) > 0.1 && !achieves) return "rewardHacking";
  const peak = Math.max(...entropy.slice(0, -3).map((_, i) => mean(entropy.slice(i, i + 4))));
  if (peak >= 2 * entropy[0]! && peak - entropy[0]! >= 0.5 && !achieves) return "entropyBlowUp";
  return late(entropy) <= 0.02 && late(success) < 0.9 ? "entropyCollapse" : "none";
}

export const wrong1: readonly (typeof exercise1)[] = [
  // the consequence before its cause
  (curves) => {
    const isCollapsed = mean(curves.entropy.slice(-8)) <= 0.02 && mean(curves.success.slice(-8)) < 0.9;
    return isCollapsed ? "entropyCollapse" : solution1(curves);
  },
  // a solved run is no collapse
  (curves) => {
    const isLow = mean(curves.entropy.slice(-8)) <= 0.02;
    const fault = solution1(curves);
    return fault === "none" && isLow ? "entropyCollapse" : fault;
  },
  // NaN is not caught by a comparison
  (curves) => (curves.gradNorm.some((x) => x > 1e6) ? "nonFinite" : solution1({ ...curves, gradNorm: [1] })),
  // takes a single step for a peak
  (curves) => {
    const { success, entropy } = curves;
    const rises = mean(success.slice(-8)) - mean(success.slice(0, 8)) > 0.05;
    const isPeak = Math.max(...entropy) >= Math.max(2 * entropy[0]!, entropy[0]! + 0.5);
    const fault = solution1(curves);
    return fault === "none" && isPeak && !rises ? "entropyBlowUp" : fault;
  },
  // a bound of 0, and one of 8 steps
  (curves) => (curves.difference.some((x) => x > 9e-4 / 2) ? "logProbMismatch" : solution1(curves)),
  (curves) => {
    const [first, last] = [mean(curves.reward.slice(0, 8)), mean(curves.reward.slice(-8))];
    const fault = solution1(curves);
    return fault === "rewardHacking" && last - first <= 0.21 ? "none" : fault;
  },
  // collapses whatever the success
  (curves) => {
    const fault = solution1({ ...curves, success: curves.success.map((x) => Math.min(x, 0.8)) });
    return fault === "entropyCollapse" ? fault : solution1(curves);
  },
  // looks at the last steps only: the entropy had its peak in the middle
  (curves) => {
    const fault = solution1(curves);
    return fault === "entropyBlowUp" && curves.entropy.at(-1)! < 2 * curves.entropy[0]! ? "none" : fault;
  },
];

/** 32 steps with a small oscillation, so that a rise can be told from scatter. */
const curve = (of: (progress: number) => number): number[] =>
  Array.from({ length: 32 }, (_, step) => of(step / 31) + 1e-4 * Math.sin(7 * step));
const HEALTHY: Curves = {
  success: curve((p) => 0.5 + 0.3 * p),
  reward: curve((p) => 0.6 + 0.3 * p),
  entropy: curve((p) => 0.7 - 0.3 * p),
  gradNorm: curve(() => 1),
  difference: curve(() => 2e-4).map((x) => x / 1000),
};
const RUNS: Readonly<Record<string, Curves>> = {
  "a healthy run": HEALTHY,
  "a solved run": {
    ...HEALTHY,
    success: curve((p) => 0.5 + 0.49 * Math.min(1, 2 * p)),
    entropy: curve(() => 0.01),
  },
  "a run with one NaN": { ...HEALTHY, gradNorm: HEALTHY.gradNorm.map((x, i) => (i === 9 ? NaN : x)) },
  "a run with another temperature in the learner": { ...HEALTHY, difference: curve(() => 0.2) },
  "a run with a hole in the reward, which also collapses": {
    ...HEALTHY,
    success: curve((p) => 0.5 - 0.5 * p),
    entropy: curve((p) => 0.7 * Math.max(0, 1 - 2 * p) + 0.001),
  },
  "a run with a peak of entropy in the middle": {
    ...HEALTHY,
    success: curve(() => 0.3),
    reward: curve(() => 0.3),
    entropy: curve((p) => 0.6 + 2 * Math.max(0, 1 - Math.abs(4 * p - 2))),
  },
  "a run with a single step of high entropy": {
    ...HEALTHY,
    success: curve(() => 0.3),
    reward: curve(() => 0.3),
    entropy: curve(() => 0.6).map((x, i) => (i === 12 ? 2 : x)),
  },
  "a run that explores no more": {
    ...HEALTHY,
    success: curve(() => 0.4),
    reward: curve(() => 0.4),
    entropy: curve((p) => 0.5 * Math.max(0, 1 - 2 * p) + 0.005),
  },
};

/** Steps that begin at `a` and end at `b`: what counts is the difference of the last quarter and the first. */
const leap = (a: number, b: number, length = 32): number[] =>
  Array.from({ length }, (_, step) => (step < length / 2 ? a : b));

const FLAT = { reward: leap(0.5, 0.5), success: leap(0.5, 0.5) };
/** Values on both sides of each bound, two faults at a time, and runs of other lengths: by the rules above. */
const EDGES: readonly (readonly [name: string, fault: Fault, changed: Partial<Curves>])[] = [
  ["sampler and learner differ by 0.0009 once", "none", { difference: HEALTHY.difference.with(20, 9e-4) }],
  ["sampler and learner differ by 0.0011 once", "logProbMismatch", { difference: HEALTHY.difference.with(20, 11e-4) }],
  ["the reward rises by 0.09, success does not", "none", { ...FLAT, reward: leap(0.3, 0.39) }],
  ["the reward rises by 0.11, success does not", "rewardHacking", { ...FLAT, reward: leap(0.3, 0.41) }],
  ["the reward rises by 0.3, success by 0.04", "rewardHacking", { reward: leap(0.3, 0.6), success: leap(0.5, 0.54) }],
  ["the reward rises by 0.3, success by 0.06", "none", { reward: leap(0.3, 0.6), success: leap(0.5, 0.56) }],
  ["entropy doubles, but rises by 0.4 only", "none", { ...FLAT, entropy: leap(0.35, 0.75) }],
  ["entropy rises by 1, but not to twice", "none", { ...FLAT, entropy: leap(1.5, 2.5) }],
  ["entropy rises from 0.6 to 1.3", "entropyBlowUp", { ...FLAT, entropy: leap(0.6, 1.3) }],
  ["entropy rises, and success by 0.2, too", "none", { entropy: leap(0.6, 1.3), success: leap(0.5, 0.7) }],
  [
    "entropy 0.019 at the end, success 0.89",
    "entropyCollapse",
    { entropy: leap(0.3, 0.019), success: leap(0.5, 0.89) },
  ],
  ["entropy 0.021 at the end, success 0.89", "none", { entropy: leap(0.3, 0.021), success: leap(0.5, 0.89) }],
  ["entropy 0.019 at the end, success 0.91", "none", { entropy: leap(0.3, 0.019), success: leap(0.5, 0.91) }],
  ["rewards that scatter at both ends", "none", { ...FLAT, reward: leap(0.5, 0.5).with(0, 0.2).with(31, 0.9) }],
  ["a reward that rises in the last four steps", "none", { ...FLAT, reward: leap(0.5, 0.5).fill(0.65, 28) }],
  ["entropy near 0 on the last step alone", "none", { ...FLAT, entropy: leap(0.3, 0.3).with(31, 0.001) }],
  [
    "low entropy, and success on the last step alone",
    "entropyCollapse",
    { reward: leap(0.5, 0.5), success: leap(0.5, 0.5).with(31, 0.95), entropy: leap(0.3, 0.01) },
  ],
  ["a peak of entropy from step 10 to 13", "entropyBlowUp", { ...FLAT, entropy: leap(0.6, 0.6).fill(1.4, 10, 14) }],
  ["a peak of entropy in the last four steps", "entropyBlowUp", { ...FLAT, entropy: leap(0.6, 0.6).fill(1.4, 28) }],
  ["three steps of high entropy", "entropyBlowUp", { ...FLAT, entropy: leap(0.6, 0.6).fill(2, 10, 13) }],
  ["entropy that is low on the first step alone", "entropyBlowUp", { ...FLAT, entropy: leap(1, 1).with(0, 0.3) }],
  ["entropy that rises to exactly twice, by 0.5", "entropyBlowUp", { ...FLAT, entropy: leap(0.5, 1) }],
  ["an infinite gradient norm", "nonFinite", { gradNorm: HEALTHY.gradNorm.with(0, Infinity) }],
  [
    "a NaN beside sampler and learner that differ",
    "nonFinite",
    { gradNorm: HEALTHY.gradNorm.with(31, NaN), difference: leap(0.5, 0.5) },
  ],
  [
    "sampler and learner differ, and the reward has a hole",
    "logProbMismatch",
    { ...FLAT, difference: leap(0.5, 0.5), reward: leap(0, 1) },
  ],
  [
    "a hole in the reward, and entropy blows up",
    "rewardHacking",
    { reward: leap(0, 1), entropy: leap(0.6, 3), success: leap(0.5, 0.1) },
  ],
  [
    "entropy blows up and then collapses",
    "entropyBlowUp",
    { ...FLAT, entropy: leap(0.6, 0).map((x, i) => (i > 9 && i < 16 ? 3 : x)) },
  ],
  ...[16, 64].map((length): [string, Fault, Partial<Curves>] => {
    const late = Array.from({ length }, (_, step) => step >= (3 * length) / 4);
    const flat = (x: number): number[] => late.map(() => x);
    const reward = late.map((is) => (is ? 0.62 : 0.5));
    const rest = { success: flat(0.5), entropy: flat(0.5), gradNorm: flat(1), difference: flat(0) };
    return [`the reward rises by 0.12 in the last quarter of ${length} steps`, "rewardHacking", { reward, ...rest }];
  }),
];

export function check1(answer: typeof exercise1): void {
  for (const [name, fault, changed] of EDGES) expectEqual(answer({ ...HEALTHY, ...changed }), fault, name);
  for (const [name, curves] of Object.entries(RUNS)) {
    const metrics = curves.success.map((success, step): MetricsRecord => {
      const values = { success, reward: curves.reward[step]!, entropy: curves.entropy[step]! };
      const difference = { "sampling/sampling_logp_difference/mean": curves.difference[step]! };
      return { step, phase: "rl", ...values, ...difference, grad_norm: curves.gradNorm[step]! };
    });
    const { findings } = diagnose({ config: {}, metrics, transcripts: [] });
    expectEqual(answer(curves), findings[0]?.mode ?? "none", `${name}, as the doctor names it`);
  }
}

/** A token of a logged episode, with the columns that matter here. */
export type LoggedToken = Pick<TranscriptToken, "role" | "oldLogProb" | "wPolicy" | "surprise">;

/**
 * # A mask that leaks
 *
 * You get the tokens of an episode as a run has logged them. `wPolicy` is a token's weight in the policy loss (none, or
 * 0: masked), `oldLogProb` the log-probability that the sampler recorded; tokens that nobody sampled have 0 there, or
 * none. `surprise` is −log p of the token under the learner. `role` is one of `prompt`, `scaffold`, `thought`, `action`
 * and `observation`. A column that is missing counts as 0.
 *
 * Return the positions of tokens that are trained although nobody sampled them. Of two kinds:
 *
 * - The role is neither `action` nor `thought`, and yet the token is trained.
 * - The role says `action` or `thought`, and lies: in this run the world's answers may be marked as actions. But
 *   beware: a token that the policy was sure of also has a log-probability of 0, and it is no surprise (at most 0.1
 *   nats) to the learner.
 *
 * @difficulty 2
 * @hint A token is trained if `wPolicy` is there and not 0, also if it is negative.
 * @hint An `action` with a log-probability of 0, or none, is either one that the policy was sure of, or a lie. What
 * tells them apart?
 */
export function exercise2(tokens: readonly LoggedToken[]): number[] {
  return tokens.flatMap(({ role }, t) => (role === "observation" ? [t] : []));
}

export function solution2(tokens: readonly LoggedToken[]): number[] {
  return tokens.flatMap(({ role, oldLogProb = 0, wPolicy = 0, surprise = 0 }, t) => {
    const isByAgent = role === "action" || role === "thought";
    return wPolicy !== 0 && (!isByAgent || (oldLogProb === 0 && surprise > 0.1)) ? [t] : [];
  });
}

export const wrong2: readonly (typeof exercise2)[] = [
  // believes the roles
  (tokens) => tokens.flatMap(({ role, wPolicy = 0 }, t) => (wPolicy !== 0 && role === "observation" ? [t] : [])),
  // counts tokens that the policy was sure of
  (tokens) => tokens.flatMap(({ oldLogProb = 0, wPolicy = 0 }, t) => (wPolicy !== 0 && oldLogProb === 0 ? [t] : [])),
  // takes a log-probability of 0 for one that was recorded
  (tokens) =>
    tokens.flatMap(({ oldLogProb, wPolicy = 0 }, t) => (wPolicy !== 0 && oldLogProb === undefined ? [t] : [])),
  // counts masked tokens
  (tokens) => solution2(tokens.map((token) => ({ ...token, wPolicy: 1 }))),
  // a surprise alone is no fault: the policy samples unlikely tokens, too
  (tokens) => tokens.flatMap(({ wPolicy = 0, surprise = 0 }, t) => (wPolicy !== 0 && surprise > 0.1 ? [t] : [])),
  // a weight below 0 trains as well
  (tokens) => solution2(tokens.map((token) => ({ ...token, wPolicy: Math.max(0, token.wPolicy ?? 0) }))),
];

const sampled = (p: number, wPolicy = 0.1): LoggedToken => {
  return { role: "action", oldLogProb: Math.log(p), wPolicy, surprise: -Math.log(p) };
};
const written = (role: LoggedToken["role"], surprise: number, wPolicy = 0): LoggedToken => ({
  role,
  wPolicy,
  surprise,
});
const EPISODES: readonly { readonly tokens: readonly LoggedToken[]; readonly unsampled: readonly number[] }[] = [
  // as it should be
  {
    tokens: [
      written("prompt", 3),
      sampled(0.4),
      sampled(1),
      written("observation", 2),
      sampled(0.01),
      written("scaffold", 0),
    ],
    unsampled: [],
  },
  // the mask has observations and tags
  {
    tokens: [
      written("prompt", 3),
      sampled(0.4),
      written("observation", 2, 0.1),
      written("scaffold", 0, 0.1),
      sampled(1),
    ],
    unsampled: [2, 3],
  },
  // a thought is the agent's, and a token of the world is not, whatever was recorded
  {
    tokens: [{ ...sampled(0.3), role: "thought" }, { ...sampled(0.3), role: "observation" }, sampled(0.4)],
    unsampled: [1],
  },
  // the roles lie: surprises on both sides of the bound
  {
    tokens: [sampled(0.4), written("action", 0.05, 0.1), written("action", 0.5, 0.1), written("thought", 0.5, 0.1)],
    unsampled: [2, 3],
  },
  // the roles lie
  {
    tokens: [
      written("prompt", 3),
      sampled(0.4),
      written("action", 2, 0.1),
      { ...written("action", 4, -0.1), oldLogProb: 0 },
      sampled(1),
      sampled(0.2, -1),
    ],
    unsampled: [2, 3],
  },
];

export function check2(answer: typeof exercise2): void {
  for (const [i, { tokens, unsampled }] of EPISODES.entries()) {
    const got = answer(tokens);
    const listed = (list: readonly number[], t: number): boolean => Array.isArray(list) && list.includes(t);
    const at = tokens.findIndex((_, t) => listed(got, t) !== unsampled.includes(t));
    const token = at < 0 ? "" : `, where token ${at} is ${JSON.stringify(tokens[at])}`;
    expectEqual(got, unsampled, `episode ${i + 1}${token}: the positions of tokens trained though nobody sampled them`);
    const logged = tokens.map((token, id) => ({ id, text: "", turn: 0, ...token }));
    const where = { step: 0, phase: "rl", env: "", family: "", task: "", group: 0 } as const;
    const episode: Transcript = { ...where, reward: 0, success: true, stopReason: "", turns: 1, tokens: logged };
    const { findings } = diagnose({ config: {}, metrics: [], transcripts: [episode] });
    const isFound = findings.some(({ mode }) => mode === "observationsInPolicyMask");
    expectEqual(got.length > 0, isFound, `episode ${i + 1}: whether the doctor finds any`);
  }
}
