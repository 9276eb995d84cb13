/** `npm run evaluate`, as a real process, on a run and on an agent of a comparison that were really trained. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { metricsOf, ONE_AGENT, startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-evaluate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function said(program: string, ...args: readonly string[]): Promise<string> {
  const job = startIn(folder, program, [...args, "--device", "wasm"]);
  expect(await job.done, job.seen()).toBe(0);
  return job.seen();
}
const evaluate = (...args: readonly string[]): Promise<string> => said("run/cli/evaluate.ts", ...args);

/** The evaluation in the last line of metrics. */
function lastOf(run: string): object {
  const { success, episodes, "num_turns/mean": meanTurns } = metricsOf(join(folder, run)).at(-1)!;
  return { success, episodes, meanTurns };
}

test("prints tables or JSON, with the numbers of the run's last evaluation", async () => {
  await said("run/cli/main.ts", ...ONE_AGENT, "--name", "one");
  const before = readFileSync(join(folder, "runs/one/metrics.jsonl"), "utf8");
  const json = JSON.parse(await evaluate("--run", "runs/one", "--json")) as object;
  expect(json).toMatchObject({ run: "runs/one", env: "terminal", split: "heldout", ...lastOf("runs/one") });
  const text = await evaluate("--run", "runs/one", "--episodes", "5", "--split", "train", "--temperature", "0");
  expect(text).toContain("runs/one after step 16: 5 tasks of training of terminal\n");
  expect(text).toMatch(/success rate \[95 %\] +\d.* % \[\d+, \d+\]\n/);
  expect(text).toContain("By family of tasks");
  expect(await evaluate("--run", "runs/one", "--episodes", "3", "--set", "env.levels=1")).toContain("3 held-out tasks");
  const several = await evaluate("--run", "runs/one", "--episodes", "3", "--set", "evaluation.tries=4");
  for (const power of ["pass@1", "pass@2", "pass@4"]) expect(several).toContain(power);
  const nucleus = await evaluate("--run", "runs/one", "--episodes", "2", "--set", "rollout.topP=0.8");
  expect(nucleus).toContain("temperature 1, top-p 0.8, seed 0");
  // It only reads the run.
  expect(readFileSync(join(folder, "runs/one/metrics.jsonl"), "utf8")).toBe(before);

  await said("run/cli/main.ts", "--quick", "--name", "several", "--arms", "grpo,grpo+echo");
  const agent = JSON.parse(await evaluate("--run", "runs/several/grpo", "--json")) as object;
  expect(agent).toMatchObject({ run: "runs/several/grpo", env: "home", ...lastOf("runs/several/grpo") });
});
