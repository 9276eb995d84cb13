/**
 * The main job as a person runs it: to its end; stopped by Ctrl-C or killed, then resumed, with the same result to the
 * last bit; and with wrong flags. Real processes in a temporary folder.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openRun } from "../../node/runFolder.ts";
import { ADVANTAGES } from "../../rl/methods/advantages/index.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { POLICY_LOSSES } from "../../rl/methods/losses/index.ts";
import { METHODS, TOKEN_WEIGHTS, WORLD } from "../../rl/methods/presets.ts";
import {
  type Job,
  lastCheckpoint,
  metricsOf,
  ONE_AGENT,
  startFromSourceIn,
  startIn,
  startOnto,
  until,
} from "../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-main-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const STEPS = ["--steps", "6", "--device", "wasm"];

const start = (script: string, args: readonly string[]): Job => startIn(folder, script, args);
const startFromSource = (script: string, args: readonly string[]): Job => startFromSourceIn(folder, script, args);
const metrics = (name: string): unknown[] => metricsOf(join(folder, "runs", name));
const lastModel = (name: string): Buffer => lastCheckpoint(join(folder, "runs", name))["model.safetensors"]!;

const report = (name: string): string => readFileSync(join(folder, "runs", name, "report.html"), "utf8");

/** Rewrites the newest checkpoint of a run as if `seconds` had gone by until then. */
function pretendItTook(seconds: number, name: string): void {
  const run = openRun(join(folder, "runs", name));
  const checkpoint = run.loadLatestCheckpoint();
  if (checkpoint === null) throw new Error(`${name} has no checkpoint`);
  run.rewindTo(checkpoint);
  const state = JSON.parse(new TextDecoder().decode(checkpoint.files["state.json"])) as object;
  run.saveCheckpoint(checkpoint.step, { ...checkpoint.files, "state.json": JSON.stringify({ ...state, seconds }) });
}

test("runs to its end, in plain lines, with a report; the same when stopped or killed, and resumed", async () => {
  const whole = start("cli/main.ts", [...ONE_AGENT, "--name", "whole", ...STEPS]);
  expect(await whole.done, whole.seen()).toBe(0);
  expect(whole.seen()).toContain("success rate");
  expect(whole.seen()).not.toContain("\u001b");
  expect(existsSync(join(folder, "runs/whole/report.html"))).toBe(true);

  for (const [name, signal, startFirst] of [
    ["stopped", "SIGINT", startFromSource],
    ["killed", "SIGKILL", start],
  ] as const) {
    const first = startFirst("cli/main.ts", [...ONE_AGENT, "--name", name, ...STEPS]);
    await until(first, "reinforcement learning");
    process.kill(-first.child.pid!, signal); // the whole group, as a terminal's Ctrl-C does
    const code = await first.done;
    if (signal === "SIGINT") expect([0, 130], first.seen()).toContain(code);
    pretendItTook(1000, name);
    const second = start("cli/main.ts", ["--resume", join("runs", name), "--device", "wasm"]);
    expect(await second.done, second.seen()).toBe(0);
    expect(metrics(name)).toEqual(metrics("whole"));
    expect(lastModel(name).equals(lastModel("whole"))).toBe(true);
    // Wall time is that of both sessions.
    const seconds = Number(/<dt>wall time \(s\)<\/dt><dd>(\d+)/.exec(report(name))?.[1]);
    expect(seconds).toBeGreaterThanOrEqual(1000);
    expect(seconds).toBeLessThan(2000);
  }

  const episode = start("cli/generate.ts", ["--run", "runs/whole", "--seed", "3"]);
  expect(await episode.done, episode.seen()).toBe(0);
  expect(episode.seen()).toContain("task ");
}, 120_000);

const foldersMade = (): string[] => (existsSync(join(folder, "runs")) ? readdirSync(join(folder, "runs")) : []);

