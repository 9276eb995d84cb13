/**
 * Continues many prompts with one decoder while requests come and go (continuous batching, Yu et al. 2022, "Orca"). A
 * request has a row of the decoder's cache while its answer is being drawn. Each pass draws the next token of all rows,
 * and a free row takes the next request. Requests with different sampling settings (temperature, top-p) are drawn in
 * separate passes; those whose logits are needed on the host (`top`, `process`) share one.
 *
 * A free row keeps the tokens that it has read. If a prompt begins with them, as the next turn of a conversation does,
 * only the rest is read. This changes no drawn token, nor do the other rows: the token at position p uses the p-th
 * random number of the request's own stream.
 *
 * Weights are replaced between two tokens. Rows in use are then read again from their start, so that each token is
 * drawn with keys and values of one version of the weights; every token carries its version.
 */
import { check, fail } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { inCode, number, options, type OptionsOf } from "../../engine/optionTable.ts";
import { Decoder, type Model, type SampledToken, sampleToken } from "../../nn/index.ts";
import type { SamplingOptions } from "../../nn/sampler.ts";
import { likeliest, scorePrompt, type ServedToken } from "./scores.ts";
import { SharedSignals } from "./sharedSignals.ts";

/** The reason why a text ended: a stop token or stop string, the limit of tokens or of the context, or an abort. */
export type FinishReason = "stop" | "length" | "abort";

/**
 * Changes the logits [V] of the next token in place, −∞ for a token that cannot be drawn. An error that it throws ends
 * its request alone. @param drawn the tokens of the answer so far
 */
export type LogitsProcessor = (logits: Float64Array, drawn: readonly SampledToken[]) => void;

/** A prompt to be continued. */
export interface GenerationRequest {
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  readonly sampling: Required<SamplingOptions>;
  readonly rng: Rng;
  /** Tokens that end the text; they are part of the result. */
  readonly stopIds: readonly number[];
  /** The number of likeliest tokens that are reported with each token; 0: none. */
  readonly top: number;
  /** Changes logits before a token is drawn. The log-probabilities that tokens keep stay the model's own. */
  readonly process?: LogitsProcessor | undefined;
  /** Is called with each token; true ends the text (a stop string). */
  readonly onToken?: (token: ServedToken) => boolean;
  /** Ends the text: the row becomes free, and the promise resolves with the tokens so far and the reason `abort`. */
  readonly signal?: AbortSignal;
}

/** The continuation of a prompt. */
export interface Generation {
  readonly tokens: readonly ServedToken[];
  readonly finishReason: FinishReason;
}

/** A request and its row. */
interface Seat {
  readonly request: GenerationRequest;
  readonly tokens: ServedToken[];
  readonly done: (result: Generation) => void;
  readonly failed: (error: unknown) => void;
  row: number;
}

/** The tokens that a row has read, and the version of the weights that read them. */
interface Row {
  ids: number[];
  epoch: number;
  seat: Seat | undefined;
  /** A counter value of its last use: a new text takes the least recently used row. */
  used: number;
}

const ENGINE = options("GenerationEngine", {
  rows: number(8, "texts that are written at the same time; others wait", { integer: true, min: 1 }),
  maxWaiting: number(256, "requests that may wait for a row; more are refused", { integer: true, min: 0 }),
  capacity: number(undefined, "tokens of a text, prompt included; by default the model's positions", {
    integer: true,
    min: 2,
  }),
  version: number(0, "version of the weights", { integer: true, min: 0 }),
  onFailure: inCode<(error: unknown) => void>(
    "is called if a pass fails",
    "a function",
    (f) => typeof f === "function",
  ),
});
/** Tokens of a pass on WebGPU, unless there are more rows: a prompt of 500 tokens takes eight passes. */
const GPU_WIDTH = 64;

/** Options of `GenerationEngine`. */
export type EngineOptions = OptionsOf<typeof ENGINE>;

/** The error for a request that comes while too many are waiting. */
export class OverloadedError extends Error {}

/** Continues many texts at once with one model. It has to be closed. */
export class GenerationEngine {
  readonly model: Model;
  readonly capacity: number;
  readonly #decoder: Decoder;
  readonly #rows: Row[];
  readonly #waiting: Seat[] = [];
  readonly #ends = new SharedSignals<Seat>();
  readonly #maxWaiting: number;
  readonly #onFailure: (error: unknown) => void;
  /** Functions that wait to run between two tokens. */
  readonly #between: (() => Promise<void>)[] = [];
  #version: number;
  #epoch = 0;
  #clock = 0;
  #isPaused = false;
  #isClosed = false;
  #isRunning = false;

