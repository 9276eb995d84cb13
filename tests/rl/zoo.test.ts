/**
 * The one-file programs beside `examples/grpo.ts` are the library's methods written out: the same episodes, losses and
 * parameters, bit for bit on the reference executor, when both play the programs' world.
 */
import { afterAll, describe, expect, it } from "vitest";
import { device, Rng } from "../../engine/index.ts";
import * as engine from "../../engine/index.ts";
import * as actfocus from "../../examples/actfocus.ts";
import * as dapo from "../../examples/dapo.ts";
import * as dpo from "../../examples/dpo.ts";
import * as gspo from "../../examples/gspo.ts";
import * as paw from "../../examples/paw.ts";
import * as ppo from "../../examples/ppo.ts";
import { WORDS } from "../../examples/grpo.ts";
import * as rloo from "../../examples/rloo.ts";
import * as vtrace from "../../examples/vtrace.ts";
import * as nn from "../../nn/index.ts";
import { dpo as dpoLoss, gspo as gspoLoss, objectiveOf, trainPreference } from "../../methods/index.ts";
import { clippedErrorLoss } from "../../methods/paw.ts";
import { AdamW, initValueHead, schedule, type ValueHead } from "../../nn/index.ts";
import { append, emptyStream, groupEstimator, type PlayOptions, type RlOptions } from "../../rl/index.ts";
import { type StepOptions, type StepReport, Template, type Trajectory, trainRl, trainStep } from "../../rl/index.ts";
import { finishStep, playPart } from "../../rl/tasks/play.ts";
import { readSource } from "../project/sources.ts";
import {
  boxes,
  copyOf,
  copyOfLearner,
  type Learner,
  parametersOf,
  tokenizerOf,
  warmLearners,
} from "../support/boxes.ts";

const on = await device("reference");
afterAll(() => on.dispose());
const newLearner = await warmLearners(on);

const [STEPS, LR, SEED] = [2, 1e-2, 7]; // a second step sees what the first one did to parameters and moments
const size = { groups: 4, groupSize: 4 };
const LIMITS = { maxTurns: 2, maxActionTokens: 2 };
type Method = Pick<RlOptions, "objective"> & Partial<RlOptions>;

const PROGRAMS = ["actfocus", "dapo", "dpo", "grpo", "gspo", "paw", "ppo", "rloo", "vtrace"];

describe.each(PROGRAMS)("examples/%s.ts", (name) => {
  const source = readSource(`examples/${name}.ts`);
  it("is one file of at most 200 lines, on engine and nn alone", () => {
    expect(source.trimEnd().split("\n").length).toBeLessThanOrEqual(200);
    expect([...source.matchAll(/ from "([^"]+)"/g)].filter(([, from]) => from !== "../index.ts")).toEqual([]);
    const names = [...source.matchAll(/^import (?:type )?\{([^}]*)\}/gm)].flatMap(([, list]) => list!.split(","));
    const known = new Set([...Object.keys(engine), ...Object.keys(nn)]);
    expect(names.length).toBeGreaterThan(10);
    // Types are no values; of these only the engine's and nn's are there.
    const types = new Set(["Device", "Model", "Tensor", "TransformerParams", "ValueHead"]);
    const plain = names.map((one) => one.trim().replace("type ", ""));
    expect(plain.filter((one) => !known.has(one) && !types.has(one))).toEqual([]);
  });

  it("is in the table of docs/programs.md, and has the limit of 200 lines in npm run examples", () => {
    expect(readSource("docs/programs.md")).toContain(`| [${name}.ts](../examples/${name}.ts)`);
    expect(readSource("scripts/examples.ts")).toContain(`"${name}"`);
  });
});

/** What `trainRl` reports of these steps. */
async function trained({ model, optimizer }: Learner, method: Method): Promise<StepReport["metrics"][]> {
  const template = new Template(tokenizerOf());
  const play = { env: boxes, envOptions: {}, rollout: LIMITS, template, ...size, rng: new Rng(SEED) };
  const reports: StepReport["metrics"][] = [];
  const options = { model, optimizer, lr: schedule({ lr: LR }), steps: STEPS, ...play, ...method };
  for await (const { metrics } of trainRl(options)) reports.push(metrics);
  return reports;
}

/** What a program reports of them. */
async function written<R>(step: (rng: Rng) => Promise<R>, steps = STEPS): Promise<R[]> {
  const reports: R[] = [];
  for (let n = 0; n < steps; n++) reports.push(await step(new Rng(SEED).split(n)));
  return reports;
}

