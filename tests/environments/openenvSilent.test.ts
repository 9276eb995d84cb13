/** `--env openenv` on a server that accepts connections and does not answer, or answers late. */
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { openEnvWorld } from "../../environments/openenv/world.ts";
import { rollout } from "../../rl/play/rollout.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { closeAfterEach, closeAfterwards, serve } from "../support/openEnv.ts";
import type { Link } from "../support/openEnvServer.ts";
import { reference } from "../support/rlExecutors.ts";
import { endingModel, toyTemplate } from "../support/rlToy.ts";

closeAfterEach();
const here = globalThis as { WebSocket?: unknown };
const before = here.WebSocket;
let device: Device;
beforeAll(async () => {
  here.WebSocket = WebSocket;
  device = await reference.open();
});
afterAll(() => {
  device.dispose();
  if (before === undefined) delete here.WebSocket;
  else here.WebSocket = before;
});

const TIMEOUT = 400;

/** Twelve episodes on the server, and how long they took in milliseconds. */
async function play(url: string, sessions = 1): Promise<{ episodes: readonly Trajectory[]; took: number }> {
  const options = { url, demonstration: ["a"], sessions } as object;
  const requests = Array.from({ length: 12 }, (_, i) => {
    return { spec: openEnvWorld, options, seed: i, group: i, rng: new Rng(i) };
  });
  const limits = { maxTurns: 2, maxActionTokens: 40, timeout: TIMEOUT };
  const model = endingModel(device);
  const start = performance.now();
  const episodes = await rollout(model, toyTemplate, requests, limits);
  return { episodes, took: performance.now() - start };
}

const errorsOf = (episodes: readonly Trajectory[]): string[] => episodes.map(({ info }) => String(info["error"]));
const over = (link: Link): void =>
  link.json({ type: "observation", data: { observation: { prompt: "a" }, reward: 1, done: true } });
const task = (link: Link): void =>
  link.json({ type: "observation", data: { observation: { prompt: "a" }, reward: null, done: false } });

it.each([1, 4])("tries a server that never answers twice, then fails at once: %i at a time", async (sessions) => {
  const server = await serve({ intercept: () => true });
  const { episodes, took } = await play(server.url, sessions);
  expect(episodes.every(({ masked }) => masked)).toBe(true);
  expect(errorsOf(episodes)[0]).toBe(`openenv: reset: no answer within ${TIMEOUT} ms`);
  expect(errorsOf(episodes).at(-1)).toBe(
    `openenv: ${server.url} does not answer, and is not asked for a while: ` +
      `openenv: reset: no answer within ${TIMEOUT} ms`,
  );
  expect(server.connections()).toBe(2 * sessions);
  expect(took).toBeLessThan(4 * TIMEOUT);
});

it("notices a server that accepts connections and does not even say that it speaks WebSocket", async () => {
  let connections = 0;
  const silent: Server = createServer(() => void connections++);
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  closeAfterwards(silent);
  const { port } = silent.address() as { port: number };
  const { episodes } = await play(`http://127.0.0.1:${port}`);
  expect(new Set(episodes.map(({ masked }) => masked))).toEqual(new Set([true]));
  expect(connections).toBe(2);
});

it("waits for a server that is only slow", async () => {
  const late = (answer: () => void): void => void setTimeout(answer, 0.6 * TIMEOUT);
  const server = await serve({
    intercept: ({ type }, link) => {
      if (type === "reset") late(() => task(link));
      else if (type === "step") late(() => over(link));
      return type !== "close";
    },
  });
  const { episodes } = await play(server.url, 4);
  expect(episodes.map(({ info }) => info["error"])).toEqual(episodes.map(() => undefined));
});

it("does not take a server for gone that answers others meanwhile, nor after it has answered again", async () => {
  let resets = 0;
  const server = await serve({
    intercept: ({ type }, link) => {
      if (type === "reset" && ++resets % 3 !== 1) task(link);
      else if (type === "step") over(link);
      return type !== "close";
    },
  });
  for (const sessions of [1, 4]) {
    resets = 0;
    const { episodes } = await play(server.url, sessions);
    expect(
      errorsOf(episodes).filter((error) => error === `openenv: reset: no answer within ${TIMEOUT} ms`),
    ).toHaveLength(4);
    expect(episodes.filter(({ masked }) => masked)).toHaveLength(4);
  }
});

it("asks again after as long as the last try took", async () => {
  let isBack = false;
  const server = await serve({
    intercept: ({ type }, link) => {
      if (isBack && type === "reset") task(link);
      else if (isBack && type === "step") over(link);
      return type !== "close";
    },
  });
  await play(server.url);
  isBack = true;
  expect((await play(server.url)).episodes.every(({ masked }) => masked)).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, TIMEOUT + 50));
  expect((await play(server.url)).episodes.some(({ masked }) => masked)).toBe(false);
});
