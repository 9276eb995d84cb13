/**
 * Properties that every loss and every estimator of the RL layer has to have, over random masks, episodes and splits.
 */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { Rng } from "../../engine/random.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { TransformerParams } from "../../nn/parameters.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { type TokenRow, withColumns } from "../../rl/objective/columns.ts";
import { centred, grpo } from "../../rl/objective/grpo.ts";
import { AGGREGATIONS, aggregationWeights } from "../../rl/objective/aggregation.ts";
import { echo, ECHO_NORMALIZATIONS } from "../../rl/objective/echo.ts";
import { optimizerStep, type OptimizerStepOptions } from "../../rl/train/step.ts";
import { klPenalty } from "../../rl/objective/kl.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { reinforce } from "../../methods/losses/index.ts";
import { updateMetrics } from "../../rl/train/report.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { rowGradient, weighStep } from "../support/rlBatches.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { everyExecutor, readAll, reference, relativeError, wasm, webgpu } from "../support/rlExecutors.ts";
import { episode, randomEpisode, toyModel, toyTemplate } from "../support/rlToy.ts";
import { tries } from "../support/tries.ts";

const options: OptimizerStepOptions = { lr: 0.01, padId: toyTemplate.padId };
const plainGrpo: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };

/** Two groups of three random episodes with random rewards. */
function randomBatch(seed: number): Trajectory[] {
  const rng = new Rng(seed);
  return Array.from({ length: 6 }, (_, i) =>
    randomEpisode(rng.split(i), { group: Math.floor(i / 3), reward: rng.int(3) }),
  );
}