test("without a reader, or onto a full disk, the run is the same; nobody else gets into its folder", async () => {
  const flags = (name: string): string[] => [...ONE_AGENT, "--name", name, "--steps", "2", "--device", "wasm"];
  // As `| true` does: the reader is gone at once.
  const unread = start("cli/main.ts", flags("unread"));
  unread.child.stdout!.destroy();
  const errors = (job: Job): string[] => job.seen().trim().split("\n");
  await until(unread, "is gone"); // on standard error
  const second = start("cli/main.ts", ["--resume", "runs/unread"]);
  expect(await second.done).toBe(1);
  expect(second.seen()).toMatch(
    /runs\/unread is being trained by process \d+; wait for it, or remove runs\/unread\.pid/,
  );
  expect(await unread.done).toBe(0);
  expect(errors(unread)).toHaveLength(1);
  expect(existsSync(join(folder, "runs/unread/report.html"))).toBe(true);
  expect(existsSync(join(folder, "runs/unread.pid"))).toBe(false);

  const full = startOnto(folder, "/dev/full", "cli/main.ts", flags("full"));
  expect(await full.done, full.seen()).toBe(0);
  expect(errors(full)).toEqual([expect.stringContaining("ENOSPC")]);
  expect(metrics("full")).toEqual(metrics("unread"));
  expect(lastModel("full").equals(lastModel("unread"))).toBe(true);
  // A program that only prints ends.
  const list = startOnto(folder, "/dev/full", "cli/main.ts", ["--list"]);
  expect(await list.done).toBe(0);
}, 120_000);

test("--list says in a line each what every method, loss, advantage and environment is, and where from", async () => {
  const before = foldersMade();
  const run = start("cli/main.ts", ["--list"]);
  expect(await run.done).toBe(0);
  const tables = { METHODS, WORLD, TOKEN_WEIGHTS, POLICY_LOSSES, ADVANTAGES, ENVIRONMENTS };
  for (const name of Object.values(tables).flatMap((table) => Object.keys(table))) {
    const line = run
      .seen()
      .split("\n")
      .find((text) => text.startsWith(`  ${name} `));
    expect(line, name).toMatch(/^ {2}\S+ +\S.* \(.*\w.*\)$/);
  }
  expect(foldersMade()).toEqual(before);
});

test.each([
  [["--lamda", "1"], "unknown flag --lamda; did you mean --lambda?"],
  [["--steps", "many"], '--steps: expected an integer ≥ 0, got "many"'],
  [["--device", "tpu"], '--device: expected auto, wasm, webgpu, reference, got "tpu"'],
  [["--lambda"], "worldgrad: Option '--lambda <value>' argument missing"],
  [["--lambda", "-1"], '--lambda: expected a number ≥ 0, got "-1"'],
  [["--lambda=-.5"], '--lambda: expected a number ≥ 0, got "-.5"'],
  [["-1"], "unknown flag -1"],
  [["--method", "ecko"], '--method: unknown name "ecko"; did you mean "echo"?'],
  [["--method", "ppo", "--advantage", "rloo"], "--method ppo has a critic, which --advantage rloo does not read"],
  [["--method", "dapo", "--lambda", "0.1"], "--lambda is the weight of echo, which is no part of --method dapo"],
  [["--method", "rloo", "--replay", "4"], "reinforce has no ratio, and nothing else makes up for the older policies"],
  [["--loss", "dpo"], "dpo learns from pairs, and the main job from rewards"],
  [["--env", "gridword"], '--env: unknown name "gridword"; did you mean "gridworld"?'],
  [["--set", "paw.alpha=0.5"], "--set paw.alpha: paw is no part of --method grpo_token, whose parts are grpo, ppo"],
  [["--set", "ppo.epsilonHgh=0.3"], '--set ppo.epsilonHgh: unknown option "epsilonHgh"; did you mean "epsilonHigh"?'],
  [["--curriculum", "poools"], '--curriculum: unknown name "poools"; did you mean "pools"?'],
  [["--method", "ppo", "--method", "grpo"], "--method is there twice"],
  [["--resume", "nowhere"], "--resume: openRun: no folder nowhere"],
  [["--resume", "nowhere", "--seed", "1"], "--resume continues a run with its own settings; remove --seed"],
])(
  "a wrong flag is one line and exit code 2: %j",
  async (args, message) => {
    const before = foldersMade();
    const run = start("cli/main.ts", args);
    expect(await run.done).toBe(2);
    expect(run.seen()).toContain(message);
    expect(
      run
        .seen()
        .trim()
        .split("\n")
        .filter((line) => !line.startsWith("npm ")),
    ).toHaveLength(1);
    expect(foldersMade()).toEqual(before);
  },
  30_000,
);
