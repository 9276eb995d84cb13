/**
 * The learner's side of its rollout workers: it gives episodes to workers and replaces workers that have died.
 *
 * The pool remembers an episode until its trajectory has arrived. If a worker ends by itself, another worker takes its
 * place, and its unfinished episodes are played again; finished episodes are kept. Each episode draws from a random
 * stream of its own, so which worker plays it, and how often it was begun, changes nothing about it except the version
 * of the policy that plays it.
 */
import { fail } from "../../engine/errors.ts";
import { number, type OptionsOf, type OptionTable } from "../../engine/optionTable.ts";
import type { EpisodeRequest } from "../../rl/play/episode.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import type { TokenStream, Trajectory } from "../../rl/episode/stream.ts";
import type { FromWorker, Job, Policy } from "./messages.ts";
import type { RolloutWorker, RolloutWorkers, WorkerEvents, WorkerSetup } from "./workers.ts";

export const POOL = {
  maxRestarts: number(undefined, "dead workers that are replaced at most; by default 3 per worker", {
    integer: true,
    min: 0,
  }),
  patience: number(60, "seconds of silence after which a worker with a heartbeat counts as dead", { above: 0 }),
};
export type PoolOptions = OptionsOf<OptionTable<typeof POOL>>;

/** An episode that was requested and has not arrived. */
interface Pending {
  readonly id: number;
  readonly request: EpisodeRequest;
  readonly sampling: Job["sampling"];
  /** The version of the policy that has to play it; undefined: the newest. */
  readonly pinned: number | undefined;
  readonly arrived: (trajectory: Trajectory) => void;
  readonly lost: (error: Error) => void;
}

/** A worker with the episodes that it plays. */
interface Seat {
  readonly index: number;
  readonly worker: RolloutWorker;
  readonly jobs: Map<number, Pending>;
  /** The version of the policy that it was sent last. */
  version: number | undefined;
  /** The number of checks by the pool since the worker's last message. */
  silent: number;
  /** The time at which it ran out of work; undefined while it has work. */
  idleSince: number | undefined;
}

/** The number of checks of the workers within `patience` seconds. */
const LOOKS = 4;

/** The rollout workers of a run. */
export class WorkerPool {
  readonly #workers: RolloutWorkers;
  readonly #setup: WorkerSetup;
  readonly #maxRestarts: number;
  readonly #policies = new Map<number, Policy>();
  #newest = -1;
  #seats: Seat[] = [];
  #nextId = 0;
  #restarts = 0;
  #failure: Error | undefined;
  #closed = false;
  readonly #clock: ReturnType<typeof setInterval> | undefined;
  /** The time at which the metrics were read last; the counters below begin there. */
  #since = performance.now();
  #idle = 0;
  #restarted = 0;
  #replayed = 0;

  constructor(workers: RolloutWorkers, setup: WorkerSetup, options: PoolOptions = {}) {
    const { maxRestarts = 3 * workers.count, patience = POOL.patience.default } = options;
    this.#workers = workers;
    this.#setup = setup;
    this.#maxRestarts = maxRestarts;
    try {
      for (let index = 0; index < workers.count; index++) this.#start(index);
    } catch (error) {
      void this.close(); // workers that did start would keep the process alive
      throw error;
    }
    if (workers.heartbeat) this.#clock = setInterval(() => this.#look(), (1000 * patience) / LOOKS);
  }

