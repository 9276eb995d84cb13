/**
 * The loss of a micro-batch against plain Math: every term by itself, from the log-probabilities, entropies and values
 * of the same model. Properties about splits and forks hold for a loss that forgets a term, too; this one does not.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { TransformerParams } from "../../nn/parameters.ts";
import type { Model } from "../../nn/transformer.ts";
import { headValues, type ValueHead } from "../../nn/valueHead.ts";
import { gae } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { type MicroBatch, pack } from "../../rl/train/pack.ts";
import { lossOf, type LossParts } from "../../rl/train/loss.ts";
import { hiddenOf, type Ratios, scoreHidden, tokenStatistics } from "../../rl/train/score.ts";
import { optimizerStep } from "../../rl/train/step.ts";
import { AdaptiveKl } from "../../methods/kl.ts";
import { dpo, importanceSampling, reinforce } from "../../methods/losses/index.ts";
import type { KlOptions } from "../../rl/objective/objective.ts";
import { type ColumnName, type Columns, rowOf, type TokenRow, withColumns } from "../../rl/objective/columns.ts";
import { paw } from "../../methods/paw.ts";
import { randomBatch, rowGradient, weighStep } from "../support/rlBatches.ts";
import { readAll } from "../support/rlExecutors.ts";
import { toyModel, toyTemplate } from "../support/rlToy.ts";

let device: Device;
let model: Model;
beforeAll(async () => {
  device = await makeDevice("reference");
  model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
});
afterAll(() => device.dispose());

function criticHead(): ValueHead {
  const rng = new Rng(9);
  const weight = tensor(
    Float64Array.from({ length: 8 }, () => rng.normal()),
    { device, shape: [1, 8], dtype: device.float },
  );
  return { weight, bias: tensor(Float64Array.of(0.1), { device, dtype: device.float }) };
}

/**
 * Two episodes in which every column of every agent's token, and the world's of every observation, has a number of its
 * own.
 */
function fullBatch(without: readonly ColumnName[] = []): MicroBatch {
  const trajectories = randomBatch(3).slice(0, 2);
  const rng = new Rng(4);
  const columns = (): Float64Array[] =>
    trajectories.map(({ stream }) => Float64Array.from(stream.ids, () => rng.normal()));
  const only = (isOwn: boolean): Float64Array[] =>
    columns().map((row, i) => row.map((x, t) => ((trajectories[i]!.stream.roles[t] === "action") === isOwn ? x : 0)));
  const own = only(true);
  const given = {
    advantages: columns(),
    wPolicy: own,
    mask: own.map((row) => row.map((w) => Number(w !== 0))),
    wKl: only(true),
    wEntropy: only(true),
    wValue: only(true),
    returns: columns(),
    wWorld: only(false),
  };
  const paw = only(false);
  const others = { refLogProbs: columns(), oldValues: columns() };
  const kept = Object.fromEntries(
    Object.entries({ ...given, ...others }).filter(([name]) => !without.includes(name as ColumnName)),
  );
  const rows = withColumns(
    trajectories.map((trajectory, i) => rowOf(trajectory, { weights: { paw: paw[i]! } })),
    kept,
  );
  const [batch] = pack(rows, { padId: toyTemplate.padId });
  return batch!;
}

interface Expected {
  readonly policy: number;
  readonly world: number;
  readonly paw?: number;
  readonly kl?: number;
  readonly entropy?: number;
  readonly value?: number;
}

/** The terms in plain Math. @param rho PaW's @param clip of the critic, if it counts */
async function byHand(
  batch: MicroBatch,
  { recorded, kl, rho, clip }: { recorded: boolean; kl?: { importance: boolean }; rho?: number; clip?: number },
): Promise<Expected> {
  const hidden = hiddenOf(model, batch);
  const scored = scoreHidden(model.params, hidden, batch);
  const [lp, H, V] = await Promise.all(
    [scored.logProbs, scored.entropy, headValues(criticHead(), hidden)].map((x) => x.read()),
  );
  const { weights, more: _, ...ofAll } = batch.columns;
  const total = (of: (n: number, c: { readonly [K in keyof Columns]: number }) => number): number =>
    Array.from(lp!).reduce(
      (sum, _, n) =>
        sum +
        of(n, Object.fromEntries(Object.entries(ofAll).map(([k, x]) => [k, x[n]!])) as Record<keyof Columns, number>),
      0,
    );
  const ratio = (n: number, c: { readonly oldLogProbs: number }): number =>
    recorded ? Math.exp(lp![n]! - c.oldLogProbs) : 1;
  return {
    policy: total((n, c) => -c.wPolicy * c.mask * ratio(n, c) * c.advantages),
    world: total((n, c) => -c.wWorld * lp![n]!),
    ...(rho === undefined
      ? {}
      : {
          paw: total((n) => (Math.exp(lp![n]!) <= rho ? weights["paw"]![n]! * (1 - Math.exp(lp![n]!)) : 0)),
        }),
    ...(kl
      ? {
          kl: total(
            (n, c) => c.wKl * c.mask * 0.5 * (lp![n]! - c.refLogProbs) ** 2 * (kl.importance ? ratio(n, c) : 1),
          ),
        }
      : {}),
    ...(batch.columns.wEntropy.some((w) => w !== 0) ? { entropy: total((n, c) => -c.wEntropy * H![n]!) } : {}),
    ...(clip === undefined
      ? {}
      : {
          value: total((n, c) => {
            const held = Math.min(c.oldValues + clip, Math.max(c.oldValues - clip, V![n]!));
            return c.wValue * 0.5 * Math.max((V![n]! - c.returns) ** 2, (held - c.returns) ** 2);
          }),
        }),
  };
}

