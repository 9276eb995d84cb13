/**
 * Rollouts in a toy environment: what the columns hold, that a sampler's log-probabilities are the model's, and that
 * the same seeds give the same episodes. How episodes end: rolloutEnds.test.ts; many at once: rolloutBatching.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import type { Model } from "../../nn/transformer.ts";
import { isAgentToken, policyMask, sampledCount, type Trajectory, turnCount } from "../../rl/episode/stream.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import { score } from "../../rl/train/score.ts";
import { reference, wasm } from "../support/rlExecutors.ts";
import { endingModel, letters, toyModel, toyRequests, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

const OPEN = toyTokenizer.special["<|obs|>"]!;
const ACT = toyTokenizer.special["<|act|>"]!;
const END = toyTemplate.endId;

/** The log-probabilities of the agent's tokens by one forward pass over whole episodes. */
async function scoredActions(model: Model, trajectories: readonly Trajectory[]): Promise<readonly Float64Array[]> {
  const rows = trajectories.map((trajectory) => rowOf(trajectory));
  const { padId } = toyTemplate;
  const { logProbs } = await score(model, rows, { padId, scored: (row, t) => policyMask(row.trajectory)[t]! });
  return logProbs;
}

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
    rollout(model, toyTemplate, toyRequests(spec, count), { maxActionTokens: 6, ...options });

  it("the columns: who wrote what, in which turn, and what a world model may learn", async () => {
    const told: string[] = [];
    const act = letters(2);
    const spec = toySpec((action, turn) => {
      told.push(action);
      return act(action, turn);
    });
    const [trajectory] = await rollout(model, toyTemplate, toyRequests(spec, 1), { maxActionTokens: 40 });
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
      for (const end = at + ids.length; at < end; at++) {
        expect([stream.roles[at], stream.turns[at]]).toEqual([role, turn]);
      }
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
      const options = { maxActionTokens: 6, temperature };
      const trajectories = await rollout(player, toyTemplate, toyRequests(toySpec(), 6), options);
      const logProbs = await scoredActions(player, trajectories);
      trajectories.forEach(({ stream }, i) => {
        stream.roles.forEach((role, t) => {
          if (role !== "action") return expect(logProbs[i]![t]).toBeNaN();
          compared++;
          expect(Math.abs(logProbs[i]![t]! - stream.oldLogProbs[t]!)).toBeLessThanOrEqual(exact);
          expect(stream.temperatures[t]).toBe(temperature === 0 ? 1 : temperature);
        });
      });
    }
    expect(compared).toBeGreaterThan(40);
  });

  it("truncation (top-k, top-p) is not in the recorded log-probabilities", async () => {
    const trajectories = await play(toySpec(), 4, { topK: 3, topP: 0.8, temperature: 0.9 });
    const logProbs = await scoredActions(model, trajectories);
    trajectories.forEach(({ stream }, i) =>
      stream.roles.forEach((role, t) => {
        if (role !== "action") return;
        expect(Math.abs(logProbs[i]![t]! - stream.oldLogProbs[t]!)).toBeLessThanOrEqual(exact);
      }),
    );
  });

  it("the same seeds give the same episodes; an episode alone is the one that it is in a batch", async () => {
    const spec = toySpec(letters(3));
    const together = await play(spec, 7);
    expect(await play(spec, 7)).toEqual(together);
    expect(new Set(together.map((t) => t.stream.ids.join())).size).toBeGreaterThan(3);
    const all = toyRequests(spec, 7);
    for (const e of [0, 3, 6]) {
      // Fresh requests: a stream of random numbers is used up by playing.
      const request = { ...all[e]!, rng: new Rng(3).split(e) };
      const [alone] = await rollout(model, toyTemplate, [request], { maxActionTokens: 6 });
      expect(alone!.stream.ids).toEqual(together[e]!.stream.ids);
      alone!.stream.oldLogProbs.forEach((lp, t) =>
        expect(Math.abs(lp - together[e]!.stream.oldLogProbs[t]!)).toBeLessThanOrEqual(exact),
      );
      expect([alone!.reward, alone!.stopReason]).toEqual([together[e]!.reward, together[e]!.stopReason]);
    }
    const reversed = await rollout(model, toyTemplate, toyRequests(spec, 7).reverse(), { maxActionTokens: 6 });
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
    const { size, storage } = broken.params.norm.weight;
    const values = device.float === "f64" ? new Float64Array(size) : new Float32Array(size);
    device.backend.write(storage.buffer, values.fill(NaN));
    const before = device.backend.stats().liveBytes;
    await expect(rollout(broken, toyTemplate, toyRequests(toySpec(), 2))).rejects.toThrow(
      "sampling: the logit of token 0 is NaN; the model has diverged",
    );
    expect(device.backend.stats().liveBytes).toBe(before);
  });
});
