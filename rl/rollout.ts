/**
 * Rollouts: the model acts in environments until every episode has ended. Each live episode has a row of one decoder. A step reads
 * what is new to every row that has something new (one token, a whole answer, a task) in one forward pass, and draws the
 * next token of each. Rows whose environment is still busy are simply not in it; a row that becomes free takes the next episode.
 * A task that several episodes share is read once and copied.
 *
 * What an episode does follows from its request and the model alone: its random numbers are its own stream's, by position, and
 * the bits of a row do not depend on the other rows. Neither timing nor company changes a token.
 *
 * An environment that throws or takes too long ends its episode, masked; a bad action never does: the error comes back as an
 * observation.
 */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import { bytesPerElement } from "../engine/types.ts";
import { Decoder, type DrawOptions } from "../nn/decoder.ts";
import { burstFor } from "../nn/generate.ts";
import { checkSampling, SAMPLING_KEYS, type SamplingOptions } from "../nn/sampler.ts";
import type { Model } from "../nn/transformer.ts";
import { Episode, type EpisodeLimits, type EpisodeRequest } from "./episodes.ts";
import type { Trajectory } from "./stream.ts";
import type { Template } from "./template.ts";

export type { EpisodeRequest } from "./episodes.ts";

export interface RolloutOptions extends SamplingOptions {
  /** Actions at most in an episode; default 8. */
  readonly maxTurns?: number;
  /** Tokens at most in one action, its end included; default 48. */
  readonly maxActionTokens?: number;
  /** Tokens at most of one answer; longer ones are cut in the middle. Default 96. */
  readonly maxObservationTokens?: number;
  /** Tokens at most in an episode; default: the model's positions. */
  readonly maxTokens?: number;
  /** Milliseconds that an environment may take for one call; default 10,000. */
  readonly timeout?: number;
  /** Ends the rollout early: live episodes stop with `aborted`. */
  readonly signal?: AbortSignal;
  /** Episodes that are played at once; default 256, fewer if their cache would take more than 512 MiB. */
  readonly maxConcurrent?: number;
  /** Tokens drawn in a row before the host looks at them; default 1, on WebGPU 4. No token depends on it. */
  readonly burst?: number;
}

const ROLLOUT_KEYS: readonly string[] = [
  ...SAMPLING_KEYS,
  "maxTurns",
  "maxActionTokens",
  "maxObservationTokens",
  "maxTokens",
  "timeout",
  "signal",
  "maxConcurrent",
  "burst",
];

const CACHE_BYTES = 2 ** 29;
/** WebGPU binds no more of a buffer by default. */
const TENSOR_BYTES = 2 ** 27;
const MOST_ROWS = 256;

function rowsThatFit({ config, params }: Model, maxTokens: number): number {
  const bytes = maxTokens * config.kvHeads * config.headDim * bytesPerElement(params.embedding.dtype);
  const fit = Math.min(CACHE_BYTES / (2 * config.layers * bytes), TENSOR_BYTES / bytes, MOST_ROWS);
  return Math.max(1, Math.floor(fit));
}

/** Plays all requested episodes to their end. The result is in the order of the requests. */
export async function rollout(
  model: Model,
  template: Template,
  requests: readonly EpisodeRequest[],
  options: RolloutOptions = {},
): Promise<Trajectory[]> {
  checkKeys("rollout", options, ROLLOUT_KEYS);
  const { maxTurns = 8, maxActionTokens = 48, maxObservationTokens = 96, timeout = 10_000, signal } = options;
  const { maxTokens = model.config.maxPositions, burst = burstFor(model.params.embedding.device) } = options;
  const sampling = checkSampling(options);
  check(requests.length > 0, () => "rollout: the list of episodes is empty");
  check(
    maxTokens <= model.config.maxPositions,
    () => `rollout: maxTokens ${maxTokens} exceeds the model's ${model.config.maxPositions} positions`,
  );
  const { maxConcurrent = rowsThatFit(model, maxTokens) } = options;
  for (const [name, value] of Object.entries({
    maxTurns,
    maxActionTokens,
    maxObservationTokens,
    maxTokens,
    maxConcurrent,
    burst,
  })) {
    // prettier-ignore
    check(Number.isInteger(value) && value >= 1, () => `rollout: ${name} must be an integer ≥ 1, got ${value}`);
  }
  check(timeout > 0, () => `rollout: timeout must be > 0 milliseconds, got ${timeout}`);
  const temperature = sampling.temperature === 0 ? 1 : sampling.temperature;
  const limits = { template, maxTurns, maxActionTokens, maxObservationTokens, maxTokens, timeout, signal, temperature };
  const player = new Player(model, requests, limits, maxConcurrent);
  try {
    return await player.play({ ...sampling, burst });
  } finally {
    player.dispose();
  }
}

/** An episode with its row of the decoder. */
interface Seat {
  readonly episode: Episode;
  /** Which of the requests it plays. */
  readonly index: number;
  readonly row: number;
  /** Its task has been read. */
  hasRead: boolean;
}