/** A learner with a critic. */
const critical = (): Learner & { critic: ValueHead; criticOptimizer: AdamW<ValueHead> } => {
  const learner = newLearner();
  const critic = initValueHead(learner.model.config, on);
  return { ...learner, critic, criticOptimizer: new AdamW(critic, { clipNorm: 1 }) };
};

describe("examples/ppo.ts", () => {
  it.each([0, 0.1])("is trainRl, bit for bit, with the value weight %d", { timeout: 120_000 }, async (valueWeight) => {
    const own = critical();
    const options = { episodes: 4, passes: 2, valueWeight, lr: LR };
    const reports = await written((rng) => ppo.step(own, rng, options));

    const { critic, criticOptimizer, ...learner } = critical();
    const expected = await trained(learner, {
      objective: objectiveOf({ method: "ppo", critic: { coefficient: valueWeight } }),
      groups: 4,
      groupSize: 1,
      iterations: 2,
      heads: { value: { head: critic, optimizer: criticOptimizer } },
    });
    expect(reports).toEqual(
      expected.map(({ reward, policy_loss, value_loss = 0 }) => ({
        reward,
        policyLoss: policy_loss,
        valueLoss: value_loss,
      })),
    );
    expect(reports.some(({ reward }) => reward > 0)).toBe(true);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(learner.model.params));
    expect(await parametersOf(own.critic)).toEqual(await parametersOf(critic));
  });
});

/** What the programs of group methods report: the mean reward, and the policy's loss in the first pass. */
const reportsOf = (metrics: readonly StepReport["metrics"][]): object[] =>
  metrics.map(({ reward, policy_loss: loss = 0 }) => ({ reward, loss }));

describe("examples/rloo.ts", () => {
  const raw = groupEstimator("raw", (rewards) => rewards);
  const reinforce = { ...objectiveOf({ method: "rloo" }), advantage: raw };
  it.each([
    ["reinforce", reinforce],
    ["rloo", objectiveOf({ method: "rloo" })],
    ["reinforce++", objectiveOf({ method: "reinforce++" })],
  ] as const)("%s is trainRl, bit for bit", { timeout: 120_000 }, async (method, objective) => {
    const [own, learner] = [newLearner(), newLearner()];
    const reports = await written((rng) => rloo.step(own, rng, { method, ...size, lr: LR }));
    expect(reports).toEqual(reportsOf(await trained(learner, { objective })));
    expect(reports.some(({ reward }) => reward > 0)).toBe(true);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(learner.model.params));
  });
});

describe("examples/dapo.ts", () => {
  const clip = { epsilon: 0.2, epsilonHigh: 0.28 };
  const lr = 2e-2; // so that some ratios of the second pass are between the two clips
  it.each([
    ["GRPO", {}, objectiveOf({ method: "grpo" })],
    ["clip-higher", { clipHigher: true }, objectiveOf({ method: "grpo", options: { ppo: clip } })],
    ["dynamic sampling", { dynamic: true }, { ...objectiveOf({ method: "grpo" }), dropConstantGroups: true }],
    ["the mean over tokens", { tokenLevel: true }, objectiveOf({ method: "grpo", aggregation: "token-mean" })],
    ["DAPO", { clipHigher: true, dynamic: true, tokenLevel: true }, objectiveOf({ method: "dapo" })],
  ] as const)("%s is trainRl, bit for bit", { timeout: 120_000 }, async (_, changes, objective) => {
    const [own, learner] = [newLearner(), newLearner()];
    const reports = await written((rng) => dapo.step(own, rng, { ...changes, passes: 2, ...size, lr }));
    expect(reports).toEqual(reportsOf(await trained(learner, { objective, iterations: 2, lr: schedule({ lr }) })));
    expect(reports.some(({ reward }) => reward > 0)).toBe(true);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(learner.model.params));
  });
});

/** Numbers of two lists of named tensors that are nearly equal. */
async function expectNear(own: Learner, learner: Learner): Promise<void> {
  const [a, b] = await Promise.all([own, learner].map(async ({ model }) => parametersOf(model.params)));
  expect(a!.map(([name]) => name)).toEqual(b!.map(([name]) => name));
  a!.forEach(([name, values], i) => {
    const distance = [...Array(values.length).keys()].map((k) => Math.abs(values[k]! - b![i]![1][k]!));
    expect(Math.max(...distance), name).toBeLessThan(1e-6);
  });
}

