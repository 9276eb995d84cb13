/**
 * One WebSocket to an OpenEnv server, and what its frames mean. The protocol is that of the server's `/ws` endpoint
 * (OpenEnv, huggingface/OpenEnv, `core/env_server`, read at its revision of June 2026): JSON objects `{ type, data }`
 * in text frames, one answer for each request, in order, without numbers. Therefore an answer that nobody waits for any
 * more must never be taken for the next one's: a call that times out or is aborted ends the connection.
 *
 * What a real server says is recorded in tests/environments/openenv-recorded.json; scripts/checkOpenEnv.ts compares
 * another with it.
 *
 * Runs in browsers and in Node: the class of the socket is given (see `session.ts`).
 */
import { WorldgradError } from "../../engine/errors.ts";
import { LONGEST_TIMER, nestsBeyond, showValue } from "../../engine/options.ts";

/** The part of a WebSocket that is used here: of the standard class (browsers, Node ≥ 22), or of the package `ws`. */
export interface SocketLike {
  send(data: string): void;
  close(): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}
export type SocketConstructor = new (url: string) => SocketLike;

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** A frame of the protocol. */
export interface Frame {
  readonly type: string;
  readonly data: Fields;
}

/**
 * An error of the server or of the connection; `code` is for programs. The server's codes: INVALID_JSON, UNKNOWN_TYPE,
 * VALIDATION_ERROR (the action does not fit the environment's schema), EXECUTION_ERROR (the environment threw); after
 * CAPACITY_REACHED, FACTORY_ERROR and SESSION_ERROR it closes. Ours: CONNECT_FAILED, CONNECTION_LOST, TIMEOUT,
 * PROTOCOL_ERROR (a frame that means nothing), MCP_ERROR.
 */
export class OpenEnvError extends WorldgradError {
  override readonly code: string;
  /** The rest of the server's message: `errors` of a validation, `active_sessions`, … */
  readonly details: Fields;

  constructor(code: string, message: string, details: Fields = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** Errors that end the session; the server says them unasked, too. */
const FATAL: ReadonlySet<string> = new Set(["CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"]);

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function parseFrame(raw: unknown): Frame {
  const malformed = (what: string): never => {
    throw new OpenEnvError(
      "PROTOCOL_ERROR",
      `openenv: the server sent ${what}: ${showValue(typeof raw === "string" ? raw.slice(0, 99) : raw)}`,
    );
  };
  if (typeof raw !== "string") return malformed("a frame that is not text");
  if (raw.length > MOST_LETTERS) return malformed(`a frame of ${raw.length} letters, more than ${MOST_LETTERS}`);
  let frame: unknown;
  try {
    frame = JSON.parse(raw);
  } catch {
    return malformed("a frame that is not JSON");
  }
  if (!isFields(frame) || typeof frame["type"] !== "string" || !isFields(frame["data"])) {
    return malformed("a frame that is not { type, data }");
  }
  if (nestsBeyond(frame["data"], MOST_LEVELS)) return malformed(`a frame of more than ${MOST_LEVELS} levels`);
  return { type: frame["type"], data: frame["data"] };
}

function serverError(data: Fields): OpenEnvError {
  const { message, code, ...details } = data;
  const name = typeof code === "string" ? code : "UNKNOWN";
  const text = typeof message === "string" ? message : showValue(message);
  return new OpenEnvError(name, `openenv: the server says ${name}: ${text}`, details);
}

/** Letters of a frame; the connection of a longer one ends before it is read. */
const MOST_LETTERS = 10_000_000;

/** Levels of a frame's data; `JSON.stringify`, of an observation, fails at some thousands, Python's JSON at 1,000. */
const MOST_LEVELS = 1000;

/** The limits on the time of one call. */
export interface Patience {
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * `start` begins something that ends with a call of `resolve` or `reject`; if it takes too long or is aborted, `giveUp`
 * is called and the promise rejects. Leaves neither timer nor listener behind.
 */
function within<T>(
  { timeout, signal }: Patience,
  what: string,
  start: (resolve: (value: T) => void, reject: (error: Error) => void) => void,
  giveUp: (error: Error) => void,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const tidy = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    };
    const stop = (error: Error): void => {
      tidy();
      reject(error);
      giveUp(error);
    };
    const onAbort = (): void => stop(reasonOf(signal!));
    const timer = setTimeout(
      () => stop(new OpenEnvError("TIMEOUT", `openenv: ${what} took longer than ${timeout} ms`)),
      Math.min(timeout, LONGEST_TIMER),
    );
    if (signal?.aborted) return onAbort();
    signal?.addEventListener("abort", onAbort, { once: true });
    start(
      (value) => (tidy(), resolve(value)),
      (error) => (tidy(), reject(error)),
    );
  });
}

