/** An expert that is imitated beside RL: which tasks it plays, the control, and that its episodes do nothing else. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { isAgentToken, type Trajectory } from "../../rl/episode/stream.ts";
import { METHODS } from "../../methods/choice.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { demonstrate } from "../../data/demonstrations.ts";
import type { Achievement } from "../../rl/environment.ts";
import { hindsight } from "../../data/hindsight.ts";
import { expertEpisodes, IMITATE_EXPERT, imitateExpert, type ImitateExpertOptions } from "../../data/imitateExpert.ts";
import type { EpisodePlugin } from "../../rl/tasks/plugin.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec, toyTemplate } from "../support/rlToy.ts";

/** Tasks of one to three letters; the expert always says "aa", twice. */
const env = toySpec(letters(2), (seed) => "abcdef"[seed % 6]!.repeat(1 + (seed % 3)));
const expert: ImitateExpertOptions["demonstrate"] = (template, seed) => demonstrate(env, {}, seed, template);
const played = async (...seeds: number[]): Promise<Trajectory[]> =>
  Promise.all(seeds.map((seed) => expert(toyTemplate, seed)));
const shown = async (
  episodes: readonly Trajectory[],
  given: Partial<ImitateExpertOptions> = {},
  longest?: number,
): Promise<readonly Trajectory[]> =>
  (await expertEpisodes(toyTemplate, episodes, { demonstrate: expert, ...given }, new Rng(1), longest)).trajectories;
const said = ({ stream }: Trajectory): number[] => stream.ids.filter((_, t) => isAgentToken(stream.roles[t]!));

describe("the expert", () => {
  it("plays the tasks of the step, each once, as a demonstration", async () => {
    const episodes = await shown(await played(4, 4, 7, 4, 7));
    expect(episodes.map(({ seed }) => seed).toSorted((a, b) => a - b)).toEqual([4, 7]);
    for (const episode of episodes) expect(episode).toEqual(await expert(toyTemplate, episode.seed));
  });

  it("plays so many of them as asked, eight by default, drawn at random", async () => {
    const seeds = Array.from({ length: 12 }, (_, i) => i);
    const all = await played(...seeds);
    const drawn = (await shown(all, { perStep: 3 })).map(({ seed }) => seed);
    expect(new Set(drawn).size).toBe(3);
    expect(drawn).not.toEqual([0, 1, 2]);
    expect(await shown(all)).toHaveLength(8);
    const { metrics } = await expertEpisodes(toyTemplate, all, { demonstrate: expert, perStep: 5 }, new Rng(2));
    expect(metrics).toEqual({ "imitate_expert/episodes": 5 });
  });

  it("plays no task whose environment failed", async () => {
    const [good, bad] = await played(1, 2);
    expect((await shown([good!, { ...bad!, masked: true }])).map(({ seed }) => seed)).toEqual([1]);
  });

  it("shuffled: says the same after the task of another episode", async () => {
    const episodes = await shown(await played(0, 1, 2), { tasks: "shuffled" });
    expect(episodes).toHaveLength(3);
    const tasks = new Map((await played(0, 1, 2)).map(({ seed, task }) => [seed, task]));
    expect(episodes.map(({ task }) => task).toSorted()).toEqual([...tasks.values()].toSorted());
    for (const episode of episodes) {
      const own = await expert(toyTemplate, episode.seed);
      expect(episode.task).not.toBe(own.task);
      expect(said(episode)).toEqual(said(own));
      expect(episode.stream.roles.at(-1)).toBe("action"); // what comes after the last action is of the other task
    }
    expect(await shown(await played(0, 6), { tasks: "shuffled" }), "there is no other task").toEqual([]);
  });

  it("is left out where the model could not read it", async () => {
    const [episode] = await played(3);
    const { length } = episode!.stream.ids;
    expect(await shown([episode!], {}, length - 1)).toEqual([]);
    expect(await shown([episode!], {}, length)).toHaveLength(1);
  });

  it("has CodeRL's weight by default", () => {
    const defaults = { perStep: 8, weight: 1, tasks: "own" };
    expect(IMITATE_EXPERT.read({ demonstrate: expert })).toMatchObject(defaults);
  });
});

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

