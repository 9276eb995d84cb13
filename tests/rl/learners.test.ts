/** Several learners on one device: the run of one learner, to the last bit, whoever computes what. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Device, device as makeDevice } from "../../engine/device.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { addLora } from "../../nn/lora.ts";
import { type Model, trainableOf } from "../../nn/transformer.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { gae } from "../../rl/methods/advantages/index.ts";
import { planOf, Replica, stateOf } from "../../rl/learners/replica.ts";
import { sharedLearners } from "../../rl/learners/shared.ts";
import type { Pass } from "../../rl/train/learners.ts";
import { trainRl, type RlOptions } from "../../rl/train/loop.ts";
import { learnerGroup } from "../support/learnerGroup.ts";
import { readAll } from "../support/rlExecutors.ts";
import { packedAdapter, fullRlOptions, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

const RUNS: Record<string, (model: Model) => RlOptions> = {
  "GRPO + ECHO": (model) => toyRlOptions(model),
  "two passes, clipped hard": (model) => {
    const optimizer = new AdamW(trainableOf(model).params, { clipNorm: 1e-3, weightDecay: 0.1 });
    return toyRlOptions(model, { iterations: 2, optimizer });
  },
  "a critic, a KL penalty and recomputed activations": (model) => ({
    ...fullRlOptions(model, {
      ...toyObjective,
      advantage: gae(),
      critic: {},
      kl: { beta: 0.1, estimator: "k3" },
    }),
    maxBatchTokens: 40,
    gradientCheckpointing: true,
  }),
};
const adapted = (): Model => addLora(endingModel(device), { r: 2, loraDropout: 0.3 }, new Rng(9));

async function outcome(options: RlOptions) {
  const reports = await reportsOf(trainRl(options));
  const { optimizer, critic, model } = options;
  const tensors = [trainableOf(model).params, optimizer.state.m, optimizer.state.v];
  const heads = critic ? [critic.head, critic.optimizer.state.m] : [];
  return {
    metrics: reports.map((report) => report.metrics),
    scores: reports.map((report) => report.scores),
    tensors: await readAll([...tensors, ...heads].flatMap((tree) => treeLeaves(tree))),
  };
}

describe("learners that add gradients in the order of the micro-batches are one learner, to the last bit", () => {
  it.each(Object.entries(RUNS))("%s: one, two and three", async (_, options) => {
    const alone = await outcome(options(endingModel(device)));
    for (const count of [1, 2, 3]) {
      const learners = learnerGroup(device, count);
      const run = { ...options(endingModel(device)), learners };
      expect(await outcome(run)).toEqual(alone);
      expect(learners.counts.theirs).toBeGreaterThanOrEqual(count - 1);
      const own = alone.tensors.slice(0, treeLeaves(trainableOf(run.model).params).length);
      for (const replica of learners.replicas) expect(await readAll(treeLeaves(replica.trained.policy))).toEqual(own);
    }
  });

  it("an adapter with dropout", async () => {
    const alone = await outcome(toyRlOptions(adapted()));
    const learners = learnerGroup(device, 2);
    expect(await outcome({ ...toyRlOptions(adapted()), learners })).toEqual(alone);
    expect(learners.counts.theirs).toBeGreaterThan(0);
  });

  it.each(["bf16", "q8"] as const)("an adapter on a model in %s", async (format) => {
    const packed = (): Promise<Model> => packedAdapter(device, format);
    const alone = await outcome(toyRlOptions(await packed()));
    const learners = learnerGroup(device, 2);
    expect(await outcome({ ...toyRlOptions(await packed()), learners })).toEqual(alone);
    expect(learners.counts.theirs).toBeGreaterThan(0);
  });

  it("a learner that dies in any micro-batch", async () => {
    const alone = await outcome(toyRlOptions(endingModel(device)));
    const learners = learnerGroup(device, 3, (n) => n % 3 === 1 || n > 5);
    expect(await outcome({ ...toyRlOptions(endingModel(device)), learners })).toEqual(alone);
    expect(learners.counts.theirs).toBeGreaterThan(0);
  });
});

describe("a replica", () => {
  it("refuses numbers that are not its learner's", async () => {
    const options = toyRlOptions(endingModel(device));
    let pass: Pass | undefined;
    const learners = sharedLearners(async (given) => void (pass = given));
    await reportsOf(trainRl({ ...options, steps: 1, learners }));
    const replica = new Replica(planOf(pass!), pass!.objective, {}, device);
    const state = await stateOf(pass!);
    expect(() => replica.restore({ ...state, steps: [] })).toThrow("for a learner of");
    expect(() => replica.restore({ ...state, arrays: state.arrays.slice(1) })).toThrow("for a learner of");
    expect(() => replica.step(state.arrays, 0.1)).toThrow("do not fit");
    replica.dispose();
  });
});
