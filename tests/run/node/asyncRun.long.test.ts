/**
 * The main job with threads that play: the same run as without them at staleness 0, also when killed and resumed; real
 * processes.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type Job, lastCheckpoint, metricsOf, ONE_AGENT, startIn, until } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-async-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const QUICK = [...ONE_AGENT, "--steps", "6", "--device", "wasm"];

const start = (args: readonly string[]): Job => startIn(folder, "run/cli/main.ts", args);

type Line = Readonly<Record<string, unknown>>;
const pathOf = (name: string): string => join(folder, "runs", name);
const lines = (name: string): Line[] => metricsOf(pathOf(name));
/** Without what only a run with threads says. */
const common = (name: string): Line[] =>
  lines(name).map((line) => Object.fromEntries(Object.entries(line).filter(([key]) => !key.startsWith("async/"))));
const lastModel = (name: string): Buffer => lastCheckpoint(pathOf(name))["model.safetensors"]!;

test("--workers is the run without them, to the last bit; also when it is killed and resumed", async () => {
  const plain = start([...QUICK, "--name", "plain"]);
  expect(await plain.done, plain.seen()).toBe(0);
  const threads = start([...QUICK, "--name", "threads", "--workers", "2"]);
  expect(await threads.done, threads.seen()).toBe(0);
  expect(common("threads")).toEqual(common("plain"));
  expect(lastModel("threads").equals(lastModel("plain"))).toBe(true);
  const own = lines("threads").filter((line) => line["phase"] === "rl");
  for (const line of own) expect(line["async/staleness_max"]).toBe(0);
  expect(readFileSync(join(folder, "runs/threads/config.json"), "utf8")).toContain('"maxStaleness": 0');

  const killed = start([...QUICK, "--name", "killed", "--workers", "2"]);
  await until(killed, "reinforcement learning");
  process.kill(-killed.child.pid!, "SIGKILL");
  await killed.done;
  const resumed = start(["--resume", join("runs", "killed"), "--device", "wasm"]);
  expect(await resumed.done, resumed.seen()).toBe(0);
  expect(common("killed")).toEqual(common("plain"));
  expect(lastModel("killed").equals(lastModel("plain"))).toBe(true);
}, 600_000);

test("--max-staleness: no step learns from older tokens, nor from older prefixes that threads play", async () => {
  const data = ["--explore", "0.2", "--expert-prefix", "--importance-correction", "tis"];
  const run = start([...QUICK, "--name", "ahead", "--workers", "2", "--max-staleness", "2", ...data]);
  expect(await run.done, run.seen()).toBe(0);
  const steps = lines("ahead").filter((line) => line["phase"] === "rl");
  expect(steps.length).toBe(6);
  const ages = steps.map((line) => Number(line["async/staleness_max"]));
  expect(Math.max(...ages)).toBeLessThanOrEqual(2);
  expect(Math.max(...ages)).toBeGreaterThan(0);
  expect(steps.some((line) => Number(line["exploration/forced_share"]) > 0)).toBe(true);
  for (const line of steps) expect(line["rollout_corr/kl"]).toSatisfy(Number.isFinite);
  expect(existsSync(join(folder, "runs/ahead/report.html"))).toBe(true);
}, 300_000);
