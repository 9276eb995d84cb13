/** Agents side by side, as a person runs it: to its end, killed half-way and continued. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Transcript } from "../../run/records.ts";
import { openRun } from "../../run/node/runFolder.ts";
import type { Outcome } from "../../run/compare/outcome.ts";
import { startIn, until } from "../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-compare-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("as a person runs it: to its end; killed half-way and continued, with the same bytes", async () => {
  const flags = ["--quick", "--arms", "grpo,grpo+echo", "--steps", "3", "--device", "wasm"];
  const whole = startIn(folder, "run/cli/main.ts", [...flags, "--name", "whole"]);
  expect(await whole.done, whole.seen()).toBe(0);
  expect(whole.seen()).toContain("against grpo");
  expect(whole.seen()).toContain("so this run shows no difference");
  const results = (name: string): string => readFileSync(join(folder, "runs", name, "results.json"), "utf8");
  const at = (name: string, arm: string): Transcript[] => openRun(join(folder, "runs", name, arm)).readTranscripts();
  // Both played the same held-out tasks, and each says what it expected for every command that was answered.
  const ways = ["grpo", "grpo-echo"].map((arm) => at("whole", arm).filter(({ phase }) => phase === "eval"));
  expect(ways[0]!.map(({ task, step }) => [task, step])).toEqual(ways[1]!.map(({ task, step }) => [task, step]));
  expect(ways[0]!.length).toBeGreaterThan(0);
  for (const { expected, tokens } of ways.flat())
    expect(expected).toHaveLength(tokens.filter(({ text, role }) => text === "<|obs|>" && role === "scaffold").length);

  // A home tells the entropy of its answers, so there is an excess at every evaluation.
  const { arms } = JSON.parse(results("whole")) as Outcome;
  for (const { curve, after } of arms) {
    for (const { worldLossExcess } of curve) expect(worldLossExcess).toEqual(expect.any(Number));
    expect(after.worldLossExcess).toBe(curve.at(-1)!.worldLossExcess);
  }

  const first = startIn(folder, "run/cli/main.ts", [...flags, "--name", "killed"]);
  await until(first, "what each agent learns");
  process.kill(-first.child.pid!, "SIGKILL");
  await first.done;
  expect(existsSync(join(folder, "runs/killed/results.json"))).toBe(false);
  const second = startIn(folder, "run/cli/main.ts", ["--resume", "runs/killed", "--device", "wasm"]);
  expect(await second.done, second.seen()).toBe(0);
  expect(results("killed")).toBe(results("whole"));
  expect(readdirSync(join(folder, "runs/killed")).sort()).toEqual(readdirSync(join(folder, "runs/whole")).sort());
}, 300_000);