export const reasonOf = (signal: AbortSignal): Error =>
  signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason));

/** Resolves after `ms`; rejects with the signal's reason if that is first. */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(reasonOf(signal));
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(reasonOf(signal!));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });

interface Waiting {
  readonly resolve: (frame: Frame) => void;
  readonly reject: (error: Error) => void;
}

export class Connection {
  readonly #socket: SocketLike;
  #waiting: Waiting | undefined;
  #ended: Error | undefined;
  #refusal: OpenEnvError | undefined;

  private constructor(socket: SocketLike) {
    this.#socket = socket;
  }

  /** @throws OpenEnvError CONNECT_FAILED, or the signal's reason */
  static open(url: string, Socket: SocketConstructor, patience: Patience): Promise<Connection> {
    let connection: Connection | undefined;
    return within<Connection>(
      patience,
      `connecting to ${url}`,
      (resolve, reject) => {
        const failed = (why: string): void =>
          reject(new OpenEnvError("CONNECT_FAILED", `openenv: no connection to ${url}${why}`));
        let socket: SocketLike;
        try {
          socket = new Socket(url);
        } catch (error) {
          return failed(`: ${error instanceof Error ? error.message : String(error)}`);
        }
        const made = (connection = new Connection(socket));
        let trouble = "";
        // The properties, because the classes differ in how `addEventListener` is typed.
        Object.assign(socket, {
          onopen: () => resolve(made),
          onmessage: ({ data }: { data?: unknown }) => made.#receive(data),
          // An error is always followed by a close; browsers say nothing about why.
          onerror: ({ message }: { message?: string }) => {
            if (message !== undefined && message !== "") trouble = `: ${message}`;
          },
          onclose: ({ code, reason }: { code?: number; reason?: string }) => {
            const why = `${trouble} (code ${code ?? 1006}${reason ? `, ${reason}` : ""})`;
            failed(why); // without effect if it was open
            made.end(new OpenEnvError("CONNECTION_LOST", `openenv: the connection to ${url} was closed${why}`));
          },
        });
      },
      (error) => connection?.end(error),
    ).catch((error: unknown) => {
      const late = error instanceof OpenEnvError && error.code === "TIMEOUT";
      throw late ? new OpenEnvError("CONNECT_FAILED", error.message) : error;
    });
  }

  /** The reason why the connection is over; undefined while it is open. */
  get ended(): Error | undefined {
    return this.#ended;
  }

  /** The unasked error with which the server closed: the answer to the next request. Returned once. */
  takeRefusal(): OpenEnvError | undefined {
    const refusal = this.#refusal;
    this.#refusal = undefined;
    return refusal;
  }

  /** Sends a request and resolves to its answer. An error of the server rejects; the connection may live on. */
  exchange(request: Fields, patience: Patience): Promise<Frame> {
    if (this.#ended) return Promise.reject(this.#ended);
    return within<Frame>(
      patience,
      `the answer to "${String(request["type"])}"`,
      (resolve, reject) => {
        this.#waiting = { resolve, reject };
        try {
          this.#socket.send(JSON.stringify(request));
        } catch (error) {
          this.end(error instanceof Error ? error : new Error(String(error)));
        }
      },
      (error) => this.end(error),
    );
  }

  /** Says goodbye, so that the server frees the session at once. */
  close(): void {
    if (this.#ended) return;
    try {
      this.#socket.send(JSON.stringify({ type: "close" }));
    } catch {
      // It was closing anyway.
    }
    this.end(new OpenEnvError("CONNECTION_LOST", "openenv: the session was closed"));
  }

  #receive(raw: unknown): void {
    if (this.#ended) return;
    let frame: Frame;
    try {
      frame = parseFrame(raw);
    } catch (error) {
      return this.end(error as OpenEnvError);
    }
    const error = frame.type === "error" ? serverError(frame.data) : undefined;
    const waiting = this.#waiting;
    if (error && FATAL.has(error.code)) {
      if (!waiting) this.#refusal = error;
      return this.end(error);
    }
    if (!waiting) {
      const message = `openenv: the server sent an unasked frame of type ${showValue(frame.type)}`;
      return this.end(error ?? new OpenEnvError("PROTOCOL_ERROR", message));
    }
    this.#waiting = undefined;
    if (error) waiting.reject(error);
    else waiting.resolve(frame);
  }

  /**
   * Ends the connection; the first reason counts. Code that finds an answer malformed calls it: what follows cannot be
   * trusted.
   */
  end(error: Error): void {
    if (this.#ended) return;
    this.#ended = error;
    this.#waiting?.reject(error);
    this.#waiting = undefined;
    try {
      this.#socket.close();
    } catch {
      // Some classes throw if it is not open yet; then there is nothing to close.
    }
  }
}