// The library writes GSPO token by token, so that its sums are over tokens and not over sequences: they round unlike.
describe("examples/gspo.ts", () => {
  it.each([
    ["token", "grpo"],
    ["sequence", "gspo"],
  ] as const)("a ratio per %s is trainRl with %s", { timeout: 120_000 }, async (ratio, method) => {
    const [own, learner] = [newLearner(), newLearner()];
    const reports = await written((rng) => gspo.step(own, rng, { ratio, passes: 2, ...size, lr: LR }));
    const expected = reportsOf(await trained(learner, { objective: objectiveOf({ method }), iterations: 2 }));
    expect(reports.map(({ reward }) => reward).some((reward) => reward > 0)).toBe(true);
    for (const [n, { reward, loss }] of reports.entries()) {
      expect(reward).toBe((expected[n] as (typeof reports)[number]).reward);
      expect(loss).toBeCloseTo((expected[n] as (typeof reports)[number]).loss, 9);
    }
    await expectNear(own, learner);
  });
});

describe("examples/gspo.ts", () => {
  it("has the library's loss and gradient on both sides of its narrow clip", async () => {
    const shifts = [-5e-4, -3.5e-4, -2e-4, 0, 2e-4, 3.5e-4, 5e-4];
    const rows = [1, -1].flatMap((advantage) => shifts.map((shift) => ({ advantage, shift, own: [1, 2, 3] })));
    const column = (of: (row: (typeof rows)[number]) => readonly number[]): engine.Tensor =>
      engine.tensor(Float64Array.from(rows.flatMap(of)), { device: on, dtype: on.float });
    const oldLogProbs = column(({ own }) => own.map((t) => -t));
    const logProbs = column(({ own, shift }) => own.map((t) => shift - t));
    const batch = { rows, column } as unknown as Parameters<typeof gspo.sequenceLoss>[2];
    const own = engine.valueAndGrad((lp: engine.Tensor) => gspo.sequenceLoss(lp, oldLogProbs, batch))(logProbs);
    const ids = engine.tensor(Int32Array.from(rows.flatMap((_, b) => [b, b, b])), { device: on });
    const segments = { ids, count: rows.length };
    const advantages = column(({ own: places, advantage }) => places.map(() => advantage));
    const mask = column(({ own: places }) => places.map(() => 1));
    const loss = gspoLoss();
    const library = engine.valueAndGrad((lp: engine.Tensor) =>
      engine.mean(loss.tokenLoss({ logProbs: lp, oldLogProbs, advantages, mask, segments })),
    )(logProbs);
    expect(await own.value.item()).toBeCloseTo(await library.value.item(), 12);
    const [a, b] = [[...(await own.grads.read())], [...(await library.grads.read())]];
    a.forEach((x, i) => expect(x).toBeCloseTo(b[i]!, 12));
    expect(a.filter((x) => x === 0)).toHaveLength(9); // A > 0 above 1 + 4e-4; A < 0 below 1 − 3e-4
  });
});

// The library gives the loss of a pair to each of its tokens, with weights that sum to 1/pairs: it rounds unlike.
describe("examples/dpo.ts", () => {
  type Pair = Awaited<ReturnType<typeof dpo.makePairs>>[number];
  const trajectoryOf = ({ ids, own, task, reward }: Pair[number]): Trajectory => {
    const stream = emptyStream();
    ids.forEach((id, t) => append(stream, own.includes(t) ? "action" : "prompt", 0, [id]));
    const outcome = { reward, stepRewards: [reward], stopReason: "completed", masked: false } as const;
    return { stream, group: 0, ...outcome, env: "boxes", task, seed: 0, info: {} };
  };

  it.each([0, 0.5])("is trainPreference, with the weight of imitation %d", { timeout: 120_000 }, async (imitation) => {
    const [own, learner] = [newLearner(), newLearner()];
    const pairs = await dpo.makePairs(own, new Rng(1), 8, 4);
    expect(pairs.length).toBeGreaterThan(2);
    const options = { batchSize: 4, beta: 0.1, preferenceWeight: 1, imitationWeight: imitation, lr: LR };
    const losses = await written((rng) => dpo.step(own, pairs, rng, options));
    const { model, optimizer } = learner;
    const steps = trainPreference({
      model,
      optimizer,
      reference: copyOf(model),
      template: new Template(tokenizerOf()),
      pairs: pairs.map(([better, worse]) => ({ chosen: trajectoryOf(better), rejected: trajectoryOf(worse) })),
      policyLoss: dpoLoss({ beta: 0.1 }),
      imitation,
      batchSize: 4,
      steps: STEPS,
      lr: schedule({ lr: LR }),
      rng: new Rng(SEED),
    });
    const expected: number[] = [];
    for await (const { metrics } of steps) expected.push(metrics["loss"]!);
    losses.forEach((loss, n) => expect(loss).toBeCloseTo(expected[n]!, 9));
    if (imitation === 0) expect(losses[0]).toBeCloseTo(Math.LN2, 9); // policy = reference
    await expectNear(own, learner);
  });
});

