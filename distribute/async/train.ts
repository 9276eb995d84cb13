/**
 * Asynchronous reinforcement learning: rollout workers play while the learner learns. The loop is that of `trainRl`,
 * but its episodes come from workers with copies of the policy, through a queue that bounds their age. docs/async.md
 * says what is deterministic and explains the metrics.
 */
import { WorldgradError } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import { checkMethods } from "../../engine/options.ts";
import { number, oneOf, options, type OptionsOf, REQUIRED } from "../../engine/optionTable.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import { offPolicyMetrics } from "../../methods/importanceCorrection.ts";
import { finishStep, type PlayedPart, type PlayedStep, type PlayEpisodes, playPart } from "../../rl/tasks/play.ts";
import { EventLoop } from "../../rl/play/eventLoop.ts";
import { checkOffPolicy } from "../../rl/objective/objective.ts";
import { type EpisodeSource, withBaseline } from "../../rl/train/episodes.ts";
import type { EnvironmentOptions } from "../../rl/environment.ts";
import { checkRl, type RlOptions, trainFrom } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import type { TokenStream, Trajectory } from "../../rl/episode/stream.ts";
import type { Model } from "../../nn/index.ts";
import { frozenWeights, isPackedWords } from "./frozen.ts";
import { policyOf } from "./messages.ts";
import { POOL, WorkerPool } from "./pool.ts";
import { type Finished, StalenessQueue } from "./queue.ts";
import { checkCount, checkRoom } from "./count.ts";
import { inSharedMemory, localWorkers, type RolloutWorkers, type WorkerSetup } from "./workers.ts";

/** The values of `AsyncOptions.schedule`. */
export const SCHEDULES = ["free", "fixed"] as const;

const ASYNC = options("trainRlAsync", {
  /**
   * With 0 the run is exactly that of `trainRl`. Above 0 the objective has to correct for older policies: by
   * `importanceCorrection`, by the advantage `vtrace`, or by the ratio of its policy loss, which refers to the
   * log-probabilities that the sampler recorded.
   */
  maxStaleness: number(
    REQUIRED,
    "steps at most between the policy that drew a token and the step that learns from it",
    { integer: true, min: 0 },
  ),
  /**
   * `free`: workers install every new policy at once, in the middle of an episode, and a step learns from the groups
   * that are finished first. `fixed`: all episodes of step n are played by the policy of step n − maxStaleness, which
   * is slower, but the run is the same every time.
   */
  schedule: oneOf(SCHEDULES, "free", "whether workers take a new policy at once, or at fixed steps"),
  ...POOL,
});

/**
 * The options that `trainRlAsync` adds to those of `trainRl`: the workers and how often they are replaced, the largest
 * age of a token, and the order in which groups are learnt from.
 */
export interface AsyncOptions extends OptionsOf<typeof ASYNC> {
  /** The workers that play; a number means that many workers on this thread. */
  readonly workers: number | RolloutWorkers;
}

/** The options of `trainRlAsync`. */
export interface AsyncRlOptions<Own extends EnvironmentOptions = EnvironmentOptions>
  extends RlOptions<Own>, AsyncOptions {}

/**
 * Reinforcement learning with rollout workers. The reports are those of `trainRl`, with the metrics of docs/async.md.
 * @throws if the options do not fit together, if a rollout fails, or if all workers have died and no more restarts are
 *   allowed
 *
 * @example
 * const steps = trainRlAsync({ ...options, workers: 2, maxStaleness: 1 });
 * for await (const { step, metrics } of steps) console.log(step, metrics.reward);
 */
