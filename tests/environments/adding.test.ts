/**
 * docs/adding-an-environment.md for real: a copy of the sources with its diffs applied has the environment, plays it
 * and trains in it.
 */
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { applied, blocksOf, hunksOf } from "../project/diffs.ts";
import { projectFiles, readSource } from "../project/sources.ts";

/** What the main job consists of; tests and programs beside it stay away. */
const COPIED = /^((engine|kernels|nn|environments|rl|node|tools|cli)\/|(index\.ts|package\.json|tsconfig\.json)$)/;
const folder = mkdtempSync(join(tmpdir(), "worldgrad-adding-"));
const blocks = blocksOf(readSource("docs/adding-an-environment.md"));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function run(...args: readonly string[]): SpawnSyncReturns<string> {
  const env = { ...process.env, WORLDGRAD_THREADS: "1", NO_COLOR: "1" };
  return spawnSync(process.execPath, ["--import", "tsx", ...args], { cwd: folder, encoding: "utf8", env });
}

beforeAll(() => {
  for (const path of projectFiles()) if (COPIED.test(path)) write(path, readSource(path));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"), "junction");
  for (const { language, text } of blocks) {
    if (language !== "diff") continue;
    const hunks = hunksOf(text);
    const { path } = hunks[0]!;
    const file = join(folder, path);
    write(path, applied(existsSync(file) ? readFileSync(file, "utf8") : undefined, hunks));
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("changes one file and the table of names", () => {
  const paths = blocks.flatMap(({ language, text }) => (language === "diff" ? [hunksOf(text)[0]!.path] : []));
  expect(paths).toEqual(["environments/dial/index.ts", "environments/registry.ts"]);
});

it("type-checks", () => {
  const compilerOptions = { noEmit: true, types: ["node"] };
  write(
    "check.json",
    JSON.stringify({ extends: "./tsconfig.json", compilerOptions, include: [], files: ["environments/registry.ts"] }),
  );
  const { stdout, status } = spawnSync(resolve("node_modules/.bin/tsc"), ["-p", "check.json"], {
    cwd: folder,
    encoding: "utf8",
  });
  expect(stdout).toBe("");
  expect(status).toBe(0);
}, 60_000);

it("is played as the page shows it, and refuses what the page says it refuses", () => {
  write(
    "play.mts",
    `import { ENVIRONMENTS } from "./environments/index.ts";
    const dial = ENVIRONMENTS["dial"]!;
    const env = dial.make({ families: ["stiff"] });
    console.log(await env.reset(4));
    for (let done = false; !done; ) {
      const action = dial.expert(env);
      const result = await env.step(action);
      console.log("$ " + action + "\\n" + result.observation);
      done = result.done;
    }
    for (const options of [{ turns: 0 }, { trns: 3 }, { families: ["stif"] }, { noise: 2 }]) {
      try { dial.make(options); } catch (error) { console.log(error.message); }
    }`,
  );
  const { stdout, stderr } = run("play.mts");
  expect(stderr).toBe("");
  const shown = blocks.find(({ language }) => language === "console")!.text;
  const errors = [
    "dial: turns must be an integer ≥ 1, got 0",
    "dial: unknown option 'trns'; did you mean 'turns'?",
    "dial: unknown family 'stif'; did you mean 'stiff'?",
    "dial: noise must be in [0, 1], got 2",
  ];
  expect(stdout).toBe(`${shown}${errors.join("\n")}\n`);
}, 60_000);

it("is trained in for a step from the command line, which lists it", () => {
  const list = run("cli/main.ts", "--list").stdout;
  expect(list).toMatch(/^ {2}dial +turn a dial to the digit that is asked for \(/m);
  const flags = [
    "--quick",
    "--env",
    "dial",
    "--method",
    "grpo+echo",
    "--steps",
    "1",
    "--set",
    "env.turns=6",
    "--device",
    "wasm",
  ];
  const { stdout, stderr, status } = run("cli/main.ts", ...flags, "--name", "dial");
  expect(status, stdout + stderr).toBe(0);
  const metrics = readFileSync(join(folder, "runs/dial/metrics.jsonl"), "utf8");
  expect(metrics).toContain('"reward"');
  expect(existsSync(join(folder, "runs/dial/report.html"))).toBe(true);
}, 120_000);
