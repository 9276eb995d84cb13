/** The statistics of tokens that objectives ask for: what they are, from the logits, and that only those are scored. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { forward, logits, type Model } from "../../nn/transformer.ts";
import { headValues } from "../../nn/valueHead.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { statisticsOf } from "../../rl/objective/objective.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { TOKEN_STATISTICS } from "../../rl/objective/tokenStatistics.ts";
import { type Ratios, scoreTokens, tokenStatistics } from "../../rl/train/score.ts";
import { episode, toyModel, V } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("reference");
});
afterAll(() => device.dispose());

const logSumExp = (x: number[]): number => Math.log(x.reduce((s, v) => s + Math.exp(v), 0));
const softmax = (x: number[]): number[] => x.map((v) => Math.exp(v - logSumExp(x)));
const entropyOf = (x: number[]): number => -softmax(x).reduce((s, p) => s + p * Math.log(p), 0);

describe("signals", () => {
  it("are what a plain forward pass says, token by token", async () => {
    const [model, reference] = [toyModel(device, 1), toyModel(device, 2)];
    const head = {
      weight: tensor([Array.from({ length: 16 }, (_, i) => i / 16)], { device }),
      bias: tensor([0.5], { device }),
    };
    const { stream: plain, ...rest } = episode([
      ["prompt", [1, 2]],
      ["action", [3, 4]],
      ["observation", [5]],
      ["action", [6]],
    ]);
    const stream = { ...plain, temperatures: plain.ids.map(() => 0.7) };
    const trajectory: Trajectory = { ...rest, stream };
    const scored = await tokenStatistics({ model, reference, head }, TOKEN_STATISTICS, [trajectory], { padId: 0 });

    const hiddenOf = (m: Model): Tensor =>
      scope(() => forward(m.params, m.config, tensor([stream.ids], { device, dtype: "i32" })));
    const logitsOf = (m: Model): Float64Array => scope(() => logits(m.params, hiddenOf(m))).readSync() as Float64Array;
    const [own, ref] = [logitsOf(model), logitsOf(reference)];
    const hidden = tensor(hiddenOf(model).readSync(), { device, shape: [6, 16] });
    const values = scope(() => headValues(head, hidden)).readSync();
    for (const [t, role] of stream.roles.entries()) {
      if (role !== "action") {
        for (const name of TOKEN_STATISTICS) expect(scored[name]![0]![t]).toBe(NaN);
        continue;
      }
      /** The logits that predict this token, divided by a temperature. */
      const row = (all: Float64Array, temperature: number): number[] =>
        Array.from(all.subarray((t - 1) * V, t * V), (logit) => logit / temperature);
      const id = stream.ids[t]!;
      const [mine, theirs, plainly] = [row(own, 0.7), row(ref, 0.7), row(ref, 1)];
      const expected: Record<(typeof TOKEN_STATISTICS)[number], number> = {
        logProbs: mine[id]! - logSumExp(mine),
        entropy: entropyOf(mine),
        collision: softmax(mine).reduce((s, p) => s + p * p, 0),
        values: values[t - 1]!,
        refLogProbs: theirs[id]! - logSumExp(theirs),
        refEntropy: entropyOf(plainly),
        refNll: logSumExp(plainly) - plainly[id]!,
        refEnergy: -logSumExp(plainly),
      };
      for (const name of TOKEN_STATISTICS) expect(scored[name]![0]![t], name).toBeCloseTo(expected[name], 10);
    }
  });

  it("nobody asks, nobody pays: GRPO with ECHO needs none; each part names its own", () => {
    expect(statisticsOf(objectiveOf({ method: "echo" }))).toEqual([]);
    expect(statisticsOf(objectiveOf({ method: "dapo" }))).toEqual([]);
    expect(statisticsOf(objectiveOf({ method: "paw" }))).toEqual(["entropy"]);
    expect(statisticsOf(objectiveOf({ method: "vtrace+actfocus" }))).toEqual(["logProbs", "values", "refEnergy"]);
    expect(statisticsOf(objectiveOf({ method: "kl_cov" }))).toEqual(["logProbs"]);
  });

  it("a step scores what its objective names, and log-probabilities before the first of several passes", async () => {
    const sources = { model: toyModel(device, 1) };
    const batch = [
      episode([
        ["prompt", [1, 2]],
        ["action", [3, 4]],
      ]),
    ];
    const objective = objectiveOf({ method: "grpo+echo", maxLength: 20 });
    const scored = (ratios: Ratios): Promise<object> => scoreTokens(sources, objective, batch, ratios, { padId: 0 });
    for (const ratios of ["exact", "recorded"] as const) expect(await scored(ratios)).toEqual({});
    expect(Object.keys(await scored("before"))).toEqual(["logProbs"]);
  });
});