export async function* trainRlAsync<Own extends EnvironmentOptions>(
  options: AsyncRlOptions<Own>,
): AsyncGenerator<StepReport, void, void> {
  const { workers, maxStaleness, schedule, maxRestarts, patience, ...rest } = options;
  const how = ASYNC.read({ maxStaleness, schedule, maxRestarts, patience });
  checkAsync(options);
  const loop: RlOptions = maxStaleness > 0 ? { ...rest, offPolicy: true } : rest;
  checkRl(loop); // before any thread starts
  const chosen = typeof workers === "number" ? localWorkers(workers) : workers;
  const source = new AsyncSource(loop, { workers: chosen, ...how }, await frozenFor(loop.model, chosen));
  try {
    yield* trainFrom(loop, source);
  } finally {
    await source.close();
  }
}

/** The frozen weights under an adapter, for workers that do not share the learner's device; otherwise undefined. */
async function frozenFor({ trainable }: Model, { sharesDevice }: RolloutWorkers): Promise<WorkerSetup["frozen"]> {
  if (!trainable?.base || sharesDevice) return undefined;
  const weights = Object.entries(await frozenWeights(trainable.base));
  return Object.fromEntries(
    weights.map(([path, weight]) => [
      path,
      isPackedWords(weight) ? { ...weight, words: inSharedMemory(weight.words) } : inSharedMemory(weight),
    ]),
  );
}

function checkAsync(options: AsyncRlOptions): void {
  const { steps, startStep = 0, workers } = options;
  if (typeof workers !== "number") {
    checkMethods("trainRlAsync", "workers", workers, "a number of workers, or what localWorkers(2) makes", ["start"]);
    checkCount("trainRlAsync", workers.count);
  }
  check(
    Number.isInteger(steps) && Number.isInteger(startStep),
    () => `trainRlAsync: steps and startStep must be integers, got ${steps} and ${startStep}`,
  );
  checkOffPolicy(options.objective, options);
}

/** The oldest version that drew a token of these episodes; `none` if no token was drawn. */
function oldestVersion(trajectories: readonly Trajectory[], none: number): number {
  let oldest = Infinity;
  for (const { stream } of trajectories) {
    for (const version of stream.versions) if (version >= 0 && version < oldest) oldest = version;
  }
  return oldest === Infinity ? none : oldest;
}

/** The ages of the drawn tokens at step `step`, and the number of versions that wrote an episode. */
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

/** A played unit, and the streams of all episodes played for it; a round of dynamic sampling may leave out groups. */
interface Unit extends PlayedPart {
  readonly streams: readonly TokenStream[];
}

/**
 * Episodes from workers. A unit is one group, or all groups of a step if they are drawn together or played by one
 * version.
 */
class AsyncSource implements EpisodeSource {
  readonly #options: RlOptions;
  readonly #maxStaleness: number;
  readonly #isFixed: boolean;
  readonly #perStep: number;
  readonly #queue: StalenessQueue<Unit>;
  readonly #pool: WorkerPool;
  readonly #start: number;
  readonly #loop: EventLoop = new EventLoop();
  #failure: { readonly error: unknown } | undefined;
  #notify: () => void = () => {};
  readonly #onAbort = (): void => this.#notify();
  #isPublished = false;
  /** The metrics and episodes of the step that is being learnt. */
  #metrics: Metrics = {};
  #trajectories: readonly Trajectory[] = [];
  #learnt: readonly TokenStream[] = [];

