/**
 * The loop that plays episodes. Each live episode has a row of a decoder, and each step of the loop reads and draws
 * tokens for all rows at once (rollout.ts says how). Episodes can be added while others are played, and the model may
 * get new weights in between. Then every live episode is read again from its start, so that each token is drawn, and
 * its log-probability recorded, with keys and values of one version of the policy (as in AReaL, Fu et al. 2025,
 * arXiv 2505.24298; PipelineRL, arXiv 2509.19128, keeps the old keys and values).
 */
import type { Decoder, DrawOptions } from "../../nn/index.ts";
import { Episode, type EpisodeLimits, type EpisodeRequest } from "./episode.ts";
import { EventLoop } from "./eventLoop.ts";
import type { Trajectory } from "../episode/stream.ts";

/** The callback of an episode that is over. */
export type Finished = (trajectory: Trajectory) => void;

/** What reads tokens and draws the next ones, in rows: a `Decoder`, or whatever else does that. */
export type Writer = Pick<Decoder, "start" | "truncate" | "copy" | "dispose">;

/** An episode with its row of the decoder. */
interface Seat {
  readonly episode: Episode;
  readonly finished: Finished;
  readonly row: number;
  /** Whether the model has read the task. */
  hasRead: boolean;
  /** The epoch (the number of weight changes so far) in which the row's tokens were read. */
  epoch: number;
}

export interface PlayerOptions {
  readonly limits: EpisodeLimits;
  readonly draw: DrawOptions;
  /** The number of episodes that are played at once: rows of the decoder. */
  readonly rows: number;
  /** The version of the policy, which is recorded with every token that it draws. */
  readonly version: number;
}

/** Plays episodes with one model. */
export class Player {
  readonly #limits: EpisodeLimits;
  readonly #drawOptions: DrawOptions;
  readonly #decoder: Writer;
  readonly #loop: EventLoop = new EventLoop();
  readonly #free: number[];
  #version: number;
  /** The number of times that the model has got new weights. */
  #epoch = 0;
  /** Episodes that have not begun, in order. */
  readonly #waiting: { readonly request: EpisodeRequest; readonly finished: Finished }[] = [];
  /** Episodes that have begun and not ended. */
  readonly #live = new Set<Episode>();
  /** Episodes for which the model has tokens to read and draw. */
  readonly #ready = new Set<Seat>();
  /** Episodes whose action is complete and whose environment has to answer next. */
  readonly #acted: Seat[] = [];
  /** One promise for each environment that is answering; none rejects. */
  readonly #busy = new Set<Promise<void>>();
  /** The episode whose row reads each task, or has read it, so that the others can copy it. */
  readonly #tasks = new Map<string, Seat>();
  #failure: { readonly error: unknown } | undefined;
  /** The error of the first task that alone fills the context, and whether another task has fitted. */
  #tooLong: Error | undefined;
  #hasFitted = false;
  #onAdded: () => void = () => {};

  /** @param decoder which the player disposes of */
  constructor(decoder: Writer, { limits, draw, rows, version }: PlayerOptions) {
    this.#limits = limits;
    this.#drawOptions = draw;
    this.#version = version;
    this.#decoder = decoder;
    this.#free = Array.from({ length: rows }, (_, i) => rows - 1 - i);
  }

  /** Adds an episode to the end of the queue. */
  add(request: EpisodeRequest, finished: Finished): void {
    this.#waiting.push({ request, finished });
    this.#onAdded();
  }

  /** Whether an episode is being played or waits to be. */
  get hasWork(): boolean {
    return this.#live.size > 0 || this.#waiting.length > 0;
  }

  /** Tells the player that the model has new weights, which draw the next token. */
  refresh(version: number): void {
    this.#version = version;
    this.#epoch++;
    this.#tasks.clear();
  }

