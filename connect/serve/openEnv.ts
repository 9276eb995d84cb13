/**
 * One of our environments behind OpenEnv's protocol (huggingface/OpenEnv, `core/env_server`, its `/ws` endpoint), so
 * that any OpenEnv client can act in it. A connection is a session with an environment of its own; an action is `{
 * message }`, an observation `{ text, … }` with the step's info. A connection may reset any number of times.
 * environments/openenv/ is the client of the same protocol; the frames and codes are those of
 * tests/environments/openenv-recorded.json.
 *
 * Over HTTP it answers what OpenEnv's `production` mode has: `/health`, `/metadata`, `/schema`, `/openapi.json` and
 * `/mcp`, so that `openenv validate --url` accepts it. The other mode's `/reset` and `/step` make an environment for
 * each request, so nobody can play an episode with them, and they are not offered.
 *
 * The sockets are those of the package `ws`, an optional peer that is loaded when a server is started.
 */
import { check } from "../../engine/errors.ts";
import { number, options, type OptionsOf, text } from "../../engine/optionTable.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec } from "../../environments/index.ts";
import { checkAnswer, checkTask } from "../../rl/play/answers.ts";
import { type Fields, isFields } from "../fields.ts";
import { asHttpError, checkHost, checkOrigin, HttpError, listen, readJson, sendJson } from "./http.ts";

const OPENENV = options("serveOpenEnv", {
  host: text("127.0.0.1", "the address to listen to; the default is this machine alone"),
  port: number(0, "the port; 0: any that is free", { integer: true, min: 0, max: 65535 }),
  maxSessions: number(100, "connections at a time; more are refused with CAPACITY_REACHED", { integer: true, min: 1 }),
  maxMessageBytes: number(1_000_000, "bytes of a message; a longer one ends the connection", { integer: true, min: 1 }),
});
/** Options of `serveOpenEnv`: the address, how many sessions there may be, and how long a message. */
export type ServeOpenEnvOptions = OptionsOf<typeof OPENENV>;

/** An OpenEnv server. */
export interface OpenEnvServer {
  /** The address for clients, `http://127.0.0.1:PORT`. */
  readonly url: string;
  /** Ends all sessions. */
  close(): Promise<void>;
}

/** The part of a `ws` socket that is used here. */
interface Socket {
  on(event: "message", listener: (data: unknown, isBinary: boolean) => void): void;
  on(event: "close" | "error", listener: () => void): void;
  send(text: string, handedOver: () => void): void;
  pause(): void;
  resume(): void;
  close(): void;
}

/**
 * The number of messages of a client that may wait. The protocol needs one; beyond this number nothing more is read.
 */
const MOST_WAITING = 16;