  constructor(
    options: RlOptions,
    how: AsyncOptions & { readonly workers: RolloutWorkers },
    frozen: WorkerSetup["frozen"],
  ) {
    const { workers, maxStaleness, schedule } = how;
    const { model, template, groups, groupSize, plugins = [], startStep = 0 } = options;
    const { signal, ...sampling } = options.rollout;
    this.#options = options;
    this.#maxStaleness = maxStaleness;
    this.#isFixed = schedule === "fixed";
    this.#start = startStep;
    this.#perStep = this.#isFixed || plugins.some((plugin) => plugin.play !== undefined) ? 1 : groups;
    this.#queue = new StalenessQueue({
      batch: this.#perStep,
      maxStaleness,
      inOrder: this.#isFixed,
      startVersion: startStep,
    });
    const { config, params } = model;
    // A worker gets whole groups, and plays its share of the episodes that the environment can have at a time.
    const most = options.env.atOnce?.(options.envOptions) ?? Infinity;
    checkRoom("trainRlAsync", workers.count, { name: options.env.name, most });
    const whole = groupSize * Math.ceil((groups * (maxStaleness + 1)) / workers.count);
    const rows = Math.min(whole, Math.floor(most / workers.count));
    const { device } = params.embedding;
    const adapted = model.trainable ? { model, frozen } : {};
    this.#pool = new WorkerPool(workers, { config, ...adapted, device, template, rollout: sampling, rows }, how);
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  async play(step: number): Promise<PlayedStep | null> {
    if (!this.#isPublished) await this.#publish(step);
    // Messages that came while this thread computed are still unread. Read all of them first, so that the step takes
    // the oldest groups and not those whose message is read first. One turn of Node's event loop may skip some ports,
    // so there are two.
    for (let turn = 0; turn < 2; turn++) await this.#loop.turn();
    for (const ticket of this.#queue.admit(this.#options.steps * this.#perStep - 1)) this.#begin(ticket);
    const began = performance.now();
    let dropped = 0;
    for (;;) {
      if (this.#options.rollout.signal?.aborted) return null;
      if (this.#failure) throw this.#failure.error;
      for (const old of this.#queue.expire()) {
        dropped += old.value.trajectories.length;
        this.#pool.learnt(old.value.streams);
        this.#begin(old.ticket, old.value);
      }
      const units = this.#queue.take();
      if (units) return this.#finish(step, units, { idle: performance.now() - began, dropped });
      await new Promise<void>((resolve) => (this.#notify = resolve));
    }
  }

  /** Publishes the new policy, and returns the report with the metrics of the queue. */
  async updated(report: StepReport): Promise<StepReport> {
    this.#queue.advance();
    this.#pool.learnt(this.#learnt);
    if (this.#queue.version < this.#options.steps) await this.#publish(this.#queue.version);
    const corrected = this.#maxStaleness > 0 && report.metrics["rollout_corr/kl"] === undefined;
    const trajectories = report.rows.map((row) => row.trajectory);
    const scored = corrected ? offPolicyMetrics(trajectories, report.scores.logProbs) : {};
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

  /** Starts to play a unit. @param again the same unit, if it was played before and got too old */
  #begin(ticket: number, again?: PlayedPart): void {
    const { groups } = this.#options;
    const step = Math.floor(ticket / this.#perStep);
    const part = this.#perStep === 1 ? { first: 0, count: groups } : { first: ticket % this.#perStep, count: 1, again };
    const pinned = this.#isFixed ? Math.max(this.#start, step - this.#maxStaleness) : undefined;
    const streams: TokenStream[] = [];
    const play: PlayEpisodes = async (requests, { temperature }) => {
      const played = await this.#pool.play(requests, temperature === undefined ? {} : { temperature }, pinned);
      streams.push(...played.map(({ stream }) => stream));
      return played;
    };
    const unit = async (): Promise<void> => {
      const played = await playPart(this.#options, step, part, play);
      const trajectories = await withBaseline(this.#options, played, play);
      const oldest = oldestVersion(trajectories, this.#queue.version);
      this.#queue.push({ ticket, value: { ...played, trajectories, streams }, oldest });
    };
    void unit()
      .catch((error: unknown) => void (this.#failure ??= { error: named(error) }))
      .then(() => this.#notify());
  }

  #finish(
    step: number,
    units: readonly Finished<Unit>[],
    { idle, dropped }: { readonly idle: number; readonly dropped: number },
  ): PlayedStep {
    const parts = units.map(({ value }) => value);
    const played = finishStep(this.#options, step, parts);
    this.#trajectories = played.trajectories;
    this.#learnt = parts.flatMap(({ streams }) => streams);
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

/** The error of a worker as an error of the run. */
function named(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof WorldgradError) return error;
  return new WorldgradError(`trainRlAsync: ${error.message}`, { cause: error });
}
