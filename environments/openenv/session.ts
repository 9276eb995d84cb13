/**
 * A session with an OpenEnv server (huggingface/OpenEnv): `reset`, `step`, `state`, `mcp`, `close` over its WebSocket.
 * One connection is one session with its own environment on the server, and it ends with the connection. So a
 * connection that is lost in an episode is an error, never resumed behind the caller's back; `reset` opens a new one.
 *
 * The server admits a client before it knows whether there is room. If there is none, an unasked error frame
 * CAPACITY_REACHED comes and the server closes: at any time before the first answer, also as the answer to the first
 * request. Nothing has run then, so every request is tried again, after pauses that double, until the attempts are used
 * up.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { inCode, number, options, type OptionsOf, REQUIRED, text } from "../../engine/optionTable.ts";
import type { CallOptions } from "../../rl/environment.ts";
import {
  Connection,
  type Fields,
  type Frame,
  isFields,
  OpenEnvError,
  pause,
  type SocketConstructor,
} from "./connection.ts";

const RECONNECT = options("connect: reconnect", {
  attempts: number(6, "further attempts after the first; 0: none", { integer: true, min: 0 }),
  pause: number(250, "milliseconds before the second attempt; doubles each time, up to 5 s", { above: 0 }),
});
/** The number of attempts to connect again, and the pauses between them. */
export type ReconnectOptions = OptionsOf<typeof RECONNECT>;

const CONNECT = options("connect", {
  url: text(REQUIRED, "the server: `http(s)://` or `ws(s)://`; the path `/ws` is added unless it is there"),
  /** The global one is there in Node since version 22; before that, the one of the package `ws`. */
  WebSocket: inCode<SocketConstructor>(
    "makes the connection; by default the global one",
    "a class of sockets",
    (value) => typeof value === "function",
  ),
  timeout: number(60_000, "milliseconds for connecting and for each answer; a call's own signal may be faster", {
    above: 0,
  }),
  reconnect: inCode<ReconnectOptions>(
    "what is done if the server is not there, full, or gone when `reset` is called",
    "an object of options",
    (value) => typeof value === "object",
  ),
});
/** Options of `connect`: the server's address (`url` is needed), the class of its WebSocket, and how long to wait. */
export type ConnectOptions = OptionsOf<typeof CONNECT>;

/** An answer to `reset` or `step`. */
export interface Observed {
  /** The environment's own fields. */
  readonly observation: Fields;
  /**
   * `null`: the environment gave none, or NaN or an infinity, which the server writes as null. True and false are 1 and
   * 0.
   */
  readonly reward: number | null;
  readonly done: boolean;
}

const LONGEST_PAUSE = 5_000;

/** Options with their defaults, checked. */
export interface Settings {
  readonly url: string;
  readonly WebSocket: SocketConstructor;
  readonly timeout: number;
  readonly attempts: number;
  readonly pause: number;
}

/** The address of a server's WebSocket, as the project's own client derives it. */
export function socketUrl(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(/^[a-z]+:\/\//i.test(url) ? url : `ws://${url}`);
  } catch {
    return fail(`connect: url must be the address of a server, got ${showValue(url)}`);
  }
  const protocol = { "http:": "ws:", "https:": "wss:", "ws:": "ws:", "wss:": "wss:" }[parsed.protocol];
  check(protocol !== undefined, () => `connect: url must be http(s) or ws(s), got ${showValue(url)}`);
  const path = parsed.pathname.replace(/\/+$/, "");
  return `${protocol}//${parsed.host}${path.endsWith("/ws") ? path : `${path}/ws`}${parsed.search}`;
}

