/**
 * An MCP server over its standard input and output, written by hand because the habits that are tried here are those of
 * servers that no library would write. The first argument is a habit.
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: {
    readonly protocolVersion?: string;
    readonly cursor?: string;
    readonly name?: string;
    readonly arguments?: { readonly code?: number; readonly line?: string };
  };
}

const habit = process.argv[2];
const out = (message: object): unknown => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const tool = (name: string, more: object = {}): object => ({
  name,
  inputSchema: { type: "object", properties: {} },
  ...more,
});
const DEEP = `{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
/** Alternatives that take 2³⁰ steps to compile or to check, and a pattern that backtracks over 41 letters for ever. */
const $defs: Record<string, object> = { d0: { type: "string", pattern: "^(a+)+$" } };
for (let i = 1; i <= 30; i++) {
  const below = { $ref: `#/$defs/d${i - 1}` };
  $defs[`d${i}`] = { allOf: [below, below] };
}
const outputSchema = { type: "object", properties: { a: { $ref: "#/$defs/d30" } }, $defs };
const tools = ["fail", "slow", "structured", "wrong", "deep", "crash", "pid"].map((name) =>
  tool(name, name === "structured" ? { outputSchema } : {}),
);

if (habit === "stays" || habit === "deaf") setInterval(() => {}, 1000);
if (habit === "deaf") process.on("SIGTERM", () => {});
const child = habit === "parent" ? spawn("sleep", ["300"], { stdio: "inherit" }) : undefined;

function page(cursor: string | undefined): object {
  switch (habit) {
    case "same cursor":
      return { tools: tools.slice(0, 2), nextCursor: "same" };
    case "empty cursor":
      return { tools: tools.slice(0, 2), nextCursor: "" };
    case "null cursor":
      return { tools: tools.slice(0, 2), nextCursor: null };
    case "endless":
      return { tools: tools.slice(0, 2), nextCursor: String(Number(cursor ?? 0) + 1) };
    case "fat":
      return { tools: [tool(`t${cursor}`, { description: "x".repeat(100_000) })], nextCursor: `${cursor}1` };
    case "pages": {
      const at = Number(cursor ?? 0);
      return { tools: [tools[at]], ...(at + 1 < tools.length ? { nextCursor: String(at + 1) } : {}) };
    }
    case "no list":
      return { tools: { 0: "a" } };
    case "no schema":
      return { tools: [{ name: "a" }] };
    default:
      return { tools };
  }
}

function answer({ id, params: { name, arguments: args } }: Request): unknown {
  const done = (result: object): unknown => out({ id, result });
  switch (name) {
    case "fail":
      return out({ id, error: { code: args?.code, message: "Repository not found" } });
    case "slow":
      return undefined;
    case "structured":
      return done({ content: [{ type: "text", text: "here" }], structuredContent: { a: `${"a".repeat(40)}!` } });
    case "line":
      return process.stdout.write(`${(args?.line ?? "").replace("ID", String(id))}\n`);
    case "wrong":
      return done({ content: "a text" });
    case "deep":
      return process.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":{"structuredContent":${DEEP}}}\n`);
    case "crash":
      process.stderr.write("Traceback: dead\n");
      return process.exit(3);
    default:
      return done({ content: [{ type: "text", text: `${process.pid} ${child?.pid ?? ""}` }] });
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line) as Request;
  const { id, method, params } = request;
  if (method === "initialize") {
    const serverInfo = { name: "by hand", version: "1" };
    out({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") out({ id, result: page(params.cursor) });
  else if (method === "tools/call") answer(request);
});
