/**
 * A session with an MCP server (Model Context Protocol, modelcontextprotocol.io) through the official client,
 * `@modelcontextprotocol/sdk`, an optional peer that is loaded when the first session is opened: a child process that
 * is spoken to over its standard input and output, or an address that speaks "streamable HTTP". Only tools are used,
 * not prompts, resources or sampling.
 */
import { WorldgradError } from "../../engine/errors.ts";
import { LONGEST_TIMER, nestsBeyond, showValue } from "../../engine/options.ts";
import { type Fields, isFields } from "../fields.ts";
import { NO_RESULT } from "./lines.ts";
import { endTree, type McpCommand, ServerProcess } from "./process.ts";
import { type McpTool, MOST_LEVELS, type ToolCall, type ToolResult } from "./toolCall.ts";

/** An MCP server at an address. */
export interface McpAddress {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The way to an MCP server: a command that starts one, or its address. */
export type McpServer = McpCommand | McpAddress;

/** The time limit of a call, and a signal that ends it. */
export interface Patience {
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal?: AbortSignal | undefined;
}

/** The error of an MCP server. TIMEOUT: no answer in time; LOST: it is gone; REFUSED: it answered with an error. */
export class McpError extends WorldgradError {
  override readonly code: "CONNECT_FAILED" | "TIMEOUT" | "LOST" | "REFUSED";
  constructor(code: McpError["code"], message: string) {
    super(`mcp: ${message}`);
    this.code = code;
  }
}

type Types = typeof import("@modelcontextprotocol/sdk/types.js");
/** Limits of a request, for the library. */
interface Limits {
  readonly signal: AbortSignal;
  readonly timeout: number;
}
/** The part of the library's client and transports that is used here. */
interface Client {
  connect(transport: unknown, limits: Limits): Promise<void>;
  request(request: object, schema: Types["ResultSchema"], limits: Limits): Promise<Fields>;
  close(): Promise<void>;
}
interface Transport {
  readonly stderr?: { on(event: "data", listener: (chunk: unknown) => void): void } | null;
  readonly pid?: number | null | undefined;
  readonly fault?: string | undefined;
  terminateSession?(): Promise<void>;
  close(): Promise<void>;
}

const STDERR_SHOWN = 400;
/** Milliseconds that a server at an address has to end a session. */
const FAREWELL = 2000;
async function loadSdk<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new McpError(
      "CONNECT_FAILED",
      "the package @modelcontextprotocol/sdk is not installed; npm install @modelcontextprotocol/sdk",
    );
  }
}

/**
 * The result of `start`. If the time is over or `signal` is aborted first, the promise rejects, and the signal that
 * `start` got is aborted. The library's own time-out never ends a call, because its error would look like a server's.
 * No timer or listener is left behind.
 */
function within<T>({ timeout, signal }: Patience, where: string, start: (limits: Limits) => Promise<T>): Promise<T> {
  const own = new AbortController();
  return new Promise<T>((resolve, reject) => {
    const tidy = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    };
    const stop = (reason: unknown): void => {
      tidy();
      reject(reason instanceof Error ? reason : new Error(String(reason)));
      own.abort(reason);
    };
    const onAbort = (): void => stop(signal?.reason);
    const late = (): void => stop(new McpError("TIMEOUT", `${where}no answer within ${timeout} ms`));
    const timer = setTimeout(late, Math.min(timeout, LONGEST_TIMER));
    if (signal?.aborted) return onAbort();
    signal?.addEventListener("abort", onAbort);
    start({ signal: own.signal, timeout: LONGEST_TIMER }).finally(tidy).then(resolve, reject);
  });
}

/** A session with an MCP server; `openSession` makes one. Several calls may run at once. */
export class McpSession {
  /** All tools that the server lists. */
  readonly tools: readonly McpTool[];
  /** The process of a server that was started, if there is one. */
  readonly pid: number | undefined;
  readonly #wire: Wire;
  #closing: Promise<void> | undefined;

  constructor(wire: Wire, tools: readonly McpTool[]) {
    this.tools = tools;
    this.pid = wire.pid;
    this.#wire = wire;
  }

  /** Whether the server is gone or the session was closed. */
  get isEnded(): boolean {
    return this.#wire.ended !== undefined;
  }

