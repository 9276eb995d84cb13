/**
 * A session with an MCP server (Model Context Protocol, modelcontextprotocol.io) through the official client,
 * `@modelcontextprotocol/sdk`, an optional peer that is loaded when the first session is opened: a child process that
 * is spoken to over its standard input and output, or an address that speaks "streamable HTTP". Only tools are used,
 * not prompts, resources or sampling.
 */
import { WorldgradError } from "../engine/errors.ts";
import type { Fields, McpTool, ToolCall, ToolResult } from "./toolCall.ts";

/** An MCP server that is started for a session, as a child process; it gets no variable that is not named here. */
export interface McpCommand {
  readonly command: string;
  readonly args?: readonly string[];
  /** Environment variables, beside a few harmless ones (PATH, HOME, …) that the client's library passes on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** An MCP server at an address. */
export interface McpAddress {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where an MCP server is: a command that starts one, or its address. */
export type McpServer = McpCommand | McpAddress;

/** How long a call may take. */
export interface Patience {
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal?: AbortSignal | undefined;
}

/** What is wrong with a server. TIMEOUT: no answer in time; LOST: it is gone; REFUSED: it answered with an error. */
export class McpError extends WorldgradError {
  readonly code: "CONNECT_FAILED" | "TIMEOUT" | "LOST" | "REFUSED";
  constructor(code: McpError["code"], message: string) {
    super(`mcp: ${message}`);
    this.code = code;
  }
}

/** The part of the library's client and transports that is used here. */
interface Client {
  connect(transport: unknown, options: object): Promise<void>;
  listTools(params: object, options: object): Promise<{ tools: readonly ListedTool[]; nextCursor?: string }>;
  callTool(params: object, schema: undefined, options: object): Promise<ToolResult>;
  close(): Promise<void>;
}
interface ListedTool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: Fields;
}
interface Transport {
  readonly stderr?: { on(event: "data", listener: (chunk: unknown) => void): void } | null;
  readonly pid?: number | null;
  terminateSession?(): Promise<void>;
  close(): Promise<void>;
}

/** The largest number of pages of a tool list that are read, in case a server's list never ends. */
const MOST_PAGES = 100;
const STDERR_SHOWN = 400;

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

/** A session with an MCP server; `openSession` makes one. Several calls may run at once. */
export class McpSession {
  /** All tools that the server lists. */
  readonly tools: readonly McpTool[];
  /** The process of a server that was started, if there is one. */
  readonly pid: number | undefined;
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #trouble: () => string;
  #ended: McpError | undefined;
  #closing: Promise<void> | undefined;

  constructor(client: Client, transport: Transport, tools: readonly McpTool[], trouble: () => string) {
    this.tools = tools;
    this.pid = transport.pid ?? undefined;
    this.#client = client;
    this.#transport = transport;
    this.#trouble = trouble;
    Object.assign(client, {
      onclose: () => void (this.#ended ??= new McpError("LOST", `the server is gone${trouble()}`)),
    });
  }

  /** Whether the server is gone or the session was closed. */
  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  /**
   * Calls a tool. A tool that fails says so in its result (`isError`).
   * @throws McpError TIMEOUT, LOST, or REFUSED if the server answered with an error of the protocol
   */
  async call({ name, arguments: args }: ToolCall, { timeout, signal }: Patience): Promise<ToolResult> {
    if (this.#ended) throw this.#ended;
    try {
      return await this.#client.callTool({ name, arguments: args }, undefined, {
        timeout,
        maxTotalTimeout: timeout,
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw this.#ended ?? translated(error, `${name}: `, timeout, this.#trouble);
    }
  }

  /** Ends the session, and the server if it was started for it. Never throws; a second call waits for the first. */
  close(): Promise<void> {
    this.#ended ??= new McpError("LOST", "the session was closed");
    this.#closing ??= shut(this.#client, this.#transport);
    return this.#closing;
  }
}

async function shut(client: Client, transport: Transport): Promise<void> {
  const pid = transport.pid ?? undefined;
  // A server at an address keeps the session until it is told to end it; errors of that request are ignored.
  await transport.terminateSession?.().catch(() => undefined);
  // A server that was started gets no time to say goodbye: an episode is over, and the next one has its own.
  if (pid !== undefined) end(pid);
  await client.close().catch(() => undefined);
}

function end(pid: number): void {
  try {
    globalThis.process.kill(pid);
  } catch {
    // The process has ended by itself.
  }
}

/** Turns an error of the library into an McpError. */
function translated(error: unknown, where: string, timeout: number, trouble: () => string): McpError {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = String(message ?? error);
  if (code === -32001) return new McpError("TIMEOUT", `${where}no answer within ${timeout} ms`);
  if (code === -32000) return new McpError("LOST", `${where}the server is gone${trouble()}`);
  // The protocol's codes are negative; what fails otherwise is the connection.
  return new McpError(typeof code === "number" && code < 0 ? "REFUSED" : "LOST", `${where}${text}`);
}

/**
 * Connects to an MCP server, or starts one, and reads the list of its tools.
 * @param maxMessageBytes the longest message of the server; a longer one ends the session
 * @throws McpError CONNECT_FAILED with what the server wrote to its standard error
 */
export async function openSession(
  server: McpServer,
  { timeout, signal }: Patience,
  maxMessageBytes: number,
): Promise<McpSession> {
  const { Client } = await loadSdk(() => import("@modelcontextprotocol/sdk/client/index.js"));
  const client = new Client({ name: "worldgrad", version: "0.1.0" }) as unknown as Client;
  const transport = await transportTo(server, maxMessageBytes);
  let heard = "";
  transport.stderr?.on("data", (chunk) => (heard = (heard + String(chunk)).slice(-STDERR_SHOWN)));
  const trouble = (): string => (heard.trim() === "" ? "" : `; it said: ${heard.trim()}`);
  const options = { timeout, maxTotalTimeout: timeout, ...(signal ? { signal } : {}) };
  try {
    await client.connect(transport, options);
    const tools: McpTool[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page++) {
      const listed = await client.listTools(cursor === undefined ? {} : { cursor }, options);
      for (const { name, description = "", inputSchema } of listed.tools)
        tools.push({ name, description, inputSchema });
      cursor = listed.nextCursor;
      if (cursor === undefined) break;
    }
    return new McpSession(client, transport, tools, trouble);
  } catch (error) {
    await shut(client, transport);
    signal?.throwIfAborted();
    const where = "command" in server ? server.command : server.url;
    const { message } = translated(error, "", timeout, trouble);
    throw new McpError("CONNECT_FAILED", `no session with ${where}: ${message.replace(/^mcp: /, "")}`);
  }
}

/** `fetch` whose answers fail beyond so many bytes, a stream of events beyond so many in a line: a message is one. */
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
    const { StdioClientTransport } = await loadSdk(() => import("@modelcontextprotocol/sdk/client/stdio.js"));
    const { command, args = [], env, cwd } = server;
    return new StdioClientTransport({
      command,
      args: [...args],
      stderr: "pipe",
      maxBufferSize: maxMessageBytes,
      ...(env ? { env: { ...env } } : {}),
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