const policyLoss = importanceSampling();
const kl = (more: Partial<KlOptions> = {}): { kl: KlOptions } => ({ kl: { beta: 1, estimator: "k2", ...more } });

describe("a micro-batch's loss is the sum of its terms", () => {
  it.each<
    [
      name: string,
      parts: Omit<LossParts, "policyLoss">,
      settings: { recorded: boolean; kl?: { importance: boolean }; rho?: number; clip?: number },
      without?: readonly ColumnName[],
    ]
  >([
    ["the policy alone", {}, { recorded: false }, ["wEntropy"]],
    ["recorded log-probabilities", {}, { recorded: true }],
    ["KL", kl(), { recorded: true, kl: { importance: false } }],
    ["KL times the ratio", kl({ importance: true }), { recorded: true, kl: { importance: true } }],
    [
      "KL with a controller",
      kl({ beta: new AdaptiveKl({ beta: 1, target: 1, horizon: 1 }) }),
      { recorded: false, kl: { importance: false } },
    ],
    ["KL in the reward", kl({ in: "reward" }), { recorded: true }],
    ["PaW", { world: paw({ rho: 0.1 }) }, { recorded: true, rho: 0.1 }],
    ["a critic", { critic: { clip: 0.05 } }, { recorded: true, clip: 0.05 }],
    ["a critic with its default clip", { critic: {} }, { recorded: true, clip: 0.2 }],
    [
      "all of it",
      { ...kl({ importance: true }), world: paw(), critic: { clip: 0.5 } },
      { recorded: true, kl: { importance: true }, rho: 0.2, clip: 0.5 },
    ],
  ])("%s", async (_, parts, settings, without) => {
    const batch = fullBatch(without);
    const [loss, { terms }] = lossOf(
      { policy: model.params, heads: { value: criticHead() } },
      model,
      batch,
      { policyLoss, ...parts },
      settings.recorded ? "recorded" : "exact",
    );
    const expected = await byHand(batch, settings);
    const found = Object.fromEntries(
      await Promise.all(Object.entries(terms).map(async ([name, x]) => [name, await x.item()] as const)),
    );
    expect(Object.keys(found).toSorted()).toEqual(Object.keys(expected).toSorted());
    for (const [name, value] of Object.entries(expected)) expect(found[name], name).toBeCloseTo(value as number, 10);
    const whole = Object.values({ ...expected } as Readonly<Record<string, number>>).reduce((a, b) => a + b, 0);
    expect(await loss.item()).toBeCloseTo(whole, 10);
  });

  it("an entropy weight on one token is enough; without head or critic there is no value loss", () => {
    const batch = fullBatch(["wEntropy"]);
    const single = {
      ...batch,
      columns: { ...batch.columns, wEntropy: batch.columns.wEntropy.map((_, n) => Number(n === 1)) },
    };
    const termsOf = (b: MicroBatch, parts: Omit<LossParts, "policyLoss">, head?: ValueHead): string[] =>
      Object.keys(
        lossOf(
          { policy: model.params, ...(head ? { heads: { value: head } } : {}) },
          model,
          b,
          { policyLoss, ...parts },
          "recorded",
        )[1].terms,
      );
    const always = ["policy", "world"];
    expect(termsOf(single, {})).toEqual([...always, "entropy"]);
    expect(termsOf(batch, { critic: {} })).toEqual(always);
    expect(termsOf(batch, {}, criticHead())).toEqual(always);
    expect(termsOf(batch, { critic: {} }, criticHead())).toEqual([...always, "value"]);
  });

  it("the value loss trains the head, and the transformer unless its trunk is cut off", async () => {
    const batch = fullBatch(["wEntropy"]);
    const silent = {
      ...batch,
      columns: {
        ...batch.columns,
        wPolicy: batch.columns.wPolicy.map(() => 0),
        wWorld: batch.columns.wWorld.map(() => 0),
      },
    };
    const felt = async (trunk: boolean): Promise<boolean[]> => {
      const { grads } = valueAndGrad((trained: { policy: TransformerParams; heads: { value: ValueHead } }) =>
        lossOf(trained, model, silent, { policyLoss: reinforce(), critic: { trunk } }),
      )({ policy: model.params, heads: { value: criticHead() } });
      const isFelt = async (tree: TransformerParams | ValueHead): Promise<boolean> =>
        (await readAll(treeLeaves(tree))).flat().some((g) => g !== 0);
      return Promise.all([isFelt(grads.policy), isFelt(grads.heads.value)]);
    };
    expect(await felt(true)).toEqual([true, true]);
    expect(await felt(false)).toEqual([false, true]);
  });

  it("a loss over pairs is given the reference", async () => {
    const batch = fullBatch();
    const [, { logProbs, terms }] = lossOf({ policy: model.params }, model, batch, { policyLoss: dpo() }, "recorded");
    const { mask, advantages, refLogProbs, wPolicy } = batch.columns;
    const h = new Array<number>(batch.segments).fill(0);
    (await logProbs.read()).forEach((lp, n) => {
      if (mask[n]) h[batch.segment[n]!]! += advantages[n]! * (lp - refLogProbs[n]!);
    });
    const loss = wPolicy.reduce(
      (sum, w, n) => sum + w * mask[n]! * Math.log1p(Math.exp(-0.1 * h[batch.segment[n]!]!)),
      0,
    );
    expect(await terms["policy"]!.item()).toBeCloseTo(loss, 10);
  });
});

