/** CodeRL's critic: pooling, its loss, the shares of tokens, and what they weigh. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { outcomeCritic } from "../../methods/tokenWeights.ts";
import { reinforce } from "../../methods/losses/index.ts";
import { objectiveOf } from "../../methods/presets.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { criticise, outcomeClass, OUTCOMES, pooled, trainOutcomeCritic } from "../../methods/outcomeCritic.ts";
import { disposeReader, initReaderHead, lastToken, readEpisodes, type Reader } from "../../methods/reader.ts";
import { weigh } from "../../rl/train/weights.ts";
import { endingModel, episode } from "../support/rlToy.ts";

let device: Device;
let fast: Device;
beforeAll(async () => {
  [device, fast] = [await makeDevice("reference"), await makeDevice("wasm")];
});
afterAll(() => [device, fast].forEach((d) => d.dispose()));

const newCritic = (on = device): Reader => {
  const model = endingModel(on);
  return { model, head: initReaderHead(model, OUTCOMES.length, new Rng(7)) };
};
const packing = { padId: 0, maxTokens: 30 };
const wrote = (ids: number[], outcome?: string, task = 1): Trajectory => ({
  ...episode([
    ["prompt", [task]],
    ["action", ids],
    ["observation", [4]],
    ["action", [5]],
  ]),
  info: outcome === undefined ? {} : { outcome },
});

describe("the loss of a token", () => {
  it("test vector: shares .5 and .2 of a failed test against a program that does not compile are .315", () => {
    const one: Trajectory = {
      ...episode([
        ["prompt", [1]],
        ["action", [2, 3]],
      ]),
      reward: -0.3,
      greedyReward: -1,
      tokenShares: [9, 0.5, 0.2],
    };
    const objective = objectiveOf({ method: "remax+outcome_critic" });
    const advantages = advantagesOf(objective, [one], 0, {});
    const [row] = weigh(objective, [one], advantages, 0, {});
    const lps = [NaN, -1, -2];
    const weights = [1, 2].map((t) => row!.wPolicy[t]! * row!.advantages[t]! * 2);
    expect(weights[0]).toBeCloseTo(0.35, 12);
    expect(weights[1]).toBeCloseTo(0.14, 12);
    expect(-(weights[0]! * lps[1]! + weights[1]! * lps[2]!) / 2).toBeCloseTo(0.315, 12);
    expect(objective.policyLoss.name).toBe(reinforce().name);
  });

  it("is not weighed where no critic has spoken", () => {
    const [own] = outcomeCritic().weights([wrote([2, 3])], {});
    expect([...own!]).toEqual([1, 1, 1, 1, 1]);
  });
});

describe("the critic", () => {
  it("takes the largest logit of each class over an episode's tokens", async () => {
    const logits = tensor([1, 0, 5, -1, 2, 2, 7, -3], { device, shape: [4, 2] });
    const both = pooled(logits, [
      [0, 1, 0],
      [2, 3, 2],
    ]);
    expect([...(await both.read())]).toEqual([5, 0, 7, 2]);
  });

  it.each([14, 60])("is trained by the cross-entropy of the pooled logits, %d tokens at once", async (maxTokens) => {
    const critic = newCritic();
    const ids = [[2, 3, 5], [3], [6, 2], [7], [8], [4, 4, 7]];
    const episodes = ids.map((own, i) => wrote(own, OUTCOMES[(i + 3) % 4], 1 + i));
    const isAgents = ({ stream }: Trajectory, t: number): boolean => stream.roles[t] === "action";
    const columns = await Promise.all(
      OUTCOMES.map(async (_, k) => {
        const weight = tensor([...(await critic.head.weight.read())].slice(k * 16, k * 16 + 16), {
          device,
          shape: [1, 16],
        });
        const bias = tensor([(await critic.head.bias.read())[k]!], { device });
        return readEpisodes({ model: critic.model, head: { weight, bias } }, episodes, isAgents, packing);
      }),
    );
    const losses = episodes.map((one, e) => {
      const z = columns.map((rows) => Math.max(...[...rows[e]!].filter((x) => !Number.isNaN(x))));
      return Math.log(z.reduce((sum, x) => sum + Math.exp(x), 0)) - z[outcomeClass(one)]!;
    });
    const options = { ...packing, maxTokens, batchSize: 24, steps: 1, lr: () => 0, rng: new Rng(3) };
    const drawn = Array.from(
      { length: 24 },
      (
        (draw) => () =>
          draw.int(6)
      )(new Rng(3).split(0)),
    );
    expect(new Set(drawn).size).toBe(6);
    const [loss] = await trainOutcomeCritic(critic, episodes, episodes.map(outcomeClass), options);
    expect(loss).toBeCloseTo(drawn.reduce((sum, e) => sum + losses[e]!, 0) / 24, 6);

    const said = await criticise(critic, episodes[0]!, packing);
    const z = [1, 2, 3, 5].map((t) => columns.map((rows) => rows[0]![t]!));
    const share = (of: number[]): number => Math.exp(of[3]!) / of.reduce((sum, x) => sum + Math.exp(x), 0);
    [1, 2, 3, 5].forEach((t, n) => expect(said!.shares[t]).toBeCloseTo(share(z[n]!), 6));
    expect([said!.shares[0], said!.shares[4]]).toEqual([1, 1]);
    const most = [0, 1, 2, 3].map((k) => Math.max(...z.map((of) => of[k]!)));
    expect(said!.said).toBe(most.indexOf(Math.max(...most)));
    disposeReader(critic);
  });

  it("learns to foretell outcomes", async () => {
    const critic = newCritic(fast);
    const draw = new Rng(1);
    const all = Array.from({ length: 60 }, () => {
      const ids = Array.from({ length: 2 + draw.int(3) }, () => 2 + draw.int(6));
      return wrote(ids, ids.includes(2) ? "passed" : ids.includes(3) ? "failed test" : "compile error");
    });
    const options = { ...packing, maxTokens: 200, batchSize: 8, steps: 80, lr: () => 0.01, rng: new Rng(2) };
    const lessons = all.slice(0, 40);
    const losses = await trainOutcomeCritic(critic, lessons, lessons.map(outcomeClass), options);
    expect(losses).toHaveLength(80);
    expect(losses.at(-1)!).toBeLessThan(losses[0]! / 2);
    const held = all.slice(40);
    const said = await Promise.all(held.map((one) => criticise(critic, one, packing)));
    expect(said.filter((of, i) => of!.said === outcomeClass(held[i]!)).length).toBeGreaterThan(15);
    disposeReader(critic);
  });

  it("knows the outcomes, takes nothing for a program that does not compile, and refuses others", async () => {
    expect(OUTCOMES.map((outcome) => outcomeClass(wrote([2], outcome)))).toEqual([0, 1, 2, 3]);
    expect(outcomeClass(wrote([2]))).toBe(0);
    expect(() => outcomeClass(wrote([2], "good"))).toThrow(
      "outcome critic: expected one of compile error, runtime error",
    );
    const critic = newCritic();
    const silent = { ...episode([["prompt", [1, 2]]]), info: {} };
    expect(await criticise(critic, silent, packing)).toBeUndefined();
    expect(lastToken(silent)).toBe(1);
    disposeReader(critic);
  });
});
