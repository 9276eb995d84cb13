/**
 * The learner's side of its rollout workers: who plays what, and what happens when one dies.
 *
 * An episode is here until its trajectory has arrived. When a worker ends by itself, what it had not handed over yet is given to others, and
 * another worker takes its place; what it had handed over is kept. Episodes draw from random streams of their own, so who plays
 * one, and how often it was begun, changes nothing about it but the version that it is played by.
 */
import { fail } from "../../engine/errors.ts";
import type { EpisodeRequest } from "../play/episode.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { FromWorker, Job, Policy } from "./messages.ts";
import type { RolloutWorker, RolloutWorkers, WorkerEvents, WorkerSetup } from "./workers.ts";

export interface PoolOptions {
  /** Workers at most that take the place of dead ones, over the whole run; default 3 for each worker. */
  readonly maxRestarts?: number | undefined;
  /** Seconds without a sign of life after which a worker with a heartbeat counts as dead; default 60. */
  readonly patience?: number | undefined;
}

/** An episode that is asked for. */
interface Pending {
  readonly id: number;
  readonly request: EpisodeRequest;
  readonly sampling: Job["sampling"];
  /** The version that it is to be played by; undefined: the newest. */
  readonly pinned: number | undefined;
  readonly arrived: (trajectory: Trajectory) => void;
  readonly lost: (error: Error) => void;
}

/** A worker and what it has been given. */
interface Seat {
  readonly index: number;
  readonly worker: RolloutWorker;
  readonly jobs: Map<number, Pending>;
  /** The policy that it was sent last. */
  version: number | undefined;
  /** Looks at the clock since it was heard. */
  silent: number;
  /** When it ran out of work; undefined while it has some. */
  idleSince: number | undefined;
}

/** How often the pool looks whether its workers live, in a `patience`. */
const LOOKS = 4;

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
  /** Since the metrics were read last. */
  #since = performance.now();
  #idle = 0;
  #restarted = 0;
  #replayed = 0;

  constructor(workers: RolloutWorkers, setup: WorkerSetup, options: PoolOptions = {}) {
    const { maxRestarts = 3 * workers.count, patience = 60 } = options;
    this.#workers = workers;
    this.#setup = setup;
    this.#maxRestarts = maxRestarts;
    try {
      for (let index = 0; index < workers.count; index++) this.#start(index);
    } catch (error) {
      void this.close(); // those that did start would keep the process alive
      throw error;
    }
    if (workers.heartbeat) this.#clock = setInterval(() => this.#look(), (1000 * patience) / LOOKS);
  }

  /**
   * A new version of the policy. Workers whose episodes are not pinned take it at once.
   * @param oldest versions below this one are not asked for any more
   */
  publish(policy: Policy, { lazily, oldest }: { readonly lazily: boolean; readonly oldest: number }): void {
    this.#policies.set(policy.version, policy);
    this.#newest = policy.version;
    for (const version of this.#policies.keys()) if (version < oldest) this.#policies.delete(version);
    if (!lazily) for (const seat of this.#seats) this.#send(seat, policy.version);
  }

  /** Plays episodes; the result is in their order. @param pinned the one version that is to play them, else whichever is the newest */
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
    // Whatever happens to one of these, all are listened to: none may reject unheard.
    const all = Promise.all(results);
    try {
      this.#give(pending);
    } catch (error) {
      for (const { lost } of pending) lost(asError(error)); // a request that cannot be sent
    }
    return all;
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
    };
    [this.#since, this.#idle, this.#restarted, this.#replayed] = [now, 0, 0, 0];
    return metrics;
  }

  /** Ends all workers. What is still being played never arrives. */
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
   * Groups stay together, because their task is then read once; each goes to the worker with the least to do. What a dead worker leaves
   * behind may be of several steps: the same group and task, but to be played by another version.
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
    const jobs = pending.map(({ id, request, sampling, pinned }) => ({ id, request, sampling, pinned: pinned !== undefined })); // prettier-ignore
    seat.worker.post({ kind: "play", jobs });
  }

  /** Sends a policy, unless it is the one that the worker has. */
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
        reason = asError(error).message; // then there is one fewer
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

  /** The run is over. */
  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { jobs } of this.#seats) for (const { lost } of jobs.values()) lost(this.#failure);
  }

  /** Counts looks, not seconds: while the learner computes, nobody looks, and messages that lie here have not been read. */
  #look(): void {
    for (const seat of this.#seats) {
      if (seat.silent++ < LOOKS) continue;
      void seat.worker.terminate();
      this.#ended(seat, "no sign of life");
    }
  }
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
