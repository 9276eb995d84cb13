/** What is simulated: worlds from assumptions and from a measurement, all numbers of workers, and what would help. */
import type { Rng } from "../../engine/random.ts";
import type { Measured, Setting } from "./measured.ts";
import type { AssumedSettings, CommonSettings } from "./settings.ts";
import { type Plan, type Simulated, simulate, type World } from "./simulate.ts";

/** The numbers of workers that are simulated. */
export const COUNTS: readonly number[] = [1, 2, 4, 10, 30, 100, 300, 1000, 3000, 10_000];

/** A world, and what is run in it with any number of workers. */
export interface Case {
  readonly name: string;
  readonly world: World;
  readonly plan: Omit<Plan, "workers">;
  /** What has been assumed, in words. */
  readonly assumptions: readonly string[];
}

/** What could be twice as good, or one more. */
export const LEVERS = ["learner", "link", "workers", "admission"] as const;
export type Lever = (typeof LEVERS)[number];

export interface Point {
  readonly workers: number;
  readonly result: Simulated;
  /** By what factor the tokens per second would grow with each lever. */
  readonly gains: Readonly<Record<Lever, number>>;
  /** The lever that would help most; undefined if none gives a twentieth. */
  readonly limit: Lever | undefined;
}

export interface CaseResult {
  readonly name: string;
  readonly assumptions: readonly string[];
  readonly points: readonly Point[];
  readonly most: number;
  /** The first number of workers with nine tenths of the most tokens per second, and what limits from there on. */
  readonly saturatesAt: number;
  readonly limit: Lever | undefined;
}

/** A gain that counts. */
const WORTH = 1.05;

const improved: Readonly<Record<Lever, (plan: Plan, world: World) => Simulated>> = {
  learner: (plan, world) => simulate(plan, { ...world, learn: (rng, tokens) => world.learn(rng, tokens) / 2 }),
  link: (plan, world) => simulate(plan, { ...world, link: 2 * world.link }),
  workers: (plan, world) => simulate({ ...plan, workers: 2 * plan.workers }, world),
  admission: (plan, world) => simulate({ ...plan, staleness: plan.staleness + 1 }, world),
};

/** What so many workers give, and what more of each thing would. */
export function pointOf({ plan: base, world }: Case, workers: number): Point {
  const plan = { ...base, workers };
  const result = simulate(plan, world);
  const gain = (lever: Lever): number => improved[lever](plan, world).tokensPerSecond / result.tokensPerSecond;
  const gains = Object.fromEntries(LEVERS.map((lever) => [lever, gain(lever)])) as Record<Lever, number>;
  const best = LEVERS.reduce((most, lever) => (gains[lever] > gains[most] ? lever : most));
  return { workers, result, gains, limit: gains[best] >= WORTH ? best : undefined };
}

/** All numbers of workers. */
export function resultOf(one: Case, counts: readonly number[] = COUNTS): CaseResult {
  const points = counts.map((workers) => pointOf(one, workers));
  const most = Math.max(...points.map(({ result }) => result.tokensPerSecond));
  const first = points.find(({ result }) => result.tokensPerSecond >= 0.9 * most)!;
  return {
    name: one.name,
    assumptions: one.assumptions,
    points,
    most,
    saturatesAt: first.workers,
    limit: points.at(-1)!.limit,
  };
}

const bytesText = (bytes: number): string =>
  bytes >= 1e6 ? `${Number((bytes / 1e6).toPrecision(3))} MB` : `${Number((bytes / 1e3).toPrecision(3))} kB`;

/** The large case, for weights of one size. */
export function assumedCase(
  { weights, what }: { readonly weights: number; readonly what: string },
  assumed: AssumedSettings,
  common: CommonSettings,
): Case {
  const { groups, groupSize, places, seconds, spread, tokens, tokenBytes, link, latency, step, perToken } = assumed;
  return {
    name: `assumed: ${what} of ${bytesText(weights)}`,
    plan: { groups, groupSize, places, ...common },
    world: {
      episode: (rng) => ({ seconds: seconds * Math.exp(spread * rng.normal()), tokens, bytes: tokens * tokenBytes }),
      learn: (_, learnt) => step + perToken * learnt,
      weights,
      link,
      latency,
    },
    assumptions: [
      `a step learns from ${groups} groups of ${groupSize} episodes, staleness at most ${common.staleness}`,
      `an episode takes ${seconds} s (median of a log-normal distribution, spread ${spread}) and has ${tokens} tokens`,
      `a worker plays ${places} episodes at a time, each as fast as if it played one`,
      `the server's one link carries ${bytesText(link)}/s, each transfer takes ${latency} s more`,
      `learning takes ${step} s a step and ${perToken * 1e6} µs a token`,
    ],
  };
}

const pick = <T>(values: readonly T[], rng: Rng): T => values[rng.int(values.length)]!;

/**
 * The measured case: every episode, every step is one of those that were measured with one worker.
 * @param setting which of the measurements
 */
export function measuredCase(measured: Measured, setting: Setting, common: CommonSettings): Case {
  const { model, link } = measured;
  const { name, plan, runs } = setting;
  const { seconds, episodes, steps } = runs.find(({ workers }) => workers === 1)!;
  return {
    name: `measured: ${name}`,
    plan: { ...plan, ...common },
    world: {
      episode: (rng) => {
        const [tokens, bytes] = pick(episodes, rng);
        return { seconds: pick(seconds, rng), tokens, bytes };
      },
      learn: (rng, tokens) => {
        const [took, of] = pick(steps, rng);
        return (took * tokens) / of;
      },
      weights: model.bytes,
      link: link.bytesPerSecond,
      latency: link.latency,
    },
    assumptions: [
      `a step learns from ${plan.groups} groups of ${plan.groupSize} episodes, staleness at most ${common.staleness}`,
      `every worker is as fast as the one that was measured beside the learner, and has ${plan.places} places`,
      "seconds of an episode, its tokens and bytes, and a step's seconds per token are drawn from what was measured",
      `the server answers one transfer after another, at the ${bytesText(link.bytesPerSecond)}/s of this machine's ` +
        `loopback, each ${(1000 * link.latency).toFixed(1)} ms later; no network is between`,
    ],
  };
}
