/** `--env openenv`: a server's environment by plain options, with no more sessions than it admits. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { WebSocket } from "ws";
import { type EnvironmentOptions, ENVIRONMENTS } from "../../environments/index.ts";
import { openEnvWorld } from "../../environments/openenv/world.ts";
import { Rng } from "../../engine/random.ts";
import { presetFor } from "../../run/presets.ts";
import { startOptions } from "../../run/startOptions.ts";
import { type OpenEnvServer, serveOpenEnv } from "../../connect/serve/openEnv.ts";
import { closeAfterEach, onStep, serve } from "../support/openEnv.ts";

closeAfterEach();

let server: OpenEnvServer;
const here = globalThis as { WebSocket?: unknown };
const before = here.WebSocket;
beforeAll(async () => {
  here.WebSocket = WebSocket;
  server = await serveOpenEnv(ENVIRONMENTS["calculator"]!, { levels: [1, 1] }, { maxSessions: 2 });
});
afterAll(async () => {
  if (before === undefined) delete here.WebSocket;
  await server.close();
});

const optionsOf = (): EnvironmentOptions =>
  ({ url: server.url, demonstration: ["calc 1+2", "answer 3"], sessions: 2 }) as EnvironmentOptions;

it("plays a server's episodes, more at a time than the server admits", async () => {
  const rewards = await Promise.all(
    [1, 2, 3, 4, 5].map(async (seed) => {
      const env = openEnvWorld.make(optionsOf());
      expect(await env.reset(seed)).toContain("How many");
      expect((await env.step(openEnvWorld.expert!(env))).observation).toContain("3");
      const last = await env.step(openEnvWorld.expert!(env));
      expect(last.done).toBe(true);
      expect(() => openEnvWorld.expert!(env)).toThrow("not over after the 2 actions of env.demonstration");
      return last.reward;
    }),
  );
  expect(rewards).toEqual([0, 0, 0, 0, 0]);
});

it("gives its place back when it is closed, once, and waits for one", async () => {
  const [first, second, third] = [1, 2, 3].map(() => openEnvWorld.make(optionsOf()));
  await Promise.all([first!.reset(1), second!.reset(2)]);
  let isThere = false;
  const waiting = third!.reset(3).then(() => (isThere = true));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(isThere).toBe(false);
  first!.close!();
  first!.close!();
  await waiting;
  for (const env of [second, third]) env!.close!();
  const again = openEnvWorld.make(optionsOf());
  expect(await again.reset(1)).toContain("How many");
  again.close!();
});

it("tells a rollout how many episodes it can have at a time", () => {
  expect(openEnvWorld.atOnce!(optionsOf())).toBe(2);
  expect(openEnvWorld.atOnce!({ ...optionsOf(), sessions: undefined } as object)).toBe(1);
});

it("says what the server answered where a demonstration does not end", async () => {
  const env = openEnvWorld.make({ ...optionsOf(), field: "action", demonstration: ["calc 1+2"] } as object);
  await env.reset(1);
  await env.step(openEnvWorld.expert!(env));
  expect(() => openEnvWorld.expert!(env)).toThrow(
    /after the 1 actions of env.demonstration; the last was answered "invalid action: message: Field required;/,
  );
  env.close!();
});

it("calls a tool where actions are calls of tools", async () => {
  const tools = await serve({ intercept: onStep((link) => link.json(toolAnswer)) });
  const env = openEnvWorld.make({ url: tools.url, field: "text", tool: "say", demonstration: ["hi"] } as object);
  await env.reset(1);
  expect(await env.step(openEnvWorld.expert!(env))).toMatchObject({ observation: "hi\n[image]", done: true });
  expect(tools.received.at(-1)).toEqual({
    type: "step",
    data: { type: "call_tool", tool_name: "say", arguments: { text: "hi" } },
  });
});
const toolAnswer = {
  type: "observation",
  data: {
    observation: { tool_name: "say", result: { content: [{ type: "text", text: "hi" }, { type: "image" }] } },
    reward: 1,
    done: true,
  },
};

it("tries a server that was not reached once for each further episode, until it is there again", async () => {
  const Working = here.WebSocket;
  let tries = 0;
  here.WebSocket = class {
    constructor() {
      tries++;
      queueMicrotask(() => (this as { onclose?: (event: object) => void }).onclose!({ code: 1006 }));
    }
    close(): void {}
  };
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const triesOf = async (): Promise<number> => {
    tries = 0;
    const failed = openEnvWorld.make(optionsOf()).reset(1).catch(String);
    await vi.advanceTimersByTimeAsync(8_000);
    expect(await failed).toMatch(/gave up after \d attempts?; the last: openenv: no connection to/);
    return tries;
  };
  try {
    expect([await triesOf(), await triesOf()]).toEqual([6, 1]);
  } finally {
    vi.useRealTimers();
    here.WebSocket = Working;
  }
  const back = openEnvWorld.make(optionsOf());
  expect(await back.reset(1)).toContain("How many");
  back.close!();
});

it("has its options on the command line, and one line for each mistake", () => {
  const preset = (...set: string[]) => presetFor(startOptions({ env: "openenv", method: "grpo", set }));
  const few = { env: "openenv", method: "grpo", set: ["env.url=http://h:1", "env.demonstration=UP"], workers: "2" };
  expect(() => presetFor(startOptions(few))).toThrow(
    "--workers: openenv can have 1 episodes at a time, too few for 2 workers; take at most 1",
  );
  const { tasks } = preset("env.url=http://h:1", "env.field=action", "env.demonstration=UP+DOWN", "env.sessions=3");
  expect(tasks).toEqual({ url: "http://h:1", field: "action", demonstration: ["UP", "DOWN"], sessions: 3 });
  // Texts that look like numbers are texts where the environment asks for texts.
  for (const action of ["12", "true", "1-2"])
    expect(preset("env.url=http://h:1", `env.demonstration=${action}`).tasks).toMatchObject({
      demonstration: [action],
    });
  expect(() => preset("env.demonstration=UP")).toThrow(/url/);
  expect(() => preset("env.url=http://h:1")).toThrow(/demonstration is missing/);
  expect(() => openEnvWorld.make({ ...optionsOf(), sessions: 0 } as object)).toThrow(/sessions must be/);
  const rng = new Rng(1);
  const options = { url: "http://h:1", demonstration: ["a", "b", "a"] } as object;
  const drawn = Array.from({ length: 20 }, () => openEnvWorld.random(rng, "", options));
  expect(new Set(drawn)).toEqual(new Set(["a", "b"]));
});
