/** Readers: what they are told, what they read, and that they learn to tell episodes apart. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { mul, sum, tensor, zeros } from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import { agreement } from "../../run/judgements.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import {
  disposeReader,
  initReaderHead,
  lastToken,
  type Marked,
  type Reader,
  readEpisodes,
  type ReaderLesson,
  readerSteps,
  readerLogits,
  trainReader,
} from "../../methods/reader.ts";
import type { MicroBatch } from "../../rl/train/pack.ts";
import { endingModel, episode } from "../support/rlToy.ts";

let device: Device;
let fast: Device;
beforeAll(async () => {
  [device, fast] = [await makeDevice("reference"), await makeDevice("wasm")];
});
afterAll(() => [device, fast].forEach((d) => d.dispose()));

const newReader = (on = device): Reader => {
  const model = endingModel(on);
  return { model, head: initReaderHead(model, 1, new Rng(7)) };
};
const packing = { padId: 0, maxTokens: 24 };
/** An episode with an action of these tokens; it is good if the action has a 2. */
const said = (ids: number[]): Trajectory =>
  episode([
    ["prompt", [1]],
    ["action", ids],
    ["observation", [4]],
  ]);
const isGood = ({ stream }: Trajectory): boolean => stream.ids.includes(2);
const marked = (one: Trajectory, target = Number(isGood(one))): Marked => ({
  episode: one,
  marks: [{ token: lastToken(one), target }],
});
const logitsOf = async (reader: Reader, episodes: readonly Trajectory[]): Promise<number[]> => {
  const read = await readEpisodes(reader, episodes, (one, t) => t === lastToken(one), packing);
  return read.map((row, i) => row[lastToken(episodes[i]!)]!);
};
const bce = (z: number, y: number): number => Math.log1p(Math.exp(z)) - y * z;

it("logits are the products with the rows of the head, and its bias", async () => {
  const head = { weight: tensor([1, 2, 3, 4], { device, shape: [2, 2] }), bias: tensor([10, 20], { device }) };
  const hidden_NC = tensor([1, 1, 0, 2], { device, shape: [2, 2] });
  expect([...(await readerLogits(head, hidden_NC).read())]).toEqual([13, 27, 14, 28]);
});

// AdamW's first step goes by the sign of the gradient, here of mean(σ(0) − y).
it.each([
  { targets: [1, 1], moved: 1 },
  { targets: [0, 0], moved: -1 },
  { targets: [0.5, 0.5], moved: 0 },
  { targets: [0, 0.75], moved: -1 },
  { targets: [0.25, 1], moved: 1 },
])("a logit of exactly 0 is moved towards what is right: $targets", async ({ targets, moved }) => {
  const { model } = newReader();
  const head = { weight: zeros([1, model.config.hiddenSize], { device }), bias: zeros([1], { device }) };
  const lesson = { episode: said([2, 3, 5]), marks: targets.map((target, k) => ({ token: 2 + 2 * k, target })) };
  const options = { ...packing, batchSize: 1, steps: 1, lr: () => 0.01, rng: new Rng(0) };
  await trainReader({ model, head }, [lesson], options);
  expect(Math.sign((await head.bias.read())[0]!)).toBe(moved);
  disposeReader({ model, head });
});

