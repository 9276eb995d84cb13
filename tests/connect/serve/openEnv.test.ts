/**
 * A built-in environment served over OpenEnv's protocol, played by our OpenEnv client: the same episode as without a
 * server, and mistakes, full servers and sessions as the protocol has them.
 */
import { once } from "node:events";
import { WebSocket } from "ws";
import { afterEach, expect, it } from "vitest";
import { type Environment, ENVIRONMENTS, openEnv, type StepResult } from "../../../environments/index.ts";
import { connect } from "../../../environments/openenv/index.ts";
import { type OpenEnvServer, serveOpenEnv } from "../../../connect/serve/index.ts";

let server: OpenEnvServer;
afterEach(() => server.close(), 60_000);
const patience = { timeout: 30_000, reconnect: { attempts: 0, pause: 5 } } as const;

it("an episode of terminal over the wire is the episode itself", async () => {
  const spec = ENVIRONMENTS["terminal"]!;
  server = await serveOpenEnv(spec, { levels: [1, 1] });
  const own = spec.make({ levels: [1, 1] });
  const text = ({ text }: Readonly<Record<string, unknown>>): string => String(text);
  const remote = openEnv({ url: server.url, WebSocket, action: "message", observe: text, ...patience }).make();
  expect(await remote.reset(11)).toBe(await own.reset(11));
  for (let isDone = false; !isDone;) {
    const action = spec.expert!(own);
    const [here, there] = [await own.step(action), await remote.step(action)];
    expect([there.observation, there.reward, there.done]).toEqual([here.observation, here.reward, here.done]);
    isDone = here.done;
  }
}, 60_000);

it("refuses what the protocol refuses", async () => {
  server = await serveOpenEnv(ENVIRONMENTS["calculator"]!, {}, { maxSessions: 1 });
  const session = await connect({ url: server.url, WebSocket, ...patience });
  await expect(session.step({ message: "1" })).rejects.toMatchObject({ code: "EXECUTION_ERROR" });
  const { observation, reward, done } = await session.reset({ seed: 3, episode_id: "mine" });
  expect([Object.keys(observation), reward, done]).toEqual([["text"], null, false]);
  await expect(session.step({ massage: "1" })).rejects.toMatchObject({
    code: "VALIDATION_ERROR",
    details: { errors: [{ loc: ["message"] }, { loc: ["massage"] }] },
  });
  await expect(session.step({ message: 1 })).rejects.toMatchObject({ code: "VALIDATION_ERROR" });
  await session.step({ message: "nonsense" });
  expect(await session.state()).toEqual({ episode_id: "mine", step_count: 1 });
  const second = await connect({ url: server.url, WebSocket, ...patience });
  await expect(second.reset()).rejects.toMatchObject({ code: "CAPACITY_REACHED" });
  await expect(session.mcp("tools/list")).rejects.toThrow("tools/list: Environment does not support MCP (-32603)");
  await expect(session.mcp("resources/list")).rejects.toThrow("Method not found: resources/list (-32601)");
  await session.reset();
  session.close();
  await expect(serveOpenEnv(ENVIRONMENTS["calculator"]!, { levels: [9, 9] })).rejects.toThrow("calculator");
}, 60_000);