  constructor(model: Model, given: EngineOptions = {}) {
    const { rows, maxWaiting, capacity = model.config.maxPositions, version, onFailure } = ENGINE.read(given);
    const { maxPositions } = model.config;
    check(
      capacity <= maxPositions,
      () => `GenerationEngine: capacity ${capacity} exceeds the model's ${maxPositions} positions`,
    );
    this.model = model;
    this.capacity = capacity;
    this.#maxWaiting = maxWaiting;
    this.#version = version;
    this.#onFailure = onFailure ?? (() => undefined);
    // On WebGPU bits depend on how wide a pass is; with one width an answer does not depend on other requests.
    const isGpu = model.params.embedding.device.kind === "webgpu";
    this.#decoder = new Decoder(model, rows, capacity, isGpu ? { width: Math.max(rows, GPU_WIDTH) } : {});
    this.#rows = Array.from({ length: rows }, () => ({ ids: [], epoch: 0, seat: undefined, used: 0 }));
  }

  /** The version of the weights that draw the next token. */
  get version(): number {
    return this.#version;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Requests that have a row, and requests that wait for one. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#rows.filter(({ seat }) => seat).length, waiting: this.#waiting.length };
  }

  /**
   * Continues a prompt.
   * @throws OverloadedError if too many wait; WorldgradError if the prompt is empty, too long, or has unknown ids
   */
  async generate(request: GenerationRequest): Promise<Generation> {
    const { prompt, signal } = request;
    this.#checkPrompt(prompt, this.capacity - 1);
    if (signal?.aborted) return { tokens: [], finishReason: "abort" };
    this.checkRoom(1);
    return await new Promise<Generation>((resolve, reject) => {
      const seat: Seat = {
        request,
        tokens: [],
        row: -1,
        done: (result) => (this.#ends.forget(seat, signal), resolve(result)),
        failed: (error) => (this.#ends.forget(seat, signal), reject(error)),
      };
      this.#ends.follow(seat, signal, (seats) => this.#abort(seats));
      this.#waiting.push(seat);
      this.#start();
    });
  }

  /**
   * Log-probabilities of a prompt's tokens from the second on, each behind those before it, with `top` likeliest ones.
   * They are computed between two tokens, with one version of the weights.
   * @throws as `generate`
   */
  async score(prompt: readonly number[], top: number): Promise<ServedToken[]> {
    this.#checkPrompt(prompt, this.capacity);
    let scored: ServedToken[] = [];
    await this.#atRest(async () => {
      scored = await scorePrompt(this.model, prompt, top, this.#version).catch((error: unknown) => {
        this.#onFailure(error);
        throw failureOf(error);
      });
    });
    return scored;
  }

  /** @throws WorldgradError if a prompt is empty, too long, or has unknown ids */
  #checkPrompt(prompt: readonly number[], longest: number): void {
    const { vocabSize } = this.model.config;
    check(!this.#isClosed, () => "the server is closing");
    check(prompt.length > 0, () => "the prompt has no tokens");
    check(
      prompt.length <= longest,
      () => `the prompt has ${prompt.length} tokens, the context is ${this.capacity} with the answer's`,
    );
    const wrong = prompt.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    check(wrong === undefined, () => `the prompt has the token id ${wrong}, the vocabulary has ${vocabSize}`);
  }

  /**
   * Checks that `count` further requests can be drawn or wait now.
   * @throws OverloadedError if they cannot; WorldgradError if they never can
   */
  checkRoom(count: number): void {
    const { running, waiting } = this.load;
    const most = this.#rows.length + this.#maxWaiting;
    check(count <= most, () => `${count} answers are asked for, at most ${most} can be drawn or wait at a time`);
    if (running + waiting + count > most) throw new OverloadedError(`${waiting} requests are waiting; try again later`);
  }

  #abort(seats: ReadonlySet<Seat>): void {
    const waiting = this.#waiting.splice(0);
    this.#waiting.push(...waiting.filter((seat) => !seats.has(seat)));
    for (const seat of seats) {
      if (seat.row >= 0) this.#leave(seat, "abort");
      else seat.done({ tokens: [], finishReason: "abort" });
    }
  }

  /**
   * Runs `change` between two tokens, also while drawing is paused; afterwards the weights have the version `version`
   * (a function is called for it then). If `change` throws, this throws the same error, and the version stays.
   */
  replaceWeights(change: () => void | Promise<void>, version: number | (() => number)): Promise<void> {
    return this.#atRest(async () => {
      await change();
      this.refresh(typeof version === "number" ? version : version());
    });
  }

  /** Tells the engine that the weights were changed from outside while it was paused. */
  refresh(version: number): void {
    this.#version = version;
    this.#epoch++;
  }

  /**
   * Draws no further token until `resume`; resolves when none is being drawn. Requests are kept and new ones wait; with
   * `abort` all present requests end with the tokens that they have.
   */
  pause({ abort = false }: { readonly abort?: boolean } = {}): Promise<void> {
    this.#isPaused = true;
    return this.#atRest(async () => {
      if (!abort) return;
      for (const seat of this.#waiting.splice(0)) seat.done({ tokens: [], finishReason: "abort" });
      for (const { seat } of this.#rows) if (seat) this.#leave(seat, "abort");
    });
  }

  /** Ends the pause. */
  resume(): void {
    this.#isPaused = false;
    this.#start();
  }

  /** Ends every request and frees the decoder. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.pause({ abort: true });
    this.#isClosed = true;
    this.#decoder.dispose();
  }

  /** Runs `work` when no token is being drawn. */
  #atRest(work: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#between.push(() => work().then(resolve, reject));
      this.#start();
    });
  }

  #start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#run().catch((error: unknown) => {
      this.#isRunning = false; // the next request finds the engine at rest
      for (const seat of this.#waiting.splice(0)) seat.failed(failureOf(error));
      for (const { seat } of this.#rows) if (seat) this.#fail(seat, failureOf(error));
      this.#onFailure(error);
    });
  }

  /** Runs until there is nothing to do. */
  async #run(): Promise<void> {
    for (;;) {
      for (const work of this.#between.splice(0)) await work();
      if (!this.#isPaused) this.#admit();
      const seats = this.#rows.flatMap(({ seat }) => seat ?? []);
      if (this.#between.length > 0) continue;
      if (this.#isPaused || seats.length === 0) {
        this.#isRunning = false; // before anything else runs, so that a new request starts the loop again
        return;
      }
      for (const group of alike(seats)) await this.#draw(group);
      // Gives sockets time to be read and closed.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Gives free rows to requests that wait. */
  #admit(): void {
    while (this.#waiting.length > 0) {
      const free = this.#rows.flatMap((row, n) => (row.seat ? [] : [{ row, n }]));
      if (free.length === 0) return;
      const seat = this.#waiting.shift()!;
      const { prompt } = seat.request;
      const kept = ({ ids, epoch }: Row): number => {
        if (epoch !== this.#epoch) return 0;
        const differs = ids.findIndex((id, t) => id !== prompt[t]);
        // The last token is read again, because the logits of the next token come from it.
        return Math.min(differs < 0 ? ids.length : differs, prompt.length - 1);
      };
      const best = free.reduce((a, b) => {
        const [ofA, ofB] = [kept(a.row), kept(b.row)];
        return ofB > ofA || (ofB === ofA && b.row.used < a.row.used) ? b : a;
      });
      const length = kept(best.row);
      this.#decoder.truncate(best.n, length);
      Object.assign(best.row, { ids: best.row.ids.slice(0, length), epoch: this.#epoch, seat, used: ++this.#clock });
      seat.row = best.n;
    }
  }

  /** Draws the next token of requests that are alike. */
  async #draw(seats: readonly Seat[]): Promise<void> {
    const { sampling } = seats[0]!.request;
    const version = this.#version;
    const parts = seats.map((seat) => {
      const row = this.#rows[seat.row]!;
      if (row.epoch !== this.#epoch) {
        this.#decoder.truncate(seat.row, 0);
        Object.assign(row, { ids: [], epoch: this.#epoch });
      }
      const all = [...seat.request.prompt, ...seat.tokens.map(({ id }) => id)];
      return { row: seat.row, tokens: all.slice(row.ids.length), rng: seat.request.rng };
    });
    try {
      const drawn = isOnHost(seats[0]!)
        ? await this.#drawOnHost(seats, parts)
        : (await this.#decoder.draw(parts, sampling)).map(([token]) => token!);
      parts.forEach(({ row, tokens }) => void this.#rows[row]!.ids.push(...tokens));
      seats.forEach((seat, i) => {
        const token = drawn[i]!;
        // A request that was aborted meanwhile has no row any more.
        if (seat.row !== parts[i]!.row) return;
        if (!(token instanceof Error)) return this.#take(seat, { ...token, version });
        this.#free(seat, true);
        seat.failed(token);
      });
    } catch (error) {
      // Weights that have diverged, or no memory, are no fault of a request, which has been checked before.
      for (const seat of seats) if (seat.row >= 0) this.#fail(seat, failureOf(error));
      this.#onFailure(error);
    }
  }

  /**
   * Draws like `Decoder.draw`, but on the host: changes logits, and reports the likeliest tokens.
   * @returns for each request a token, or the error of its logits processor
   */
  async #drawOnHost(
    seats: readonly Seat[],
    parts: readonly { readonly row: number; readonly tokens: readonly number[]; readonly rng: Rng }[],
  ): Promise<((SampledToken & Pick<ServedToken, "top">) | Error)[]> {
    const lists = this.#rows.map((): readonly number[] => []);
    for (const { row, tokens } of parts) lists[row] = tokens;
    const values = await this.#decoder.feed(lists);
    const { vocabSize: V } = this.model.config;
    return parts.map(({ row, rng }, i) => {
      const { request, tokens } = seats[i]!;
      const logits = values.subarray(row * V, (row + 1) * V);
      const stream = new Rng({ key: rng.key, counter: this.#decoder.lengths[row]! });
      const changed = request.process === undefined ? logits : Float64Array.from(logits);
      try {
        request.process?.(changed as Float64Array, tokens);
        check(
          changed === logits || changed.some((logit) => logit !== -Infinity),
          () => "no token is left that could be drawn: the request forbids all of them here",
        );
      } catch (error) {
        return error as Error;
      }
      const token = sampleToken(logits, request.sampling, stream, changed);
      return request.top === 0 ? token : { ...token, top: likeliest(logits, request.top) };
    });
  }

  #take(seat: Seat, token: ServedToken): void {
    const { maxTokens, stopIds, prompt, onToken } = seat.request;
    seat.tokens.push(token);
    let isStopped: boolean;
    try {
      isStopped = onToken?.(token) ?? false;
    } catch (error) {
      this.#free(seat, true);
      return seat.failed(error);
    }
    if (seat.row < 0) return; // it was aborted by the listener
    if (isStopped || stopIds.includes(token.id)) return this.#leave(seat, "stop");
    const length = prompt.length + seat.tokens.length;
    if (seat.tokens.length >= maxTokens || length >= this.capacity) this.#leave(seat, "length");
  }

  #leave(seat: Seat, finishReason: FinishReason): void {
    this.#free(seat, true);
    seat.done({ tokens: seat.tokens, finishReason });
  }

  #fail(seat: Seat, error: Error): void {
    this.#free(seat, false);
    seat.failed(error);
  }

  /** @param isRead whether a request that continues the row's tokens may use them */
  #free(seat: Seat, isRead: boolean): void {
    const row = this.#rows[seat.row] ?? fail("GenerationEngine: a request has no row");
    if (!isRead) row.epoch = -1;
    row.seat = undefined;
    row.used = ++this.#clock;
    seat.row = -1;
  }
}

const failureOf = (error: unknown): Error => new Error(`drawing failed: ${(error as Error).message}`, { cause: error });

/** Whether a request's tokens are drawn on the host, each with its own settings. */
const isOnHost = ({ request: { top, process } }: Seat): boolean => top > 0 || process !== undefined;

/** Groups of requests that can be drawn in one pass: those on the host, and those with equal sampling settings. */
function alike(seats: readonly Seat[]): Seat[][] {
  const groups = new Map<string, Seat[]>();
  for (const seat of seats) {
    const key = isOnHost(seat) ? "host" : JSON.stringify(seat.request.sampling);
    const known = groups.get(key);
    if (known) known.push(seat);
    else groups.set(key, [seat]);
  }
  return [...groups.values()];
}