describe.each(
  everyExecutor.map((executor) => ({ ...executor, split: executor.name === reference.name ? 1e-12 : 1e-5 })),
)("on $name", ({ open, name: executor, split }) => {
  const isExact = executor === reference.name;
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  describe("values at masked positions have no influence", () => {
    it("what is recorded of tokens that nobody sampled, through a whole model", async () => {
      const model = toyModel(device);
      const batch = randomBatch(3);
      const dirty = batch.map((t) => ({
        ...t,
        stream: {
          ...t.stream,
          oldLogProbs: t.stream.oldLogProbs.map((old, k) =>
            t.stream.roles[k] === "action" ? old : executor === webgpu.name ? -1e30 : NaN,
          ),
        },
      }));
      const objective: Objective = { ...plainGrpo, world: echo({ lambda: 0.5 }), kl: { beta: 0.1, estimator: "k3" } };
      const refOf = (trajectories: Trajectory[], other: number): Float64Array[] =>
        trajectories.map((t) => Float64Array.from(t.stream.roles, (role) => (role === "action" ? -2 : other)));
      const gradient = (trajectories: Trajectory[], other: number): TransformerParams =>
        rowGradient(
          model,
          withColumns(weighStep(objective, trajectories, 0), { refLogProbs: refOf(trajectories, other) }),
          objective,
          { ...options, ratios: "recorded" },
        );
      const [clean, masked] = await Promise.all(
        [gradient(batch, 0), gradient(dirty, 1e30)].map((g) => readAll(treeLeaves(g))),
      );
      expect(masked).toEqual(clean);
    });
  });

  describe("splitting a step into micro-batches changes nothing", () => {
    it.each(AGGREGATIONS)("%s, with ECHO and KL", async (aggregation) => {
      const model = toyModel(device);
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 1000 }),
          fc.integer({ min: 1, max: 90 }),
          async (seed, maxTokens) => {
            const batch = randomBatch(seed);
            const normalization = ECHO_NORMALIZATIONS[seed % 3]!;
            const objective: Objective = {
              ...plainGrpo,
              aggregation,
              maxLength: 20,
              world: echo({ lambda: 0.5, normalization }),
              kl: { beta: 0.1, estimator: "k3" },
            };
            const refLogProbs = batch.map((t) => Float64Array.from(t.stream.ids, () => -2));
            const rows = withColumns(weighStep(objective, batch, 0), { refLogProbs });
            const [whole, parts] = await Promise.all(
              [10_000, maxTokens].map((n) =>
                readAll(
                  treeLeaves(rowGradient(model, rows, objective, { ...options, ratios: "recorded", maxTokens: n })),
                ),
              ),
            );
            parts!.forEach((leaf, i) => expect(relativeError(leaf, whole![i]!)).toBeLessThanOrEqual(split));
          },
        ),
        { numRuns: tries(executor === wasm.name ? 8 : 4), seed: 2 },
      );
    });
  });

  it("λ = 0 is GRPO, bitwise: the same update of every parameter", async () => {
    const batch = randomBatch(5);
    const after = async (objective: Objective): Promise<number[][]> => {
      const model = toyModel(device);
      const optimizer = new AdamW(model.params, { clipNorm: 0.2 });
      for (let step = 0; step < 2; step++)
        await optimizerStep(model, optimizer, weighStep(objective, batch, step), objective, options);
      return readAll(treeLeaves(model.params));
    };
    const grpoOnly = await after(plainGrpo);
    expect(await after({ ...plainGrpo, world: echo({ lambda: 0 }) })).toEqual(grpoOnly);
    expect(await after({ ...plainGrpo, world: echo({ lambda: 0.01 }) })).not.toEqual(grpoOnly);
  });

  it("zero advantage is the next-observation language model", async () => {
    const model = toyModel(device);
    const batch = randomBatch(6).map((t) => ({ ...t, reward: 1 }));
    const objective: Objective = { ...plainGrpo, world: echo({ lambda: 1, normalization: "token-mean" }) };
    const rows = weighStep(objective, batch, 0);
    expect(advantagesOf(objective, batch, 0).fracRewardZeroStd).toBe(1);
    const languageModel = rows.map((row): TokenRow => ({ ...row, wPolicy: row.wPolicy.map(() => 0) }));
    const [echoed, plain] = await Promise.all(
      [rows, languageModel].map((p) => readAll(treeLeaves(rowGradient(model, p, objective, options)))),
    );
    echoed!.forEach((leaf, i) => expect(relativeError(leaf, plain![i]!)).toBeLessThanOrEqual(split));
  });

  it("the first on-policy step: ratio 1, no clipping, REINFORCE's gradient, loss −Σ w·A", async () => {
    const model = toyModel(device);
    const batch = randomBatch(7);
    const rows = weighStep(plainGrpo, batch, 0);
    const of = (objective: Objective): Promise<number[][]> =>
      readAll(treeLeaves(rowGradient(model, rows, objective, options)));
    const [ppo, plain] = [await of(plainGrpo), await of({ ...plainGrpo, policyLoss: reinforce() })];
    ppo.forEach((leaf, i) => expect(relativeError(leaf, plain[i]!)).toBeLessThanOrEqual(split));
    expect(ppo.some((leaf) => leaf.some((g) => g !== 0))).toBe(true);

    const result = await optimizerStep(model, new AdamW(model.params), rows, plainGrpo, options);
    const expected = rows.reduce(
      (total, { wPolicy, advantages }) => total - wPolicy.reduce((s, w, t) => s + w * advantages[t]!, 0),
      0,
    );
    expect(Math.abs(result.terms["policy"]! - expected)).toBeLessThan(isExact ? 1e-15 : 1e-6);
    const metrics = updateMetrics(rows, plainGrpo, [result], advantagesOf(plainGrpo, batch, 0), "exact");
    for (const part of ["low_mean", "high_mean", "region_mean"]) expect(metrics[`clip_ratio/${part}`]).toBe(0);
    expect(metrics["loss"]).toBe(result.terms["policy"]!);
  });

  describe("expectations over an enumerated vocabulary", () => {
    const logits = [0.3, -1.2, 2, 0.1, -0.4];
    const other = [0.1, 0.5, 1, -2, 0.3];
    const rewards = [1, 0, -0.5, 2, 0.25];
    const logSoftmax = (x: number[]): number[] => {
      const normalizer = Math.log(x.reduce((total, v) => total + Math.exp(v), 0));
      return x.map((v) => v - normalizer);
    };
    const [lp, ref] = [logSoftmax(logits), logSoftmax(other)];
    const p = lp.map(Math.exp);
    const precision = isExact ? 1e-14 : 1e-5;
    const near = (actual: number, expected: number): void =>
      expect(Math.abs(actual - expected)).toBeLessThan(precision);
    const ones = (): Tensor =>
      tensor(
        lp.map(() => 1),
        { device },
      );
    /** Σ_v p_v · d(loss)/d(lp_v) · d(lp_v)/d(logit_j) = g_j − p_j Σ g, with g_v = p_v · d(loss)/d(lp_v). */
    const throughSoftmax = (d: ArrayLike<number>): number[] => {
      const g = p.map((x, v) => x * d[v]!);
      const total = g.reduce((a, b) => a + b, 0);
      return g.map((x, j) => x - p[j]! * total);
    };

    it("k1 and k3 average to the true KL, k2's gradient to the KL's", async () => {
      const kl = p.reduce((total, x, v) => total + x * (lp[v]! - ref[v]!), 0);
      for (const estimator of ["k1", "k3"] as const) {
        const values = await klPenalty(estimator, tensor(lp, { device }), tensor(ref, { device }), ones()).read();
        near(
          p.reduce((total, x, v) => total + x * values[v]!, 0),
          kl,
        );
      }
      const { grads } = valueAndGrad((x: Tensor) => sum(klPenalty("k2", x, tensor(ref, { device }), ones())))(
        tensor(lp, { device }),
      );
      const gradient = throughSoftmax(await grads.read());
      p.forEach((x, j) => near(gradient[j]!, x * (lp[j]! - ref[j]! - kl)));
    });

    it.each([reinforce(), ppoClip()])(
      "the policy gradient is that of the expected reward: $name",
      async ({ tokenLoss }) => {
        const expectedReward = p.reduce((total, x, v) => total + x * rewards[v]!, 0);
        const { grads } = valueAndGrad((x: Tensor) =>
          sum(
            tokenLoss({
              logProbs: x,
              oldLogProbs: tensor(lp, { device }),
              advantages: tensor(rewards, { device }),
              mask: ones(),
              segments: {
                ids: tensor(
                  Int32Array.from(lp, (_, v) => v),
                  { device },
                ),
                count: lp.length,
              },
            }),
          ),
        )(tensor(lp, { device }));
        const gradient = throughSoftmax(await grads.read());
        p.forEach((x, j) => near(gradient[j]!, -x * (rewards[j]! - expectedReward)));
      },
    );
  });

  it("k3 of nearly equal log-probabilities is ½d², not the rounding error of e^d − d − 1", async () => {
    const differences = [1e-4, -1e-4, 1e-3, 0.029, 0.031, -0.5, 0];
    const at = tensor(
      differences.map((d) => -1 - d),
      { device },
    );
    const base = tensor(
      differences.map(() => -1),
      { device },
    );
    const values = await klPenalty(
      "k3",
      at,
      base,
      tensor(
        differences.map(() => 1),
        { device },
      ),
    ).read();
    const given = await at.read();
    differences.forEach((_, i) => {
      const d = -1 - given[i]!; // as the executor's float has it
      const expected = Math.expm1(d) - d;
      const precise = Math.abs(d) < 0.03 ? 0.5 * d * d * (1 + (d / 3) * (1 + d / 4)) : expected;
      expect(Math.abs(values[i]! - precise)).toBeLessThanOrEqual(1e-4 * precise);
    });
    expect(values[6]).toBe(0);
  });
});

