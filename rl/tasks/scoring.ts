/**
 * The returns of a step's episodes by the caller's function, in place of the environment's. The function may answer at
 * once or later: a judge, a server, a program that is run. Answers that come later have a time limit, and only so many
 * are awaited at a time. The order of the episodes and their returns do not depend on which answer comes first.
 *
 * A reward that throws, is no reward or comes too late masks its episode, as a failed environment does: nothing of it
 * is trained. `info.rewardError` says why, and the metric `rewards/failed` counts them. A step in which every reward
 * failed trains nothing, so a run ends with an error after a few of them in a row.
 */
import { check, fail, reasonOf } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { number, options, type OptionsOf, type Settled } from "../../engine/optionTable.ts";
import { keepCause, type Trajectory } from "../episode/stream.ts";
import type { Metrics } from "../episode/metrics.ts";
import { answerWithin } from "../play/deadline.ts";

/**
 * The result of a `RewardFunction`: the return of an episode, NaN if it cannot be scored, and its components; if it
 * rewards single steps, also the rewards of all steps that the environment has answered.
 */
export interface EpisodeReward extends Partial<Pick<Trajectory, "stepRewards" | "tokenShares">> {
  readonly reward: number;
  /** The part of `reward` that decides whether the task is solved; default: all of it. */
  readonly outcome?: number;
  /** Unweighted scores by name, for metrics. */
  readonly parts: Readonly<Record<string, number>>;
}

/**
 * The return of an episode, at once or as a promise. The signal is aborted when the time is up and when the run is
 * stopped; the answer is then ignored.
 */
export type RewardFunction = (trajectory: Trajectory, signal: AbortSignal) => EpisodeReward | Promise<EpisodeReward>;

export const REWARD_LIMITS = options("trainRl: rewardLimits", {
  timeout: number(60_000, "milliseconds that a reward may take", { above: 0, infinite: true }),
  concurrency: number(16, "promised rewards at a time", { integer: true, min: 1 }),
  patience: number(3, "steps in a row without any reward, because each failed, that end the run", {
    integer: true,
    min: 1,
  }),
});
/** Limits of rewards: the time of each, the number awaited at a time, and the steps without any that end a run. */
export type RewardLimits = OptionsOf<typeof REWARD_LIMITS>;

/** The scoring of a run's episodes. */
export interface RewardOptions {
  /** The return of an episode, with its components, in place of the environment's own return. */
  readonly reward?: RewardFunction;
  /** Limits of a `reward` that returns promises. */
  readonly rewardLimits?: RewardLimits;
}

/** @throws one clear line if the options do not fit together */
export function checkRewards({ reward, rewardLimits }: RewardOptions): void {
  const isFunction = reward === undefined || typeof reward === "function";
  check(isFunction, () => `trainRl: reward must be a function of an episode, got ${showValue(reward)}`);
  check(
    rewardLimits === undefined || reward !== undefined,
    () => "trainRl: rewardLimits without a reward; the environment's own has rollout.timeout",
  );
  if (rewardLimits) REWARD_LIMITS.read(rewardLimits);
}