describe("examples/actfocus.ts", () => {
  /** Its agents have words for thoughts, so they have a warm start of their own. */
  const warm = actfocus.warmStart(on, 3);
  const warmThinker = async (): Promise<Awaited<typeof warm>> => {
    const { model, optimizer, reference } = await warm;
    return { ...copyOfLearner({ model, optimizer }), reference: copyOf(reference) };
  };
  const words = [...WORDS.slice(0, 5), ..."[]abcdefgh01234567nyuvwxyz"];
  const size = { groups: 8, groupSize: 8 }; // so that one of the first tries is right

  it.each([
    ["GRPO", 1, 0],
    ["ActFocus", 0.1, 0.5],
  ] as const)("%s is trainRl, bit for bit", { timeout: 120_000 }, async (_, alpha, beta) => {
    const own = await warmThinker();
    const options = { ...size, alpha, beta, lr: LR };
    const reports = await written((rng) => actfocus.step(own, rng, options));

    const { reference, ...learner } = await warmThinker();
    const template = new Template(tokenizerOf(words), { action: ["[", "]"], strict: true });
    const objective = objectiveOf({ method: "actfocus", options: { actfocus: { alpha, beta } } });
    const rollout = { maxTurns: 2, maxActionTokens: 6 };
    const expected = await trained(learner, { objective, reference, template, rollout, ...size });
    expect(reports).toEqual(reportsOf(expected));
    expect(reports.some(({ reward }) => reward > 0)).toBe(true);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(learner.model.params));
  });
});

describe("examples/paw.ts", () => {
  it("has the library's loss of a word on both sides of ρ", async () => {
    const logProbs = engine.tensor(Float64Array.from([0.01, 0.19, 0.21, 0.9], Math.log), {
      device: on,
      dtype: on.float,
    });
    expect(await paw.clippedError(logProbs).read()).toEqual(await clippedErrorLoss(logProbs, 1, 0.2).read());
  });

  it.each([0, 1])("is trainRl, bit for bit, with the coefficient %d", { timeout: 120_000 }, async (coefficient) => {
    const [own, learner] = [newLearner(), newLearner()];
    const reports = await written((rng) => paw.step(own, rng, { ...size, coefficient, lr: LR }));
    const expected = await trained(learner, {
      objective: objectiveOf({ method: "paw", options: { paw: { coefficient } } }),
    });
    expect(reports).toEqual(expected.map(({ reward, loss }) => ({ reward, loss })));
    expect(reports.some(({ reward }) => reward > 0)).toBe(true);
    expect(expected.some(({ world_loss_weighted: loss = 0 }) => loss > 0)).toBe(coefficient > 0);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(learner.model.params));
  });
});

describe("examples/vtrace.ts", () => {
  it("is trainStep on an older policy's episodes, bit for bit", { timeout: 120_000 }, async () => {
    // The sampler keeps the weights that the policy begins with: after the first step it is older.
    const [own, sampler] = [critical(), newLearner().model];
    const options = { episodes: 8, isCorrected: true, lr: LR };
    const reports = await written((rng) => vtrace.step(own, sampler, rng, options), 3);

    const { critic, criticOptimizer, ...learner } = critical();
    const play = { env: boxes, envOptions: {}, rollout: LIMITS, groups: 8, groupSize: 1, rng: new Rng(SEED) };
    const stepOptions: StepOptions & PlayOptions = {
      ...learner,
      ...play,
      template: new Template(tokenizerOf()),
      lr: schedule({ lr: LR }),
      objective: objectiveOf({ method: "vtrace" }),
      heads: { value: { head: critic, optimizer: criticOptimizer } },
      offPolicy: true,
    };
    const old = { ...stepOptions, model: sampler };
    const source = { play: async (step: number) => finishStep(old, step, [await playPart(old, step)]) };
    const expected: object[] = [];
    for (let step = 0; step < 3; step++) {
      const { metrics } = (await trainStep(stepOptions, source, step))!;
      const { reward, policy_loss: policyLoss, value_loss: valueLoss } = metrics;
      expected.push({ reward, policyLoss, valueLoss });
    }
    expect(reports).toEqual(expected);
    expect(reports.some(({ reward }) => reward > 0)).toBe(true);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(learner.model.params));
    expect(await parametersOf(own.critic)).toEqual(await parametersOf(critic));
  });
});