  /**
   * Calls a tool. A tool that fails says so in its result (`isError`).
   * @throws McpError TIMEOUT, LOST, or REFUSED if the server answered with an error of the protocol
   */
  async call({ name, arguments: args }: ToolCall, patience: Patience): Promise<ToolResult> {
    const params = { name, arguments: args };
    const result = await within(patience, `${name}: `, (limits) => this.#wire.ask("tools/call", params, limits, name));
    const { content } = result;
    if (content === undefined || Array.isArray(content)) return result;
    throw new McpError("LOST", `${name}: the server's answer is no result: its content is ${showValue(content)}`);
  }

  /** Ends the session, and the server if it was started for it. Never throws; a second call waits for the first. */
  close(): Promise<void> {
    this.#closing ??= this.#wire.close();
    return this.#closing;
  }
}

/** A client with its transport, and what has become of them. */
class Wire {
  /** The error of every further request; undefined while the session lives. */
  ended: McpError | undefined;
  /** The process of a server that was started. It has one until it ends. */
  pid: number | undefined;
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #types: Types;
  #heard = "";

  constructor(client: Client, transport: Transport, types: Types) {
    this.#client = client;
    this.#transport = transport;
    this.#types = types;
    transport.stderr?.on("data", (chunk) => (this.#heard = (this.#heard + String(chunk)).slice(-STDERR_SHOWN)));
    Object.assign(client, {
      onclose: () =>
        void (this.ended ??= new McpError("LOST", `${transport.fault ?? "the server is gone"}${this.#trouble}`)),
    });
  }

  /** The last part of the server's standard error, as the end of an error message. */
  get #trouble(): string {
    return this.#heard.trim() === "" ? "" : `; it said: ${this.#heard.trim()}`;
  }

  async connect(limits: Limits): Promise<void> {
    await this.#client.connect(this.#transport, limits).catch((error: unknown) => {
      throw new McpError("CONNECT_FAILED", this.#transport.fault ?? `${oneLine(error)}${this.#trouble}`);
    });
    this.pid = this.#transport.pid ?? undefined;
  }