/** A limit on how many run at a time, in the order in which they came. */
class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#free = most;
  }

  /** @returns undefined if there is room, else a promise of it */
  enter(): Promise<void> | undefined {
    if (this.#free === 0) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#free--;
    return undefined;
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}

/** The gate of each run: `trainRlAsync` scores parts of several steps at a time. */
const gates = new WeakMap<RewardOptions, Gate>();

/**
 * The trajectories with the returns of `options.reward`, in their order. Step rewards stay those of the environment if
 * the function names none. The difference between the new return and their sum concerns the whole episode, and
 * `rewardsOfTokens` adds it to the last token that the policy wrote, even in an action that was cut off.
 *
 * @param options the same object throughout a run, whose calls share `concurrency`
 * @param signal stops the run: episodes that have not been scored by then stay as they are
 */
export async function rewarded(
  options: RewardOptions,
  trajectories: readonly Trajectory[],
  signal?: AbortSignal,
): Promise<readonly Trajectory[]> {
  const { reward, rewardLimits } = options;
  if (!reward) return trajectories;
  const limits = REWARD_LIMITS.read(rewardLimits);
  const gate = gates.get(options) ?? new Gate(limits.concurrency);
  gates.set(options, gate);
  const scored: Promise<Trajectory>[] = [];
  for (const t of trajectories) {
    if (t.masked) {
      scored.push(Promise.resolve(t));
      continue;
    }
    const room = gate.enter();
    if (room) await room;
    const answer = signal?.aborted ? t : scoreOf(reward, t, limits, signal);
    if (answer instanceof Promise) scored.push(answer.finally(() => gate.leave()));
    else {
      gate.leave();
      scored.push(Promise.resolve(answer));
    }
  }
  return Promise.all(scored);
}

/** The episode with its return, or masked if that failed: a promise if the function returned one, never rejected. */
function scoreOf(
  reward: RewardFunction,
  t: Trajectory,
  { timeout }: Settled<typeof REWARD_LIMITS.fields>,
  signal: AbortSignal | undefined,
): Trajectory | Promise<Trajectory> {
  const clock = new AbortController();
  let given: ReturnType<RewardFunction>;
  try {
    given = reward(t, clock.signal);
    if (!isPromise(given)) return withReward(t, given);
  } catch (error) {
    return failed(t, error);
  }
  const promised = given;
  void Promise.resolve(promised).catch(() => undefined); // a rejection that nothing awaits any more is no crash
  const answer = answerWithin(
    async (stop) => {
      stop.addEventListener("abort", () => clock.abort(stop.reason), { once: true });
      return withReward(t, await promised);
    },
    { timeout, signal, who: "reward" },
  );
  return answer.then((a) => ("result" in a ? a.result : a.stop === "aborted" ? t : failed(t, a.cause)));
}

const isPromise = (answer: ReturnType<RewardFunction>): answer is Promise<EpisodeReward> =>
  typeof (answer as Partial<Promise<EpisodeReward>> | undefined)?.then === "function";

/** @throws if this is no reward */
function withReward(t: Trajectory, answer: EpisodeReward): Trajectory {
  const { reward, parts, outcome, stepRewards, tokenShares } = answer ?? {};
  const isScore = (value: unknown): boolean => typeof value === "number" && Math.abs(value) !== Infinity;
  const isParts = typeof parts === "object" && (parts as unknown) !== null && Object.values(parts).every(isScore);
  if (!isScore(reward) || !isParts || !(outcome === undefined || isScore(outcome))) {
    const hint = typeof answer === "number" ? " (rewardFunction makes one of a function of numbers)" : "";
    return fail(`reward: expected { reward, parts } with finite numbers or NaN, got ${showValue(answer)}${hint}`);
  }
  check(
    stepRewards === undefined || (stepRewards.length === t.stepRewards.length && stepRewards.every(Number.isFinite)),
    () => `reward: expected ${t.stepRewards.length} finite step rewards, got ${showValue(stepRewards)}`,
  );
  const { rewardIsBound: _, ...played } = t;
  return {
    ...played,
    reward,
    rewardParts: parts,
    ...(stepRewards ? { stepRewards } : {}),
    ...(outcome === undefined ? {} : { outcome }),
    ...(tokenShares ? { tokenShares } : {}),
  };
}

function failed(t: Trajectory, error: unknown): Trajectory {
  keepCause(t.stream, error);
  return { ...t, masked: true, info: { ...t.info, rewardError: reasonOf(error) } };
}

/** Why the episode has no reward, if its reward was asked for and failed. */
export const rewardErrorOf = ({ info }: Trajectory): string | undefined => info["rewardError"] as string | undefined;

/** The number of rewards that failed, for runs whose rewards can fail. */
export const rewardMetrics = ({ reward }: RewardOptions, trajectories: readonly Trajectory[]): Metrics =>
  reward ? { "rewards/failed": trajectories.filter((t) => rewardErrorOf(t) !== undefined).length } : {};