/** An error that answers a message, with a code; the session goes on. */
class Refusal extends Error {
  readonly code: string;
  readonly details: Fields;
  constructor(code: string, message: string, details: Fields = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

const frame = (type: string, data: unknown): string => JSON.stringify({ type, data });
const errorFrame = ({ code, message, details }: Refusal): string => frame("error", { message, code, ...details });

/** The JSON Schemas of what is sent and answered, in pydantic's words. */
const SCHEMA = {
  action: {
    title: "TextAction",
    type: "object",
    properties: {
      message: { title: "Message", type: "string", description: "the agent's action" },
      metadata: { title: "Metadata", type: "object", additionalProperties: true, description: "ignored" },
    },
    required: ["message"],
    additionalProperties: false,
  },
  observation: {
    title: "TextObservation",
    type: "object",
    properties: {
      text: { title: "Text", type: "string", description: "the task, then the answer to each action" },
      metadata: { title: "Metadata", type: "object", additionalProperties: true, description: "success, turns, …" },
      reward: { title: "Reward", anyOf: [{ type: "number" }, { type: "null" }], default: null },
      done: { title: "Done", type: "boolean", default: false },
    },
    required: ["text"],
    additionalProperties: false,
  },
  state: {
    title: "State",
    type: "object",
    properties: {
      episode_id: { title: "Episode Id", anyOf: [{ type: "string" }, { type: "null" }], default: null },
      step_count: { title: "Step Count", type: "integer", minimum: 0, default: 0 },
    },
    additionalProperties: true,
  },
} as const;

/** The version of OpenEnv's HTTP interface. */
const API = "1.0.0";

/** The answers to `GET`, by path. */
function pagesOf({ name, description }: EnvironmentSpec): Readonly<Record<string, Fields>> {
  const pages = {
    "/health": { status: "healthy" },
    "/metadata": { name, description, version: API, readme_content: null, author: null, documentation_url: null },
    "/schema": SCHEMA,
  };
  const answers = (about: string): Fields => ({ summary: about, responses: { 200: { description: about } } });
  const paths = Object.fromEntries(Object.keys(pages).map((path) => [path, { get: answers(path.slice(1)) }]));
  const info = { title: `${name}, an OpenEnv environment`, description, version: API };
  return {
    ...pages,
    "/openapi.json": { openapi: "3.1.0", info, paths: { ...paths, "/mcp": { post: answers("mcp") } } },
  };
}

/** The answer of the MCP server of an environment that has none: an error, as OpenEnv's own server words it. */
function rpcAnswer({ jsonrpc, id = null, method }: Fields): Fields {
  const failed = (code: number, message: string, of: unknown = id): Fields => ({
    jsonrpc: "2.0",
    id: of,
    error: { code, message, data: null },
  });
  if (jsonrpc !== "2.0" || typeof method !== "string") return failed(-32600, "Invalid request", null);
  if (method === "tools/list" || method === "tools/call") return failed(-32603, "Environment does not support MCP");
  return failed(-32601, `Method not found: ${method}`);
}

/** A connection, and its episode if there is one. */
class Session {
  readonly #spec: EnvironmentSpec;
  readonly #options: EnvironmentOptions;
  #environment: Environment | undefined;
  #episode: string | null = null;
  #steps = 0;
  #isOver = false;
  #episodes = 0;

  constructor(spec: EnvironmentSpec, chosen: EnvironmentOptions) {
    this.#spec = spec;
    this.#options = chosen;
  }

  /** The frame that answers a message; undefined if the message closes the session. */
  async answer(raw: string): Promise<string | undefined> {
    let message: unknown;
    try {
      message = JSON.parse(raw);
    } catch (error) {
      throw new Refusal("INVALID_JSON", `Invalid JSON: ${(error as Error).message}`);
    }
    const { type, data = {} } = isFields(message) ? message : {};
    if (type === "close") return undefined;
    if (type === "mcp") return frame("mcp", rpcAnswer(isFields(data) ? data : {}));
    if (type === "state") return frame("state", { episode_id: this.#episode, step_count: this.#steps });
    if (type !== "reset" && type !== "step") throw new Refusal("UNKNOWN_TYPE", `Unknown message type: ${String(type)}`);
    if (!isFields(data)) {
      const errors = [{ type: "dict_type", loc: ["data"], msg: "Input should be a valid dictionary" }];
      throw new Refusal("VALIDATION_ERROR", "Invalid message", { errors });
    }
    return frame("observation", await (type === "reset" ? this.#reset(data) : this.#step(data)));
  }

  async #reset({ seed, episode_id: id }: Fields): Promise<Fields> {
    this.close();
    const number = Number.isSafeInteger(seed) && (seed as number) >= 0 ? (seed as number) : this.#episodes;
    this.#episodes++;
    const environment = this.#spec.make(this.#options);
    const said = checkTask(this.#spec.name, await environment.reset(number));
    [this.#environment, this.#steps, this.#isOver] = [environment, 0, false];
    this.#episode = typeof id === "string" ? id : `episode-${number}`;
    return { observation: { text: said }, reward: null, done: false };
  }

  async #step(data: Fields): Promise<Fields> {
    const { message, metadata: _, ...rest } = data;
    const wrong = [
      ...(message === undefined ? [{ type: "missing", loc: ["message"], msg: "Field required" }] : []),
      ...(message !== undefined && typeof message !== "string"
        ? [{ type: "string_type", loc: ["message"], msg: "Input should be a valid string" }]
        : []),
      ...Object.keys(rest).map((name) => ({
        type: "extra_forbidden",
        loc: [name],
        msg: "Extra inputs are not permitted",
      })),
    ];
    if (wrong.length > 0) throw new Refusal("VALIDATION_ERROR", "Invalid message", { errors: wrong });
    const environment = this.#environment;
    if (environment === undefined || this.#isOver) throw new Refusal("EXECUTION_ERROR", "reset first");
    const answer = checkAnswer(this.#spec.name, await environment.step(message as string));
    const { observation, reward, done, info } = answer;
    this.#steps++;
    this.#isOver = done;
    return { observation: { text: observation, metadata: info }, reward, done };
  }

  close(): void {
    this.#environment?.close?.();
    this.#environment = undefined;
  }
}

/**
 * Serves an environment to OpenEnv clients.
 * @param chosen options of the environment, for every episode
 * @throws WorldgradError if the package `ws` is not installed
 *
 * @example
 * const server = await serveOpenEnv(ENVIRONMENTS["terminal"]!, { levels: [1, 1] });
 * const env = openEnv({ url: server.url, action: "message" });
 */
export async function serveOpenEnv(
  spec: EnvironmentSpec,
  chosen: EnvironmentOptions = {},
  given: ServeOpenEnvOptions = {},
): Promise<OpenEnvServer> {
  const { host, port, maxSessions, maxMessageBytes } = OPENENV.read(given);
  spec.make(chosen); // throws on wrong options before anybody connects
  const ws = await import("ws").catch(() => undefined);
  check(ws !== undefined, () => "serveOpenEnv: the package ws is not installed; npm install ws");
  const pages = pagesOf(spec);
  const listening = await listen(host, port, async (request, response) => {
    checkHost(request, host);
    const { method, url = "" } = request;
    if (method === "POST" && url === "/mcp")
      return sendJson(response, 200, rpcAnswer(await readJson(request, maxMessageBytes)));
    if (method !== "GET" || !Object.hasOwn(pages, url)) throw new HttpError(404, "a client connects to /ws");
    sendJson(response, 200, pages[url]);
  });
  const sockets = new ws.WebSocketServer({
    server: listening.server,
    path: "/ws",
    maxPayload: maxMessageBytes,
    verifyClient: ({ req }, answer) => {
      try {
        checkHost(req, host);
        checkOrigin(req, host);
        answer(true);
      } catch (error) {
        const { status, message } = asHttpError(error);
        answer(false, status, message);
      }
    },
  });
  let count = 0;
  sockets.on("connection", (socket: Socket) => {
    socket.on("error", () => undefined);
    if (count >= maxSessions) {
      const message = `Server at capacity: ${count}/${maxSessions} sessions active. Cannot accept new connections.`;
      socket.send(
        errorFrame(new Refusal("CAPACITY_REACHED", message, { active_sessions: count, max_sessions: maxSessions })),
        () => undefined,
      );
      return socket.close();
    }
    count++;
    const session = new Session(spec, chosen);
    let last = Promise.resolve();
    let waiting = 0;
    // Resolves when the system has taken the answer: a client that does not read answers is not read either.
    const send = (text: string): Promise<void> => new Promise((done) => socket.send(text, () => done()));
    const receive = async (raw: string): Promise<void> => {
      try {
        const answer = await session.answer(raw);
        if (answer === undefined) socket.close();
        else await send(answer);
      } catch (error) {
        const failed =
          error instanceof Refusal ? error : new Refusal("EXECUTION_ERROR", String((error as Error).message));
        await send(errorFrame(failed));
      }
    };
    // Messages are answered one after the other, in the order in which they came.
    socket.on("message", (raw) => {
      if (++waiting === MOST_WAITING) socket.pause();
      last = last
        .then(() => receive(String(raw)))
        .then(() => {
          if (waiting-- === MOST_WAITING) socket.resume();
        });
    });
    socket.on("close", () => {
      count--;
      session.close();
    });
  });
  return {
    url: listening.url,
    async close() {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      await listening.close();
    },
  };
}
