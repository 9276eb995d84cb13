/**
 * Terms of the loss that an objective adds, with and without a head: values by hand, special points, and that nothing
 * but the term itself has to be written. `returnPrediction` is one; the others are of this file.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { gradientProbe } from "../../methods/gradients.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { mul, treeLeaves, valueAndGrad } from "../../engine/index.ts";
import { AdamW, headValues, initValueHead, type Model } from "../../nn/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { returnPrediction } from "../../methods/returnPrediction.ts";
import type { LossTerm } from "../../rl/objective/terms.ts";
import type { EpisodePlugin } from "../../rl/tasks/plugin.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { lossOf, type Trained } from "../../rl/train/loss.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { hasScored, pack } from "../../rl/train/pack.ts";
import { hiddenOf } from "../../rl/train/score.ts";
import { randomBatch, trainOn, weighStep } from "../support/rlBatches.ts";
import { readAll } from "../support/rlExecutors.ts";
import { fullRlOptions, paramsOf, reportsOf } from "../support/rlRuns.ts";
import { endingModel, episode, toyModel, toyTemplate } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("reference")));
afterAll(() => device.dispose());

const tiny = (): Model => toyModel(device, 1, { layers: 1, hiddenSize: 8 });
const plain: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
const headOf = (model: Model) => {
  const head = initValueHead(model.config, device);
  return { head, optimizer: new AdamW(head, { weightDecay: 0 }) };
};
const padId = toyTemplate.padId;

describe("return prediction", () => {
  const scored = (reward: number, ...action: number[]): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", action],
      ],
      { reward },
    );
  const batch = [scored(1, 2, 3), scored(-2, 4), scored(NaN, 5, 6)];
  const objective: Objective = { ...plain, terms: [returnPrediction({ coefficient: 0.5 })] };

  it("has the mean over the agent's tokens in scored episodes, and their return as target", () => {
    const rows = weighStep(objective, batch, 0);
    const of = (row: number): number[][] => [
      [...rows[row]!.weights["return_prediction"]!],
      [...rows[row]!.more["return_prediction.return"]!],
    ];
    expect(of(0)).toEqual([
      [0, 0.5 / 3, 0.5 / 3],
      [0, 1, 1],
    ]);
    expect(of(1)).toEqual([
      [0, 0.5 / 3],
      [0, -2],
    ]);
    expect(of(2)).toEqual([
      [0, 0, 0],
      [0, 0, 0],
    ]);
  });

  it.each([true, false])("has the value and the gradient of ½(v − R)² by hand, trunk %s", async (trunk) => {
    const model = tiny();
    const { head } = headOf(model); // begins at 0
    const own = { ...plain, terms: [returnPrediction({ coefficient: 0.5, trunk })] };
    const rows = weighStep(own, batch, 0).map((row) => ({ ...row, wPolicy: row.wPolicy.map(() => 0) }));
    const [packed] = pack(rows, { padId });
    const trained = { policy: model.params, heads: { return_prediction: head } };
    const { value, aux, grads } = valueAndGrad((tree: Trained) => lossOf(tree, model, packed!, own))(trained);
    expect(Object.keys(aux.terms)).toEqual(["policy", "world", "return_prediction"]);
    expect(await value.item()).toBeCloseTo((0.5 / 3) * 0.5 * (1 + 1 + 4), 12);
    // ∂L/∂bias = Σ w·(v − R) with v = 0.
    const [weight, bias] = await readAll(treeLeaves(grads.heads!));
    expect(bias![0]).toBeCloseTo((0.5 / 3) * (-1 - 1 + 2), 12);
    const hidden = await hiddenOf(model, packed!).read();
    const returns = [...packed!.columns.more["return_prediction.return"]!];
    const weights = [...packed!.columns.weights["return_prediction"]!];
    weight!.forEach((g, c) => {
      const expected = returns.reduce((sum, R, n) => sum - weights[n]! * R * hidden[n * 8 + c]!, 0);
      expect(g).toBeCloseTo(expected, 12);
    });
    // The head is 0, so the transformer feels nothing yet, whatever `trunk` is.
    expect((await readAll(treeLeaves(grads.policy))).flat().every((g) => g === 0)).toBe(true);
  });

  it("changes the policy only through the trunk, and has its metrics", async () => {
    const run = async (
      options: object | undefined,
    ): Promise<{ losses: number[]; params: unknown; head: number[][] }> => {
      const model = endingModel(device);
      const head = headOf(model);
      const terms = options ? [returnPrediction({ coefficient: 1, rate: 3, ...options })] : [];
      const reports = await reportsOf(
        trainRl({
          ...fullRlOptions(model, { ...plain, terms }, { heads: { return_prediction: head } }),
          probes: [gradientProbe({ every: 1, shares: true })],
          steps: 3,
        }),
      );
      const metrics = reports.map((report) => report.metrics);
      if (options) for (const own of metrics) expect(own["grad_share/return_prediction"]).toBeTypeOf("number");
      return {
        losses: metrics.map((own) => own["return_prediction_loss"]!),
        params: await paramsOf(model),
        head: await readAll(treeLeaves(head.head)),
      };
    };
    const [off, cut, on] = [await run(undefined), await run({ trunk: false }), await run({ trunk: true })];
    expect(off.losses.every((loss) => loss === undefined)).toBe(true);
    expect(off.head.flat().every((x) => x === 0)).toBe(true);
    expect(cut.params).toEqual(off.params); // the policy's bits, with a head beside it
    expect(on.params).not.toEqual(off.params);
  });

  it("learns: on the same episodes its loss falls, with a rate of its own the faster", async () => {
    const lossesAt = async (rate: number): Promise<number[]> => {
      const model = tiny();
      const own = { ...plain, terms: [returnPrediction({ coefficient: 1, trunk: false, rate })] };
      const options = { ...fullRlOptions(model, own), heads: { return_prediction: headOf(model) }, lr: () => 0.01 };
      const losses: number[] = [];
      for (let n = 0; n < 5; n++) losses.push((await trainOn(options, batch, n)).metrics["return_prediction_loss"]!);
      return losses;
    };
    const [slow, fast] = [await lossesAt(1), await lossesAt(5)];
    for (let n = 1; n < 5; n++) expect(slow[n]).toBeLessThan(slow[n - 1]!);
    expect(fast[0]).toBe(slow[0]);
    expect(fast.at(-1)).toBeLessThan(slow.at(-1)!);
  });

  it("with coefficient 0, or where nothing has a score, adds nothing", () => {
    const none = { ...plain, terms: [returnPrediction({ coefficient: 0 })] };
    expect(weighStep(none, batch, 0).every(({ weights }) => weights["return_prediction"]!.every((w) => w === 0))).toBe(
      true,
    );
    const unscored = [scored(NaN, 2), scored(NaN, 3)];
    const rows = weighStep(objective, unscored, 0);
    expect(rows.every(({ weights }) => weights["return_prediction"]!.every((w) => w === 0))).toBe(true);
  });

  it("goes with imitated episodes, which have no weights of it, in micro-batches of their own", async () => {
    const model = endingModel(device);
    const imitating: EpisodePlugin = {
      name: "imitating",
      extend: ({ own }) => ({ imitated: { episodes: own.slice(0, 2), weight: 0.5 }, metrics: {} }),
    };
    const options = fullRlOptions(model, { ...plain, terms: [returnPrediction()] }, { plugins: [imitating] });
    const heads = { return_prediction: headOf(model) };
    const run = (maxBatchTokens: number) =>
      reportsOf(
        trainRl({ ...options, heads, maxBatchTokens, probes: [gradientProbe({ every: 1, shares: true })], steps: 1 }),
      );
    const [report] = await run(1); // each episode is a micro-batch
    expect(Object.values(report!.metrics).every(Number.isFinite)).toBe(true);
    expect(report!.metrics["return_prediction_loss"]).toBeGreaterThan(0);
  });

  it("is an add-on by name", () => {
    const { terms } = objectiveOf({
      method: "dapo+echo+return_prediction",
      options: { return_prediction: { rate: 2 } },
    });
    expect(terms!.map(({ name, head }) => [name, head])).toEqual([["return_prediction", { trunk: true, rate: 2 }]]);
  });
});

describe("a term of one's own", () => {
  /** Makes long words unlikely: a weight on the last token of each episode, and a column that it reads. */
  const lastToken: LossTerm = {
    name: "last",
    weigh: ({ trajectories }) => {
      const at = (value: number) =>
        trajectories.map(({ stream: { ids } }) => Float64Array.from(ids, (_, t) => (t === ids.length - 1 ? value : 0)));
      return { weight: at(0.5), columns: { factor: at(3) } };
    },
    tokenLoss: ({ logProbs, column }) => mul(logProbs, column("factor")),
  };

  it("is summed with the others, whatever its tokens are", async () => {
    const batch = randomBatch(1);
    const own = { ...plain, terms: [lastToken] };
    const rows = weighStep(own, batch, 0);
    expect(rows.every((row) => hasScored(row))).toBe(true);
    const report = await trainOn({ ...fullRlOptions(tiny(), own), objective: own }, batch, 0);
    const expected = report.rows.reduce((sum, { trajectory }, i) => {
      const t = trajectory.stream.ids.length - 1;
      return sum + 0.5 * 3 * report.scores.logProbs[i]![t]!;
    }, 0);
    const { last_loss: last, loss, policy_loss: policy } = report.metrics;
    expect(last).toBeCloseTo(expected, 10);
    expect(loss).toBeCloseTo(policy! + expected, 10);
  });

  it("has a share of the gradient that is of it alone, whatever columns it reads; none without a weight", async () => {
    const reading: LossTerm = {
      ...lastToken,
      name: "reading",
      weigh: ({ aggregated }) => ({ weight: aggregated }),
      // REINFORCE, and so the policy's
      tokenLoss: ({ logProbs, advantages, mask }) => mul(mul(mul(advantages, logProbs), mask), -1),
    };
    const silent: LossTerm = {
      ...lastToken,
      name: "silent",
      weigh: ({ trajectories }) => ({ weight: trajectories.map(({ stream }) => new Float64Array(stream.ids.length)) }),
      tokenLoss: ({ logProbs }) => logProbs,
    };
    const own: Objective = { ...plain, terms: [reading, silent] };
    const options = { ...fullRlOptions(tiny(), own), objective: own, probes: [gradientProbe({ shares: true })] };
    const { metrics } = await trainOn(options, randomBatch(1), 0);
    expect(metrics["grad_share/reading"]).toBeCloseTo(0.5, 10);
    expect(metrics["grad_share/policy"]).toBeCloseTo(0.5, 10);
    expect("grad_share/silent" in metrics).toBe(false);
  });

  it("is refused by a single step without its head, too", async () => {
    const own = { ...plain, terms: [{ ...lastToken, head: {} }] };
    const { heads: _, ...options } = fullRlOptions(tiny(), own);
    await expect(trainOn(options, randomBatch(1), 0)).rejects.toThrow('the term "last" needs a head and its optimiser');
  });

  it("is refused under a name that is taken, without its head, or with a column that nobody made", async () => {
    const named = (name: string): Objective => ({ ...plain, terms: [{ ...lastToken, name }] });
    for (const name of ["policy", "world", "kl", "entropy", "value", "imitation"])
      expect(() => weighStep(named(name), randomBatch(1), 0)).toThrow(`two terms of the loss are called "${name}"`);
    const twice = { ...plain, terms: [lastToken, lastToken] };
    expect(() => weighStep(twice, randomBatch(1), 0)).toThrow('two terms of the loss are called "last"');
    const headed = { ...plain, terms: [{ ...lastToken, head: {} }] };
    await expect(reportsOf(trainRl(fullRlOptions(endingModel(device), headed)))).rejects.toThrow(
      'the term "last" needs a head and its optimiser',
    );
    const wrong: LossTerm = { ...lastToken, tokenLoss: ({ column }) => column("factors") };
    const options = fullRlOptions(endingModel(device), { ...plain, terms: [wrong] });
    await expect(reportsOf(trainRl(options))).rejects.toThrow('the term "last" reads a column "factors"');
    const headless: LossTerm = { ...lastToken, tokenLoss: ({ predictions }) => predictions };
    await expect(
      reportsOf(trainRl(fullRlOptions(endingModel(device), { ...plain, terms: [headless] }))),
    ).rejects.toThrow('the term "last" reads predictions and has no head');
    const none = { ...plain, terms: [{ name: "none" } as unknown as LossTerm] };
    expect(() => weighStep(none, randomBatch(1), 0)).toThrow("terms must be a term of the loss");
  });

  it("has a head that says what `headValues` says", async () => {
    const model = tiny();
    const { head } = headOf(model);
    const seen: unknown[] = [];
    const watching: LossTerm = {
      ...lastToken,
      head: { trunk: false },
      tokenLoss: ({ predictions }) => {
        seen.push(predictions.shape);
        return predictions;
      },
    };
    const own = { ...plain, terms: [watching] };
    const [packed] = pack(weighStep(own, randomBatch(1), 0), { padId });
    lossOf({ policy: model.params, heads: { last: head } }, model, packed!, own);
    expect(seen).toEqual([headValues(head, hiddenOf(model, packed!)).shape]);
  });
});