const options: ImitateExpertOptions = { perStep: 2, weight: 0.5, demonstrate: expert };
/** Nobody succeeds, so that the expert alone is imitated. */
const failing = { ...env, make: toySpec((action, turn) => ({ ...answer(action), done: turn === 1 })).make };
const answer = (action: string) => ({ observation: "b!", reward: action.length, info: { success: false } });
const play = (overrides: Partial<RlOptions>): Promise<StepReport[]> =>
  reportsOf(trainRl(toyRlOptions(endingModel(device), { env: failing, steps: 1, ...overrides })));

describe("in a run", () => {
  it("counts in no outcome, is reported, and adds its weight times its loss", async () => {
    const [plain] = await play({});
    const [report] = await play({ plugins: [imitateExpert(options)] });
    for (const name of ["reward", "success", "policy_loss", "step_tokens"])
      expect(report!.metrics[name], name).toEqual(plain!.metrics[name]);
    expect(report!.rows.length).toBe(plain!.rows.length);
    expect(report!.metrics["imitate_expert/episodes"]).toBe(2);
    expect(plain!.metrics).not.toHaveProperty("imitation_loss");
    const { loss, policy_loss, world_loss_weighted, imitation_loss } = report!.metrics;
    expect(loss! - policy_loss! - world_loss_weighted!).toBeCloseTo(0.5 * imitation_loss!, 5);
    expect(report!.metrics["grad_norm"]).not.toBe(plain!.metrics["grad_norm"]);
  });

  it("learns them: −log p of what the expert says falls", async () => {
    const reports = await play({ plugins: [imitateExpert({ ...options, weight: 5 })], steps: 12, rng: new Rng(4) });
    const losses = reports.map(({ metrics }) => metrics["imitation_loss"]!);
    expect(losses.at(-1)!).toBeLessThan(0.5 * losses[0]!);
  });

  it("goes with hindsight: the sum of both", async () => {
    const achieved = (): Promise<Achievement> => Promise.resolve({ task: "cde", turns: 1 });
    const [relabelled, shown] = [hindsight({ perStep: 4, weight: 0.25, achieved }), imitateExpert(options)];
    const excess = async (...plugins: EpisodePlugin[]): Promise<number> => {
      const [report] = await play({ plugins });
      const { loss, policy_loss, world_loss_weighted } = report!.metrics;
      return loss! - policy_loss! - world_loss_weighted!;
    };
    const [one, other, both] = [await excess(relabelled), await excess(shown), await excess(relabelled, shown)];
    expect(one).toBeGreaterThan(0.01);
    expect(other).toBeGreaterThan(0.01);
    expect(both).toBeCloseTo(one + other, 5);
  });

  it.each([...Object.keys(METHODS), "grpo+echo", "grpo+paw", "grpo+actfocus"])("beside %s", async (method) => {
    const objective = objectiveOf({ method, maxLength: 20 });
    const run = toyRlOptions(endingModel(device), { env, steps: 2, objective, plugins: [imitateExpert(options)] });
    if (objective.critic !== undefined) return; // its head is a part of pairwise.long.test.ts
    const reports = await reportsOf(trainRl({ ...run, reference: endingModel(device) }));
    for (const { metrics } of reports) {
      expect(metrics["imitate_expert/episodes"]).toBe(2);
      for (const [name, value] of Object.entries(metrics)) expect(Number.isNaN(value), name).toBe(false);
    }
  });

  it.each([
    [{ perStep: 0 }, "imitateExpert: perStep must be an integer ≥ 1, got 0"],
    [{ weight: 0 }, "imitateExpert: weight must be > 0, got 0"],
    [{ tasks: "achieved" as "shuffled" }, "imitateExpert: tasks"],
    [{ demonstrate: undefined as never }, "imitateExpert: demonstrate"],
  ])("refuses %o", (wrong, message) => {
    expect(() => imitateExpert({ ...options, ...wrong })).toThrow(message);
  });
});
