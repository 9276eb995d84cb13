/** Several learners on one device: the run of one learner, to the last bit, whoever computes what. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Device, device as makeDevice } from "../../engine/device.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { addLora } from "../../nn/lora.ts";
import { type Model, trainableOf } from "../../nn/transformer.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { gae } from "../../rl/methods/advantages/index.ts";
import { frozenOf, planOf, Replica, stateOf } from "../../rl/learners/replica.ts";
import { sharedLearners } from "../../rl/learners/shared.ts";
import type { Learners, Pass } from "../../rl/train/learners.ts";
import { trainRl, type RlOptions } from "../../rl/train/loop.ts";
import { readAll } from "../support/rlExecutors.ts";
import { fullRlOptions, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

interface Group extends Learners {
  readonly replicas: Replica[];
  /** Micro-batches of all passes, and those that replicas computed. */
  readonly counts: { all: number; theirs: number };
}

/** `count` learners, this one included. @param dies whether a replica fails to compute this micro-batch of the run */
function group(count: number, dies: (n: number) => boolean = () => false): Group {
  const replicas: Replica[] = [];
  const counts = { all: 0, theirs: 0 };
  const learners = sharedLearners(async (pass) => {
    while (replicas.length < count - 1) {
      const frozen = await frozenOf(trainableOf(pass.model));
      const replica = new Replica(planOf(pass), pass.objective, frozen, device);
      replica.restore(await stateOf(pass));
      replicas.push(replica);
    }
    return {
      async gradient(n) {
        const own = Math.floor((n * count) / pass.batches.length);
        if (own === 0 || dies(counts.all++)) return undefined;
        counts.theirs++;
        return replicas[own - 1]!.gradient(pass.how, pass.batches[n]!, n);
      },
      async sum(gradient) {
        const arrays = await Promise.all(treeLeaves(gradient).map(async (x) => (await x.read()) as Float32Array));
        for (const replica of replicas) replica.step(arrays, pass.how.lr);
      },
    };
  });
  return { ...learners, replicas, counts };
}

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
      const learners = group(count);
      const run = { ...options(endingModel(device)), learners };
      expect(await outcome(run)).toEqual(alone);
      expect(learners.counts.theirs).toBeGreaterThanOrEqual(count - 1);
      const own = alone.tensors.slice(0, treeLeaves(trainableOf(run.model).params).length);
      for (const replica of learners.replicas) expect(await readAll(treeLeaves(replica.trained.policy))).toEqual(own);
    }
  });

  it("an adapter with dropout", async () => {
    const alone = await outcome(toyRlOptions(adapted()));
    const learners = group(2);
    expect(await outcome({ ...toyRlOptions(adapted()), learners })).toEqual(alone);
    expect(learners.counts.theirs).toBeGreaterThan(0);
  });

  it("a learner that dies in any micro-batch", async () => {
    const alone = await outcome(toyRlOptions(endingModel(device)));
    const learners = group(3, (n) => n % 3 === 1 || n > 5);
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
    const replica = new Replica(planOf(pass!), pass!.objective, [], device);
    const state = await stateOf(pass!);
    expect(() => replica.restore({ ...state, steps: [] })).toThrow("for a learner of");
    expect(() => replica.restore({ ...state, arrays: state.arrays.slice(1) })).toThrow("for a learner of");
    expect(() => replica.step(state.arrays, 0.1)).toThrow("do not fit");
    replica.dispose();
  });
});
