/**
 * Asynchronous reinforcement learning: rollout workers play while the learner learns. The loop is `trainRl`'s; what differs is where
 * its episodes come from: workers with copies of the policy, and a queue that keeps what they play from getting too old. What is
 * deterministic, and how to read the metrics: docs/async.md.
 */
import { WorldgradError } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import type { Metrics } from "../episode/metrics.ts";
import { offPolicyMetrics } from "../methods/importanceCorrection.ts";
import { finishStep, type PlayedPart, type PlayedStep, type PlayEpisodes, playPart } from "../tasks/play.ts";
import { EventLoop } from "../play/eventLoop.ts";
import { checkOffPolicy } from "../methods/objective.ts";
import { type EpisodeSource, withBaseline } from "../train/episodes.ts";
import { checkRl, type RlOptions, trainFrom } from "../train/loop.ts";
import type { StepReport } from "../train/report.ts";
import type { Trajectory } from "../episode/stream.ts";
import { policyOf } from "./messages.ts";
import { type PoolOptions, WorkerPool } from "./pool.ts";
import { type Finished, StalenessQueue } from "./queue.ts";
import { localWorkers, type RolloutWorkers } from "./workers.ts";

export const SCHEDULES = ["free", "fixed"] as const;

export interface AsyncOptions extends PoolOptions {
  /** Who plays; a number: so many workers on this thread. */
  readonly workers: number | RolloutWorkers;
  /**
   * Steps of learning at most between the policy that drew a token and the step that learns from it. 0: exactly the run of `trainRl`.
   * Above 0 the objective should say how it corrects for it: `correction`, the advantage `vtrace`, or (with neither) the ratio of
   * its policy loss, which then refers to what the sampler recorded.
   */
  readonly maxStaleness: number;
  /**
   * `free`: workers take every new policy at once, in the middle of an episode, and a step learns from the groups that are finished first.
   * `fixed`: step n is played by the policy of step n − maxStaleness, whole: slower, but the run is the same every time.
   * Default `free`.
   */
  readonly schedule?: (typeof SCHEDULES)[number] | undefined;
}

export interface AsyncRlOptions extends RlOptions, AsyncOptions {}

/**
 * Reinforcement learning with rollout workers. The reports are those of `trainRl`, with the metrics of docs/async.md.
 * @throws if the options do not fit together, a rollout fails, or every worker has died and none may be restarted
 *
 * @example
 * for await (const { step, metrics } of trainRlAsync({ ...options, workers: 2, maxStaleness: 1 })) console.log(step, metrics.reward);
 */
export async function* trainRlAsync(options: AsyncRlOptions): AsyncGenerator<StepReport, void, void> {
  const { workers, maxStaleness, schedule, maxRestarts, patience, ...rest } = options;
  checkAsync(options);
  const loop: RlOptions = maxStaleness > 0 ? { ...rest, offPolicy: true } : rest;
  checkRl(loop); // before any thread starts
  const source = new AsyncSource(loop, { workers, maxStaleness, schedule, maxRestarts, patience });
  try {
    yield* trainFrom(loop, source);
  } finally {
    await source.close();
  }
}

function checkAsync(options: AsyncRlOptions): void {
  const { maxStaleness, schedule = "free", steps, startStep = 0, maxRestarts = 0, patience = 1 } = options;
  check(Number.isInteger(maxStaleness) && maxStaleness >= 0, () => `trainRlAsync: maxStaleness must be an integer ≥ 0, got ${maxStaleness}`); // prettier-ignore
  check(SCHEDULES.includes(schedule), () => `trainRlAsync: schedule must be "free" or "fixed", got "${String(schedule)}"`); // prettier-ignore
  check(Number.isInteger(maxRestarts) && maxRestarts >= 0, () => `trainRlAsync: maxRestarts must be an integer ≥ 0, got ${maxRestarts}`); // prettier-ignore
  check(patience > 0, () => `trainRlAsync: patience must be > 0 seconds, got ${patience}`);
  check(Number.isInteger(steps) && Number.isInteger(startStep), () => `trainRlAsync: steps and startStep must be integers, got ${steps} and ${startStep}`); // prettier-ignore
  checkOffPolicy(options.objective, options);
}

/** The oldest version that drew a token of these; `none` if nobody drew any. */
function oldestVersion(trajectories: readonly Trajectory[], none: number): number {
  let oldest = Infinity;
  for (const { stream } of trajectories) {
    for (const version of stream.versions) if (version >= 0 && version < oldest) oldest = version;
  }
  return oldest === Infinity ? none : oldest;
}

/** Ages of the tokens that the policy drew, as seen from step `step`; and in how many versions an episode was written. */
export function stalenessMetrics(trajectories: readonly Trajectory[], step: number): Metrics {
  let [tokens, total, most, episodes, versions] = [0, 0, 0, 0, 0];
  for (const { stream } of trajectories) {
    const drawn = stream.versions.filter((version) => version >= 0);
    if (drawn.length === 0) continue;
    episodes++;
    versions += new Set(drawn).size;
    for (const version of drawn) {
      tokens++;
      total += step - version;
      most = Math.max(most, step - version);
    }
  }
  if (tokens === 0) return {};
  return {
    "async/staleness_mean": total / tokens,
    "async/staleness_max": most,
    "async/versions_per_episode": versions / episodes,
  };
}

