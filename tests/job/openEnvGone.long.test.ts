/** A run on an OpenEnv server that goes away: it stops with one line, and continues when the server is there again. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { MemoryStore } from "../../job/memoryStore.ts";
import type { Observer } from "../../job/observer.ts";
import type { Preset } from "../../job/preset.ts";
import { Run } from "../../job/run.ts";
import { type OpenEnvServer, serveOpenEnv } from "../../serve/openEnv.ts";
import { smokePreset } from "../support/smokeRun.ts";
import { QUIET } from "../support/tinyRun.ts";

let device: Device;
const here = globalThis as { WebSocket?: unknown };
const before = here.WebSocket;
const open: OpenEnvServer[] = [];
const serve = async (port = 0): Promise<OpenEnvServer> => {
  const server = await serveOpenEnv(ENVIRONMENTS["calculator"]!, { levels: [1, 1] }, { port });
  open.push(server);
  return server;
};
beforeAll(async () => {
  here.WebSocket = WebSocket;
  device = await makeDevice("wasm");
});
afterAll(async () => {
  for (const server of open) await server.close().catch(() => undefined);
  device.dispose();
  if (before === undefined) delete here.WebSocket;
});

/** A run whose server closes after step `until` of RL. */
function runOn(server: OpenEnvServer, steps: number, until: number): { run: Run; store: MemoryStore; preset: Preset } {
  const set = [`env.url=${server.url}`, "env.demonstration=answer 3", "env.sessions=8"];
  const plain = smokePreset("--env", "openenv", ...set.flatMap((setting) => ["--set", setting]));
  const preset = { ...plain, rl: { ...plain.rl, steps }, sft: { ...plain.sft, noviceShare: 0 } };
  const store = new MemoryStore("gone", { preset });
  let isRl = false;
  const observer: Observer = {
    ...QUIET,
    phase: (name) => void (isRl = name.startsWith("reinforcement")),
    update: (step) => void (isRl && step === until && server.close()),
  };
  return { run: new Run(store, preset, device, observer, new AbortController().signal), store, preset };
}

it("stops after three steps without an episode, and continues with the first of them", async () => {
  const server = await serve();
  const { run, store, preset } = runOn(server, 6, 2);
  await expect(run.run(false)).rejects.toThrow(
    /^every episode of 3 steps failed; --resume continues before them. The first error: openenv: .*ECONNREFUSED/,
  );
  run.dispose();

  await serve(Number(new URL(server.url).port));
  const second = new Run(store, preset, device, QUIET, new AbortController().signal);
  expect(await second.run(true)).not.toBeNull();
  second.dispose();
  const steps = store.metrics.filter(({ phase }) => phase === "rl");
  expect(steps.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5].map((step) => preset.sft.steps + step));
  expect(steps.map(({ masked }) => masked)).toEqual([0, 0, 0, 0, 0, 0]);
}, 120_000);

it("measures nothing where every episode of an evaluation failed", async () => {
  const { run, store } = runOn(await serve(), 1, 1);
  await expect(run.run(false)).rejects.toThrow(
    /^the evaluation could play only 0 of its 4 episodes, and needs half .* first error: openenv: .*ECONNREFUSED/,
  );
  run.dispose();
  expect(store.metrics.filter(({ phase }) => phase === "eval")).toHaveLength(1); // that of the warm start
}, 120_000);
