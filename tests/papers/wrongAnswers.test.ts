/**
 * Environments of others, and what they may get wrong: each wrong answer is an episode that is masked, with an error
 * that names the part; none ends the run, none gets into a number.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import type { Device } from "../../engine/device.ts";
import type { StepResult } from "../../rl/environment.ts";
import type { Model } from "../../nn/transformer.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { evaluationOf } from "../../rl/evaluate.ts";
import { demonstrate, playScripted } from "../../data/demonstrations.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { startEpisode } from "../../papers/preferences/search/position.ts";
import { reference } from "../support/rlExecutors.ts";
import { endingModel, toyRequests, toySpec, toyTemplate } from "../support/rlToy.ts";

const right: StepResult = { observation: "b", reward: 1, done: true, info: { success: true } };
const without = (key: keyof StepResult): unknown =>
  Object.fromEntries(Object.entries(right).filter(([k]) => k !== key));

const WRONG: readonly (readonly [answer: unknown, says: string])[] = [
  [undefined, "expected the answer to be { observation, reward, done, info }, got "],
  [null, "expected the answer to be"],
  ["b", "expected the answer to be"],
  [{}, "expected observation to be a string, got "],
  [without("info"), "expected info to be an object, got "],
  [without("done"), "expected done to be true or false, got "],
  [{ ...right, reward: "1" }, 'expected reward to be a number that is not infinite, got "1"'],
  [{ ...right, reward: Infinity }, "expected reward to be a number that is not infinite, got Infinity"],
  [{ ...right, reward: null }, "expected reward to be a number that is not infinite, got null"],
  [{ ...right, done: 1 }, "expected done to be true or false, got 1"],
  [{ ...right, observation: 7 }, "expected observation to be a string, got 7"],
  [{ ...right, observation: { toString: () => "b" } }, "expected observation to be a string"],
  [{ ...right, info: { family: { name: "x" } } }, "expected info.family to be a number, a string or a boolean"],
  [{ ...right, info: { toolErrors: undefined } }, "expected info.toolErrors to be"],
];

describe("what an environment may get wrong", () => {
  let device: Device;
  let model: Model;
  beforeAll(async () => {
    device = await reference.open();
    model = endingModel(device);
  });
  afterAll(() => device.dispose());
  const options = { maxActionTokens: 40 };
  /** Four episodes: the second is answered as given, the others well. */
  const playWith = async (answer: unknown): Promise<Trajectory[]> => {
    const spec = toySpec();
    let made = 0;
    const make = (): ReturnType<typeof spec.make> => {
      const given = made++ === 1 ? answer : right;
      return { name: "theirs", reset: () => Promise.resolve("a"), step: () => Promise.resolve(given as StepResult) };
    };
    return rollout(model, toyTemplate, toyRequests({ ...spec, make }, 4), options);
  };

  it.each(WRONG)("%j", async (answer, says) => {
    const played = await playWith(answer);
    const failed = played.filter((t) => t.masked);
    expect(failed.map((t) => [played.indexOf(t), t.stopReason, t.stepRewards])).toEqual([[1, "tool_error", []]]);
    expect(failed[0]!.info["error"]).toContain(`theirs.step: ${says}`);
    const metrics = rolloutMetrics(played);
    expect(metrics).toMatchObject({ masked: 1, success: 1, reward: 1, reward_std: 0 });
    expect(Object.values(metrics).every((v) => typeof v === "number" && Number.isFinite(v))).toBe(true);
  });

  it("a task that is no text, or too long, is one masked episode; if none fits, it is an error", async () => {
    const tasks: unknown[] = ["a", 7, "abcdef".repeat(20), "a"];
    const spec = toySpec();
    let made = 0;
    const make = (): ReturnType<typeof spec.make> => {
      const task = tasks[made++ % 4] as string;
      return { name: "theirs", reset: () => Promise.resolve(task), step: () => Promise.resolve(right) };
    };
    const played = await rollout(model, toyTemplate, toyRequests({ ...spec, make }, 4), options);
    expect(played.map((t) => t.masked)).toEqual([false, true, true, false]);
    expect(played[1]!.info["error"]).toBe("theirs.reset: expected the task as a string, got 7");
    expect(played[2]!.info["error"]).toMatch(/the task of theirs takes \d+ tokens, only 64 fit/);
    tasks.fill("abcdef".repeat(20));
    await expect(rollout(model, toyTemplate, toyRequests({ ...spec, make }, 4), options)).rejects.toThrow(
      "only 64 fit",
    );
  });

  /** A world whose task and answer are as given. */
  const worldOf = (answer: unknown, task: unknown = "a"): ReturnType<typeof toySpec> => ({
    ...toySpec(),
    name: "theirs",
    make: () => ({
      name: "theirs",
      reset: () => Promise.resolve(task as string),
      step: () => Promise.resolve(answer as StepResult),
    }),
  });

  it.each(WRONG)("in a scripted episode, which ends with the sentence: %j", async (answer, says) => {
    const played = playScripted(worldOf(answer), {}, 1, toyTemplate, () => "aa");
    await expect(played).rejects.toThrow(`theirs.step: ${says}`);
    await expect(played).rejects.toBeInstanceOf(WorldgradError);
  });

  it("a scripted episode: no task, no action, a task too long to be tokenised", async () => {
    const noTask = /theirs.reset: expected the task as a string, got 7/;
    await expect(playScripted(worldOf(right, 7), {}, 1, toyTemplate, () => "aa")).rejects.toThrow(noTask);
    await expect(startEpisode(worldOf(right, 7), {}, 1, toyTemplate)).rejects.toThrow(noTask);
    const noAction = (): string => undefined as unknown as string;
    await expect(playScripted(worldOf(right), {}, 1, toyTemplate, noAction)).rejects.toThrow(
      "playScripted: expected an action for theirs as a string, got missing",
    );
    const before = process.cpuUsage();
    const long = await demonstrate(worldOf(right, "a".repeat(2e7)), {}, 1, toyTemplate, { maxTokens: 64 });
    const { user, system } = process.cpuUsage(before);
    expect(long).toMatchObject({ stopReason: "context_overflow", stepRewards: [], reward: 0 });
    expect(long.stream.ids.length).toBeGreaterThan(64);
    expect((user + system) / 1_000, "ms of processor time").toBeLessThan(1_000);
  });

  it("a family named like a part of every object is a family like any other", async () => {
    for (const family of ["__proto__", "constructor", "toString"]) {
      const played = await playWith({
        ...right,
        info: JSON.parse(`{ "${family}": 1, "family": "${family}" }`) as object,
      });
      const { families } = evaluationOf(played);
      // It says nothing of success, so that a positive return counts as one. The others have its task, so its family.
      expect(Object.getOwnPropertyDescriptor(families, family)?.value).toEqual({ successes: 3, episodes: 3 });
      expect(({} as Record<string, unknown>)["episodes"]).toBeUndefined();
      expect(Object.getPrototypeOf(played[1]!.info)).toBe(Object.prototype);
    }
  });
});
