/** Several environments in one run, as real processes: trained, resumed, with threads, measured and played. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { metricsOf, startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-mixture-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function said(program: string, ...args: readonly string[]): Promise<string> {
  const job = startIn(folder, program, args);
  expect(await job.done, job.seen()).toBe(0);
  return job.seen();
}
const linesOf = (run: string, phase: string): Record<string, unknown>[] =>
  metricsOf(join(folder, "runs", run)).filter((line) => line["phase"] === phase);

test("one agent in two environments: each one's metrics, and the same with threads and from its flags", async () => {
  const flags = "--quick --env calculator+tools:2 --method grpo+echo --steps 2 --device wasm --name".split(" ");
  const told = await said("run/cli/main.ts", ...flags, "alone");
  expect(told).toContain("By family of tasks");
  expect(told).toMatch(/\ncalculator +\d/);
  expect(told).toMatch(/\ntools +\d/);
  const once = linesOf("alone", "rl");
  expect(once).toHaveLength(2);
  const names = once.flatMap((line) => Object.keys(line).filter((name) => /^(rewards|success)\//.test(name)));
  for (const name of ["rewards/calculator/mean", "success/calculator", "rewards/tools/mean", "success/tools"])
    expect(names).toContain(name);
  expect(linesOf("alone", "eval").at(-1)).toHaveProperty(["success/tools"]);
  await said("run/cli/main.ts", "--config", "runs/alone/flags.json", "--name", "again");
  expect(linesOf("again", "rl")).toEqual(once);
  await said("run/cli/main.ts", ...flags, "threads", "--workers", "2");
  expect(linesOf("threads", "rl").map((line) => line["reward"])).toEqual(once.map((line) => line["reward"]));
  const { preset } = JSON.parse(readFileSync(join(folder, "runs/alone/config.json"), "utf8")) as {
    preset: { env: string; tasks: object };
  };
  expect(preset).toMatchObject({ env: "calculator+tools:2", tasks: { "tools.levels": [1, 2] } });
});

test("it teaches a student in both of them, whose episodes threads play", async () => {
  const flags = "--quick --method opd --teacher runs/alone --seed 5 --steps 2 --device wasm --name".split(" ");
  await said("run/cli/main.ts", ...flags, "student");
  const once = linesOf("student", "rl");
  expect(once[0]!["kl"]).toBeGreaterThan(0);
  expect(once.map((line) => line["policy_loss"])).toEqual([0, 0]);
  await said("run/cli/main.ts", ...flags, "threaded", "--workers", "2");
  expect(linesOf("threaded", "rl").map((line) => line["kl"])).toEqual(once.map((line) => line["kl"]));
});

test("it is measured in one of them, played, exported and continued in one of them", async () => {
  const evaluate = (...args: readonly string[]): Promise<string> =>
    said("run/cli/evaluate.ts", "--run", "runs/alone", "--episodes", "5", "--json", "--device", "wasm", ...args);
  const tools = JSON.parse(await evaluate("--set", "env.families=tools")) as { families: object; env: string };
  expect(Object.keys(tools.families)).toEqual(["tools"]);
  expect(tools.env).toBe("calculator+tools:2");
  expect(JSON.parse(await evaluate("--env", "tools"))).toMatchObject({ env: "tools", episodes: 5 });
  expect(await said("run/cli/generate.ts", "--run", "runs/alone", "--task", "What is 2 + 3?")).toContain("2 + 3");
  await said("run/cli/main.ts", "--from", "runs/alone", "--env", "tools", "--steps", "1", "--name", "on");
  expect(linesOf("on", "rl")).toHaveLength(1);
  await said("run/cli/main.ts", "--from", "runs/alone", "--steps", "1", "--name", "further");
  expect(linesOf("further", "rl")).toHaveLength(1);
});