/** @throws on options that make no sense, and where there is no WebSocket */
export function checkConnectOptions(given: ConnectOptions): Settings {
  const { url, timeout, reconnect, WebSocket } = CONNECT.read(given);
  const Socket = WebSocket ?? (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
  check(
    Socket !== undefined,
    () => "connect: there is no global WebSocket here (Node has one since 22); give { WebSocket } of the package ws",
  );
  return { url: socketUrl(url), WebSocket: Socket, timeout, ...RECONNECT.read(reconnect) };
}

/**
 * A session with an OpenEnv server (huggingface/OpenEnv) over its WebSocket: one connection with its own environment on
 * the server. `connect` makes one. A connection that is lost in an episode is an `OpenEnvError` and never resumed;
 * `reset` opens a new one. One call runs at a time.
 */
export class OpenEnvSession {
  readonly #settings: Settings;
  #connection: Connection | undefined;
  /** `reset` was answered on `#connection`. */
  #inEpisode = false;
  #isBusy = false;
  #isClosed = false;
  #calls = 0;

  /** Connects at the first request. */
  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Connects, unless it is connected. @throws OpenEnvError after the last attempt, or the signal's reason */
  async open({ signal }: CallOptions = {}): Promise<void> {
    await this.#persist("connecting", ["CONNECT_FAILED"], signal, async () => void (await this.#connected(signal)));
  }

  /**
   * Starts an episode. @param data `seed`, `episode_id` and what else the environment takes; what it does not take is
   * ignored there
   */
  async reset(data: Fields = {}, options: CallOptions = {}): Promise<Observed> {
    this.#inEpisode = false;
    const answer = await this.#request({ type: "reset", data }, "observation", options, observedFrom);
    this.#inEpisode = true;
    return answer;
  }

  /**
   * One action, as the environment's schema has it. @throws OpenEnvError VALIDATION_ERROR if it does not fit; the
   * episode goes on
   */
  step(action: Fields, options: CallOptions = {}): Promise<Observed> {
    return this.#request({ type: "step", data: action }, "observation", options, observedFrom);
  }

  /** The server's view of the episode: `episode_id`, `step_count` and what else the environment tells. */
  state(options: CallOptions = {}): Promise<Fields> {
    return this.#request({ type: "state" }, "state", options, ({ data }) => data);
  }

  /** A request to the environment's MCP server, such as `tools/list`, past `step`. @throws OpenEnvError MCP_ERROR */
  mcp(method: string, params: Fields = {}, options: CallOptions = {}): Promise<unknown> {
    const id = ++this.#calls;
    const data = { jsonrpc: "2.0", id, method, params };
    return this.#request({ type: "mcp", data }, "mcp", options, (frame) => {
      const { error, id: answered } = frame.data;
      if (answered !== id && answered !== null && answered !== undefined) malformed(frame, `an answer to call ${id}`);
      if (error === undefined || error === null) return frame.data["result"];
      const { code, message } = isFields(error) ? error : { code: "unknown", message: error };
      throw new OpenEnvError("MCP_ERROR", `openenv: ${method}: ${String(message)} (${String(code)})`, frame.data);
    });
  }

  /**
   * Ends the session; the server frees its place. A call that is running rejects. Never throws; a second time does
   * nothing.
   */
  close(): void {
    this.#isClosed = true;
    this.#connection?.close();
  }

  async #request<T>(request: Fields, type: string, { signal }: CallOptions, read: (frame: Frame) => T): Promise<T> {
    const name = String(request["type"]);
    check(!this.#isClosed, () => `openenv: ${name} was called after close`);
    check(!this.#isBusy, () => `openenv: ${name} was called while another call is running`);
    const ended = this.#connection?.ended;
    if (this.#inEpisode && ended) throw lostEpisode(ended);
    this.#isBusy = true;
    const retried = ["CAPACITY_REACHED", "CONNECT_FAILED", ...(name === "reset" ? ["CONNECTION_LOST"] : [])];
    try {
      return await this.#persist(name, retried, signal, async () => {
        const connection = await this.#connected(signal);
        const frame = await connection.exchange(request, { timeout: this.#settings.timeout, signal });
        try {
          if (frame.type !== type) malformed(frame, `a frame of type "${type}"`);
          return read(frame);
        } catch (error) {
          if (error instanceof OpenEnvError && error.code === "PROTOCOL_ERROR") connection.end(error);
          throw error;
        }
      });
    } catch (error) {
      const isLost = error instanceof OpenEnvError && error.code === "CONNECTION_LOST" && !this.#isClosed;
      throw this.#inEpisode && isLost ? lostEpisode(error) : error;
    } finally {
      this.#isBusy = false;
    }
  }

  /** Tries until it succeeds, fails for a reason that no further attempt can mend, or the attempts are used up. */
  async #persist<T>(
    what: string,
    retried: readonly string[],
    signal: AbortSignal | undefined,
    attempt: () => Promise<T>,
  ): Promise<T> {
    const { attempts, pause: first } = this.#settings;
    for (let failed = 1; ; failed++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof OpenEnvError) || !retried.includes(error.code) || this.#isClosed) throw error;
        if (failed > attempts) {
          const attempts = failed === 1 ? "1 attempt" : `${failed} attempts`;
          const message = `openenv: ${what}: gave up after ${attempts}; the last: ${error.message}`;
          throw new OpenEnvError(error.code, message, error.details);
        }
        await pause(Math.min(LONGEST_PAUSE, first * 2 ** (failed - 1)), signal);
      }
    }
  }

  async #connected(signal: AbortSignal | undefined): Promise<Connection> {
    if (this.#connection && !this.#connection.ended) return this.#connection;
    const refusal = this.#connection?.takeRefusal();
    if (refusal) throw refusal;
    const { url, WebSocket, timeout } = this.#settings;
    const connection = await Connection.open(url, WebSocket, { timeout, signal });
    this.#connection = connection;
    if (this.#isClosed) connection.close(); // while it was being opened
    return connection;
  }
}

function lostEpisode(cause: Error): OpenEnvError {
  return new OpenEnvError(
    cause instanceof OpenEnvError ? cause.code : "CONNECTION_LOST",
    `${cause.message}: the episode is lost with its connection, only reset can follow`,
  );
}

function malformed(frame: Frame, expected: string): never {
  const got = showValue({ type: frame.type, ...frame.data });
  throw new OpenEnvError("PROTOCOL_ERROR", `openenv: expected ${expected}, got ${got}`);
}

function observedFrom(frame: Frame): Observed {
  const { observation, reward = null, done = false } = frame.data;
  if (!isFields(observation)) return malformed(frame, "an observation that is an object");
  if (typeof done !== "boolean") return malformed(frame, "done to be true or false");
  if (reward === null) return { observation, reward, done };
  const isNumber = typeof reward === "boolean" || Number.isFinite(reward);
  return isNumber ? { observation, reward: Number(reward), done } : malformed(frame, "a number or null as reward");
}

/**
 * Connects to an OpenEnv server.
 * @throws OpenEnvError CONNECT_FAILED after the last attempt
 *
 * @example
 * const session = await connect({ url: "http://localhost:8000" });
 * await session.reset({ seed: 7 });
 * const { observation, reward, done } = await session.step({ message: "hello" });
 * session.close();
 */
export async function connect(options: ConnectOptions, call: CallOptions = {}): Promise<OpenEnvSession> {
  const session = new OpenEnvSession(checkConnectOptions(options));
  await session.open(call);
  return session;
}
