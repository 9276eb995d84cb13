/** What a folder's process tells its parent: all that a display would show, in the order in which it happens. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterAll, expect, test } from "vitest";
import { Together } from "../../studies/ablate/together.ts";
import { type Job, stepsOf } from "../../run/arms/job.ts";
import type { Message } from "../../run/arms/messages.ts";
import { trainAll } from "../../run/arms/pool.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { presetFor } from "../../run/presets.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-pool-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// What npm start and npm run ablate run under, and children inherit.
process.execArgv = ["--import", "tsx"];

const preset = presetFor(
  parseStart(["--quick", "--env", "terminal", "--steps", "2", "--set", "sft.steps=3"]) as StartOptions,
);
const warm: Job = { path: join(folder, "warm"), preset, device: "wasm" };
const arm: Job = { path: join(folder, "arm"), preset, device: "wasm", from: warm.path };

test("phases, steps with metrics, evaluations, transcripts and notes arrive, under the arm's name", async () => {
  const heard: [Job, Message][] = [];
  const finished: Job[] = [];
  const options = {
    jobs: 1,
    signal: new AbortController().signal,
    onMessage: (job: Job, message: Message): unknown => heard.push([job, message]),
    onFinished: (job: Job): unknown => finished.push(job),
  };
  expect(await trainAll([warm], options)).toBe(true);
  expect(await trainAll([arm], options)).toBe(true);
  expect(finished).toEqual([warm, arm]);
  const of = <K extends Message["kind"]>(job: Job, kind: K): Extract<Message, { kind: K }>[] =>
    heard.flatMap(([from, message]) =>
      from === job && message.kind === kind ? [message as Extract<Message, { kind: K }>] : [],
    );
  expect(of(warm, "phase").map(({ name, total, done }) => [name, total, done])).toEqual([
    ["warm start: learning from demonstrations", 3, 0],
    ["evaluating the warm start on held-out tasks", 1, 0],
  ]);
  expect(of(arm, "phase").map(({ name, total }) => [name, total])).toEqual([
    ["reinforcement learning: grpo_token+echo", 2],
    ["evaluating on held-out tasks", 1],
  ]);
  expect(of(warm, "step").map(({ step }) => step)).toEqual([1, 2, 3, 1]);
  expect(of(arm, "step").map(({ step }) => step)).toEqual([1, 2, 1]);
  expect(of(arm, "step")[0]!.metrics["reward"]).toBeTypeOf("number");
  expect(of(warm, "evaluation").map(({ step, score }) => [step, score.episodes])).toEqual([[0, 15]]);
  expect(of(arm, "evaluation").map(({ step }) => step)).toEqual([2]);
  expect(of(arm, "evaluation")[0]!.score.worldLoss).toBeGreaterThan(0);
  expect(of(arm, "transcript")[0]!.record.tokens.length).toBeGreaterThan(3);
  expect(of(warm, "note").map(({ text }) => text)).toEqual([expect.stringMatching(/^model: [\d,]+ parameters/)]);

  // As one bar: an evaluation is no step of it.
  const together = new Together();
  for (const [job, message] of heard) together.hear(job, message);
  expect(together.done).toBe(stepsOf(warm) + stepsOf(arm));
  expect(together.metrics["success"]).toBeTypeOf("number");
  together.finished(arm);
  expect(together.metrics["success"]).toBe(undefined);
}, 120_000);
