/** Hindsight: which failures get another task, what is left of them, and that they are imitated and nothing else. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { Achievement } from "../../rl/environment.ts";
import { append, emptyStream, policyMask, type Trajectory } from "../../rl/episode/stream.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { METHODS } from "../../methods/choice.ts";
import {
  HINDSIGHT,
  hindsight,
  hindsightEntry,
  type HindsightOptions,
  relabelFailed,
  withTask,
} from "../../data/hindsight.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, toySpec, toyTemplate, trajectoryOf } from "../support/rlToy.ts";

/** A failed episode of two turns and a third action: `ab`, [1 2] answered, [3] answered, [4]. */
function failure(overrides: Partial<Trajectory> = {}): Trajectory {
  const stream = emptyStream();
  toyTemplate.appendTask(stream, "ab");
  append(stream, "action", 0, [1, 2], { oldLogProbs: [-1, -2], temperature: 0.5, versions: [6, 7] });
  append(stream, "observation", 0, [6]);
  append(stream, "observation", 0, [5], { target: false }); // a warning, which stands behind the answer
  append(stream, "action", 1, [3], { oldLogProbs: [-3] });
  append(stream, "observation", 1, [6]);
  append(stream, "action", 2, [4], { oldLogProbs: [-4] });
  return trajectoryOf(stream, { task: "ab", info: { success: false }, stepRewards: [0, 0.5, 0], ...overrides });
}
const HEAD = ((): number => {
  const stream = emptyStream();
  toyTemplate.appendTask(stream, "ab");
  return stream.ids.length;
})();

const always = (task: string, turns = 3) => {
  return (): Promise<Achievement> => Promise.resolve({ task, turns });
};
const relabelled = async (
  episodes: readonly Trajectory[],
  given: HindsightOptions,
  longest?: number,
): Promise<readonly Trajectory[]> =>
  (await relabelFailed(toyTemplate, episodes, given, new Rng(1), longest)).trajectories;

describe("a failed episode", () => {
  it("has another task before the same tokens, and ends where that is solved", () => {
    const old = failure({ group: 3, seed: 9 });
    const { stream, ...rest } = withTask(old, toyTemplate, { task: "cde", turns: 2 });
    expect(rest).toMatchObject({ task: "cde", reward: 1, stepRewards: [0, 1], group: 3, seed: 9, masked: false });
    const start = HEAD + 1; // the task is a letter longer
    expect(stream.roles.slice(start)).toEqual(["action", "action", "observation", "observation", "action"]);
    expect(stream.ids.slice(start)).toEqual([1, 2, 6, 5, 3]);
    expect(stream.turns.slice(start)).toEqual([0, 0, 0, 0, 1]);
    expect(stream.oldLogProbs.slice(start)).toEqual([-1, -2, 0, 0, -3]);
    expect(stream.temperatures.slice(start)).toEqual([0.5, 0.5, 1, 1, 1]);
    expect(stream.versions.slice(start)).toEqual([6, 7, -1, -1, -1]);
    expect(stream.targets.slice(start)).toEqual([false, false, true, false, false]);
    const head = emptyStream();
    toyTemplate.appendTask(head, "cde");
    expect(stream.ids.slice(0, start)).toEqual(head.ids);
    for (const column of Object.values(stream)) expect(column.length).toBe(start + 5);
  });

  it("is described by its task and its turns as text", async () => {
    const seen: unknown[] = [];
    await relabelled([failure()], {
      achieved: (task, turns) => {
        seen.push(
          task,
          turns.map(({ action, observation }) => `${action} > ${observation}`),
        );
        return Promise.resolve(undefined);
      },
    });
    expect(seen).toEqual(["ab", ["bc > …", "d > …", "e > "]]);
  });

  it("is left out if it was masked, solved, rewritten, helped, or has achieved its own task or none", async () => {
    const helped = failure();
    helped.stream.roles[HEAD + 4] = "prompt";
    const left = [
      failure({ masked: true }),
      failure({ info: { success: true } }),
      failure({ rollout: 0 }),
      helped,
      failure({ task: "cd" }),
    ];
    expect(await relabelled(left, { achieved: always("cd") })).toEqual([]);
    expect(await relabelled([failure()], { achieved: () => Promise.resolve(undefined) })).toEqual([]);
    expect(await relabelled([failure()], { achieved: always("cd") })).toHaveLength(1);
  });

  it("is left out if the model could not read it", async () => {
    const { ids } = failure().stream;
    expect(await relabelled([failure()], { achieved: always("abc") }, ids.length)).toEqual([]);
    expect(await relabelled([failure()], { achieved: always("abc") }, ids.length + 1)).toHaveLength(1);
  });
});