  /**
   * Plays until there is nothing left to play.
   * @throws if the model fails, or no task so far has fitted; the failure of an environment only ends its episode
   */
  async run(): Promise<void> {
    for (;;) {
      while (this.#canAdmit) this.#admit();
      // The executor computes while environments answer the actions of the step before.
      const take = this.#ready.size > 0 ? this.#draw() : undefined;
      for (const seat of this.#acted.splice(0)) this.#await(seat, seat.episode.answer());
      // After this, environments that answer at once have answered, and timers and abort signals have fired.
      await this.#loop.turn();
      if (take) await take();
      else if (!this.#failure && this.#ready.size === 0 && this.#busy.size > 0 && !this.#canAdmit) await this.#news();
      if (this.#failure) throw this.#failure.error;
      if (!this.hasWork && this.#tooLong !== undefined && !this.#hasFitted) throw this.#tooLong;
      if (!this.hasWork) return;
    }
  }

  /**
   * Frees the decoder and closes the environments of episodes that are still live, which only happens after a failure.
   */
  dispose(): void {
    for (const episode of this.#live) episode.close();
    this.#decoder.dispose();
    this.#loop.close();
  }

  get #canAdmit(): boolean {
    return this.#free.length > 0 && this.#waiting.length > 0;
  }

  /** Resolves when an environment has answered or an episode was added. */
  #news(): Promise<void> {
    const added = new Promise<void>((resolve) => (this.#onAdded = resolve));
    return Promise.race([...this.#busy, added]);
  }

  /** Gives a free row to an episode. */
  #admit(): void {
    const { request, finished } = this.#waiting.shift()!;
    const episode = new Episode(request, this.#limits);
    this.#live.add(episode);
    const seat: Seat = { episode, finished, row: this.#free.pop()!, hasRead: false, epoch: this.#epoch };
    this.#await(seat, episode.begin());
  }

  /** Waits for the environment; then the episode is ready again, or over. */
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
    this.#tooLong ??= seat.episode.tooLong;
    this.#hasFitted ||= seat.episode.tooLong === undefined;
    seat.episode.close();
    this.#live.delete(seat.episode);
    this.#ready.delete(seat);
    this.#decoder.truncate(seat.row, 0);
    this.#free.push(seat.row);
    seat.finished(seat.episode.trajectory());
  }

  /**
   * Starts a forward pass over all ready episodes, with one draw (or a burst of draws) for each.
   * @returns a function that waits for the drawn tokens and gives them to the episodes
   */
  #draw(): () => Promise<void> {
    const version = this.#version; // new weights may come before the tokens are taken
    const seats = this.#share();
    const parts = seats.map(({ row, episode }) => ({ row, tokens: episode.pending, rng: episode.rng }));
    const finish = this.#decoder.start(parts, this.#drawOptions);
    return async () => {
      const drawn = await finish();
      seats.forEach((seat, i) => {
        const { episode, row } = seat;
        seat.hasRead = true;
        if (episode.takeTokens(drawn[i]!, version)) {
          // Tokens drawn after the end token are dropped; the end token is read together with the answer.
          this.#decoder.truncate(row, episode.length - 1);
          this.#ready.delete(seat);
          this.#acted.push(seat);
        } else if (episode.isToBeTold) {
          this.#ready.delete(seat);
          this.#await(seat, episode.tell());
        } else if (episode.stop !== null) this.#end(seat);
      });
    };
  }

  /**
   * The episodes that take part in this step. If several have to read the same task, only the first reads it. The
   * others wait for it and then copy its keys and values of all tokens but the last; each reads the last token itself,
   * because that gives the logits of the next one. An episode that was read with older weights is read again from its
   * start.
   */
  #share(): Seat[] {
    const copies: { from: number; to: number; length: number }[] = [];
    const taking = [...this.#ready].filter((seat) => {
      if (seat.epoch !== this.#epoch) {
        seat.epoch = this.#epoch;
        this.#decoder.truncate(seat.row, 0);
        seat.episode.pending = seat.episode.tokens;
      }
      if (seat.hasRead) {
        // What a new context does not have in common with the one before is forgotten.
        this.#decoder.truncate(seat.row, seat.episode.length - seat.episode.pending.length);
        return true;
      }
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

/** Plays the requested episodes to their end and disposes of the player. The result is in the order of the requests. */
export async function playAll(player: Player, requests: readonly EpisodeRequest[]): Promise<Trajectory[]> {
  const finished: Trajectory[] = [];
  try {
    requests.forEach((request, i) => player.add(request, (trajectory) => (finished[i] = trajectory)));
    await player.run();
    return finished;
  } finally {
    player.dispose();
  }
}

/** A key for the tokens that an episode begins with. */
const taskOf = ({ episode }: Seat): string => episode.task.join();