/** Episodes from workers. A unit is one group; or all groups of a step, where they are drawn together or played by one version. */
class AsyncSource implements EpisodeSource {
  readonly #options: RlOptions;
  readonly #maxStaleness: number;
  readonly #isFixed: boolean;
  readonly #perStep: number;
  readonly #queue: StalenessQueue<PlayedPart>;
  readonly #pool: WorkerPool;
  readonly #start: number;
  readonly #loop: EventLoop = new EventLoop();
  #failure: { readonly error: unknown } | undefined;
  #notify: () => void = () => {};
  readonly #onAbort = (): void => this.#notify();
  #isPublished = false;
  /** Of the step that is learnt from. */
  #metrics: Metrics = {};
  #trajectories: readonly Trajectory[] = [];

  constructor(options: RlOptions, how: AsyncOptions) {
    const { workers, maxStaleness, schedule = "free" } = how;
    const { model, template, groups, groupSize, dynamicSampling, guide, startStep = 0 } = options;
    const { signal, ...sampling } = options.rollout;
    this.#options = options;
    this.#maxStaleness = maxStaleness;
    this.#isFixed = schedule === "fixed";
    this.#start = startStep;
    this.#perStep = this.#isFixed || dynamicSampling || guide ? 1 : groups;
    this.#queue = new StalenessQueue({
      batch: this.#perStep,
      maxStaleness,
      inOrder: this.#isFixed,
      startVersion: startStep,
    });
    const chosen = typeof workers === "number" ? localWorkers(workers) : workers;
    const { config, params } = model;
    // A worker is given whole groups.
    const rows = groupSize * Math.ceil((groups * (maxStaleness + 1)) / chosen.count);
    this.#pool = new WorkerPool(chosen, { config, device: params.embedding.device, template, rollout: sampling, rows }, how); // prettier-ignore
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  async play(step: number): Promise<PlayedStep | null> {
    if (!this.#isPublished) await this.#publish(step);
    // What came while this thread computed lies unread. First all of it, so that the oldest groups are taken and not those whose message is
    // read first. A turn of Node's event loop may leave out the ports in front of the one that it is at, so two.
    for (let turn = 0; turn < 2; turn++) await this.#loop.turn();
    for (const ticket of this.#queue.admit(this.#options.steps * this.#perStep - 1)) this.#begin(ticket);
    const began = performance.now();
    let dropped = 0;
    for (;;) {
      if (this.#options.rollout.signal?.aborted) return null;
      if (this.#failure) throw this.#failure.error;
      for (const old of this.#queue.expire()) {
        dropped += old.value.trajectories.length;
        this.#begin(old.ticket, old.value);
      }
      const units = this.#queue.take();
      if (units) return this.#finish(step, units, { idle: performance.now() - began, dropped });
      await new Promise<void>((resolve) => (this.#notify = resolve));
    }
  }

  /** The report with the metrics of the queue; and the workers get the new policy. */
  async updated(report: StepReport): Promise<StepReport> {
    this.#queue.advance();
    if (this.#queue.version < this.#options.steps) await this.#publish(this.#queue.version);
    const corrected = this.#maxStaleness > 0 && report.metrics["rollout_corr/kl"] === undefined;
    const scored = corrected ? offPolicyMetrics(report.rows.map((row) => row.trajectory), report.scores.logProbs) : {}; // prettier-ignore
    return { ...report, metrics: { ...report.metrics, ...scored, ...this.#metrics, ...this.#pool.metrics() } };
  }

  async close(): Promise<void> {
    this.#options.rollout.signal?.removeEventListener("abort", this.#onAbort);
    await this.#pool.close();
    this.#loop.close();
  }

  async #publish(version: number): Promise<void> {
    this.#isPublished = true;
    const oldest = this.#isFixed ? version - this.#maxStaleness : version;
    this.#pool.publish(await policyOf(this.#options.model, version), { lazily: this.#isFixed, oldest });
  }

  /** Has a unit played. @param again the same unit, when it was played before and got too old */
  #begin(ticket: number, again?: PlayedPart): void {
    const { groups } = this.#options;
    const step = Math.floor(ticket / this.#perStep);
    const part = this.#perStep === 1 ? { first: 0, count: groups } : { first: ticket % this.#perStep, count: 1, again };
    const pinned = this.#isFixed ? Math.max(this.#start, step - this.#maxStaleness) : undefined;
    const play: PlayEpisodes = (requests, { temperature }) =>
      this.#pool.play(requests, temperature === undefined ? {} : { temperature }, pinned);
    const unit = async (): Promise<void> => {
      const played = await playPart(this.#options, step, part, play);
      const trajectories = await withBaseline(this.#options, played, play);
      const oldest = oldestVersion(trajectories, this.#queue.version);
      this.#queue.push({ ticket, value: { ...played, trajectories }, oldest });
    };
    void unit()
      .catch((error: unknown) => void (this.#failure ??= { error: named(error) }))
      .then(() => this.#notify());
  }

  #finish(
    step: number,
    units: readonly Finished<PlayedPart>[],
    { idle, dropped }: { readonly idle: number; readonly dropped: number },
  ): PlayedStep {
    const played = finishStep(this.#options, step, units.map(({ value }) => value)); // prettier-ignore
    this.#trajectories = played.trajectories;
    this.#metrics = {
      ...stalenessMetrics(this.#trajectories, step),
      "async/queue_length": this.#queue.length,
      "async/playing": this.#queue.playing,
      "async/dropped_episodes": dropped,
      "async/learner_idle": idle / 1000,
    };
    return played;
  }
}

/** A worker's error is the run's. */
const named = (error: unknown): unknown =>
  error instanceof Error && !(error instanceof WorldgradError) ? new WorldgradError(`trainRlAsync: ${error.message}`, { cause: error }) : error; // prettier-ignore
