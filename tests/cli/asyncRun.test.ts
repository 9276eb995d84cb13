/** The main job with threads that play: the same run as without them at staleness 0, also when killed and resumed; real processes. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-async-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const QUICK = ["--quick", "--steps", "6", "--device", "wasm"];

interface Program {
  readonly child: ChildProcess;
  readonly seen: () => string;
  readonly done: Promise<number | null>;
}

function start(args: readonly string[]): Program {
  const child = spawn(resolve("node_modules/.bin/tsx"), [resolve("cli/main.ts"), ...args], {
    cwd: folder,
    env: { ...process.env, WORLDGRAD_THREADS: "1" },
    detached: true, // a process group of its own
  });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
  return { child, seen: () => text, done: new Promise((end) => child.on("close", (code) => end(code))) };
}

async function until({ child, seen }: Program, text: string): Promise<void> {
  while (!seen().includes(text)) {
    expect(child.exitCode, `ended before it said "${text}":\n${seen()}`).toBe(null);
    await new Promise((next) => setTimeout(next, 20));
  }
}

type Line = Readonly<Record<string, unknown>>;
const lines = (name: string): Line[] =>
  readFileSync(join(folder, "runs", name, "metrics.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line) as Line); // prettier-ignore
/** Without times, and without what only a run with threads says. */
const common = (name: string): Line[] =>
  lines(name).map((line) => Object.fromEntries(Object.entries(line).filter(([key]) => !/^(async\/|step_time|tokens_per)/.test(key)))); // prettier-ignore

function lastModel(name: string): Buffer {
  const checkpoints = join(folder, "runs", name, "checkpoints");
  return readFileSync(join(checkpoints, readdirSync(checkpoints).sort().at(-1)!, "model.safetensors"));
}

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

test("--max-staleness: no step learns from anything older, with exploration and a guide that threads play, too", async () => {
  const data = ["--explore", "0.2", "--guide", "--correction", "tis"];
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

test.each([
  [["--workers", "0"], '--workers: expected an integer ≥ 1, got "0"'],
  [["--workers", "65"], "expected 1 to 64 workers, got 65"],
  [["--max-staleness", "1"], "--max-staleness is for threads that play ahead of the learner; add --workers N"],
  [["--workers", "1", "--max-staleness", "-1"], '--max-staleness: expected an integer ≥ 0, got "-1"'],
  [["--workers", "1", "--max-staleness", "1", "--loss", "reinforce"], "reinforce has no ratio"],
])(
  "a wrong flag is one line and exit code 2: %j",
  async (args, message) => {
    const before = readdirSync(folder);
    const run = start(args);
    expect(await run.done, run.seen()).toBe(2);
    expect(run.seen()).toContain(message);
    expect(run.seen().trim().split("\n").filter((line) => !line.startsWith("npm "))).toHaveLength(1); // prettier-ignore
    expect(readdirSync(folder)).toEqual(before);
  },
  120_000,
);
