/**
 * A server that speaks OpenEnv's protocol over real sockets, written from the protocol and from RFC 6455 alone, with
 * nothing of the client's: it does what `core/env_server/http_server.py` of huggingface/OpenEnv does for `/ws`, the
 * same frames, codes and closing. tests/environments/openenvRecorded.test.ts holds it to what a real one said.
 * `intercept` lets a test misbehave.
 */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";

type Fields = Readonly<Record<string, unknown>>;

/** What an environment of the server answers. Thrown errors become EXECUTION_ERROR, `Invalid` VALIDATION_ERROR. */
export interface World {
  reset(data: Fields): Fields;
  step(action: Fields): Fields;
  state(): Fields;
  /** What its MCP server lists; without them it has none. */
  readonly tools?: readonly string[];
}

/** The action does not fit the schema, as pydantic says it. */
export class Invalid extends Error {
  readonly errors: readonly Fields[];
  constructor(...errors: readonly Fields[]) {
    super("validation");
    this.errors = errors;
  }
}

/** The server's end of a connection. */
export interface Link {
  /** A text frame, whatever its text. */
  text(text: string): void;
  json(value: unknown): void;
  raw(bytes: Buffer): void;
  /** The closing handshake. */
  close(code?: number): void;
  /** Reads nothing from now on. */
  deafen(): void;
  /** Dies as a killed process does. */
  destroy(): void;
}

export interface ServerOptions {
  readonly world: () => World;
  readonly maxSessions?: number;
  /** True: the test has dealt with the message itself. */
  readonly intercept?: (message: Fields, link: Link, count: number) => boolean;
  /** What happens when a client has connected. True: there is no session for it. */
  readonly onConnect?: (link: Link, count: number) => boolean;
}

export interface OpenEnvServer {
  readonly url: string;
  readonly port: number;
  /** Every message of every client, in order of arrival. */
  readonly received: Fields[];
  /** Connections so far. */
  readonly connections: () => number;
  /** Sessions now, and the most there ever were at once. */
  readonly sessions: () => number;
  readonly mostSessions: () => number;
  close(): Promise<void>;
}

export function frame(opcode: number, payload: Buffer, isFinal = true): Buffer {
  const { length } = payload;
  const first = (isFinal ? 0x80 : 0) | opcode;
  if (length < 126) return Buffer.concat([Buffer.from([first, length]), payload]);
  const header = Buffer.alloc(length < 65_536 ? 4 : 10);
  header[0] = first;
  header[1] = length < 65_536 ? 126 : 127;
  if (length < 65_536) header.writeUInt16BE(length, 2);
  else header.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([header, payload]);
}

/** The first client frame in `bytes`, and where the next begins. Throws if it is not masked. */
function parse(bytes: Buffer): { opcode: number; payload: Buffer; end: number } | undefined {
  if (bytes.length < 2) return undefined;
  if ((bytes[1]! & 0x80) === 0) throw new Error("a client's frame is not masked");
  const short = bytes[1]! & 0x7f;
  const at = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < at + 4) return undefined;
  const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  const end = at + 4 + length;
  if (bytes.length < end) return undefined;
  const payload = Buffer.from(bytes.subarray(at + 4, end)).map((byte, i) => byte ^ bytes[at + (i % 4)]!);
  return { opcode: bytes[0]! & 0x0f, payload: Buffer.from(payload), end };
}

function linkOf(socket: Duplex): Link {
  const raw = (bytes: Buffer): void => void (socket.writable && socket.write(bytes));
  const text = (value: string): void => raw(frame(1, Buffer.from(value)));
  return {
    raw,
    text,
    json: (value) => text(JSON.stringify(value)),
    close: (code = 1000) => {
      raw(frame(8, Buffer.from([code >> 8, code & 255])));
      socket.end();
    },
    deafen: () => void socket.pause(),
    destroy: () => void socket.destroy(),
  };
}

const error = (code: string, message: string, more: Fields = {}): Fields => ({
  type: "error",
  data: { message, code, ...more },
});

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * What pydantic says of a model with one required field: what is missing or of another type, then every field too much.
 */
function validate(
  fields: Fields,
  required: string | undefined,
  check: (value: unknown) => Fields,
  optional = "",
): void {
  const wrong: Fields[] = [];
  const has = required !== undefined && required in fields;
  if (required !== undefined && !has) wrong.push({ type: "missing", loc: [required], msg: "Field required" });
  if (has) wrong.push(...[check(fields[required])].filter(({ type }) => type).map((e) => ({ ...e, loc: [required] })));
  for (const name of Object.keys(fields)) {
    if (name === required || name === optional) continue;
    wrong.push({ type: "extra_forbidden", loc: [name], msg: "Extra inputs are not permitted" });
  }
  if (wrong.length > 0) throw new Invalid(...wrong);
}

const mustBeObject = (value: unknown): Fields =>
  isObject(value) ? {} : { type: "dict_type", msg: "Input should be a valid dictionary" };
const mustBeText = (value: unknown): Fields =>
  typeof value === "string" ? {} : { type: "string_type", msg: "Input should be a valid string" };