describe("of a step", () => {
  const numbered = Array.from({ length: 12 }, (_, seed) => failure({ seed }));

  it("as many as asked are drawn, eight by default", async () => {
    const { trajectories, metrics } = await relabelFailed(
      toyTemplate,
      numbered,
      { achieved: always("cd"), perStep: 3 },
      new Rng(1),
    );
    expect(metrics).toEqual({ "hindsight/achieved": 12, "hindsight/episodes": 3 });
    const seeds = trajectories.map(({ seed }) => seed);
    expect(new Set(seeds).size).toBe(3);
    expect(seeds).not.toEqual([0, 1, 2]);
    expect(await relabelled(numbered, { achieved: always("cd") })).toHaveLength(8);
  });

  it("shuffled: each has the task of another, which it has not achieved, for as many turns as its own", async () => {
    const given: HindsightOptions = {
      perStep: 12,
      tasks: "shuffled",
      achieved: (_, turns) => Promise.resolve({ task: turns.length === 1 ? "c" : "d", turns: turns.length }),
    };
    const short = withTask(failure({ seed: 20 }), toyTemplate, { task: "ab", turns: 1 });
    const mixed = [...numbered.slice(0, 2), { ...short, info: {}, reward: 0 }];
    const again = await relabelled(mixed, given);
    expect(again.map(({ seed, task }) => `${seed}${task}`).toSorted()).toEqual(["0c", "1c", "20d"]);
    expect(again.map(({ stepRewards }) => stepRewards.length).toSorted((a, b) => a - b)).toEqual([1, 3, 3]);
    expect(await relabelled(numbered, { ...given, achieved: always("cd") })).toEqual([]);
    // The next that has achieved something else, round and round.
    const tasks = ["c", "d", "d", "f"];
    const inOrder = Object.assign(new Rng(0), { shuffle: <T>(list: readonly T[]) => [...list] });
    let n = 0;
    const achieved: HindsightOptions["achieved"] = () => Promise.resolve({ task: tasks[n++]!, turns: 1 });
    const { trajectories } = await relabelFailed(toyTemplate, numbered.slice(0, 4), { ...given, achieved }, inOrder);
    expect(trajectories.map(({ task }) => task)).toEqual(["d", "f", "f", "c"]);
  });

  it("the options have their defaults", () => {
    expect(HINDSIGHT.read({ achieved: always("c") })).toMatchObject({ perStep: 8, weight: 0.1, tasks: "achieved" });
  });
});

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

/** Nobody succeeds, and all have achieved something else. */
const env = toySpec((action, turn) => ({
  observation: `${action.slice(0, 2)}b!`,
  reward: action.length,
  done: turn === 1,
  info: { success: false },
}));
const options: HindsightOptions = { perStep: 4, weight: 0.5, achieved: always("c", 1) };
const play = (overrides: Partial<RlOptions>): Promise<StepReport[]> =>
  reportsOf(trainRl(toyRlOptions(endingModel(device), { env, steps: 1, ...overrides })));

describe("in a run", () => {
  it("counts in no outcome, is reported, and changes the update", async () => {
    const [plain] = await play({});
    const [report] = await play({ plugins: [hindsight(options)] });
    for (const name of ["reward", "success", "policy_loss", "step_tokens"])
      expect(report!.metrics[name], name).toEqual(plain!.metrics[name]);
    expect(report!.rows.length).toBe(plain!.rows.length);
    expect(report!.metrics["hindsight/episodes"]).toBe(4);
    expect(report!.metrics["imitation_loss"]).toBeGreaterThan(0);
    expect(plain!.metrics).not.toHaveProperty("imitation_loss");
    const { loss, policy_loss, world_loss_weighted, imitation_loss } = report!.metrics;
    expect(loss! - policy_loss! - world_loss_weighted!).toBeCloseTo(0.5 * imitation_loss!, 5);
    expect(report!.metrics["grad_norm"]).not.toBe(plain!.metrics["grad_norm"]);
  });

  it("learns them: −log p of what was done under the task that it solved falls", async () => {
    const reports = await play({ plugins: [hindsight({ ...options, weight: 5 })], steps: 12, rng: new Rng(4) });
    const losses = reports.map(({ metrics }) => metrics["imitation_loss"]!);
    expect(losses.at(-1)!).toBeLessThan(0.8 * losses[0]!);
  });

  it.each([...Object.keys(METHODS), "grpo+echo", "grpo+paw", "grpo+actfocus"])("beside %s", async (method) => {
    const objective = objectiveOf({ method, maxLength: 20 });
    const run = toyRlOptions(endingModel(device), { env, steps: 2, objective, plugins: [hindsight(options)] });
    if (objective.critic !== undefined) return; // its head is a part of pairwise.long.test.ts
    const reports = await reportsOf(trainRl({ ...run, reference: endingModel(device) }));
    for (const { metrics, rows } of reports) {
      expect(metrics["hindsight/episodes"]).toBe(4);
      for (const [name, value] of Object.entries(metrics)) expect(Number.isNaN(value), name).toBe(false);
      for (const row of rows) expect(policyMask(row.trajectory).length).toBe(row.wPolicy.length);
    }
  });

  it.each([
    [{ perStep: 0 }, "hindsight: perStep must be an integer ≥ 1, got 0"],
    [{ weight: 0 }, "hindsight: weight must be > 0, got 0"],
    [{ tasks: "own" as "shuffled" }, "hindsight: tasks"],
    [{ achieved: undefined as never }, "hindsight: achieved"],
  ])("refuses %o", (wrong, message) => {
    expect(() => hindsight({ ...options, ...wrong })).toThrow(message);
  });
});

it("is for environments that say what was achieved", () => {
  const { has } = hindsightEntry.needs!;
  expect([toySpec(), { ...toySpec(), achieved: always("ab") }].map((env) => has(env))).toEqual([false, true]);
});