class Player {
  readonly #requests: readonly EpisodeRequest[];
  readonly #limits: EpisodeLimits;
  readonly #decoder: Decoder;
  readonly #finished: Trajectory[] = [];
  readonly #loop: EventLoop = new EventLoop();
  readonly #free: number[];
  #next = 0;
  /** Episodes that have begun and not ended. */
  readonly #live = new Set<Episode>();
  /** Episodes whose turn it is. */
  readonly #ready = new Set<Seat>();
  /** One promise for each environment that has the turn; none rejects. */
  readonly #busy = new Set<Promise<void>>();
  /** By task: whose row is to read it, or has it. */
  readonly #tasks = new Map<string, Seat>();
  #failure: { readonly error: unknown } | undefined;

  constructor(model: Model, requests: readonly EpisodeRequest[], limits: EpisodeLimits, maxConcurrent: number) {
    const rows = Math.min(maxConcurrent, requests.length);
    this.#requests = requests;
    this.#limits = limits;
    // On WebGPU the bits of a matrix product may depend on its rows, so these must not depend on how many requests there are.
    const isGpu = model.params.embedding.device.kind === "webgpu";
    const width = isGpu ? { width: 2 ** Math.ceil(Math.log2(maxConcurrent)) } : {};
    this.#decoder = new Decoder(model, rows, limits.maxTokens, width);
    this.#free = Array.from({ length: rows }, (_, i) => rows - 1 - i);
  }

  async play(options: DrawOptions): Promise<Trajectory[]> {
    for (;;) {
      while (this.#canAdmit) this.#admit(this.#next++);
      // Environments that answer at once have answered after this; timers go off, and whoever wants to abort is heard.
      await this.#loop.turn();
      if (this.#ready.size === 0 && this.#busy.size > 0 && !this.#canAdmit) await Promise.race(this.#busy);
      if (this.#failure) throw this.#failure.error;
      if (this.#ready.size > 0) await this.#step(options);
      else if (this.#busy.size === 0 && this.#next === this.#requests.length) return this.#finished;
    }
  }

  dispose(): void {
    for (const episode of this.#live) episode.close(); // some are left only if the rollout failed
    this.#decoder.dispose();
    this.#loop.close();
  }

  get #canAdmit(): boolean {
    return this.#free.length > 0 && this.#next < this.#requests.length;
  }

  /** Gives a free row to an episode. */
  #admit(index: number): void {
    const episode = new Episode(this.#requests[index]!, this.#limits);
    this.#live.add(episode);
    const seat: Seat = { episode, index, row: this.#free.pop()!, hasRead: false };
    this.#await(seat, episode.begin());
  }

  /** The environment has the turn; then the episode is ready again, or over. */
  #await(seat: Seat, answer: Promise<void>): void {
    const waiting: Promise<void> = answer
      .then(() => (seat.episode.stop === null ? void this.#ready.add(seat) : this.#end(seat)))
      .catch((error: unknown) => void (this.#failure ??= { error }))
      .then(() => void this.#busy.delete(waiting));
    this.#busy.add(waiting);
  }

  #end(seat: Seat): void {
    const task = taskOf(seat);
    if (this.#tasks.get(task) === seat) this.#tasks.delete(task);
    this.#finished[seat.index] = seat.episode.trajectory();
    seat.episode.close();
    this.#live.delete(seat.episode);
    this.#ready.delete(seat);
    this.#decoder.truncate(seat.row, 0);
    this.#free.push(seat.row);
  }

  /** One forward pass over all that is ready, and one draw (or burst of draws) for each. */
  async #step(options: DrawOptions): Promise<void> {
    const seats = this.#share();
    const parts = seats.map(({ row, episode }) => ({ row, tokens: episode.pending, rng: episode.request.rng }));
    const drawn = await this.#decoder.draw(parts, options);
    seats.forEach((seat, i) => {
      const { episode, row } = seat;
      seat.hasRead = true;
      if (episode.takeTokens(drawn[i]!)) {
        // What was drawn behind the end is forgotten; the end itself is read together with the answer.
        this.#decoder.truncate(row, episode.stream.ids.length - 1);
        this.#ready.delete(seat);
        this.#await(seat, episode.answer());
      } else if (episode.stop !== null) this.#end(seat);
    });
  }

  /**
   * Who takes part in this step. Of the episodes that are to read the same task one does; the others sit out until it has, then
   * they copy all but the last token, which each reads itself, to draw what follows it.
   */
  #share(): Seat[] {
    const copies: { from: number; to: number; length: number }[] = [];
    const taking = [...this.#ready].filter((seat) => {
      if (seat.hasRead) return true;
      const task = taskOf(seat);
      const first = this.#tasks.get(task);
      if (first === undefined) this.#tasks.set(task, seat);
      if (first === undefined || first === seat) return true;
      if (!first.hasRead) return false;
      const { pending } = seat.episode;
      copies.push({ from: first.row, to: seat.row, length: pending.length - 1 });
      seat.episode.pending = pending.slice(-1);
      return true;
    });
    this.#decoder.copy(copies);
    return taking;
  }
}

/** The tokens that an episode begins with, as a key. */
const taskOf = ({ episode }: Seat): string => episode.task.join();

/** Lets everything run that is ready to run: a message to oneself comes after it. */
class EventLoop {
  readonly #channel: MessageChannel = new MessageChannel();
  #resume: () => void = () => {};

  constructor() {
    this.#channel.port1.addEventListener("message", () => this.#resume());
    this.#channel.port1.start();
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = resolve;
      this.#channel.port2.postMessage(0);
    });
  }

  /** An open channel would keep Node from ending. */
  close(): void {
    this.#channel.port1.close();
  }
}
