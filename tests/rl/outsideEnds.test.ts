/**
 * Environments are told that an episode was ended from outside, and why, and may score it (verifiers#1751,
 * axon-rl/gem#38): in rollouts, workers, demonstrations, searches and games.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import {
  type EndResult,
  type Environment,
  type EnvironmentSpec,
  type OutsideEnd,
  SingleUseEnvironment,
  type StepResult,
} from "../../rl/environment.ts";
import { withFaults } from "../../environments/faults.ts";
import { defineGame } from "../../environments/game.ts";
import { evaluate } from "../../rl/evaluate.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { Template, type TemplateOptions } from "../../rl/episode/template.ts";
import { playScripted } from "../../data/demonstrations.ts";
import { rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { Rng } from "../../engine/random.ts";
import { wasm } from "../support/rlExecutors.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, toyRequests, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

type Finish = (reason: OutsideEnd, signal?: AbortSignal) => EndResult | undefined | Promise<EndResult | undefined>;

/** Every turn costs 0.2 and is answered with `answer`; it never ends unless an action is as long as `last`. */
function told(finish: Finish, answer = "b", last = Infinity): { spec: EnvironmentSpec; heard: OutsideEnd[] } {
  const heard: OutsideEnd[] = [];
  class Told extends SingleUseEnvironment {
    readonly name = "told";
    protected begin(): string {
      return "a";
    }
    protected act(action: string): StepResult {
      return { observation: answer, reward: -0.2, done: action.length >= last, info: { success: false, place: 1 } };
    }
    protected override finish(reason: OutsideEnd, signal?: AbortSignal): ReturnType<Finish> {
      heard.push(reason);
      return finish(reason, signal);
    }
  }
  const make = (): Environment => new Told();
  const spec = { name: "told", description: "", families: [], make, expert: () => "a", random: () => "a" };
  return { spec, heard };
}

/** How an episode comes to each end: limits of the rollout, an answer of the world, a template. */
const ENDS: readonly {
  readonly reason: OutsideEnd;
  readonly options: RolloutOptions;
  readonly answer?: string;
  readonly template?: TemplateOptions;
}[] = [
  { reason: "max_turns", options: { maxTurns: 2, maxActionTokens: 40 } },
  { reason: "max_tokens", options: { maxTurns: 9, maxActionTokens: 1 } },
  { reason: "context_overflow", options: { maxTurns: 9, maxActionTokens: 40 }, answer: "c".repeat(60) },
  {
    reason: "parse_error",
    options: { maxTurns: 9, maxActionTokens: 40 },
    template: { action: ["-", "-"], strict: true },
  },
];

let device: Device;
beforeAll(async () => void (device = await wasm.open()));
afterAll(() => device.dispose());
const play = (spec: EnvironmentSpec, options: RolloutOptions, template?: TemplateOptions): Promise<Trajectory[]> =>
  rollout(
    endingModel(device),
    template ? new Template(toyTokenizer, template) : toyTemplate,
    toyRequests(spec, 12),
    options,
  );
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

describe.each(ENDS)("$reason", ({ reason, options, answer, template }) => {
  it(`is told of ${reason}, and its reward is added once, at the last turn`, async () => {
    const { spec, heard } = told(() => ({ reward: -3, info: { success: true, reached: 2 } }), answer);
    const episodes = await play(spec, { ...options, maxObservationTokens: 96 }, template);
    const outside = episodes.filter(({ stopReason }) => stopReason === reason);
    expect(outside.length).toBeGreaterThan(0);
    expect(heard.filter((r) => r === reason)).toHaveLength(outside.length);
    expect(heard).toHaveLength(episodes.length); // nobody ended it from inside
    for (const { reward, stepRewards, stream, info, scoredAtEnd, masked } of outside) {
      const turns = stream.turns.at(-1)! + 1;
      expect([stepRewards.length, scoredAtEnd, masked]).toEqual([turns, true, false]);
      expect(stepRewards.at(-1)! <= -3 && stepRewards.slice(0, -1).every((r) => r === -0.2)).toBe(true);
      expect(reward).toBeCloseTo(sum(stepRewards), 12);
      expect(info).toMatchObject({ success: true, reached: 2 });
    }
  });

  it("says nothing of the reward: the episode is as if it had not been asked, its facts are kept", async () => {
    const { spec } = told(() => ({ info: { reached: 2 } }), answer);
    for (const { reward, stepRewards, stopReason, scoredAtEnd, info } of await play(spec, options, template)) {
      const isCut = stopReason !== "max_turns";
      expect(reward).toBeCloseTo(isCut ? Math.min(0, sum(stepRewards)) : sum(stepRewards), 12);
      expect([scoredAtEnd, info["reached"]]).toEqual([undefined, 2]);
    }
  });

  it("fails as a step does: a throw, no answer in time, a reward that is none", async () => {
    const failing: readonly [Finish, string, string][] = [
      [() => Promise.reject(new Error("no score")), "tool_error", "no score"],
      [() => new Promise(() => {}), "timeout", "told: end: no answer within 20 ms"],
      [() => ({ reward: Infinity }), "tool_error", "told.end: expected reward to be a number that is not infinite"],
    ];
    for (const [finish, stop, error] of failing) {
      const episodes = await play(told(finish, answer).spec, { ...options, timeout: 20 }, template);
      for (const { stopReason, masked, info } of episodes) {
        expect([stopReason, masked]).toEqual([stop, true]);
        expect(info["error"]).toContain(error);
      }
    }
  });
});

