/** A session with an OpenEnv server that speaks its protocol over real sockets, at its best and at its worst. */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import {
  connect,
  type ConnectOptions,
  type OpenEnvSession,
  type SocketConstructor,
} from "../../environments/openenv/index.ts";
import { closeAfterEach, closeAfterwards, onStep, patience, serve, until } from "../support/openEnv.ts";
import { echoWorld, frame, type Link, type OpenEnvServer } from "../support/openEnvServer.ts";

/** The standard class fits without a cast. */
const standard: (typeof globalThis)["WebSocket"] extends SocketConstructor ? true : false = true;

closeAfterEach();

const session = async (server: OpenEnvServer, options: Partial<ConnectOptions> = {}): Promise<OpenEnvSession> =>
  closeAfterwards(await connect({ url: server.url, WebSocket, ...patience, ...options }));

describe("a session", () => {
  it("resets, steps, tells its state and closes, in the protocol's words", async () => {
    expect(standard).toBe(true);
    const server = await serve();
    const env = await session(server);
    const first = await env.reset({ seed: 3 });
    expect(first).toEqual({ observation: { prompt: "d", hint: "" }, reward: null, done: false });
    expect(await env.step({ message: "hej ✓" })).toEqual({
      observation: { echoed: "hej ✓", length: 5 },
      reward: null,
      done: false,
    });
    expect(await env.state()).toEqual({ episode_id: "episode-3", step_count: 1 });
    expect(await env.step({ message: "abc" })).toMatchObject({ reward: 3, done: true });
    expect(await env.reset({ seed: 1 })).toMatchObject({ observation: { prompt: "b" } });
    env.close();
    env.close();
    await until(() => server.sessions() === 0);
    expect(server.received).toEqual([
      { type: "reset", data: { seed: 3 } },
      { type: "step", data: { message: "hej ✓" } },
      { type: "state" },
      { type: "step", data: { message: "abc" } },
      { type: "reset", data: { seed: 1 } },
      { type: "close" },
    ]);
    await expect(env.state()).rejects.toThrow("openenv: state was called after close");
  });

  it("talks to the environment's MCP server", async () => {
    const server = await serve({ world: echoWorld({ tools: ["add"] }) });
    const env = await session(server);
    expect(await env.mcp("tools/list", { cursor: "x" })).toEqual({ tools: [{ name: "add", params: { cursor: "x" } }] });
    await expect(env.mcp("tools/cook")).rejects.toMatchObject({
      code: "MCP_ERROR",
      message: "openenv: tools/cook: Method not found: tools/cook (-32601)",
    });
    expect(server.received[0]).toEqual({
      type: "mcp",
      data: { jsonrpc: "2.0", id: 1, method: "tools/list", params: { cursor: "x" } },
    });
  });

  it("tells the server's errors with their codes, and lives on after those that are no end", async () => {
    const env = await session(await serve());
    await env.reset();
    await expect(env.step({ massage: "?" })).rejects.toMatchObject({
      code: "VALIDATION_ERROR",
      details: { errors: [{ loc: ["message"] }, { loc: ["massage"] }] },
    });
    await expect(env.step({ message: "crash" })).rejects.toThrow("EXECUTION_ERROR: the environment divided by zero");
    expect(await env.step({ message: "a" })).toMatchObject({ done: false });
  });

  it("reads true and false as rewards, long messages, and messages in parts with pings between", async () => {
    const text = "é".repeat(70_000);
    const answers = [true, false].map((reward) => ({ observation: { text }, reward, done: false }));
    const env = await session(
      await serve({
        intercept: onStep((link) => {
          const bytes = Buffer.from(JSON.stringify({ type: "observation", data: answers.shift() }));
          link.raw(frame(1, bytes.subarray(0, 33), false)); // in the middle of a letter
          link.raw(frame(9, Buffer.from("ping")));
          link.raw(frame(0, bytes.subarray(33, 99), false));
          link.raw(frame(0, bytes.subarray(99)));
        }),
      }),
    );
    await env.reset();
    expect(await env.step({ message: text })).toEqual({ observation: { text }, reward: 1, done: false });
    expect(await env.step({ message: "" })).toMatchObject({ reward: 0 });
  });

  it("waits as long as a timer can where the time-out is longer, instead of a millisecond", async () => {
    const env = await session(await serve(), { timeout: 3e9 }); // nodejs/node#4541
    expect(await env.reset({ seed: 3 })).toMatchObject({ done: false });
  });

  it.each<[string, (link: Link) => void, RegExp]>([
    ["text that is not JSON", (link) => link.text("{oops"), /a frame that is not JSON: "{oops"/],
    ["NaN, which is not JSON", (link) => link.text('{"type":"observation","data":{"reward":NaN}}'), /not JSON/],
    ["JSON that is no frame", (link) => link.json([1]), /a frame that is not \{ type, data \}: "\[1\]"/],
    ["a frame without data", (link) => link.json({ type: "observation" }), /not \{ type, data \}/],
    ["too long", (link) => link.text("x".repeat(10_000_001)), /a frame of 10000001 letters, more than 10000000/],
    [
      "deep",
      (link) =>
        link.text(`{"type":"observation","data":{"observation":{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}}}`),
      /a frame of more than 1000 levels/,
    ],
    ["bytes", (link) => link.raw(frame(2, Buffer.from("{}"))), /a frame that is not text/],
    ["another type", (link) => link.json({ type: "state", data: {} }), /expected a frame of type "observation", got/],
    ["no observation", (link) => link.json({ type: "observation", data: { reward: 1 } }), /an observation that is an/],
    [
      "a word as reward",
      (link) => link.json({ type: "observation", data: { observation: {}, reward: "good" } }),
      /a number or null as reward/,
    ],
    [
      "an endless reward",
      (link) => link.text('{"type":"observation","data":{"observation":{},"reward":1e999}}'),
      /a number or null as reward/,
    ],
    [
      "done that is neither",
      (link) => link.json({ type: "observation", data: { observation: {}, done: 1 } }),
      /done to be true or false/,
    ],
    ["letters that are not UTF-8", (link) => link.raw(frame(1, Buffer.from([0xff, 0xfe]))), /connection .* closed/],
    ["masked frames", (link) => link.raw(Buffer.from([0x81, 0x81, 1, 2, 3, 4, 5])), /closed: .*MASK must be clear/],
    [
      "half a frame, then nothing",
      (link) => (link.raw(Buffer.from([0x81, 5, 65])), link.destroy()),
      /connection .* closed/,
    ],
  ])("an answer that is %s is an error, and the connection is given up", async (_, act, message) => {
    const server = await serve({ intercept: onStep(act) });
    const env = await session(server);
    await env.reset();
    await expect(env.step({ message: "a" })).rejects.toThrow(message);
    await until(() => server.sessions() === 0);
    await expect(env.step({ message: "a" })).rejects.toThrow("only reset can follow");
    expect(await env.reset({ seed: 2 })).toMatchObject({ observation: { prompt: "c" } });
    expect(server.connections()).toBe(2);
  });

  /** Endless floods, each begun by a call and continued by its result. */
  const FLOODS: Readonly<Record<string, (link: Link) => Buffer>> = {
    "parts without end": (link) => (link.raw(frame(1, Buffer.alloc(0), false)), frame(0, Buffer.alloc(0), false)),
    "pings to a server that reads nothing": (link) => (link.deafen(), frame(9, Buffer.alloc(125))),
  };

  it.each(
    Object.entries(FLOODS).flatMap(([what, begin]) =>
      (["in a request", "between two requests"] as const).map((when) => [what, when, begin] as const),
    ),
  )("%s, %s, end the connection before memory does", async (_, when, begin) => {
    const sockets: WebSocket[] = [];
    class Seen extends WebSocket {
      constructor(url: string) {
        super(url);
        sockets.push(this);
      }
    }
    let most = 0;
    const flood = onStep((link) => {
      if (when === "between two requests")
        link.json({ type: "observation", data: { observation: {}, reward: 0, done: false } });
      const unit = begin(link);
      const block = Buffer.concat(Array.from({ length: 4_000 }, () => unit));
      const timer = setInterval(() => {
        most = Math.max(most, sockets[0]!.bufferedAmount);
        link.raw(block);
      }, 1);
      closeAfterwards({ close: () => clearInterval(timer) });
    });
    const env = await session(await serve({ intercept: flood }), { WebSocket: Seen, timeout: 20_000 });
    await env.reset();
    if (when === "in a request") {
      await expect(env.step({ message: "a" })).rejects.toThrow(/connection .* was closed/);
    } else {
      await env.step({ message: "a" });
      await until(() => sockets[0]!.readyState === WebSocket.CLOSED);
      await expect(env.step({ message: "a" })).rejects.toThrow("only reset can follow");
    }
    expect(most).toBeLessThan(2 ** 23);
  });

  it("an answer that comes too late is not taken for the next one's", async () => {
    let late: Link | undefined;
    const server = await serve({ intercept: onStep((link) => (late = link)) });
    const env = await session(server, { timeout: 400 });
    await env.reset();
    await expect(env.step({ message: "a" })).rejects.toMatchObject({
      code: "TIMEOUT",
      message: 'openenv: the answer to "step" took longer than 400 ms',
    });
    late!.json({ type: "observation", data: { observation: { prompt: "late" }, reward: 9, done: true } });
    expect(await env.reset({ seed: 1 })).toMatchObject({ observation: { prompt: "b" } });
  });

  it("aborts at once, with the signal's reason", async () => {
    const server = await serve({ intercept: onStep(() => undefined) });
    const env = await session(server);
    await env.reset();
    const controller = new AbortController();
    const step = env.step({ message: "a" }, { signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(step).rejects.toThrow("enough");
    await until(() => server.sessions() === 0);
  });

  it("one call at a time; close rejects the one that runs", async () => {
    const env = await session(await serve({ intercept: onStep(() => undefined) }));
    await env.reset();
    const step = env.step({ message: "a" });
    await expect(env.state()).rejects.toThrow("openenv: state was called while another call is running");
    env.close();
    await expect(step).rejects.toThrow("openenv: the session was closed");
  });

  it("an unasked frame that is no error ends the connection; the next reset has a new one", async () => {
    const server = await serve({
      onConnect: (link, count) => {
        if (count === 0) link.json({ type: "observation", data: { observation: {}, reward: 1, done: true } });
        return false;
      },
    });
    const env = await session(server);
    await until(() => server.sessions() === 0);
    expect(await env.reset({ seed: 4 })).toMatchObject({ observation: { prompt: "e" } });
  });
});

describe("reconnecting", () => {
  it("waits for a place on a full server", async () => {
    const server = await serve({ maxSessions: 1 });
    const [first, second] = [await session(server), await session(server, { reconnect: { attempts: 9, pause: 10 } })];
    await first.reset();
    const waiting = second.reset({ seed: 5 });
    await until(() => server.connections() >= 4);
    first.close();
    expect(await waiting).toMatchObject({ observation: { prompt: "f" } });
    expect(server.mostSessions()).toBe(1);
  });

  it("gives up on a full server after the attempts it was given, in one sentence", async () => {
    const server = await serve({ maxSessions: 1 });
    const [first, second] = [await session(server), await session(server)];
    await first.reset();
    await expect(second.reset()).rejects.toMatchObject({
      code: "CAPACITY_REACHED",
      message:
        "openenv: reset: gave up after 3 attempts; the last: openenv: the server says CAPACITY_REACHED: " +
        "Server at capacity: 1/1 sessions active. Cannot accept new connections.",
      details: { active_sessions: 1, max_sessions: 1 },
    });
  });

  it("says what is wrong when no server is there, or it is not one", async () => {
    const server = await serve();
    const url = server.url;
    const elsewhere = session(server, { url: `${url}/elsewhere`, reconnect: { attempts: 0 } });
    await expect(elsewhere).rejects.toThrow(
      /gave up after 1 attempt; .*elsewhere\/ws: Unexpected server response: 404/,
    );
    await server.close();
    await expect(session(server)).rejects.toThrow(
      /^openenv: connecting: gave up after 3 attempts; .* no connection to ws:\/\/127.*ECONNREFUSED/,
    );
  });

  it("a server that accepts and stays silent is no server", async () => {
    const sockets = new Set<Socket>();
    const mute = closeAfterwards(
      createServer((socket) => void sockets.add(socket.resume().on("close", () => sockets.delete(socket)))),
    );
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`;
    const silent = connect({ url, WebSocket, timeout: 30, reconnect: { attempts: 1, pause: 1 } });
    await expect(silent).rejects.toThrow(/gave up after 2 attempts; .* took longer than 30 ms/);
    await until(() => sockets.size === 0);
  });

  it("finds a server that comes up late", async () => {
    const gone = await serve();
    await gone.close();
    const env = connect({ url: gone.url, WebSocket, reconnect: { attempts: 9, pause: 20 } });
    await new Promise((resolve) => setTimeout(resolve, 60));
    await serve({}, gone.port);
    closeAfterwards(await env);
    expect(await (await env).reset({ seed: 0 })).toMatchObject({ observation: { prompt: "a" } });
  });

  it("a server that dies in an episode ends it; reset goes on with the next server at that address", async () => {
    const server = await serve();
    const env = await session(server, { reconnect: { attempts: 5, pause: 10 } });
    await env.reset();
    await env.step({ message: "a" });
    await server.close();
    await expect(env.step({ message: "b" })).rejects.toThrow(
      /the connection to .* was closed.*: the episode is lost with its connection, only reset can follow/,
    );
    const again = await serve({}, server.port);
    expect(await env.reset({ seed: 2 })).toMatchObject({ observation: { prompt: "c" } });
    expect(again.received).toEqual([{ type: "reset", data: { seed: 2 } }]);
  });

  it("a step that was sent is never sent again", async () => {
    const server = await serve({ intercept: onStep((link) => link.destroy()) });
    const env = await session(server);
    await env.reset();
    await expect(env.step({ message: "a" })).rejects.toMatchObject({ code: "CONNECTION_LOST" });
    expect(server.received.filter(({ type }) => type === "step").length).toBe(1);
  });

  it("a factory that fails is not asked again", async () => {
    const server = await serve({
      onConnect: (link) => {
        link.json({ type: "error", data: { message: "no such world", code: "FACTORY_ERROR", factory_name: "W" } });
        link.close();
        return true;
      },
    });
    const env = await session(server);
    await expect(env.reset()).rejects.toMatchObject({ code: "FACTORY_ERROR", details: { factory_name: "W" } });
    expect(server.connections()).toBe(1);
  });
});
