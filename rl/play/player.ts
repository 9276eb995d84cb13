/**
 * Who plays episodes: one row of a decoder for each live one, and a loop that reads and draws for all of them at once (rollout.ts says how).
 * Episodes can be added while others are played, and the model may get new weights in between: what an episode has read so far is
 * then read again, so that a token is drawn, and its log-probability recorded, by one version of the policy from the first
 * layer to the last (as AReaL, Fu et al. 2025, arXiv 2505.24298; PipelineRL, arXiv 2509.19128, keeps the old keys and values).
 */
import { Decoder, type DrawOptions, type Model } from "../../nn/index.ts";
import { Episode, type EpisodeLimits, type EpisodeRequest } from "./episode.ts";
import { EventLoop } from "./eventLoop.ts";
import type { Trajectory } from "../episode/stream.ts";

/** Called with the episode when it is over. */
export type Finished = (trajectory: Trajectory) => void;

/** An episode with its row of the decoder. */
interface Seat {
  readonly episode: Episode;
  readonly finished: Finished;
  readonly row: number;
  /** Its task has been read. */
  hasRead: boolean;
  /** Which weights have read what the row holds. */
  epoch: number;
}

export interface PlayerOptions {
  readonly limits: EpisodeLimits;
  readonly draw: DrawOptions;
  /** Episodes that are played at once. */
  readonly rows: number;
  /** Of a decoder on WebGPU, whose bits must not depend on how many rows there are. */
  readonly width?: number;
  /** Of the policy that the model is now; recorded with every token that it draws. */
  readonly version: number;
}

export class Player {
  readonly #limits: EpisodeLimits;
  readonly #drawOptions: DrawOptions;
  readonly #decoder: Decoder;
  readonly #loop: EventLoop = new EventLoop();
  readonly #free: number[];
  #version: number;
  /** How often the model got new weights. */
  #epoch = 0;
  /** Episodes that have not begun, in order. */
  readonly #waiting: { readonly request: EpisodeRequest; readonly finished: Finished }[] = [];
  /** Episodes that have begun and not ended. */
  readonly #live = new Set<Episode>();
  /** Episodes whose turn it is. */
  readonly #ready = new Set<Seat>();
  /** Episodes whose action is complete: their environments are to answer. */
  readonly #acted: Seat[] = [];
  /** One promise for each environment that has the turn; none rejects. */
  readonly #busy = new Set<Promise<void>>();
  /** By task: whose row is to read it, or has it. */
  readonly #tasks = new Map<string, Seat>();
  #failure: { readonly error: unknown } | undefined;
  #onAdded: () => void = () => {};

  constructor(model: Model, { limits, draw, rows, width, version }: PlayerOptions) {
    this.#limits = limits;
    this.#drawOptions = draw;
    this.#version = version;
    this.#decoder = new Decoder(model, rows, limits.maxTokens, width === undefined ? {} : { width });
    this.#free = Array.from({ length: rows }, (_, i) => rows - 1 - i);
  }

  /** An episode to play, behind those that are there. */
  add(request: EpisodeRequest, finished: Finished): void {
    this.#waiting.push({ request, finished });
    this.#onAdded();
  }

  /** Something is being played, or waits to be. */
  get hasWork(): boolean {
    return this.#live.size > 0 || this.#waiting.length > 0;
  }

  /** The model has new weights. From the next token on they are the policy. */
  refresh(version: number): void {
    this.#version = version;
    this.#epoch++;
    this.#tasks.clear();
  }

  /** Plays until there is nothing left to play. @throws if the model or a task is at fault; environments never are */
  async run(): Promise<void> {
    for (;;) {
      while (this.#canAdmit) this.#admit();
      // The executor computes while environments answer what was done in the step before.
      const take = this.#ready.size > 0 ? this.#draw() : undefined;
      for (const seat of this.#acted.splice(0)) this.#await(seat, seat.episode.answer());
      // Environments that answer at once have answered after this; timers go off, and whoever wants to abort is heard.
      await this.#loop.turn();
      if (take) await take();
      else if (!this.#failure && this.#ready.size === 0 && this.#busy.size > 0 && !this.#canAdmit) await this.#news();
      if (this.#failure) throw this.#failure.error;
      if (!this.hasWork) return;
    }
  }

  dispose(): void {
    for (const episode of this.#live) episode.close(); // some are left only if the rollout failed
    this.#decoder.dispose();
    this.#loop.close();
  }

  get #canAdmit(): boolean {
    return this.#free.length > 0 && this.#waiting.length > 0;
  }

  /** An environment has answered, or there is an episode to begin. */
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
    seat.episode.close();
    this.#live.delete(seat.episode);
    this.#ready.delete(seat);
    this.#decoder.truncate(seat.row, 0);
    this.#free.push(seat.row);
    seat.finished(seat.episode.trajectory());
  }

  /** Begins a forward pass over all that is ready, and a draw (or burst of draws) for each. @returns waits, and takes what was drawn */
  #draw(): () => Promise<void> {
    const version = this.#version; // new weights may come before the tokens are taken
    const seats = this.#share();
    const parts = seats.map(({ row, episode }) => ({ row, tokens: episode.pending, rng: episode.request.rng }));
    const finish = this.#decoder.start(parts, this.#drawOptions);
    return async () => {
      const drawn = await finish();
      seats.forEach((seat, i) => {
        const { episode, row } = seat;
        seat.hasRead = true;
        if (episode.takeTokens(drawn[i]!, version)) {
          // What was drawn behind the end is forgotten; the end itself is read together with the answer.
          this.#decoder.truncate(row, episode.stream.ids.length - 1);
          this.#ready.delete(seat);
          this.#acted.push(seat);
        } else if (episode.stop !== null) this.#end(seat);
      });
    };
  }

  /**
   * Who takes part in this step. Of the episodes that are to read the same task one does; the others sit out until it has, then
   * they copy all but the last token, which each reads itself, to draw what follows it. Who has read with older weights begins anew.
   */
  #share(): Seat[] {
    const copies: { from: number; to: number; length: number }[] = [];
    const taking = [...this.#ready].filter((seat) => {
      if (seat.epoch !== this.#epoch) {
        seat.epoch = this.#epoch;
        this.#decoder.truncate(seat.row, 0);
        seat.episode.pending = seat.episode.tokens;
      }
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