describe("a step", () => {
  const options = { lr: 0.01, padId: toyTemplate.padId };
  const withCritic = (): readonly TokenRow[] => {
    const batch = randomBatch(3);
    const signals = { values: batch.map(({ stream }) => new Float64Array(stream.ids.length)) };
    return weighStep({ advantage: gae(), policyLoss, aggregation: "token-mean", critic: {} }, batch, 0, signals);
  };

  it("its terms are sums over the micro-batches", async () => {
    const rows = weighStep(
      { advantage: grpo(), policyLoss, aggregation: "token-mean", entropy: 0.1 },
      randomBatch(3),
      0,
    );
    const of = async (maxTokens: number): Promise<number[]> => {
      const fresh = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
      const result = await optimizerStep(
        fresh,
        new AdamW(fresh.params),
        rows,
        { policyLoss },
        { ...options, maxTokens, ratios: "recorded" },
      );
      return [result.terms["policy"]!, result.terms["entropy"]!];
    };
    const [whole, parts] = [await of(10_000), await of(1)];
    expect(whole.every((x) => x !== 0)).toBe(true);
    parts.forEach((x, i) => expect(x).toBeCloseTo(whole[i]!, 12));
  });

  it("a critic is trained if there is one and the objective has one; else nothing touches it", async () => {
    const moved = async (objectiveHas: boolean, learnerHas: boolean): Promise<boolean> => {
      const fresh = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
      const head = criticHead();
      const before = await readAll(treeLeaves(head));
      const heads = { value: { head, optimizer: new AdamW(head, { weightDecay: 0.5 }) } };
      const parts = { policyLoss, ...(objectiveHas ? { critic: {} } : {}) };
      const { terms } = await optimizerStep(fresh, new AdamW(fresh.params), withCritic(), parts, {
        ...options,
        ...(learnerHas ? { heads } : {}),
      });
      expect("value" in terms).toBe(objectiveHas && learnerHas);
      const after = await readAll(treeLeaves(head));
      return after.flat().some((x, k) => x !== before.flat()[k]);
    };
    expect([await moved(true, true), await moved(true, false), await moved(false, true)]).toEqual([true, false, false]);
  });

  it("the rows' gradient is that of the recorded ratios if asked, else the one at ρ = 1", async () => {
    const rows = weighStep({ advantage: grpo(), policyLoss, aggregation: "token-mean" }, randomBatch(3), 0);
    const of = async (loss: LossParts, ratios: Ratios = "exact"): Promise<number[][]> =>
      readAll(treeLeaves(rowGradient(model, rows, loss, { ...options, ratios })));
    const plain = await of({ policyLoss: reinforce() });
    const close = (actual: number[][]): boolean =>
      actual.flat().every((g, k) => Math.abs(g - plain.flat()[k]!) < 1e-12);
    expect(close(await of({ policyLoss }))).toBe(true);
    expect(close(await of({ policyLoss }, "exact"))).toBe(true);
    expect(close(await of({ policyLoss }, "recorded"))).toBe(false);
  });

  it("signals of a masked episode are not read", async () => {
    const [t] = randomBatch(3);
    const { logProbs } = await tokenStatistics({ model }, ["logProbs"], [{ ...t!, masked: true }, t!], { padId: 0 });
    expect(logProbs!.map((row) => row.some((x) => !Number.isNaN(x)))).toEqual([false, true]);
  });
});