it("has over HTTP what `openenv validate --url` asks for, and no episode without a connection", async () => {
  const spec = ENVIRONMENTS["calculator"]!;
  server = await serveOpenEnv(spec);
  const read = async (path: string, body?: string): Promise<unknown> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${server.url}${path}`, body === undefined ? {} : { method: "POST", headers, body });
    return answer.ok ? answer.json() : answer.status;
  };
  expect(await read("/health")).toEqual({ status: "healthy" });
  expect(await read("/metadata")).toMatchObject({ name: "calculator", description: spec.description });
  const schema = (await read("/schema")) as Record<string, { required?: string[]; properties: object }>;
  expect(Object.keys(schema)).toEqual(["action", "observation", "state"]);
  expect(schema["action"]!.required).toEqual(["message"]);
  // The schemas are those of what is sent: an episode has no field that they do not have.
  const session = await connect({ url: server.url, WebSocket, ...patience });
  await session.reset({ seed: 1 });
  const { observation } = await session.step({ message: "nonsense" });
  expect(Object.keys(schema["observation"]!.properties)).toEqual(expect.arrayContaining(Object.keys(observation)));
  expect(Object.keys(await session.state())).toEqual(Object.keys(schema["state"]!.properties));
  session.close();
  const { info, paths } = (await read("/openapi.json")) as { info: { version: string }; paths: object };
  expect([info.version, Object.keys(paths)]).toEqual(["1.0.0", ["/health", "/metadata", "/schema", "/mcp"]]);
  const rpc = (id: unknown, code: number): object => ({ jsonrpc: "2.0", id, error: { code, data: null } });
  expect(await read("/mcp", "{}")).toMatchObject(rpc(null, -32600));
  expect(await read("/mcp", '{"jsonrpc":"2.0","id":3,"method":"tools/call"}')).toMatchObject(rpc(3, -32603));
  expect(await Promise.all([read("/reset", "{}"), read("/toString"), read("/mcp")])).toEqual([404, 404, 404]);
}, 60_000);

it.each<[string, unknown, string]>([
  ["no answer", undefined, "expected the answer to be"],
  ["a reward that is a text", { observation: "", reward: "1", done: true, info: {} }, "expected reward to be a number"],
  ["no info", { observation: "", reward: 1, done: true }, "expected info to be an object"],
])("%s of the environment that is served is an error in a sentence", async (_, answer, says) => {
  const theirs = {
    ...ENVIRONMENTS["calculator"]!,
    name: "theirs",
    make: (): Environment => ({
      name: "theirs",
      reset: (seed) => Promise.resolve(seed === 1 ? (7 as unknown as string) : "a"),
      step: () => Promise.resolve(answer as StepResult),
    }),
  };
  server = await serveOpenEnv(theirs);
  const session = await connect({ url: server.url, WebSocket, ...patience });
  const failed = (said: string): object => ({
    code: "EXECUTION_ERROR",
    message: expect.stringContaining(said) as string,
  });
  await expect(session.reset({ seed: 1 })).rejects.toMatchObject(failed("theirs.reset: expected the task as a string"));
  await session.reset({ seed: 2 });
  await expect(session.step({ message: "1" })).rejects.toMatchObject(failed(`theirs.step: ${says}`));
  session.close();
});

it("is closed to pages of other sites, which browsers let open sockets, and under other names", async () => {
  server = await serveOpenEnv(ENVIRONMENTS["calculator"]!, {});
  const opened = (headers: Readonly<Record<string, string>>): Promise<string> =>
    new Promise((resolve) => {
      const socket = new WebSocket(`${server.url.replace("http", "ws")}/ws`, { headers });
      socket.on("error", (error) => resolve(error.message));
      socket.on("open", () => (socket.close(), resolve("open")));
    });
  const refused = "Unexpected server response: 403";
  expect(await opened({ origin: "https://evil.example" })).toBe(refused);
  expect(await opened({ origin: "https://localhost.evil.example" })).toBe(refused);
  expect(await opened({ origin: "null" })).toBe(refused);
  expect(await opened({ host: "evil.example" })).toBe(refused);
  expect(await opened({ origin: "http://localhost:5173" })).toBe("open");
  expect(await opened({})).toBe("open");
});

it("reads no further where messages wait, and answers them all when it can", async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const step = async (): Promise<StepResult> => {
    await held;
    return { observation: "b", reward: 0, done: false, info: {} };
  };
  const make = (): Environment => ({ name: "slow", reset: () => Promise.resolve("a"), step });
  server = await serveOpenEnv({ ...ENVIRONMENTS["calculator"]!, make });
  const socket = new WebSocket(`${server.url.replace("http", "ws")}/ws`);
  let answers = 0;
  const all = new Promise<void>((resolve) => {
    socket.on("message", () => void (++answers === 1_001 && resolve()));
  });
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "reset", data: {} }));
  const message = JSON.stringify({ type: "step", data: { message: "x".repeat(32_000) } });
  for (let i = 0; i < 1_000; i++) socket.send(message);
  // Until nothing moves any more: 32 MB are more than the buffers of two sockets.
  for (let still = 0, seen = -1; still < 10; still = seen === socket.bufferedAmount ? still + 1 : 0) {
    seen = socket.bufferedAmount;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(socket.bufferedAmount).toBeGreaterThan(2 ** 20);
  expect(answers).toBe(1);
  release();
  await all;
  expect(socket.bufferedAmount).toBe(0);
  socket.close();
}, 30_000);
