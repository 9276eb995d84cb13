/**
 * How episodes of a toy environment end: when they are done, at every limit, where an environment fails or a run is
 * stopped; and what is trained of them then.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import type { CallLimits, EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import type { Model } from "../../nn/transformer.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { policyMask, type Trajectory, turnCount } from "../../rl/episode/stream.ts";
import { rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import { reference } from "../support/rlExecutors.ts";
import { endingModel, letters, toyRequests, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

const END = toyTemplate.endId;

describe("how episodes end", () => {
  let device: Device;
  let model: Model;
  beforeAll(async () => {
    device = await reference.open();
    model = endingModel(device);
  });
  afterAll(() => device.dispose());
  const play = (spec: EnvironmentSpec, options: RolloutOptions = {}, count = 3): Promise<Trajectory[]> =>
    rollout(model, toyTemplate, toyRequests(spec, count), { maxActionTokens: 40, ...options });
  const brief: RolloutOptions = { maxActionTokens: 40 };

  it("completed: the environment says done", async () => {
    const [trajectory] = await play(toySpec(letters(1)), brief);
    const info = { success: expect.any(Boolean) };
    expect(trajectory).toMatchObject({ stopReason: "completed", masked: false, info });
    expect(trajectory!.stream.ids.at(-1)).toBe(END);
  });

  it("max_turns: rewards so far count, the last answer asks for nothing more", async () => {
    for (const trajectory of await play(toySpec(letters(100)), { ...brief, maxTurns: 1 })) {
      expect(trajectory).toMatchObject({ stopReason: "max_turns", masked: false });
      expect(trajectory.stepRewards.length).toBe(1);
      expect(trajectory.stream.ids.at(-1)).toBe(END);
      expect(turnCount(trajectory)).toBe(1);
    }
  });

  it("max_tokens: an action without an end is trained, but never played", async () => {
    let played = 0;
    const spec = toySpec((action, turn) => {
      played++;
      return letters(9)(action, turn);
    });
    const trajectories = await play(spec, { maxActionTokens: 1, maxTurns: 1 }, 20);
    const cut = trajectories.filter((t) => t.stopReason === "max_tokens");
    expect(cut.length).toBeGreaterThan(0);
    expect(played).toBe(20 - cut.length);
    for (const { stream, reward, masked, stepRewards } of cut) {
      expect([reward, masked, stepRewards]).toEqual([0, false, []]);
      expect([stream.roles.at(-1), stream.ids.at(-1) === END]).toEqual(["action", false]);
    }
  });

  it("max_tokens in a later turn: reward 0 whatever was earned before, observations still trained", async () => {
    const spec = toySpec(() => ({ observation: "b", reward: 0.5, done: false, info: {} }));
    const cut = (await play(spec, { maxActionTokens: 3, maxTurns: 4 }, 40)).filter(
      (t) => t.stopReason === "max_tokens" && t.stepRewards.length > 0,
    );
    expect(cut.length).toBeGreaterThan(0);
    for (const { reward, masked, stepRewards, stream } of cut) {
      expect([reward, masked, stepRewards[0]]).toEqual([0, false, 0.5]);
      expect(stream.targets).toContain(true);
    }
  });

  it("context_overflow: in the middle of an action, or because the next answer does not fit", async () => {
    const inAction = await play(toySpec(letters(100)), { maxTokens: 7, maxActionTokens: 60 }, 12);
    for (const { stream, stopReason } of inAction) {
      expect(stopReason).toBe("context_overflow");
      expect(stream.ids.length).toBeLessThanOrEqual(7);
    }
    expect(inAction.some((t) => t.stream.ids.length === 7 && t.stream.ids.at(-1) !== END)).toBe(true);
    const long = toySpec(() => ({ observation: "c".repeat(60), reward: 0.5, done: false, info: {} }));
    for (const trajectory of await play(long, { maxActionTokens: 40, maxTokens: 64 })) {
      expect(trajectory.stopReason).toBe("context_overflow");
      expect(trajectory.masked).toBe(false);
      expect([trajectory.stepRewards[0], trajectory.reward]).toEqual([0.5, 0]); // what ran out of tokens earns nothing
      expect(trajectory.stream.roles.at(-1)).toBe("action"); // an answer is shown whole or not at all
    }
  });

  it("done with an answer that does not fit is completed all the same", async () => {
    const spec = toySpec(() => ({ observation: "c".repeat(60), reward: 1, done: true, info: { success: true } }));
    const trajectories = await play(spec, { maxActionTokens: 60 }, 6);
    const played = trajectories.filter((t) => t.stepRewards.length > 0);
    expect(played.length).toBeGreaterThan(0);
    for (const t of played) expect([t.stopReason, t.reward]).toEqual(["completed", 1]);
  });

  it("tool_error: an environment that throws masks its episode; the others go on", async () => {
    let calls = 0;
    const spec = toySpec((action, turn) => {
      if (calls++ === 1) throw new Error("the disk is on fire");
      return letters(2)(action, turn);
    });
    const trajectories = await play(spec, brief);
    const failed = trajectories.filter((t) => t.stopReason === "tool_error");
    expect(failed.length).toBe(1);
    expect(failed[0]).toMatchObject({ masked: true, info: { error: "the disk is on fire" } });
    expect(policyMask(failed[0]!).some(Boolean)).toBe(false);
    expect(trajectories.filter((t) => !t.masked).length).toBe(2);
    expect(rolloutMetrics(trajectories)["masked"]).toBe(1);
    const taskless = toySpec(undefined, () => {
      throw new Error("no task");
    });
    const [broken] = await play(taskless, {}, 1);
    expect(broken).toMatchObject({ stopReason: "tool_error", masked: true });
    expect(broken).toMatchObject({ stream: { ids: [] }, info: { error: "no task" } });
  });

  it("timeout: an environment that does not answer in time is masked, and told by its signal", async () => {
    const signals: AbortSignal[] = [];
    const spec = toySpec((action, turn, signal) => {
      signals.push(signal!);
      return action.length % 2 === 0 ? letters(1)(action, turn) : new Promise(() => {});
    });
    const trajectories = await play(spec, { ...brief, timeout: 20 }, 8);
    const late = trajectories.filter((t) => t.stopReason === "timeout");
    expect(late.length).toBeGreaterThan(0);
    expect(signals.filter((s) => s.aborted).length).toBe(late.length);
    for (const t of late)
      expect(t).toMatchObject({ masked: true, info: { error: "toy: step: no answer within 20 ms" } });
    expect(trajectories.some((t) => t.stopReason === "completed")).toBe(true);
  });

  it("timeout: an environment's own limit for a kind of call holds in place of the rollout's", async () => {
    const late = (ms: number) => (action: string, turn: number) =>
      new Promise<StepResult>((resolve) => setTimeout(() => resolve(letters(1)(action, turn) as StepResult), ms));
    const limited = (limits: CallLimits, ms: number): EnvironmentSpec => ({
      ...toySpec(late(ms)),
      limits: () => limits,
    });
    const [patient] = await play(limited({ step: 10_000 }, 60), { ...brief, timeout: 20 }, 1);
    expect(patient).toMatchObject({ stopReason: "completed", masked: false });
    const [hasty] = await play(limited({ step: 20 }, 500), brief, 1);
    expect(hasty).toMatchObject({
      stopReason: "timeout",
      masked: true,
      info: { error: "toy: step: no answer within 20 ms" },
    });
    // The limit of another kind of call says nothing about this one.
    const [other] = await play(limited({ reset: 10_000, end: 10_000 }, 500), { ...brief, timeout: 20 }, 1);
    expect(other).toMatchObject({ stopReason: "timeout" });
    const seen: unknown[] = [];
    const spec = { ...toySpec(letters(1)), limits: (options: unknown) => (seen.push(options), {}) };
    await play(spec, brief, 1);
    expect(seen).toEqual([{}]);
  });

  it("aborted: a signal ends what is live, masked, and what is finished stays", async () => {
    const stop = new AbortController();
    let calls = 0;
    const spec = toySpec(async (action, turn) => {
      if (++calls === 4) stop.abort();
      return letters(calls % 3 === 0 ? 1 : 9)(action, turn);
    });
    const trajectories = await play(spec, { ...brief, signal: stop.signal }, 6);
    const aborted = trajectories.filter((t) => t.stopReason === "aborted");
    expect(aborted.length).toBeGreaterThan(0);
    for (const t of aborted) expect(t.masked).toBe(true);
    const before = new AbortController();
    before.abort();
    const none = await play(spec, { signal: before.signal });
    expect(none.map((t) => [t.stopReason, t.masked])).toEqual(Array(3).fill(["aborted", true]));
  });

  it("an empty answer is an empty body between its tags; a long one is cut in the middle with a marker", async () => {
    const silent = toySpec((_, turn) => ({ observation: "", reward: 0, done: turn === 1, info: {} }));
    const [trajectory] = await play(silent, brief, 1);
    expect(trajectory!.stream.roles).not.toContain("observation");
    expect(trajectory!.stopReason).toBe("completed");
    const wordy = toySpec(() => ({ observation: "a".repeat(20) + "f".repeat(20), reward: 0, done: true, info: {} }));
    const [cut] = await play(wordy, { ...brief, maxObservationTokens: 9 }, 1);
    const body = cut!.stream.ids.filter((_, t) => cut!.stream.roles[t] === "observation");
    expect(toyTokenizer.decode(body)).toBe("aaa … fff");
  });

  it("a NaN reward makes the episode not scorable, not the run", async () => {
    const spec = toySpec((_, turn) => ({ observation: "", reward: turn === 0 ? NaN : 1, done: true, info: {} }));
    const trajectories = await play(spec, brief);
    expect(trajectories.every((t) => Number.isNaN(t.reward) && !t.masked)).toBe(true);
    expect(Object.values(rolloutMetrics(trajectories)).every(Number.isFinite)).toBe(true);
  });

  it("options and lists that make no sense are named", async () => {
    await expect(rollout(model, toyTemplate, [])).rejects.toThrow("rollout: the list of episodes is empty");
    await expect(play(toySpec(), { maxTokens: 65 })).rejects.toThrow("maxTokens 65 exceeds the model's 64 positions");
    await expect(play(toySpec(), { temprature: 1 } as RolloutOptions)).rejects.toThrow("did you mean 'temperature'?");
    await expect(play(toySpec(), { maxTurns: 0 })).rejects.toThrow("maxTurns must be an integer ≥ 1, got 0");
    await expect(play(toySpec(), { temperature: -1 })).rejects.toThrow("temperature must be in [0.000001, 1000000]");
  });
});
