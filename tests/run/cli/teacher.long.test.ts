/** On-policy distillation as real processes: from a run, from a folder, resumed, and from teachers that do not fit. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { metricsOf, startFromSourceIn, startIn, until } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-teacher-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = (line: string) => startIn(folder, "run/cli/main.ts", [...line.split(" "), "--device", "wasm"]);
async function said(line: string, code = 0): Promise<string> {
  const job = start(line);
  expect(await job.done, job.seen()).toBe(code);
  return job.seen();
}
const linesOf = (run: string): Record<string, unknown>[] =>
  metricsOf(join(folder, "runs", run)).filter(({ phase }) => phase === "rl");

/** The teacher learns more, from another seed. */
const TEACHER = "--quick --env tools --seed 3 --method grpo --steps 1 --set sft.steps=60 --name teacher";
const STUDENT = "--quick --method opd --model tiny --steps 12 --set rl.lr=3e-3 --set rl.warmup=0 --seed 5";

test("a student comes nearer to its teacher, in the teacher's world; a folder teaches the same", async () => {
  await said(TEACHER);
  await said(`${STUDENT} --teacher runs/teacher --name student`);
  const steps = linesOf("student");
  const kl = steps.map((line) => line["kl"] as number);
  expect(kl[0]).toBeGreaterThan(0);
  expect(kl.at(-1)).toBeLessThan(0.8 * kl[0]!);
  expect(steps.map((line) => line["policy_loss"])).toEqual(steps.map(() => 0)); // no reward is learnt from
  const job = startFromSourceIn(folder, "run/cli/export.ts", ["--run", "runs/teacher", "--to", "model"]);
  expect(await job.done, job.seen()).toBe(0);
  await said(`${STUDENT} --env tools --teacher model --name other`);
  expect(linesOf("other")).toEqual(steps);
});

test("a run that was stopped goes on to the same numbers, and not with another teacher", async () => {
  const job = start(`${STUDENT} --teacher runs/teacher --name stopped`);
  await until(job, "grpo_token 1/12");
  job.child.kill("SIGINT");
  expect([130, 0]).toContain(await job.done);
  cpSync(join(folder, "runs/stopped"), join(folder, "runs/stranded"), { recursive: true });
  await said("--resume runs/stopped");
  expect(linesOf("stopped")).toEqual(linesOf("student"));
  // The teacher is trained anew, under the same name.
  rmSync(join(folder, "runs/teacher"), { recursive: true });
  await said(TEACHER.replace("--seed 3", "--seed 9"));
  const refused = await said("--resume runs/stranded", 2);
  expect(refused).toContain("worldgrad: the run's teacher: the weights in runs/teacher are not those");
  expect(refused).not.toMatch(/^ +at /m);
});

test("a teacher with another tokenizer, or none, is refused in a line", async () => {
  await said("--quick --env tools --method grpo --steps 1 --name pupil --seed 4");
  await said("--quick --env calculator --method grpo --steps 1 --name stranger");
  expect(await said("--from runs/pupil --teacher runs/stranger --method opd --name no", 2)).toContain(
    "it has another tokenizer than the run's model, and the two are compared token by token",
  );
  expect(await said("--teacher runs/nowhere --method opd", 2)).toContain("worldgrad: --teacher: ");
  const adapter = "--from runs/pupil --method grpo+echo --steps 1 --set lora.r=2 --name adapter";
  await said(adapter);
  await said("--from runs/pupil --method opd --teacher runs/adapter --steps 1 --name learns");
  expect(linesOf("learns")[0]!["kl"]).toBeGreaterThan(0);
});
