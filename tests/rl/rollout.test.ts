/** Rollouts in a toy environment: why episodes end, what the columns hold, and that a sampler's log-probabilities are the model's. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { Model } from "../../nn/transformer.ts";
import { demonstrate } from "../../rl/play/demonstrations.ts";
import type { EnvironmentSpec, StepResult } from "../../environments/environment.ts";
import { evaluate, worldModelLoss } from "../../rl/evaluate.ts";
import { rowOf } from "../../rl/methods/columns.ts";
import { score } from "../../rl/train/score.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { type EpisodeRequest, rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import { isAgentToken, policyMask, sampledCount, type Trajectory, turnCount } from "../../rl/episode/stream.ts";
import { reference, wasm } from "../support/rlExecutors.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

const OPEN = toyTokenizer.special["<|obs|>"]!;
const ACT = toyTokenizer.special["<|act|>"]!;
const END = toyTemplate.endId;

const requests = (spec: EnvironmentSpec, count: number, seed = 3): EpisodeRequest[] =>
  Array.from({ length: count }, (_, e) => ({
    spec,
    options: {},
    seed: e % 2,
    group: Math.floor(e / 2),
    rng: new Rng(seed).split(e),
  }));

describe.each([
  { ...reference, exact: 1e-12 },
  { ...wasm, exact: 1e-5 },
])("on $name", ({ open, exact }) => {
  let device: Device;
  let model: Model;
  beforeAll(async () => {
    device = await open();
    model = endingModel(device);
  });
  afterAll(() => device.dispose());
  const play = (spec: EnvironmentSpec, count = 6, options: RolloutOptions = {}): Promise<Trajectory[]> =>
    rollout(model, toyTemplate, requests(spec, count), { maxActionTokens: 6, ...options });

  it("the columns: who wrote what, in which turn, and what a world model may learn", async () => {
    const told: string[] = [];
    const act = letters(2);
    const spec = toySpec((action, turn) => {
      told.push(action);
      return act(action, turn);
    });
    const [trajectory] = await rollout(model, toyTemplate, requests(spec, 1), { maxActionTokens: 40 });
    const { stream, stopReason, stepRewards, reward, task } = trajectory!;
    expect(stopReason).toBe("completed");
    expect(told.length).toBe(2);
    expect(task).toBe("a");
    const T = stream.ids.length;
    expect(Object.values(stream).map((column) => column.length)).toEqual(Array(7).fill(T));
    expect(reward).toBe(stepRewards[0]! + stepRewards[1]!);

    // The stream is the template's text, part by part.
    let at = 0;
    const expectPart = (role: string, turn: number, ids: number[]): void => {
      expect(stream.ids.slice(at, at + ids.length)).toEqual(ids);
      for (const end = at + ids.length; at < end; at++)
        expect([stream.roles[at], stream.turns[at]]).toEqual([role, turn]);
    };
    expectPart("prompt", 0, [toyTokenizer.special["<|task|>"]!, ...toyTokenizer.encode("a"), END]);
    expectPart("scaffold", 0, [ACT]);
    for (const turn of [0, 1]) {
      const end = stream.ids.indexOf(END, at);
      const sampled = stream.ids.slice(at, end + 1);
      expect(toyTokenizer.decode(sampled)).toBe(told[turn]); // what was sampled is what was played
      expectPart("action", turn, sampled);
      expectPart("scaffold", turn, [OPEN]);
      expectPart("observation", turn, toyTokenizer.encode(`${told[turn]!.slice(0, 2)}b!`));
      expectPart("scaffold", turn, turn === 1 ? [END] : [END, ACT]);
    }
    expect(at).toBe(T);
    stream.roles.forEach((role, t) => {
      expect(stream.targets[t]).toBe(role === "observation");
      if (role === "action") expect(stream.oldLogProbs[t]).toBeLessThan(0);
      else expect([stream.oldLogProbs[t], stream.temperatures[t]]).toEqual([0, 1]);
    });
    expect(policyMask(trajectory!)).toEqual(stream.roles.map(isAgentToken));
    expect(turnCount(trajectory!)).toBe(2);
    expect(sampledCount(trajectory!)).toBe(stream.roles.filter((r) => r === "action").length);
  });

  it.each([0, 0.7, 1, 1.5])("sampled log-probabilities are the full forward's, temperature %d", async (temperature) => {
    let compared = 0;
    // LayerNorm and learned positions; RMSNorm, rotary positions and shared key heads.
    for (const player of [model, toyModel(device)]) {
      const trajectories = await rollout(player, toyTemplate, requests(toySpec(), 6), {
        maxActionTokens: 6,
        temperature,
      });
      const scored = await score(player, trajectories.map((t) => rowOf(t)), { padId: toyTemplate.padId, scored: (plan, t) => policyMask(plan.trajectory)[t]! }); // prettier-ignore
      trajectories.forEach(({ stream }, i) => {
        stream.roles.forEach((role, t) => {
          if (role !== "action") return expect(scored.logProbs[i]![t]).toBeNaN();
          compared++;
          expect(Math.abs(scored.logProbs[i]![t]! - stream.oldLogProbs[t]!)).toBeLessThanOrEqual(exact);
          expect(stream.temperatures[t]).toBe(temperature === 0 ? 1 : temperature);
        });
      });
    }
    expect(compared).toBeGreaterThan(40);
  });

  it("truncation (top-k, top-p) is not in the recorded log-probabilities", async () => {
    const trajectories = await play(toySpec(), 4, { topK: 3, topP: 0.8, temperature: 0.9 });
    const scored = await score(model, trajectories.map((t) => rowOf(t)), { padId: 0, scored: (p, t) => policyMask(p.trajectory)[t]! }); // prettier-ignore
    trajectories.forEach(({ stream }, i) =>
      stream.roles.forEach((role, t) => {
        if (role === "action") expect(Math.abs(scored.logProbs[i]![t]! - stream.oldLogProbs[t]!)).toBeLessThanOrEqual(exact); // prettier-ignore
      }),
    );
  });

  it("the same seeds give the same episodes; an episode alone is the one that it is in a batch", async () => {
    const spec = toySpec(letters(3));
    const together = await play(spec, 7);
    expect(await play(spec, 7)).toEqual(together);
    expect(new Set(together.map((t) => t.stream.ids.join())).size).toBeGreaterThan(3);
    const all = requests(spec, 7);
    for (const e of [0, 3, 6]) {
      // Fresh requests: a stream of random numbers is used up by playing.
      const [alone] = await rollout(model, toyTemplate, [{ ...all[e]!, rng: new Rng(3).split(e) }], { maxActionTokens: 6 }); // prettier-ignore
      expect(alone!.stream.ids).toEqual(together[e]!.stream.ids);
      alone!.stream.oldLogProbs.forEach((lp, t) =>
        expect(Math.abs(lp - together[e]!.stream.oldLogProbs[t]!)).toBeLessThanOrEqual(exact),
      );
      expect([alone!.reward, alone!.stopReason]).toEqual([together[e]!.reward, together[e]!.stopReason]);
    }
    const reversed = await rollout(model, toyTemplate, requests(spec, 7).reverse(), { maxActionTokens: 6 });
    expect(reversed.reverse().map((t) => t.stream.ids)).toEqual(together.map((t) => t.stream.ids));
  });

  it("leaves no memory behind", async () => {
    await play(toySpec());
    const before = device.backend.stats().liveBytes;
    await play(toySpec());
    await expect(play(toySpec(undefined, () => "abcdef".repeat(20)))).rejects.toThrow("only 64 fit");
    expect(device.backend.stats().liveBytes).toBe(before);
  });

  it("what a model with a diverged logit plays is an error that says so", async () => {
    const broken = endingModel(device);
    const bytes = new Float32Array(broken.params.norm.weight.size).fill(NaN);
    device.backend.write(
      broken.params.norm.weight.storage.buffer,
      device.float === "f64" ? Float64Array.from(bytes) : bytes,
    );
    const before = device.backend.stats().liveBytes;
    await expect(rollout(broken, toyTemplate, requests(toySpec(), 2))).rejects.toThrow(
      "sampling: the logit of token 0 is NaN; the model has diverged",
    );
    expect(device.backend.stats().liveBytes).toBe(before);
  });
});

describe("how episodes end", () => {
  let device: Device;
  let model: Model;
  beforeAll(async () => {
    device = await reference.open();
    model = endingModel(device);
  });
  afterAll(() => device.dispose());
  const play = (spec: EnvironmentSpec, options: RolloutOptions = {}, count = 3): Promise<Trajectory[]> =>
    rollout(model, toyTemplate, requests(spec, count), { maxActionTokens: 40, ...options });
  const brief: RolloutOptions = { maxActionTokens: 40 };

  it("completed: the environment says done", async () => {
    const [trajectory] = await play(toySpec(letters(1)), brief);
    expect(trajectory).toMatchObject({
      stopReason: "completed",
      masked: false,
      info: { success: expect.any(Boolean) },
    });
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

  it("max_tokens in a later turn: the reward is 0 whatever was earned before, the observations are still trained", async () => {
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
    const [broken] = await play(toySpec(undefined, () => { throw new Error("no task"); }), {}, 1); // prettier-ignore
    expect(broken).toMatchObject({ stopReason: "tool_error", masked: true, stream: { ids: [] }, info: { error: "no task" } }); // prettier-ignore
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
    for (const t of late) expect(t).toMatchObject({ masked: true, info: { error: "toy: no answer within 20 ms" } });
    expect(trajectories.some((t) => t.stopReason === "completed")).toBe(true);
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
    await expect(play(toySpec(), { temperature: -1 })).rejects.toThrow("temperature must be ≥ 0, got -1");
  });
});

describe("demonstrations and evaluation", () => {
  let device: Device;
  beforeAll(async () => {
    device = await reference.open();
  });
  afterAll(() => device.dispose());

  it("an expert's episode has the columns of a rollout", async () => {
    const t = await demonstrate(toySpec(letters(2)), {}, 4, toyTemplate);
    expect(t).toMatchObject({
      reward: 2,
      stopReason: "completed",
      masked: false,
      group: 4,
      seed: 4,
      stepRewards: [1, 1],
    });
    expect(toyTokenizer.decode(t.stream.ids.filter((_, k) => t.stream.roles[k] === "action"))).toBe("aaaa");
    expect(turnCount(t)).toBe(2);
    await expect(demonstrate(toySpec(letters(9)), {}, 4, toyTemplate, { maxTurns: 3 })).rejects.toThrow(
      "the expert of toy did not finish seed 4 within 3 turns",
    );
  });

  it("counts successes and families; the world-model loss is −lp per observation token", async () => {
    const model = endingModel(device);
    const act = letters(1);
    const spec = toySpec((action, turn) => {
      const result = act(action, turn) as StepResult;
      return { ...result, info: { ...result.info, family: action.length % 2 === 0 ? "even" : "odd" } };
    });
    const result = await evaluate(model, toyTemplate, spec, {}, [1, 2, 3, 4, 5, 6], new Rng(1), {
      maxActionTokens: 20,
    });
    expect(result.episodes).toBe(6);
    expect(result.successes).toBe(result.trajectories.filter((t) => t.info["success"] === true).length);
    expect(Object.values(result.families).reduce((n, f) => n + f.episodes, 0)).toBe(6);

    const observed = result.trajectories.filter((t) => t.stream.roles.includes("observation"));
    const scored = await score(model, observed.map((t) => rowOf(t)), { padId: 0, scored: (p, t) => p.trajectory.stream.roles[t] === "observation" }); // prettier-ignore
    const values = scored.logProbs.flatMap((row) => [...row].filter((lp) => !Number.isNaN(lp)));
    const mean = values.reduce((a, b) => a - b, 0) / values.length;
    expect(await worldModelLoss(model, toyTemplate, result.trajectories)).toBeCloseTo(mean, 12);
  });

  it("an evaluation counts an episode whose first action was cut off in its task's family", async () => {
    const model = endingModel(device);
    const seeds = Array.from({ length: 12 }, (_, seed) => seed);
    const familiesOf = async (spec: EnvironmentSpec): Promise<[string, number][]> => {
      const options = { maxActionTokens: 1, maxTurns: 1 };
      const { trajectories, families } = await evaluate(model, toyTemplate, spec, {}, seeds, new Rng(1), options);
      const silent = trajectories.filter((t) => t.stepRewards.length === 0).length;
      expect([silent > 0, silent < 12]).toEqual([true, true]);
      return Object.entries(families).map(([name, { episodes }]) => [name, name === "unknown" ? episodes - silent : episodes]); // prettier-ignore
    };
    const act = letters(1);
    const told = (info: StepResult["info"]): EnvironmentSpec => toySpec((action, turn) => ({ ...(act(action, turn) as StepResult), info })); // prettier-ignore
    const known = told({ family: "odd" });
    const withInfo: EnvironmentSpec = {
      ...known,
      make: () => Object.assign(known.make(), { info: { family: "odd" } }),
    };
    expect(await familiesOf(withInfo)).toEqual([["odd", 12]]);
    expect(await familiesOf(told({}))).toEqual([["all", 12]]); // no families at all
    // Only with its answers: nobody can say which family the others are of.
    expect(Object.fromEntries(await familiesOf(known))).toEqual({ odd: expect.any(Number), unknown: 0 });
  });
});
