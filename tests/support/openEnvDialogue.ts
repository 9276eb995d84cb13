/**
 * What is said to an OpenEnv server so that two of them can be compared frame by frame: a real one with
 * tests/environments/openenv-room.py (its answers are in tests/environments/openenv-recorded.json) and the one of
 * the tests. Frames are compared as they are, without pydantic's links and its repetition of the input; of a message of
 * several lines the first counts.
 */
import { WebSocket } from "ws";

/** What one connection said and was answered; the last answer may be the closing, as `closed 1000`. */
export interface Dialogue {
  readonly name: string;
  /** Connections that hold a place before this one begins. */
  readonly others?: number;
  readonly turns: readonly { readonly send?: string; readonly answer: unknown }[];
}

const message = (type: string, data?: unknown): string =>
  JSON.stringify(data === undefined ? { type } : { type, data });
const step = (text: unknown): string => message("step", { message: text });
const rpc = (fields: object): string => message("mcp", { jsonrpc: "2.0", id: 7, ...fields });

/** What is said on one connection. Without a text, the server is expected to speak first. */
export interface Script {
  readonly name: string;
  readonly others?: number;
  readonly says: readonly (string | undefined)[];
}

const moves = (field: string, texts: readonly string[]): string[] =>
  texts.map((text) => message("step", { [field]: text }));
const call = (tool: string, args: object): string =>
  message("step", { type: "call_tool", tool_name: tool, arguments: args });

/**
 * What is said to servers of OpenEnv's own repository, by the names of their folders in `envs/`; the answers are in
 * tests/environments/openenv-foreign.json. They give no seed or ignore it.
 */
export const FOREIGN: readonly Script[] = [
  {
    name: "grid_world_env",
    says: [
      message("reset", { seed: 7 }),
      ...moves("action", ["down", "UP", "DOWN", "RIGHT", "DOWN", "RIGHT", "DOWN", "RIGHT", "DOWN", "RIGHT"]),
    ],
  },
  { name: "maze_env", says: [message("reset", { seed: 7 }), ...moves("action", ["right", ..."033331133131111"])] },
  { name: "connect4_env", says: [message("reset", { seed: 7 }), ...moves("column", ["left", ..."0101010"])] },
  {
    name: "echo_env",
    says: [
      message("reset", { seed: 7 }),
      call("echo_message", { message: "größe 🙂" }),
      call("echo_with_length", { message: "abc" }),
      call("echo_loudly", { message: "abc" }),
      call("echo_message", { massage: "abc" }),
      ...moves("message", ["abc"]),
    ],
  },
];

/** What is said to the room of tests/environments/openenv-room.py and to the tests' server. */
export const ROOM: readonly Script[] = [
  {
    name: "an episode",
    says: [
      message("reset", { seed: 3, unknown: 1 }),
      message("state"),
      step("größe 🙂"),
      step("abc"),
      message("state"),
      message("reset", { seed: 1, episode_id: "mine" }),
      message("state"),
      message("close"),
    ],
  },
  {
    name: "actions that do not fit, an environment that throws, a reward that is no number",
    says: [
      message("reset"),
      message("step", {}),
      step(3),
      message("step", { message: "a", one: 1, two: 2 }),
      message("step", { message: "a", metadata: { of: "every action" } }),
      step("crash"),
      step("nan"),
      message("reset", { seed: 2 }),
      message("close"),
    ],
  },
  {
    name: "messages that mean nothing",
    says: [
      "no JSON",
      "{}",
      message("dance"),
      '{"type":"reset","data":{},"extra":1}',
      '{"type":"reset"}',
      message("reset", [1]),
      message("state", {}),
      message("step"),
      message("mcp"),
      message("close", {}),
      message("close"),
    ],
  },
  { name: "a message that is no object", says: ["[1]", undefined] },
  {
    name: "the MCP server of an environment that has none",
    says: [rpc({ method: "tools/list" }), rpc({ method: "resources/list" }), message("mcp", { method: "tools/list" })],
  },
  { name: "no place", others: 2, says: [undefined, undefined] },
];

interface Line {
  next(): Promise<unknown>;
  send(text: string): void;
  close(): void;
}

/** A connection whose frames are taken one by one. */
async function dial(url: string): Promise<Line> {
  const socket = new WebSocket(url);
  const arrived: unknown[] = [];
  let wake = (): void => undefined;
  const arrive = (what: unknown): void => {
    arrived.push(what);
    wake();
  };
  // The properties, as our client sets them.
  await new Promise<void>((resolve, reject) => {
    Object.assign(socket, {
      onopen: () => resolve(),
      onerror: () => reject(new Error(`no connection to ${url}`)),
      onmessage: ({ data }: { data: unknown }) => arrive(comparable(JSON.parse(String(data)))),
      onclose: ({ code }: { code: number }) => arrive(`closed ${code}`),
    });
  });
  const next = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("no answer in 5 s")), 5_000);
      wake = () => {
        if (arrived.length === 0) return;
        clearTimeout(late);
        resolve(arrived.shift());
      };
      wake();
    });
  return { next, send: (text) => socket.send(text), close: () => socket.close() };
}

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== "object" || value === null) return value;
  const { url: _, input: __, ...fields } = value as Record<string, unknown>;
  const { code, message: text } = fields;
  // Python's own words: those of its JSON parser, and of an exception that nobody meant.
  if (code === "INVALID_JSON" || code === "SESSION_ERROR") return { code };
  const line = typeof text === "string" ? { message: text.split("\n")[0] } : {};
  return { ...Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, comparable(of)])), ...line };
}

/** Says everything; `url` is that of the WebSocket. The room must admit exactly two sessions. */
export async function converse(url: string, scripts: readonly Script[]): Promise<Dialogue[]> {
  const dialogues: Dialogue[] = [];
  for (const { name, others = 0, says } of scripts) {
    const lines: Line[] = [];
    for (let i = 0; i < others; i++) {
      const other = await dial(url);
      other.send(message("state")); // its answer says that the session is there
      await other.next();
      lines.push(other);
    }
    const line = await dial(url);
    const turns: { send?: string; answer: unknown }[] = [];
    for (const send of says) {
      if (send !== undefined) line.send(send);
      turns.push({ ...(send === undefined ? {} : { send }), answer: await line.next() });
    }
    dialogues.push({ name, ...(others > 0 ? { others } : {}), turns });
    for (const each of [...lines, line]) each.close();
    await new Promise((resolve) => setTimeout(resolve, 200)); // until the places are free
  }
  return dialogues;
}