describe("a reader", () => {
  it("is trained by the mean binary cross-entropy over the marks of a batch, soft ones too", async () => {
    const reader = newReader();
    const lesson: Marked = { episode: said([2, 3, 5]), marks: [2, 4].map((token, k) => ({ token, target: k * 0.75 })) };
    const z = (await readEpisodes(reader, [lesson.episode], (_, t) => t === 2 || t === 4, packing))[0]!;
    expect([...z].map(Number.isNaN)).toEqual([true, true, false, true, false]);
    const options = { ...packing, batchSize: 3, steps: 1, lr: () => 0, rng: new Rng(0) };
    const [loss] = await trainReader(reader, [lesson], options);
    expect(loss).toBeCloseTo((bce(z[2]!, 0) + bce(z[4]!, 0.75)) / 2, 6);
    expect((await readEpisodes(reader, [lesson.episode], (_, t) => t === 2, packing))[0]![2]).toBe(z[2]);
    disposeReader(reader);
  });

  it("draws failures and successes alternately, if there are both", async () => {
    const reader = newReader();
    const [good, bad] = [said([2]), said([3])];
    const [zGood, zBad] = await logitsOf(reader, [good, bad]);
    const options = { ...packing, batchSize: 4, steps: 1, lr: () => 0, rng: new Rng(0) };
    const [loss] = await trainReader(
      reader,
      [good, ...Array<Trajectory>(9).fill(bad)].map((one) => marked(one)),
      options,
    );
    expect(loss).toBeCloseTo((bce(zGood!, 1) + bce(zBad!, 0)) / 2, 6);
    const three = [marked(bad), marked(good, 0.5)];
    const [odd] = await trainReader(reader, three, { ...options, batchSize: 3, maxTokens: 3 });
    expect(odd).toBeCloseTo((2 * bce(zBad!, 0) + bce(zGood!, 0.5)) / 3, 6);
    const [alone] = await trainReader(reader, [marked(bad)], options);
    expect(alone).toBeCloseTo(bce(zBad!, 0), 6);
    disposeReader(reader);
  });

  it("learns to tell them apart, and nothing from no step", async () => {
    const draw = new Rng(1);
    const all = Array.from({ length: 60 }, () => said(Array.from({ length: 1 + draw.int(4) }, () => 2 + draw.int(4))));
    const [lessons, held] = [all.slice(0, 40), all.slice(40)];
    const right = async (reader: Reader): Promise<number> =>
      (await logitsOf(reader, held)).filter((z, i) => z >= 0 === isGood(held[i]!)).length / held.length;
    const train = async (steps: number): Promise<number> => {
      const reader = newReader(fast);
      const options = { ...packing, maxTokens: 200, batchSize: 8, steps, lr: () => 0.01, rng: new Rng(2) };
      const losses = await trainReader(
        reader,
        lessons.map((one) => marked(one)),
        options,
      );
      expect(losses).toHaveLength(steps);
      const share = await right(reader);
      disposeReader(reader);
      return share;
    };
    expect(await train(80)).toBeGreaterThan(0.9);
    expect(await train(0)).toBeLessThan(0.8);
  });

  it("begins with small random weights", async () => {
    const { head } = newReader();
    const weights = [...(await head.weight.read())].map(Number);
    const size = Math.sqrt(weights.reduce((sum, w) => sum + w * w, 0) / weights.length);
    expect(size).toBeGreaterThan(0.12);
    expect(size).toBeLessThan(0.5);
    expect([...(await head.bias.read())]).toEqual([0]);
  });

  it("refuses what cannot be read", async () => {
    const reader = newReader();
    const options = { ...packing, batchSize: 1, steps: 1, lr: () => 0, rng: new Rng(0) };
    const at = (token: number): Marked[] => [{ episode: said([2]), marks: [{ token, target: 1 }] }];
    await expect(trainReader(reader, at(0), options)).rejects.toThrow("reader: token 0 of 3 cannot be read");
    await expect(trainReader(reader, at(3), options)).rejects.toThrow("reader: token 3 of 3 cannot be read");
    await expect(trainReader(reader, [], options)).rejects.toThrow("trainReader: there are no lessons");
    disposeReader(reader);
  });
});

it("a reader's optimiser: norms are clipped at 1, and matrices shrink by a hundredth of the rate", async () => {
  const reader = newReader();
  const [weight] = await reader.head.weight.read();
  const slopes = [10, 0.5];
  const lesson = (slope: number): ReaderLesson => ({
    batches: [{} as MicroBatch],
    lossOf: ({ head }) => mul(sum(head.bias), slope),
  });
  let step = 0;
  await readerSteps(reader, { steps: 2, lr: () => 0.1, rng: new Rng(0) }, () => lesson(slopes[step++]!));
  // AdamW with betas .9 and .98: slopes 1 (clipped) and ½.
  const [m, v] = [0.9 * 0.1 + 0.1 * 0.5, 0.98 * 0.02 + 0.02 * 0.25];
  const expected = -0.1 - (0.1 * (m / (1 - 0.9 ** 2))) / Math.sqrt(v / (1 - 0.98 ** 2));
  expect((await reader.head.bias.read())[0]).toBeCloseTo(expected, 6);
  expect((await reader.head.weight.read())[0]! / weight!).toBeCloseTo((1 - 0.1 * 0.01) ** 2, 9);
  disposeReader(reader);
});

it("agreement is the mean over successes and failures, so that always saying one has a half", () => {
  expect(agreement([true, true, true, true], [true, false, false, false])).toBe(0.5);
  expect(agreement([true, false, false, true], [true, false, false, false])).toBeCloseTo((1 + 2 / 3) / 2, 12);
  expect(agreement([false, false], [false, false])).toBe(1);
});
