/** Ctrl-C while a compute thread of the WebAssembly executor is dead: the program ends, in one line, and resumes. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterAll, expect, test } from "vitest";
import { type Job, until } from "../../support/mainJob.ts";
import { programAt } from "../../support/programs.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-dead-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Ends a compute thread when the signal comes that nothing else uses. */
const preload = join(folder, "preload.cjs");
writeFileSync(
  preload,
  `const workers = [];
   process.on("worker", (worker) => workers.push(worker));
   process.on("SIGUSR2", () => { console.log("compute threads:", workers.length); workers[0]?.terminate(); });`,
);

function start(...args: string[]): Job {
  const child = spawn(process.execPath, ["--require", preload, programAt("run/cli/main.ts"), ...args], {
    cwd: folder,
    env: { ...process.env, WORLDGRAD_THREADS: "3" },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  return { child, seen: () => text, done: new Promise((end) => child.on("close", (code) => end(code))) };
}

/** Wide enough that its products are split over the threads. */
const WIDE = [
  "--quick",
  "--env",
  "gridworld",
  "--device",
  "wasm",
  "--set",
  "sft.steps=400",
  "--set",
  "sft.batchSize=32",
];
const SIGNALS = {
  "a thread dies, then Ctrl-C": ["SIGUSR2", "SIGINT"],
  "Ctrl-C, then a thread dies": ["SIGINT", "SIGUSR2"],
} as const;

test.each(Object.entries(SIGNALS))("%s", async (what, signals) => {
  const name = what.replaceAll(/\W+/g, "-");
  const run = start(...WIDE, "--name", name);
  await until(run, "warm start");
  await new Promise((next) => setTimeout(next, 500));
  const pressed = performance.now();
  for (const signal of signals) run.child.kill(signal);
  const code = await run.done;
  expect(performance.now() - pressed).toBeLessThan(20_000); // 60 s of patience with a dead thread were the rule
  expect([1, 130], run.seen()).toContain(code);
  expect(run.seen()).toContain("compute threads: 3");
  const wrong = run
    .seen()
    .split("\n")
    .filter((line) => line.startsWith("worldgrad:"));
  expect(wrong).toEqual(code === 1 ? ["worldgrad: wasm: worker thread 1 ended by itself"] : []);
  expect(run.seen()).not.toMatch(/^\s+at /m);

  const again = start("--resume", join("runs", name), "--device", "wasm");
  await until(again, "warm start");
  again.child.kill("SIGINT");
  expect(await again.done, again.seen()).toBe(130);
});