  /**
   * The result of a request, in any form. The schemas that the server lists are not used, because they may be hostile.
   */
  async ask(method: string, params: object, limits: Limits, name: string): Promise<Fields> {
    if (this.ended) throw this.ended;
    const result = await this.#client
      .request({ method, params }, this.#types.ResultSchema, limits)
      .catch((error: unknown) => this.#fail(error, `${name}: `));
    const none = result[NO_RESULT];
    if (typeof none === "string") throw new McpError("LOST", `${name}: the server's answer has no result: ${none}`);
    if (!nestsBeyond(result, MOST_LEVELS)) return result;
    throw new McpError("LOST", `${name}: the server's answer has more than ${MOST_LEVELS} levels`);
  }

  /**
   * Turns an error of the library into an McpError. The library's own codes are ignored, because servers use the same
   * ones: −32000 is "Connection closed" here and, say, "Repository not found" there.
   */
  #fail(error: unknown, where: string): never {
    if (this.ended) throw this.ended;
    if (error instanceof this.#types.McpError) throw new McpError("REFUSED", `${where}${oneLine(error)}`);
    const lost = new McpError("LOST", `${where}${oneLine(error)}${this.#trouble}`);
    if (hasForgotten(error)) this.ended = lost;
    throw lost;
  }

  async close(): Promise<void> {
    this.ended ??= new McpError("LOST", "the session was closed");
    // A server at an address keeps the session until it is told to end it; errors of that request are ignored.
    const told = this.#transport.terminateSession?.().catch(() => undefined);
    if (told) await Promise.race([told, new Promise((resolve) => setTimeout(resolve, FAREWELL).unref())]);
    const { pid } = this.#transport;
    if (typeof pid === "number" && globalThis.process.platform === "win32") endTree(pid);
    await this.#client.close().catch(() => undefined);
  }
}

/**
 * Whether a server at an address no longer knows the session, as after a restart: 404 by the specification, others say
 * 400 or 401. A shared session would otherwise stay useless (modelcontextprotocol/rust-sdk#733). 408 and 429 pass.
 */
function hasForgotten(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === "number" && code >= 400 && code < 500 && code !== 408 && code !== 429;
}

/** An error's message. For an answer that breaks the protocol it names the first place that does. */
function oneLine(error: unknown): string {
  const { issues, message } = error as { issues?: unknown; message?: unknown };
  const first: unknown = Array.isArray(issues) ? issues[0] : undefined;
  if (!isFields(first)) return String(message ?? error);
  const { path, message: what } = first;
  return `the server's answer breaks the protocol: ${Array.isArray(path) ? path.join(".") : ""}: ${String(what)}`;
}

/**
 * Connects to an MCP server, or starts one, and reads the list of its tools.
 * @param patience for all of it
 * @param maxMessageBytes the longest message of the server, and the longest list of tools; beyond it the session ends
 * @throws McpError CONNECT_FAILED with what the server wrote to its standard error
 */
export async function openSession(server: McpServer, patience: Patience, maxMessageBytes: number): Promise<McpSession> {
  const [{ Client }, types] = await loadSdk(() =>
    Promise.all([import("@modelcontextprotocol/sdk/client/index.js"), import("@modelcontextprotocol/sdk/types.js")]),
  );
  let wire: Wire | undefined;
  try {
    const client = new Client({ name: "worldgrad", version: "0.1.0" }) as unknown as Client;
    const made = (wire = new Wire(client, await transportTo(server, maxMessageBytes), types));
    const tools = await within(patience, "", async (limits) => {
      await made.connect(limits);
      return await toolsOf(made, limits, maxMessageBytes);
    });
    return new McpSession(made, tools);
  } catch (error) {
    await wire?.close();
    patience.signal?.throwIfAborted();
    const where = "command" in server ? server.command : server.url;
    const { message } = error as Error;
    throw new McpError("CONNECT_FAILED", `no session with ${where}: ${message.replace(/^mcp: /, "")}`);
  }
}

/**
 * All tools that a server lists, page by page, until no page follows. A page that was read already also ends the list,
 * and the first of several tools with one name counts: some servers return a cursor that never advances
 * (DeusData/codebase-memory-mcp#1247).
 */
async function toolsOf(wire: Wire, limits: Limits, mostBytes: number): Promise<readonly McpTool[]> {
  const tools = new Map<string, McpTool>();
  const read = new Set<unknown>();
  let size = 0;
  let cursor: unknown;
  do {
    read.add(cursor);
    // Each page has its own signal, because the library's client leaves its listeners on it.
    const page = await within({ timeout: LONGEST_TIMER, signal: limits.signal }, "", (own) =>
      wire.ask("tools/list", cursor === undefined ? {} : { cursor }, own, "tools/list"),
    );
    size += JSON.stringify(page).length;
    if (size > mostBytes) throw new McpError("LOST", `the list of tools is over ${mostBytes} bytes`);
    for (const tool of listed(page)) if (!tools.has(tool.name)) tools.set(tool.name, tool);
    cursor = page["nextCursor"] ?? undefined;
  } while (cursor !== undefined && !read.has(cursor));
  return [...tools.values()];
}

function listed({ tools }: Fields): McpTool[] {
  const wrong = (what: string, value: unknown): never => {
    throw new McpError("LOST", `the server's answer is no list of tools: ${what} is ${showValue(value)}`);
  };
  if (!Array.isArray(tools)) return wrong("tools", tools);
  return tools.map((tool: unknown) => {
    const { name, description, inputSchema } = isFields(tool) ? tool : wrong("a tool", tool);
    if (typeof name !== "string" || name === "") return wrong("a tool's name", name);
    if (!isFields(inputSchema)) return wrong(`inputSchema of ${name}`, inputSchema);
    return { name, description: typeof description === "string" ? description : "", inputSchema };
  });
}

/**
 * `fetch` whose answers fail beyond `most` bytes; in a stream of events the limit is for each line, which is a
 * message.
 */
function limitedFetch(most: number): typeof fetch {
  return async (address, init) => {
    const answer = await fetch(address, init);
    if (answer.body === null) return answer;
    const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    let size = 0;
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, out) {
        const begin = isStream ? chunk.lastIndexOf(10) + 1 : 0;
        size = (begin > 0 ? 0 : size) + chunk.length - begin;
        if (size > most) out.error(new McpError("LOST", `a message of the server is over ${most} bytes`));
        else out.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = answer;
    return new Response(answer.body.pipeThrough(counted), { status, statusText, headers });
  };
}

async function transportTo(server: McpServer, maxMessageBytes: number): Promise<Transport> {
  if ("command" in server) {
    const { StdioClientTransport, getDefaultEnvironment } = await loadSdk(
      () => import("@modelcontextprotocol/sdk/client/stdio.js"),
    );
    const env = { ...getDefaultEnvironment(), ...server.env };
    if (globalThis.process.platform !== "win32")
      return new ServerProcess(server, env, maxMessageBytes, await import("@modelcontextprotocol/sdk/types.js"));
    const { command, args = [], cwd } = server;
    return new StdioClientTransport({
      command,
      args: [...args],
      env,
      stderr: "pipe",
      maxBufferSize: maxMessageBytes,
      ...(cwd === undefined ? {} : { cwd }),
    });
  }
  const { StreamableHTTPClientTransport } = await loadSdk(
    () => import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
  );
  const { url, headers } = server;
  let address: URL;
  try {
    address = new URL(url);
  } catch {
    throw new McpError("CONNECT_FAILED", `the server's url must be an address, got ${JSON.stringify(url)}`);
  }
  return new StreamableHTTPClientTransport(address, {
    fetch: limitedFetch(maxMessageBytes),
    ...(headers ? { requestInit: { headers: { ...headers } } } : {}),
    // A stream that breaks is not taken up again behind the episode's back.
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1,
      maxReconnectionDelay: 1,
      reconnectionDelayGrowFactor: 1,
    },
  });
}
