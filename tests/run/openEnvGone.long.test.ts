/** A run on an OpenEnv server that goes away: it stops with one line, and continues when the server is there again. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import type { Observer } from "../../run/observer.ts";
import type { Preset } from "../../run/preset.ts";
import { Run } from "../../run/run.ts";
import { type OpenEnvServer, serveOpenEnv } from "../../connect/serve/openEnv.ts";
import { smokePreset } from "../support/smokeRun.ts";
import { QUIET } from "../support/tinyRun.ts";

let device: Device;
const here = globalThis as { WebSocket?: unknown };
const before = here.WebSocket;
const open: OpenEnvServer[] = [];
const gates: Server[] = [];
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
  for (const gate of gates) gate.close();
  for (const server of open) await server.close().catch(() => undefined);
  device.dispose();
  if (before === undefined) delete here.WebSocket;
});

/**
 * A run on a server.
 * @param until the step of RL after which `act` is called; by default it closes the server
 */
function runOn(
  server: Pick<OpenEnvServer, "url" | "close">,
  steps: number,
  until: number,
  { every = 20, checkpointEvery = 20, timeout = 10_000, act = (): void => void server.close() } = {},
): { run: Run; store: MemoryStore; preset: Preset } {
  const set = [`env.url=${server.url}`, "env.demonstration=answer 3", "env.sessions=8", `env.timeout=${timeout}`];
  const plain = smokePreset("--env", "openenv", ...set.flatMap((setting) => ["--set", setting]));
  const { rl, sft, evaluation } = plain;
  const preset = {
    ...plain,
    rl: { ...rl, steps },
    sft: { ...sft, noviceShare: 0 },
    evaluation: { ...evaluation, every },
    checkpointEvery,
  };
  const store = new MemoryStore("gone", { preset });
  let isRl = false;
  const observer: Observer = {
    ...QUIET,
    phase: (name) => void (isRl = name.startsWith("reinforcement")),
    update: (step) => void (isRl && step === until && act()),
  };
  return { run: new Run(store, preset, device, observer, new AbortController().signal), store, preset };
}

/** Stands before a server. While it holds, connections are accepted, and nothing of them goes on or comes back. */
async function gateTo(server: OpenEnvServer): Promise<{ url: string; hold: (ms: number) => void }> {
  let isHeld = false;
  const gate = createServer((client) => {
    const behind = connect(Number(new URL(server.url).port), "127.0.0.1");
    const carry = (from: Socket, to: Socket): void => {
      from.on("data", (data) => void (isHeld || to.write(data)));
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    };
    carry(client, behind);
    carry(behind, client);
  });
  await new Promise<void>((resolve) => gate.listen(0, "127.0.0.1", resolve));
  gates.push(gate);
  const hold = (ms: number): void => {
    isHeld = true;
    setTimeout(() => (isHeld = false), ms);
  };
  return { url: `http://127.0.0.1:${(gate.address() as AddressInfo).port}`, hold };
}

it.each([
  ["", {}],
  [", also where each step is saved and an evaluation cannot be played between them", { checkpointEvery: 1, every: 4 }],
])(
  "stops after three steps without an episode, and continues with the first of them%s",
  async (_, how) => {
    const server = await serve();
    const { run, store, preset } = runOn(server, 6, 2, how);
    await expect(run.run(false)).rejects.toThrow(
      "every" in how
        ? /^the evaluation could play only 0 of its 4 episodes/
        : /^trainRl: every episode of 3 steps in a row failed. The first error: openenv: .*ECONNREFUSED/,
    );
    run.dispose();

    await serve(Number(new URL(server.url).port));
    const second = new Run(store, preset, device, QUIET, new AbortController().signal);
    expect(await second.run(true)).not.toBeNull();
    second.dispose();
    const steps = store.metrics.filter(({ phase }) => phase === "rl");
    expect(steps.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5].map((step) => preset.sft.steps + step));
    expect(steps.map(({ masked }) => masked)).toEqual([0, 0, 0, 0, 0, 0]);
  },
  300_000,
);

it("measures nothing where every episode of an evaluation failed", async () => {
  const { run, store } = runOn(await serve(), 1, 1);
  await expect(run.run(false)).rejects.toThrow(
    /^the evaluation could play only 0 of its 4 episodes, and needs half .* first error: openenv: .*ECONNREFUSED/,
  );
  run.dispose();
  expect(store.metrics.filter(({ phase }) => phase === "eval")).toHaveLength(1); // that of the warm start
});

it("saves the steps before an evaluation that cannot be played, and resumes with it", async () => {
  const server = await serve();
  const { run, store, preset } = runOn(server, 4, 2, { every: 2 });
  await expect(run.run(false)).rejects.toThrow(/^the evaluation could play only 0 of its 4 episodes/);
  run.dispose();
  const phases = (): string[] =>
    store.metrics.flatMap(({ phase, step }) => (phase === "sft" ? [] : `${phase} ${step}`));
  const { steps: start } = preset.sft;
  const begun = [`eval ${start}`, `rl ${start}`, `rl ${start + 1}`];
  expect(phases()).toEqual(begun);

  await serve(Number(new URL(server.url).port));
  let played = 0;
  const counting: Observer = {
    ...QUIET,
    phase: (name, _steps, done = 0) => void (name.startsWith("rein") && (played = done)),
  };
  const second = new Run(store, preset, device, counting, new AbortController().signal);
  expect(await second.run(true)).not.toBeNull();
  second.dispose();
  expect(played).toBe(2); // no step is played again
  expect(phases()).toEqual([...begun, `eval ${start + 2}`, `rl ${start + 2}`, `rl ${start + 3}`, `eval ${start + 4}`]);
});

it("goes on after a server that was silent for a step", async () => {
  const server = await serve();
  const { url, hold } = await gateTo(server);
  const { run, store } = runOn({ url, close: () => server.close() }, 6, 2, { timeout: 1000, act: () => hold(14_000) });
  expect(await run.run(false)).not.toBeNull();
  run.dispose();
  const masked = store.metrics.filter(({ phase }) => phase === "rl").map((metrics) => Number(metrics["masked"]));
  expect(masked).toHaveLength(6);
  expect(masked.some((share) => share > 0)).toBe(true);
  expect(masked.at(-1)).toBe(0);
});
