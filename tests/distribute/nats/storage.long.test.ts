/**
 * A packed checkpoint (`--storage`) whose episodes another process behind a real server plays: the programs as a whole.
 * The library alone: run.long.test.ts.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Job, lastCheckpoint, metricsOf, startIn, until } from "../../support/mainJob.ts";
import { type NatsServer, natsServer } from "../../support/natsServer.ts";

const MODEL = resolve("tests/fixtures/pretrained/stories260K");
const SETTINGS =
  "rl.groups=3 rl.groupSize=2 rl.maxBatchTokens=128 rl.checkpointEvery=1 rollout.maxActionTokens=6 " +
  "rollout.maxTurns=2 evaluation.episodes=2 evaluation.finalEpisodes=2 lora.r=4";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-storage-"));
const jobs: Job[] = [];
let server: NatsServer;
beforeAll(async () => {
  server = await natsServer();
});
afterAll(async () => {
  for (const { child } of jobs) if (child.exitCode === null) child.kill("SIGKILL");
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function start(program: string, ...args: readonly string[]): Job {
  const job = startIn(folder, program, args);
  jobs.push(job);
  return job;
}
/** `npm start` with this storage. */
const train = (storage: string, name: string, ...more: readonly string[]): Job =>
  start(
    "run/cli/main.ts",
    "--model-path",
    MODEL,
    ...`--env calculator --method grpo+echo --steps 3 --device wasm --storage ${storage} --name ${name}`.split(" "),
    ...SETTINGS.split(" ").flatMap((setting) => ["--set", setting]),
    ...more,
  );
/** What is computed alike wherever it is: metrics of the queue itself are left out. */
const common = (name: string): object[] =>
  metricsOf(join(folder, "runs", name)).map((line) =>
    Object.fromEntries(Object.entries(line).filter(([key]) => !key.startsWith("async/"))),
  );
/** What a helper says at its end. */
async function ended({ child, seen }: Job): Promise<string> {
  child.kill("SIGINT");
  if (child.exitCode === null) await once(child, "exit");
  expect(child.exitCode, seen()).toBe(0);
  return seen();
}

describe.each(["bf16", "q8"] as const)("--storage %s", (storage) => {
  it("with --workers is the run of one process, bit for bit, also when resumed", async () => {
    const plain = train(storage, `${storage}-alone`);
    expect(await plain.done, plain.seen()).toBe(0);

    const players = `${server.url}/${storage}`;
    const player = start("run/cli/worker.ts", "--server", players);
    const first = train(storage, `${storage}-shared`, "--workers", players);
    await until(first, "grad norm");
    process.kill(-first.child.pid!, "SIGKILL");
    await first.done;
    const second = start("run/cli/main.ts", "--resume", `runs/${storage}-shared`, "--device", "wasm");
    expect(await second.done, second.seen()).toBe(0);

    expect(common(`${storage}-shared`)).toEqual(common(`${storage}-alone`));
    const [shared, alone] = ["shared", "alone"].map((name) => lastCheckpoint(join(folder, `runs/${storage}-${name}`)));
    for (const file of ["adapter_model.safetensors", "optimizer.safetensors"])
      expect(shared![file]!.equals(alone![file]!), file).toBe(true);
    // The worker took part: nothing was done here in its place.
    expect(await ended(player)).toMatch(/played [1-9]\d* episodes/);
  });
});

it("the two storages are two runs", () => {
  expect(common("q8-alone")).not.toEqual(common("bf16-alone"));
});
