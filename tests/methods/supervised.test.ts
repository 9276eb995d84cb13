/** Learning without rewards: preference pairs (DPO and its relatives), demonstrations with masks, DFT. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { addLora } from "../../pretrained/lora.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { trainableOf } from "../../nn/transformer.ts";
import { rowOf, withColumns } from "../../rl/objective/columns.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { pack } from "../../rl/train/pack.ts";
import { dft, dpo } from "../../methods/losses/index.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { score } from "../../rl/train/score.ts";
import { imitationLoss, sftRows, trainSft } from "../../methods/sft.ts";
import { preferenceMetrics, preferenceRows, trainPreference } from "../../methods/preference.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { randomBatch, rowGradient, toyStep } from "../support/rlBatches.ts";
import { everyExecutor, readAll, relativeError } from "../support/rlExecutors.ts";
import { reportsOf } from "../support/rlRuns.ts";
import { endingModel, episode, toyModel, toyTemplate } from "../support/rlToy.ts";

let device: Device;
let exact: Device;
beforeAll(async () => {
  [device, exact] = [await makeDevice("wasm"), await makeDevice("reference")];
});
afterAll(() => [device, exact].forEach((d) => d.dispose()));

it("the loss of imitation is a mean over the agent's tokens that have a weight of either kind, whatever it is", () => {
  const trajectory = episode([
    ["prompt", [1]],
    ["action", [2, 3, 4]],
    ["observation", [5]],
  ]);
  const row = rowOf(trajectory, {
    wWorld: Float64Array.of(0, 0.5, 0, 0, 0.5),
    wPolicy: Float64Array.of(0, 0, 0.25, 0, 0),
  });
  expect(imitationLoss([row], [Float64Array.of(-16, -1, -2, -4, -8)])).toBe(1.5);
});

describe("without rewards", () => {
  const word = (ids: number[]): Trajectory =>
    episode([
      ["prompt", [1]],
      ["action", ids],
    ]);

  it.each(["sigmoid", "ipo", "hinge"] as const)("DPO, %s: prefers what was chosen", async (loss) => {
    const pairs = [
      { chosen: word([2, 3]), rejected: word([4, 5, 6]) },
      { chosen: word([3]), rejected: word([7]) },
    ];
    const model = endingModel(device);
    const reports = await reportsOf(
      trainPreference({
        model,
        template: toyTemplate,
        optimizer: new AdamW(model.params),
        lr: () => 0.005,
        pairs,
        policyLoss: dpo({ loss, beta: 0.5 }),
        reference: endingModel(device),
        batchSize: 4,
        steps: 12,
        rng: new Rng(1),
      }),
    );
    const [first, last] = [reports[0]!.metrics, reports.at(-1)!.metrics];
    expect(first["rewards/margins"]!).toBeCloseTo(0, 4);
    if (loss === "sigmoid") expect(first["loss"]).toBeCloseTo(Math.LN2, 5);
    expect(last["loss"]!).toBeLessThan(first["loss"]!);
    expect(last["rewards/accuracies"]).toBe(1);
  });

  // The policy equals its reference, B = 0, and no weight decay moves it from there: the first step has to learn. On
  // jax-ml/jax#2140's formula the gradient is 0 there, for ever.
  it.each(everyExecutor)("DPO with an adapter and defaults learns from the first step on $name", async ({ open }) => {
    const on = await open();
    try {
      const pairs = [
        { chosen: word([2, 3]), rejected: word([4, 5, 6]) },
        { chosen: word([3]), rejected: word([7]) },
      ];
      const model = addLora(toyModel(on, 1, { layers: 1, hiddenSize: 8 }), { r: 4 }, new Rng(3));
      const reports = await reportsOf(
        trainPreference({
          model,
          template: toyTemplate,
          optimizer: new AdamW(trainableOf(model).params),
          lr: () => 0.02,
          pairs,
          policyLoss: dpo(),
          batchSize: 4,
          steps: 8,
          rng: new Rng(1),
        }),
      );
      const [first, last] = [reports[0]!.metrics, reports.at(-1)!.metrics];
      expect(first["loss"]).toBeCloseTo(Math.LN2, 5);
      expect(first["grad_norm"]).toBeGreaterThan(0.1);
      expect(last["loss"]!).toBeLessThan(0.6);
      expect(last["rewards/accuracies"]).toBe(1);
    } finally {
      on.dispose();
    }
  });

  it("a pair's loss is the same in any micro-batch, and is a mean over pairs", async () => {
    const learner = toyStep(exact, { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" });
    const batch = randomBatch(6);
    const rows = preferenceRows([0, 2, 4].map((i) => ({ chosen: batch[i]!, rejected: batch[i + 1]! })));
    expect(rows.map((e) => e.segment)).toEqual([0, 0, 1, 1, 2, 2]);
    for (let k = 0; k < 3; k++) {
      const pair = rows.slice(2 * k, 2 * k + 2).flatMap((e) => [...e.wPolicy]);
      expect(pair.reduce((a, b) => a + b, 0)).toBeCloseTo(1 / 3, 12);
    }
    const refLogProbs = batch.map((t) => new Float64Array(t.stream.ids.length).fill(-2));
    const policyLoss = dpo();
    const of = (maxTokens: number): Promise<number[][]> => {
      const grads = rowGradient(
        learner.model,
        withColumns(rows, { refLogProbs }),
        { policyLoss },
        { padId: 0, maxTokens },
      );
      return readAll(treeLeaves(grads));
    };
    for (const b of pack(rows, { padId: 0, maxTokens: 1 })) expect(b.segments).toBe(1);
    expect([...pack(rows, { padId: 0, maxTokens: 1 })].length).toBe(3);
    const [whole, parts] = [await of(10_000), await of(1)];
    whole.forEach((leaf, i) => expect(relativeError(parts[i]!, leaf)).toBeLessThan(1e-12));
  });

  it("says what it misses", async () => {
    expect(() => preferenceRows([])).toThrow("the list of pairs is empty");
    expect(() => preferenceRows([{ chosen: word([2]), rejected: { ...word([3]), masked: true } }])).toThrow(
      "pair 0 has 1 chosen and 0 rejected tokens to train",
    );
    const model = endingModel(device);
    const options = {
      model,
      template: toyTemplate,
      optimizer: new AdamW(model.params),
      lr: () => 0.1,
      pairs: [],
      policyLoss: dpo(),
      reference: model,
      batchSize: 1,
      steps: 1,
      rng: new Rng(1),
    };
    await expect(reportsOf(trainPreference(options))).rejects.toThrow("trainPreference: there are no pairs");
    const pairs = [{ chosen: word([2]), rejected: word([3]) }];
    await expect(reportsOf(trainPreference({ ...options, pairs, policyLoss: dft() }))).rejects.toThrow(
      '"dft" is no loss over pairs; use dpo()',
    );
  });

  it("accuracy: pairs whose chosen answer has the larger reward; a tie is none", () => {
    const [a, b, c] = [word([2]), word([3]), word([4])];
    const rows = preferenceRows([
      { chosen: a, rejected: b },
      { chosen: b, rejected: c },
    ]);
    const logProbs = [-1, -1, -1, -3].map((lp) => Float64Array.of(NaN, lp));
    expect(preferenceMetrics(rows, logProbs, 0.5)).toEqual({
      "rewards/chosen": -0.5,
      "rewards/rejected": -1,
      "rewards/margins": 0.5,
      "rewards/accuracies": 0.5,
      "logps/chosen": -1,
      "logps/rejected": -2,
    });
  });

  it("a batch of which nothing is imitated is read all the same, beside the tokens that the agent wrote", () => {
    const read = episode([
      ["prompt", [1]],
      ["action", [2, 3]],
      ["observation", [4]],
    ]);
    const [row] = sftRows([read], { observationWeight: 0.5, imitate: () => false });
    expect([...row!.wWorld]).toEqual([0, 0, 0, 0.25]);
  });

  it("SFT leaves out what is not to be imitated; DFT weighs by the token's probability", async () => {
    const t = word([2, 3, 4]);
    const rows = sftRows([t], { imitate: (_, k) => k !== 2 });
    expect([...rows[0]!.wWorld]).toEqual([0, 0.5, 0, 0.5]);
    const asPolicy = sftRows([t], { loss: "dft" })[0]!;
    expect([...asPolicy.wPolicy].map((w) => +w.toFixed(9))).toEqual([0, 0.333333333, 0.333333333, 0.333333333]);
    expect([...asPolicy.mask]).toEqual([0, 1, 1, 1]);
    expect(asPolicy.wWorld.every((w) => w === 0)).toBe(true);
    const losses = async (loss: "sft" | "dft"): Promise<number[]> => {
      const model = endingModel(device);
      const options = {
        model,
        template: toyTemplate,
        optimizer: new AdamW(model.params),
        lr: () => 0.01,
        demonstrations: [t],
        batchSize: 2,
        steps: 15,
        rng: new Rng(1),
        loss,
      };
      return (await reportsOf(trainSft(options))).map(({ metrics }) => metrics["loss"]!);
    };
    const { logProbs } = await score(endingModel(device), [rowOf(t)], { padId: toyTemplate.padId, scored: () => true });
    const lp = [...logProbs[0]!].slice(1);
    const mean = (of: (x: number) => number): number => lp.reduce((sum, x) => sum + of(x), 0) / 3;
    const [asSft, asDft] = [await losses("sft"), await losses("dft")];
    expect(asSft[0]).toBeCloseTo(
      mean((x) => -x),
      5,
    );
    expect(asDft[0]).toBeCloseTo(
      mean((x) => -Math.exp(x) * x),
      5,
    );
    expect(asSft.at(-1)!).toBeLessThan(0.5 * asSft[0]!);
    expect(asDft.every(Number.isFinite)).toBe(true);
  });
});