  /**
   * Publishes a new version of the policy, and sends it to all workers unless `lazily` is true.
   * @param oldest versions below this one are no longer needed
   */
  publish(policy: Policy, { lazily, oldest }: { readonly lazily: boolean; readonly oldest: number }): void {
    this.#policies.set(policy.version, policy);
    this.#newest = policy.version;
    for (const version of this.#policies.keys()) if (version < oldest) this.#policies.delete(version);
    if (!lazily) for (const seat of this.#seats) this.#send(seat, policy.version);
  }

  /**
   * Plays episodes; the result is in their order.
   * @param pinned the version that has to play them; default: the newest
   */
  async play(
    requests: readonly EpisodeRequest[],
    sampling: Job["sampling"],
    pinned?: number,
  ): Promise<readonly Trajectory[]> {
    const results: Promise<Trajectory>[] = [];
    const pending = requests.map((request): Pending => {
      const id = this.#nextId++;
      let settle: Pick<Pending, "arrived" | "lost"> | undefined;
      results.push(new Promise((arrived, lost) => (settle = { arrived, lost })));
      return { id, request, sampling, pinned, ...settle! };
    });
    // All promises get a handler now, so that none can be an unhandled rejection.
    const all = Promise.all(results);
    try {
      this.#give(pending);
    } catch (error) {
      for (const { lost } of pending) lost(asError(error)); // a request that cannot be sent
    }
    return all;
  }

  /** Tells the workers of episodes that are not needed any more. */
  learnt(streams: readonly TokenStream[]): void {
    this.#workers.learnt?.(streams);
  }

  /** Counts and shares since the last call. */
  metrics(): Metrics {
    const now = performance.now();
    for (const seat of this.#seats) {
      if (seat.idleSince === undefined) continue;
      this.#idle += now - seat.idleSince;
      seat.idleSince = now;
    }
    const metrics = {
      "async/worker_idle": this.#idle / Math.max(1e-9, (now - this.#since) * this.#workers.count),
      "async/restarts": this.#restarted,
      "async/replayed_episodes": this.#replayed,
      ...this.#workers.metrics?.(),
    };
    [this.#since, this.#idle, this.#restarted, this.#replayed] = [now, 0, 0, 0];
    return metrics;
  }

  /** Ends all workers. Episodes that are still being played never arrive. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#clock);
    const seats = this.#seats;
    this.#seats = [];
    await Promise.all(seats.map(({ worker }) => worker.terminate()));
  }

  #start(index: number): void {
    const events: WorkerEvents = {
      receive: (message) => this.#receive(seat, message),
      ended: (reason) => this.#ended(seat, reason),
    };
    const worker = this.#workers.start(index, this.#setup, events);
    const seat: Seat = { index, worker, jobs: new Map(), version: undefined, silent: 0, idleSince: performance.now() };
    this.#seats.push(seat);
    this.#seats.sort((a, b) => a.index - b.index);
  }

  /**
   * Gives episodes to workers. A group stays together, because its task is then read once, and goes to the worker with
   * the fewest episodes. The unfinished episodes of a dead worker may come from several steps, so the version is
   * compared too.
   */
  #give(pending: readonly Pending[]): void {
    if (this.#failure) {
      for (const { lost } of pending) lost(this.#failure);
      return;
    }
    for (let from = 0; from < pending.length;) {
      const { request: first, pinned } = pending[from]!;
      const belongs = ({ request, pinned: version }: Pending): boolean =>
        request.group === first.group && request.seed === first.seed && version === pinned;
      let to = from + 1;
      while (to < pending.length && belongs(pending[to]!)) to++;
      const seat = this.#seats.reduce((least, other) => (other.jobs.size < least.jobs.size ? other : least));
      this.#post(seat, pending.slice(from, to));
      from = to;
    }
  }

  #post(seat: Seat, pending: readonly Pending[]): void {
    if (seat.idleSince !== undefined) this.#idle += performance.now() - seat.idleSince;
    seat.idleSince = undefined;
    this.#send(seat, pending[0]!.pinned ?? this.#newest);
    for (const episode of pending) seat.jobs.set(episode.id, episode);
    const jobs = pending.map(({ pinned, id, request, sampling }): Job => {
      return { id, request, sampling, pinned: pinned !== undefined };
    });
    seat.worker.post({ kind: "play", jobs });
  }

  /** Sends a policy unless the worker has it already. */
  #send(seat: Seat, version: number): void {
    if (seat.version === version) return;
    const policy = this.#policies.get(version) ?? fail(`WorkerPool: the policy of version ${version} is not there`);
    seat.version = version;
    seat.worker.post({ kind: "policy", policy });
  }

  #receive(seat: Seat, message: FromWorker): void {
    if (this.#closed || !this.#seats.includes(seat)) return;
    seat.silent = 0;
    if (message.kind === "alive") return;
    if (message.kind === "failed") return this.#fail(new Error(message.message));
    const episode = seat.jobs.get(message.id);
    if (episode === undefined) return;
    seat.jobs.delete(message.id);
    if (seat.jobs.size === 0) seat.idleSince = performance.now();
    episode.arrived(message.trajectory);
  }

  #ended(seat: Seat, reason: string): void {
    if (this.#closed || !this.#seats.includes(seat)) return;
    if (seat.idleSince !== undefined) this.#idle += performance.now() - seat.idleSince;
    this.#seats = this.#seats.filter((other) => other !== seat);
    if (this.#restarts < this.#maxRestarts) {
      this.#restarts++;
      this.#restarted++;
      try {
        this.#start(seat.index);
      } catch (error) {
        reason = asError(error).message; // the run goes on with one worker fewer
      }
    }
    const unfinished = [...seat.jobs.values()];
    if (this.#seats.length > 0) {
      this.#replayed += unfinished.length;
      return this.#give(unfinished);
    }
    seat.jobs.clear();
    const error = new Error(
      `every rollout worker has ended, after ${this.#restarts} restarts; the last one: ${reason}`,
    );
    for (const { lost } of unfinished) lost(error);
    this.#fail(error);
  }

  /** Ends the run: all requested episodes reject with the error. */
  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { jobs } of this.#seats) for (const { lost } of jobs.values()) lost(this.#failure);
  }

  /**
   * Ends workers that are silent. It counts checks, not seconds: while the learner computes, messages that have arrived
   * are not read, and no check runs either.
   */
  #look(): void {
    for (const seat of this.#seats) {
      if (seat.silent++ < LOOKS) continue;
      void seat.worker.terminate();
      this.#ended(seat, "no sign of life");
    }
  }
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
