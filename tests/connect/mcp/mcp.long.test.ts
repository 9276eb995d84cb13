/**
 * The tools of real MCP servers as environments: `server-everything` as a child process and over streamable HTTP, and
 * `server-filesystem` with a folder of each episode's own. Processes end with their episodes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Rng } from "../../../engine/random.ts";
import { mcp, McpEnvironment, type McpOptions } from "../../../connect/mcp/index.ts";
import { openSession } from "../../../connect/mcp/session.ts";
import type { Trajectory } from "../../../rl/episode/stream.ts";
import { rollout } from "../../../rl/play/rollout.ts";
import { reference } from "../../support/rlExecutors.ts";
import { endingModel, toyTemplate } from "../../support/rlToy.ts";

const require = createRequire(import.meta.url);
const program = (name: string): string => require.resolve(`@modelcontextprotocol/${name}/dist/index.js`);
const everything = { command: process.execPath, args: [program("server-everything")] };
/** Milliseconds: processes start slowly on a busy machine. */
const timeout = 60_000;

const folder = mkdtempSync(join(tmpdir(), "worldgrad-mcp-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sums = (options: Partial<McpOptions> = {}): ReturnType<typeof mcp> =>
  mcp({
    server: everything,
    tools: ["get-sum", "echo", "get-tiny-image", "trigger-long-running-operation"],
    task: (seed) => ({ text: `${seed} + 5?`, data: seed + 5 }),
    reward: ({ isOver, answer, data }) => (isOver ? Number(answer === String(data)) : undefined),
    describe: false,
    timeout,
    ...options,
  });

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 2_000 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}

describe("a server of one's own", () => {
  it("plays an episode: calls in both forms, mistakes, tools that are not allowed, an answer", async () => {
    const env = sums({ maxResultChars: 40 }).make();
    expect(await env.reset(2)).toBe("2 + 5?");
    expect(await env.step("get-sum 2 5")).toMatchObject({
      observation: "The sum of 2 and 5 is 7.",
      reward: 0,
      done: false,
    });
    expect(await env.step('{"name":"echo","arguments":{"message":"hi"}}')).toMatchObject({ observation: "Echo: hi" });
    const refused = await env.step("get-env");
    expect(refused).toMatchObject({ observation: expect.stringContaining('invalid action: unknown tool "get-env"') });
    expect(refused.info).toEqual({ family: "mcp", level: 1, success: false, turns: 3, toolErrors: 1 });
    // The server itself checks arguments; what it says is told.
    const wrong = await env.step('{"name":"get-sum","arguments":{"a":"x"}}');
    expect(wrong.observation.length).toBeLessThan(90);
    expect(wrong.info).toMatchObject({ toolErrors: 2 });
    expect((env as McpEnvironment).episode.turns.map(({ name, isError }) => [name, isError])).toEqual([
      ["get-sum", false],
      ["echo", false],
      ["get-sum", true],
    ]);
    expect((await env.step("get-tiny-image")).observation).toMatch(/\[image image\/png, \d+ bytes\]|left out/);
    expect(await env.step("answer 7")).toMatchObject({ reward: 1, done: true, info: { success: true, turns: 6 } });
  });

  it("is called several times by one action, as models write it, up to the call that ends the episode", async () => {
    const call = (name: string, args: object): string =>
      `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
    const env = sums({ maxTurns: 2 }).make();
    await env.reset(2);
    const text = `<think>\nTwo sums.\n</think>\n\nBoth.\n${call("get-sum", { a: 1, b: 2 })}\n`;
    const first = await env.step(text + call("get-some", {}) + call("echo", { message: "x" }));
    expect(first.observation.split("\n")).toEqual([
      "[1/3]",
      "The sum of 1 and 2 is 3.",
      "[2/3]",
      'invalid action: unknown tool "get-some"; did you mean get-sum?',
      "[3/3]",
      "Echo: x",
    ]);
    expect(first.info).toMatchObject({ turns: 1, toolErrors: 1 });
    const last = await env.step(call("echo", { message: "y" }) + call("answer", { text: 7 }) + call("echo", {}));
    expect(last).toMatchObject({ observation: "[1/3]\nEcho: y", reward: 1, done: true, info: { success: true } });
    expect((env as McpEnvironment).episode.turns.map(({ result }) => result)).toEqual([
      "The sum of 1 and 2 is 3.",
      "Echo: x",
      "Echo: y",
    ]);
  });

  it.each(["answer 7", '{"name":"answer","arguments":{"text":"7"}}', '<tool_call>{"name":"answer","arguments":[7]}'])(
    "takes %s as the end or tells the agent why not",
    async (action) => {
      const env = sums().make();
      await env.reset(2);
      const { done, observation } = await env.step(action);
      expect([done, observation]).toEqual(
        action.includes("[7]") ? [false, 'invalid action: answer: "arguments" must be an object'] : [true, ""],
      );
      env.close?.();
    },
    90_000,
  );

  it("that dies or is too slow ends the episode, which is masked; and the process is gone afterwards", async () => {
    const session = await openSession(everything, { timeout }, 10_000_000);
    process.kill(session.pid!, "SIGKILL");
    await until(() => session.isEnded);
    await expect(session.call({ name: "echo", arguments: { message: "x" } }, { timeout })).rejects.toMatchObject({
      name: "WorldgradError",
      code: "LOST",
    });
    await session.close();

    const slow = sums({ timeout });
    const env = slow.make();
    await env.reset(1);
    const call = new AbortController();
    setTimeout(() => call.abort(new Error("enough")), 50);
    const step = env.step("trigger-long-running-operation duration=60 steps=60", { signal: call.signal });
    await expect(step).rejects.toThrow("enough");
    await expect(env.step("echo x")).rejects.toThrow("called after a call failed");
  });

  it("cannot be started, or lacks a tool: one clear line", async () => {
    const none = sums({ server: { command: "no-such-program-here" } }).make();
    await expect(none.reset(0)).rejects.toThrow("mcp: no session with no-such-program-here: ");
    const dying = { command: process.execPath, args: ["-e", "console.error('no key given'); process.exit(3)"] };
    await expect(sums({ server: dying }).make().reset(0)).rejects.toThrow(/no session with .*it said: no key given/s);
    const chatty = {
      command: process.execPath,
      args: ["-e", "process.stdout.write('x'.repeat(5000)); setTimeout(()=>{}, 60000)"],
    };
    await expect(sums({ server: chatty, maxMessageBytes: 1000 }).make().reset(0)).rejects.toThrow("no session with");
    expect(() => sums({ maxTurns: 0 })).toThrow("mcp: maxTurns must be");
    expect(() => mcp({ tools: "all" } as unknown as McpOptions)).toThrow("mcp: server must be");
  });
});

describe("one session for all episodes", () => {
  it("is shared, taken up again after the server died, and closed once; demonstrations are played on it", async () => {
    const spec = sums({
      share: true,
      expert: ({ turns, seed }) =>
        turns.length === 0 ? `get-sum a=${seed} b=5` : `answer ${/is (\d+)/.exec(turns[0]!.result)![1]}`,
      actions: ["echo message=hi"],
    });
    const [first, second] = [spec.make(), spec.make()];
    expect(await Promise.all([first.reset(1), second.reset(2)])).toEqual(["1 + 5?", "2 + 5?"]);
    const answers = await Promise.all([first.step("get-sum 1 1"), second.step("get-sum 2 2")]);
    expect(answers.map((a) => a.observation)).toEqual(["The sum of 1 and 1 is 2.", "The sum of 2 and 2 is 4."]);
    await expect(spec.tools()).resolves.toMatchObject([{ name: "echo" }, { name: "get-sum" }, {}, {}]);
    expect(spec.random(new Rng(0))).toBe("echo message=hi");

    const env = spec.make();
    await env.reset(3);
    expect(spec.expert!(env)).toBe("get-sum a=3 b=5");
    await env.step(spec.expert!(env));
    expect(await env.step(spec.expert!(env))).toMatchObject({ reward: 1, done: true });
    await spec.close();
    // A call on the session that was closed is an error; the next episode has a new one.
    await expect(second.step("echo x")).rejects.toThrow("the session was closed");
    expect(await spec.make().reset(4)).toBe("4 + 5?");
    await spec.close();
  });
});

describe("a folder of each episode's own", () => {
  it("is set up by the server's function, changed by tools, and judged by what is in it", async () => {
    const spec = mcp({
      server: (seed) => {
        const own = mkdtempSync(join(folder, `${seed}-`));
        writeFileSync(join(own, "note.txt"), `the word is ${"abc"[seed]}`);
        return { command: process.execPath, args: [program("server-filesystem"), own], cwd: own };
      },
      tools: ["read_text_file", "write_file"],
      task: (_, { tools }) => `Write the word into word.txt. Tools: ${tools.length}.`,
      async reward({ isOver, call, seed }) {
        const { content, isError } = await call("read_text_file", { path: "word.txt" });
        const solved = isError !== true && (content as { text: string }[])[0]!.text === "abc"[seed];
        return solved ? { reward: 1, done: true } : isOver ? 0 : undefined;
      },
      timeout,
    });
    const env = spec.make();
    const task = await env.reset(1);
    expect(task).toMatch(/^Write the word into word.txt. Tools: 2.\nread_text_file path \[tail\] \[head\]: /);
    expect(task).toMatch(/\nanswer TEXT: ends with this answer$/);
    expect(await env.step("read_text_file note.txt")).toMatchObject({ observation: "the word is b", done: false });
    const outside = await env.step("read_text_file /etc/passwd");
    expect(outside.observation).toContain("Access denied");
    expect(outside.info["toolErrors"]).toBe(1);
    const done = await env.step("write_file path=word.txt content=b");
    expect(done).toMatchObject({ reward: 1, done: true, info: { success: true } });
  });
});

describe("streamable HTTP", () => {
  let server: ChildProcess;
  let url = "";
  beforeAll(async () => {
    const probe = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => probe.once("listening", resolve));
    const { port } = probe.address() as AddressInfo;
    await new Promise((resolve) => probe.close(resolve));
    url = `http://127.0.0.1:${port}/mcp`;
    server = spawn(process.execPath, [program("server-everything"), "streamableHttp"], {
      env: { ...process.env, PORT: String(port) },
      stdio: ["ignore", "ignore", "pipe"],
    });
    await new Promise<void>((resolve, reject) => {
      server.once("exit", () => reject(new Error("the server ended")));
      server.stderr!.on("data", (text) => /listening/i.test(String(text)) && resolve());
    });
  });
  afterAll(() => void server.kill());

  it("works as a child process does, and a server that is gone ends the episode", async () => {
    const spec = sums({ server: { url }, late: "tell" });
    const env = spec.make();
    await env.reset(3);
    expect(await env.step("get-sum 3 5")).toMatchObject({ observation: "The sum of 3 and 5 is 8." });
    const impatient = sums({ server: { url }, late: "tell", timeout: 3_000 }).make();
    await impatient.reset(0);
    const late = await impatient.step("trigger-long-running-operation duration=60 steps=1");
    expect(late).toMatchObject({ done: false, info: { toolErrors: 1 } });
    expect(late.observation).toBe("trigger-long-running-operation: no answer within 3000 ms");
    impatient.close!();
    server.kill("SIGKILL");
    await new Promise((resolve) => server.once("exit", resolve));
    await expect(env.step("get-sum 3 5")).rejects.toThrow("mcp: ");
    await expect(
      sums({ server: { url: "nowhere" } })
        .make()
        .reset(0),
    ).rejects.toThrow("must be an address");
  });
});

it("an end from outside is scored by `end`, with the server at hand; without it nothing is said", async () => {
  const scored = sums({
    end: async ({ isOver, answer, turns, call }, reason) => {
      const [content] = (await call("get-sum", { a: 1, b: 1 })).content as { text: string }[];
      return { reward: turns.length / 4, success: isOver && answer === undefined && content!.text.includes(reason) };
    },
  }).make();
  await scored.reset(2);
  await scored.step("get-sum 2 5");
  const info = { family: "mcp", level: 1, success: false, turns: 1, toolErrors: 0 };
  expect(await scored.end!("max_turns")).toEqual({ reward: 0.25, info });
  const silent = sums().make();
  await silent.reset(2);
  expect(await silent.end!("max_turns")).toBeUndefined();
  silent.close!();
});

it("an episode whose server dies, or whose judge throws, is masked in a rollout", async () => {
  const model = endingModel(await reference.open());
  const play = async (options: Partial<McpOptions>): Promise<Trajectory> => {
    const request = { spec: sums({ task: () => "a", ...options }), options: {}, seed: 0, group: 0, rng: new Rng(1) };
    return (await rollout(model, toyTemplate, [request], { timeout }))[0]!;
  };
  const dying = { command: process.execPath, args: ["-e", "process.exit(3)"] };
  expect(await play({ server: dying })).toMatchObject({ masked: true, stopReason: "tool_error" });
  const judged = await play({ reward: () => Promise.reject(new Error("the judge fell over")) });
  expect(judged).toMatchObject({ masked: true, stopReason: "tool_error", info: { error: "the judge fell over" } });
});