describe("who tells", () => {
  const limits = { maxTurns: 2, maxActionTokens: 2 };
  const scored = (): EndResult => ({ reward: -1 });

  it("nobody, where the environment ended the episode itself", async () => {
    const { spec, heard } = told(scored, "b", 0);
    const episodes = await play(spec, { maxTurns: 1, maxActionTokens: 40 });
    expect(episodes.every(({ stopReason }) => stopReason === "completed")).toBe(true);
    expect(heard).toEqual([]);
  });

  it("training, also with workers: such returns stay, whatever the option says", async () => {
    for (const load of [
      trainRl,
      (o: ReturnType<typeof toyRlOptions>) => trainRlAsync({ ...o, workers: 1, maxStaleness: 0 }),
    ]) {
      const { spec } = told(scored);
      const options = toyRlOptions(endingModel(device), { env: spec, rollout: limits, steps: 1, truncatedReward: 5 });
      const [report] = await reportsOf(load(options));
      for (const { trajectory } of report!.rows) expect(trajectory.reward).toBeCloseTo(sum(trajectory.stepRewards), 12);
      expect(report!.rows.every(({ trajectory }) => trajectory.scoredAtEnd)).toBe(true);
    }
  });

  it("evaluations and scripted players", async () => {
    const { spec, heard } = told(() => ({ reward: 2, info: { success: true } }));
    const result = await evaluate({
      model: endingModel(device),
      template: toyTemplate,
      env: spec,
      envOptions: {},
      rollout: limits,
      seeds: [0, 1],
      rng: new Rng(1),
    });
    expect([result.successes, heard.length]).toEqual([2, 2]);
    const scripted = await playScripted(spec, {}, 0, toyTemplate, () => "a", { maxTurns: 3 });
    expect(scripted).toMatchObject({ stopReason: "max_turns", scoredAtEnd: true, info: { success: true, place: 1 } });
    expect(scripted.stepRewards).toEqual([-0.2, -0.2, 1.8]);
    expect(scripted.reward).toBeCloseTo(1.4, 12);
  });

  it("the contract: once, between reset and the end; a broken episode is not asked", async () => {
    const fresh = (): Environment => told(scored).spec.make();
    await expect(fresh().end!("max_turns")).rejects.toThrow("told.end: called before reset");
    const env = fresh();
    await env.reset(0);
    expect(await env.end!("max_tokens")).toEqual({ reward: -1 });
    await expect(env.end!("max_tokens")).rejects.toThrow("told.end: called after the episode ended");
    await expect(env.step("a")).rejects.toThrow("told.step: called after the episode ended");
  });

  it("a game scores what was reached, with faults around it, too; one without `end` says nothing", async () => {
    const game = (end: boolean): EnvironmentSpec =>
      defineGame({
        name: "stairs",
        description: "go up",
        families: [{ name: "stairs", level: 1, description: "up" }],
        options: {},
        makeTask: () => ({ text: "go up" }),
        start: () => 0,
        play: ({ state }) => ({ observation: `on ${state + 1}`, state: state + 1, reward: -0.1 }),
        ...(end
          ? { end: ({ state }: { state: number }, reason: OutsideEnd) => ({ kind: reason, score: state / 4 }) }
          : {}),
        expert: () => "up",
        random: () => "up",
      });
    for (const spec of [game(true), withFaults(game(true))]) {
      const env = spec.make(spec.options && "noise" in spec.options ? ({ noise: 0.5 } as object) : {});
      await env.reset(0);
      await env.step("up");
      const info = { family: "stairs", level: 1, success: false, score: 0.25, ending: "max_tokens" };
      expect(await env.end!("max_tokens")).toEqual({ reward: 0.25, info });
    }
    const silent = game(false).make();
    await silent.reset(0);
    expect(await silent.end!("max_turns")).toBeUndefined();
  });
});
