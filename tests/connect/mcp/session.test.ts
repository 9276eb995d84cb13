/** What servers do that a client's library does not expect, with a server that was written by hand. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { afterEach, describe, expect, it } from "vitest";
import { mcp } from "../../../connect/mcp/index.ts";
import { McpError, type McpSession, openSession } from "../../../connect/mcp/session.ts";
import { programAt } from "../../support/programs.ts";

const program = programAt("tests/support/mcpServer.ts");
const timeout = 20_000;
const open: McpSession[] = [];
async function session(habit = "", patience = timeout, mostBytes = 1_000_000): Promise<McpSession> {
  const server = { command: process.execPath, args: [program, habit] };
  const made = await openSession(server, { timeout: patience }, mostBytes);
  open.push(made);
  return made;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
});
const problem = (promise: Promise<unknown>): Promise<McpError> =>
  promise.then(
    () => expect.fail("it should fail"),
    (error: McpError) => error,
  );

describe("an error of a server that lives", () => {
  // JSON-RPC leaves −32000 … −32099 to servers; the client's library has "Connection closed" and "Request timed out"
  // there (universal-tool-calling-protocol/typescript-utcp#39). A server may use other numbers as well.
  it.each([-32000, -32001, -32002, -32099, -32603, -1, 0, 404])("with the code %d is the server's", async (code) => {
    const made = await session();
    const error = await problem(made.call({ name: "fail", arguments: { code } }, { timeout }));
    expect(error).toMatchObject({ name: "WorldgradError", code: "REFUSED" });
    expect(error.message).toBe(`mcp: fail: MCP error ${code}: Repository not found`);
    expect(made.isEnded).toBe(false);
    expect(await made.call({ name: "pid", arguments: {} }, { timeout })).toMatchObject({ content: [{ type: "text" }] });
  });

  it("is told apart from no answer and from a death", async () => {
    const made = await session();
    const late = await problem(made.call({ name: "slow", arguments: {} }, { timeout: 50 }));
    expect([late.code, late.message]).toEqual(["TIMEOUT", "mcp: slow: no answer within 50 ms"]);
    const stop = new AbortController();
    const stopped = made.call({ name: "slow", arguments: {} }, { timeout, signal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(stopped).rejects.toThrow(/^enough$/);
    const dead = await problem(made.call({ name: "crash", arguments: {} }, { timeout }));
    expect([dead.code, dead.message]).toEqual(["LOST", "mcp: the server is gone; it said: Traceback: dead"]);
    expect(made.isEnded).toBe(true);
  });
});

describe("an answer", () => {
  it("is not checked with the schema that the server lists: that could take for ever", async () => {
    const made = await session();
    expect(await made.call({ name: "structured", arguments: {} }, { timeout })).toMatchObject({
      content: [{ type: "text", text: "here" }],
    });
  });

  it.each([
    ["wrong", 'mcp: wrong: the server\'s answer is no result: its content is "a text"'],
    ["deep", "mcp: deep: the server's answer has more than 1000 levels"],
  ])("that is %s is an error in a line, and masks the episode", async (name, message) => {
    const made = await session();
    const error = await problem(made.call({ name, arguments: {} }, { timeout }));
    expect([error.code, error.message]).toEqual(["LOST", message]);
  });
});

describe("an answer of a slightly wrong form", () => {
  const answering = async (line: string): Promise<unknown> =>
    (await session()).call({ name: "line", arguments: { line } }, { timeout });
  const content = [{ type: "text", text: "x" }];
  const RESULT = `"result":{"content":${JSON.stringify(content)}`;

  it.each([
    `{"jsonrpc":"2.0","id":ID,${RESULT},"_meta":null}}`,
    `{"jsonrpc":"2.0","id":ID,${RESULT},"_meta":{"progressToken":null}}}`,
    `{"jsonrpc":"2.0","id":ID,${RESULT}},"error":null}`,
    `{"id":ID,${RESULT}}}`,
    `  {"jsonrpc":"2.0","id":ID,"more":1,${RESULT}}}`,
  ])("%s is an answer", async (line) => {
    expect(await answering(line)).toEqual({ content });
  });

  it.each([
    ['"error":{"code":-5}', "REFUSED", 'mcp: line: MCP error -5: {"code":-5}'],
    ['"error":{"code":"GONE","message":"no"}', "REFUSED", 'mcp: line: MCP error -32603: "GONE": no'],
    ['"error":"boom"', "REFUSED", "mcp: line: MCP error -32603: boom"],
    ['"result":null,"error":{"code":1,"message":"no"}', "REFUSED", "mcp: line: MCP error 1: no"],
    ['"result":null', "LOST", "mcp: line: the server's answer has no result: null"],
    ['"result":["a"]', "LOST", 'mcp: line: the server\'s answer has no result: ["a"]'],
    ['"result":"a"', "LOST", 'mcp: line: the server\'s answer has no result: "a"'],
  ])("%s is an error in a line, at once", async (parts, code, message) => {
    const error = await problem(answering(`{"jsonrpc":"2.0","id":ID,${parts}}`));
    expect([error.code, error.message]).toEqual([code, message]);
  });
});

describe("a server that writes without end", () => {
  it.each([
    ["lines", "yes", "over 10000000 bytes that are no message"],
    ["broken objects", "yes '{'", "over 10000000 bytes that are no message"],
    ["no line", "cat /dev/zero", "a message over 10000000 bytes"],
  ])("%s: ends before its time-out, and holds nobody up", async (_, program_, message) => {
    let [last, worst] = [performance.now(), 0];
    const ticks = setInterval(() => {
      worst = Math.max(worst, performance.now() - last);
      last = performance.now();
    }, 10);
    const opening = openSession({ command: "sh", args: ["-c", program_] }, { timeout }, 10_000_000);
    expect((await problem(opening)).message).toBe(`mcp: no session with sh: the server wrote ${message}`);
    clearInterval(ticks);
    expect(worst).toBeLessThan(3000);
  });

  it("logs between its messages are no matter", async () => {
    const made = await session("", timeout, 5000);
    for (let i = 0; i < 10; i++)
      await made.call({ name: "line", arguments: { line: `${"log\n".repeat(20)}{"id":ID,"result":{}}` } }, { timeout });
    expect(made.isEnded).toBe(false);
  });
});

describe("a list of tools", () => {
  const names = (made: McpSession): string[] => made.tools.map(({ name }) => name);

  // One that does not advance: DeusData/codebase-memory-mcp#1247; an empty one: modelcontextprotocol/java-sdk#628.
  it.each(["same cursor", "empty cursor", "null cursor"])("with the %s is there once", async (habit) => {
    expect(names(await session(habit))).toEqual(["fail", "slow"]);
  });

  it("of several pages is read to its end", async () => {
    const all = ["fail", "slow", "structured", "wrong", "deep", "crash", "pid"];
    expect(names(await session("pages"))).toEqual(all);
  });

  it("has one size and one time-out, however many pages it has", async () => {
    expect((await problem(session("fat"))).message).toMatch(
      /no session with .*: the list of tools is over 1000000 bytes/,
    );
    expect((await problem(session("endless", 1500, 1e9))).message).toMatch(
      /no session with .*: no answer within 1500 ms/,
    );
  });

  it("that is none is an error in a line", async () => {
    expect((await problem(session("no list"))).message).toMatch(
      /: the server's answer is no list of tools: tools is {"0":"a"}$/,
    );
    expect((await problem(session("no schema"))).message).toMatch(/no list of tools: inputSchema of a is missing$/);
  });
});

it("a time-out beyond that of timers is as long as a timer can be, not a millisecond", async () => {
  const made = await session("", 3e9);
  expect(await made.call({ name: "pid", arguments: {} }, { timeout: 3e9 })).toMatchObject({ content: [{}] });
});

it("a server at an address that has forgotten its sessions costs the episode, not all that come", async () => {
  const known = new Set<string>();
  let count = 0;
  const server = createServer((request, response) => {
    const text: string[] = [];
    request.setEncoding("utf8").on("data", (chunk: string) => text.push(chunk));
    request.on("end", () => {
      if (request.method !== "POST") return response.writeHead(405).end();
      const { id, method } = JSON.parse(text.join("")) as { id?: number; method: string };
      const session = request.headers["mcp-session-id"];
      const answer = (result: object, headers: object = {}): unknown => {
        response.writeHead(200, { "content-type": "application/json", ...headers });
        return response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
      };
      if (method === "initialize") {
        known.add(`s${++count}`);
        const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo: { name: "x", version: "1" } };
        return answer(result, { "mcp-session-id": `s${count}` });
      }
      // By the specification; the message has the code that the client's library has for a time-out.
      if (!known.has(String(session))) return response.writeHead(404).end('{"error":{"code":-32001}}');
      if (id === undefined) return response.writeHead(202).end();
      if (method === "tools/list") return answer({ tools: [{ name: "who", inputSchema: { type: "object" } }] });
      return answer({ content: [{ type: "text", text: String(session) }] });
    });
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const reward = (): undefined => undefined;
  const spec = mcp({ server: { url }, tools: "all", share: true, task: () => "t", reward, timeout });
  const play = async (): Promise<string> => {
    const env = spec.make();
    await env.reset(0);
    return (await env.step("who")).observation;
  };
  expect(await play()).toBe("s1");
  known.clear();
  expect(await problem(play())).toMatchObject({ code: "LOST" });
  expect(await play()).toBe("s2");
  await spec.close();
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
});

it("a server at an address that never answers a notification, or a farewell, holds nobody up", async () => {
  const server = createServer((request, response) => {
    const text: string[] = [];
    request.setEncoding("utf8").on("data", (chunk: string) => text.push(chunk));
    request.on("end", () => {
      const { id } = (text.length > 0 ? JSON.parse(text.join("")) : {}) as { id?: number };
      if (id === undefined) return; // "initialized", or the end of the session
      response.writeHead(200, { "content-type": "application/json", "mcp-session-id": "s" });
      const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo: { name: "x", version: "1" } };
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    });
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const begin = performance.now();
  const error = await problem(openSession({ url }, { timeout: 300 }, 100_000));
  expect(error.message).toBe(`mcp: no session with ${url}: no answer within 300 ms`);
  expect(performance.now() - begin).toBeLessThan(15_000);
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
}, 30_000);