/** The answer to a message; undefined: goodbye. */
function answer(message: Fields, world: World): Fields | undefined {
  const { type = "", ...rest } = message;
  const { data = {} } = message as { data?: Fields };
  try {
    switch (type) {
      case "reset":
        validate({ data, ...rest }, "data", mustBeObject);
        return { type: "observation", data: world.reset(data) };
      case "step":
        validate(rest, "data", mustBeObject);
        return { type: "observation", data: world.step(data) };
      case "state":
        validate(rest, undefined, mustBeObject);
        return { type: "state", data: world.state() };
      case "close":
        validate(rest, undefined, mustBeObject);
        return undefined;
      case "mcp":
        validate(rest, "data", mustBeObject);
        return { type: "mcp", data: rpc(data, world) };
      default:
        return error("UNKNOWN_TYPE", `Unknown message type: ${String(type)}`);
    }
  } catch (thrown) {
    if (thrown instanceof Invalid) return error("VALIDATION_ERROR", "Invalid message", { errors: thrown.errors });
    return error("EXECUTION_ERROR", thrown instanceof Error ? thrown.message : String(thrown));
  }
}

function rpc({ jsonrpc, id = null, method, params }: Fields, { tools }: World): Fields {
  const failed = (code: number, message: string, of: unknown = id): Fields => ({
    jsonrpc: "2.0",
    id: of,
    error: { code, message, data: null },
  });
  if (jsonrpc !== "2.0") return failed(-32600, "Invalid request: 1 validation error for JsonRpcRequest", null);
  if (method !== "tools/list") return failed(-32601, `Method not found: ${String(method)}`);
  if (!tools) return failed(-32603, "Environment does not support MCP");
  return { jsonrpc: "2.0", id, result: { tools: tools.map((name) => ({ name, params })) } };
}

export async function startOpenEnvServer(options: ServerOptions, port = 0): Promise<OpenEnvServer> {
  const { world: makeWorld, maxSessions = 100, intercept, onConnect } = options;
  const received: Fields[] = [];
  const sockets = new Set<Duplex>();
  const sessions = new Set<Duplex>();
  let connections = 0;
  let most = 0;
  const http = createServer((_, response) => void response.writeHead(404).end());

  http.on("upgrade", (request, socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => (sockets.delete(socket), sessions.delete(socket)));
    socket.on("error", () => undefined);
    const key = String(request.headers["sec-websocket-key"]);
    if (request.url !== "/ws" || Buffer.from(key, "base64").length !== 16)
      return void socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
        `${accept}\r\n\r\n`,
    );
    const link = linkOf(socket);
    const count = connections++;
    if (onConnect?.(link, count)) return;
    // Admitted first, refused after: the frame comes unasked.
    if (sessions.size >= maxSessions) {
      const used = `${sessions.size}/${maxSessions}`;
      const message = `Server at capacity: ${used} sessions active. Cannot accept new connections.`;
      link.json(error("CAPACITY_REACHED", message, { active_sessions: sessions.size, max_sessions: maxSessions }));
      return link.close();
    }
    sessions.add(socket);
    most = Math.max(most, sessions.size);
    const world = makeWorld();
    let messages = 0;
    let bytes: Buffer = Buffer.alloc(0);
    socket.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (let next = parse(bytes); next; next = parse(bytes)) {
        bytes = bytes.subarray(next.end);
        if (next.opcode === 8) {
          link.raw(frame(8, next.payload));
          socket.end();
        }
        if (next.opcode === 1) receive(next.payload.toString());
      }
    });
    const receive = (text: string): void => {
      let message: unknown;
      try {
        message = JSON.parse(text);
      } catch (thrown) {
        return link.json(error("INVALID_JSON", `Invalid JSON: ${String(thrown)}`));
      }
      if (!isObject(message)) {
        link.json(error("SESSION_ERROR", "the message has no type"));
        return link.close();
      }
      received.push(message);
      if (intercept?.(message, link, messages++)) return;
      const reply = answer(message, world);
      if (reply) return link.json(reply);
      sessions.delete(socket);
      link.close();
    };
  });

  await new Promise<void>((resolve) => http.listen(port, "127.0.0.1", resolve));
  const { port: bound } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    received,
    connections: () => connections,
    sessions: () => sessions.size,
    mostSessions: () => most,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
}

/**
 * Says a letter of the seed, echoes what it is told and gives reward for letters on the last of `turns` steps. The
 * environment of tests/environments/openenv-room.py.
 */
export function echoWorld({
  turns = 2,
  reward = (text) => (text === "nan" ? NaN : [...text].length),
  tools,
}: {
  readonly turns?: number;
  readonly reward?: (text: string) => unknown;
  readonly tools?: readonly string[];
} = {}): () => World {
  return () => {
    let steps = 0;
    let episode: unknown = null;
    return {
      ...(tools ? { tools } : {}),
      reset({ seed = 0, episode_id = `episode-${String(seed)}` }) {
        steps = 0;
        episode = episode_id;
        return { observation: { prompt: "abcdef"[Number(seed) % 6], hint: "" }, reward: null, done: false };
      },
      step(action) {
        validate(action, "message", mustBeText, "metadata");
        const message = String(action["message"]);
        if (message === "crash") throw new Error("the environment divided by zero");
        const done = ++steps >= turns;
        return {
          observation: { echoed: message, length: [...message].length },
          reward: done ? reward(message) : null,
          done,
        };
      },
      state: () => ({ episode_id: episode, step_count: steps }),
    };
  };
}