describe("advantages", () => {
  const actor = (reward: number): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", [2, 3]],
      ],
      { reward },
    );

  it("by hand: (R − mean)/(std + eps), ddof 1 and 0; centred", () => {
    const batch = [0, 1, 5].map((r) => actor(r));
    const first = (estimator = grpo()): number[] => estimator.estimate(batch).perToken.map((row) => row[1]!);
    const std = Math.sqrt(7); // squares 4 + 1 + 9 over n − 1
    expect(first()).toEqual([-2, -1, 3].map((d) => d / (std + 1e-4)));
    expect(first(grpo({ ddof: 0, eps: 0 }))).toEqual([-2, -1, 3].map((d) => d / Math.sqrt(14 / 3)));
    expect(first(centred())).toEqual([-2, -1, 3]);
  });
});

describe("aggregation weights", () => {
  it("by hand, with an episode without trained tokens", () => {
    const masks = [
      [true, false, true, true],
      [false, false],
      [true, false],
    ];
    const total = (mode: (typeof AGGREGATIONS)[number]): number[] =>
      aggregationWeights(masks, mode, 5).map((row) => row.reduce((a, b) => a + b, 0));
    expect(total("token-mean")).toEqual([0.75, 0, 0.25]);
    expect(total("token-sum")).toEqual([3, 0, 1]);
    expect(total("seq-mean-token-sum")).toEqual([1.5, 0, 0.5]);
    expect(total("seq-mean-token-mean").map((x) => +x.toFixed(12))).toEqual([0.5, 0, 0.5]);
    expect(total("seq-mean-token-sum-norm").map((x) => +x.toFixed(12))).toEqual([0.3, 0, 0.1]);
  });
});
