/** What a folder's process tells its parent: all that a display would show, in the order in which it happens. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterAll, expect, test } from "vitest";
import { Together } from "../../studies/ablate/together.ts";
import { type Job, type Message, stepsOf, toldOnce, trainAll } from "../../run/arms/jobs.ts";
import type { Observer } from "../../run/observer.ts";
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
    observer: (job: Job): Observer => ({
      phase: (...args) => void heard.push([job, ["phase", args]]),
      update: (...args) => void heard.push([job, ["update", args]]),
      evaluation: (...args) => void heard.push([job, ["evaluation", args]]),
      transcript: (...args) => void heard.push([job, ["transcript", args]]),
      note: (...args) => void heard.push([job, ["note", args]]),
    }),
    onFinished: (job: Job): unknown => finished.push(job),
  };
  expect(await trainAll([warm], options)).toBe(true);
  expect(await trainAll([arm], options)).toBe(true);
  expect(finished).toEqual([warm, arm]);
  const of = <K extends keyof Observer>(job: Job, name: K): Parameters<Observer[K]>[] =>
    heard.flatMap(([from, [called, args]]) =>
      from === job && called === name ? [args as Parameters<Observer[K]>] : [],
    );
  expect(of(warm, "phase").map(([name, total, done]) => [name, total, done])).toEqual([
    ["warm start: learning from demonstrations", 3, 0],
    ["evaluating the warm start on held-out tasks", 1, undefined],
  ]);
  expect(of(arm, "phase").map(([name, total]) => [name, total])).toEqual([
    ["reinforcement learning: grpo_token+echo", 2],
    ["evaluating on held-out tasks", 1],
  ]);
  expect(of(warm, "update").map(([step]) => step)).toEqual([1, 2, 3, 1]);
  expect(of(arm, "update").map(([step]) => step)).toEqual([1, 2, 1]);
  expect(of(arm, "update")[0]![1]["reward"]).toBeTypeOf("number");
  expect(of(warm, "evaluation").map(([step, score]) => [step, score.episodes])).toEqual([[0, 15]]);
  expect(of(arm, "evaluation").map(([step]) => step)).toEqual([2]);
  expect(of(arm, "evaluation")[0]![1].worldLoss).toBeGreaterThan(0);
  expect(of(arm, "transcript")[0]![0].tokens.length).toBeGreaterThan(3);
  expect(of(warm, "note").map(([text]) => text)).toEqual([expect.stringMatching(/^model: [\d,]+ parameters/)]);

  // As one bar: an evaluation is no step of it.
  let shown: [number, Readonly<Record<string, number>>] = [0, {}];
  const warnings: [path: string, text: string][] = [];
  const together = new Together(
    (...now) => (shown = now),
    ({ path }, text) => void warnings.push([path, text]),
  );
  const observers = new Map([warm, arm].map((job) => [job, together.observer(job)]));
  for (const [job, [name, args]] of heard)
    (observers.get(job)![name] as (...args: readonly unknown[]) => void)(...args);
  expect(shown[0]).toBe(stepsOf(warm) + stepsOf(arm));
  expect(shown[1]["success"]).toBeTypeOf("number");
  together.finished(arm);
  expect(shown[1]["success"]).toBe(undefined);
  // Of what runs say only warnings are shown, and each of them once.
  expect(warnings).toEqual([]);
  together.observer(arm).note("the environment failed", true);
  expect(warnings).toEqual([[arm.path, "the environment failed"]]);
  const lines: string[] = [];
  const warn = toldOnce((line) => void lines.push(line));
  for (const name of ["a", "b"]) for (const text of ["one", "other"]) warn(`${name}: ${text}`, text);
  expect(lines).toEqual(["a: one", "a: other"]);
});
