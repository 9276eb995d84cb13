/**
 * The processes of a session end with it: also behind a wrapper, with children, deaf to SIGTERM, and when the process
 * that started them is killed. modelcontextprotocol/typescript-sdk#2023, MoonshotAI/kimi-code#1038.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import process from "node:process";
import { describe, expect, it } from "vitest";
import { mcp } from "../../../connect/mcp/index.ts";
import { type McpServer, openSession } from "../../../connect/mcp/session.ts";
import { gone, isAlive } from "../../support/alive.ts";
import { programAt } from "../../support/programs.ts";

const program = programAt("tests/support/mcpServer.ts");
const timeout = 20_000;
const own = (habit: string): McpServer => ({ command: process.execPath, args: [program, habit] });
/** A shell that waits for the server, as `npx` does. */
const wrapped = (habit: string): McpServer => ({
  command: "sh",
  args: ["-c", '"$0" "$@"; true', process.execPath, program, habit],
});

const numbers = (text: string): number[] => text.trim().split(" ").map(Number);

describe("after an episode", () => {
  it.each([
    ["a server with a timer", own("stays")],
    ["the same behind a shell", wrapped("stays")],
    ["behind a shell, deaf to SIGTERM", wrapped("deaf")],
    ["a server and the child that it started", wrapped("parent")],
  ])(
    "%s: no process is left",
    async (_, server) => {
      const env = mcp({ server, tools: "all", task: () => "a task", reward: () => undefined, timeout }).make();
      await env.reset(0);
      const pids = numbers((await env.step("pid")).observation);
      expect(pids.every((pid) => pid > 0 && isAlive(pid))).toBe(true);
      expect((await env.step("answer x")).done).toBe(true);
      await gone(pids);
    },
    60_000,
  );

  it("a server that dies leaves no child, and its death is noticed although the child holds its output", async () => {
    const session = await openSession(own("parent"), { timeout }, 1e6);
    const { content } = await session.call({ name: "pid", arguments: {} }, { timeout });
    const pids = numbers((content as { text: string }[])[0]!.text);
    expect(pids).toHaveLength(2);
    await expect(session.call({ name: "crash", arguments: {} }, { timeout })).rejects.toMatchObject({ code: "LOST" });
    await gone(pids);
  }, 60_000);
});

it("a trainer that is killed leaves no server", async () => {
  const text = `
    import { openSession } from ${JSON.stringify(programAt("connect/mcp/session.ts"))};
    const session = await openSession(${JSON.stringify(wrapped("deaf"))}, { timeout: ${timeout} }, 1e6);
    const { content } = await session.call({ name: "pid", arguments: {} }, { timeout: ${timeout} });
    console.log(content[0].text);`;
  const trainer = spawn(process.execPath, ["--input-type=module", "--eval", text], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: trainer.stdout });
  const pids = numbers(await new Promise<string>((resolve) => lines.once("line", resolve)));
  expect(pids.every((pid) => pid > 0 && isAlive(pid))).toBe(true);
  trainer.kill("SIGKILL");
  await gone(pids);
}, 60_000);
