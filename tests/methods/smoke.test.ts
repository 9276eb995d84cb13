/**
 * Every method trains: each preset, and with them each policy loss, estimator, world model, token weighting, importance
 * correction and KL penalty, plays and learns in the toy world, 20 steps on WebAssembly (5 in `npm test`) and 2 on
 * WebGPU (every fourth case in `npm test`); each preference and supervised loss does so on what was played. Metrics and
 * parameters stay finite, and the parameters move. On WebGPU a step takes half a second on a software adapter. There
 * the loss that imitates own successes takes 5, for it needs a success first. tests/methods/presetsGpu.test.ts compares
 * the numbers.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { Model } from "../../nn/transformer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { UNCERTAINTIES } from "../../methods/tokenWeights.ts";
import { KL_ESTIMATORS } from "../../rl/objective/kl.ts";
import { PREFERENCE } from "../../methods/losses/preference.ts";
import { SUPERVISED } from "../../methods/losses/supervised.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { METHODS } from "../../methods/choice.ts";
import { trainPreference } from "../../methods/preference.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainSft } from "../../methods/sft.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { randomBatch } from "../support/rlBatches.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { METHOD_CASES, withoutPairs } from "../support/methodCases.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { letters, toyModel, toySpec, toyTemplate } from "../support/rlToy.ts";
import { some, tries } from "../support/tries.ts";

const stepsOn = (executor: string, method?: string): number =>
  executor === "wasm" ? tries(20) : method?.startsWith("rft") ? 5 : 2;

it("every loss, estimator and add-on is among the cases", () => {
  const text = METHOD_CASES.map(([name]) => name).join(" ");
  for (const name of ["echo", "paw", "actfocus", "top_entropy", ...UNCERTAINTIES, ...KL_ESTIMATORS, "truncate", "mask"])
    expect(text).toContain(name);
  const used = (part: "loss" | "advantage"): Set<string> =>
    new Set(
      METHOD_CASES.map(
        ([, c]) => c[part] ?? METHODS[c.method!.split(/\+(?=echo|paw|actfocus|top_entropy)/)[0]!]![part],
      ),
    );
  expect([...used("loss")].toSorted()).toEqual(withoutPairs.toSorted());
  expect([...used("advantage")].toSorted()).toEqual(Object.keys(ADVANTAGES).toSorted());
});

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", ({ name, open }) => {
  let device: Device;
  beforeAll(async () => void (device = await open()));
  afterAll(() => device.dispose());
  const tiny = (seed = 1): Model => toyModel(device, seed, { layers: 1, hiddenSize: 8, maxPositions: 24 });

  async function expectTrained(
    model: Model,
    before: number[][],
    steps: AsyncGenerator<StepReport, void, void>,
    count: number,
  ): Promise<void> {
    const reports = await reportsOf(steps);
    expect(reports.length).toBe(count);
    for (const { metrics } of reports)
      expect(Object.entries(metrics).filter(([, x]) => !Number.isFinite(x))).toEqual([]);
    const after = await paramsOf(model);
    expect(after.flat().every(Number.isFinite)).toBe(true);
    expect(after).not.toEqual(before);
  }

  it.each(name === "wasm" ? METHOD_CASES : some(METHOD_CASES))("%s", { timeout: 60_000 }, async (_, choice) => {
    const model = tiny();
    const count = stepsOn(name, choice.method);
    const head = initValueHead(model.config, device);
    const options = toyRlOptions(model, {
      optimizer: new AdamW(model.params, { clipNorm: 1, weightDecay: 0 }), // else everything moves by itself
      objective: objectiveOf(choice),
      reference: tiny(2),
      heads: { value: { head, optimizer: new AdamW(head) } },
      env: toySpec(letters(1)),
      rollout: { maxActionTokens: 3, maxTurns: 1 },
      steps: count,
      maxBatchTokens: 200,
    });
    await expectTrained(model, await paramsOf(model), trainRl(options), count);
  });

  const learner = (model: Model) => ({
    model,
    template: toyTemplate,
    optimizer: new AdamW(model.params, { weightDecay: 0 }),
    lr: () => 0.01,
    batchSize: 2,
    steps: stepsOn(name),
    rng: new Rng(1),
  });

  it.each(Object.keys(PREFERENCE))("pairs: %s", { timeout: 60_000 }, async (loss) => {
    const model = tiny();
    const [a, b, c, d] = randomBatch(3);
    const pairs = [
      { chosen: a!, rejected: b! },
      { chosen: c!, rejected: d! },
    ];
    const options = { ...learner(model), pairs, policyLoss: PREFERENCE[loss]!.make(), reference: tiny(2) };
    await expectTrained(model, await paramsOf(model), trainPreference(options), stepsOn(name));
  });

  it.each(Object.keys(SUPERVISED) as ("sft" | "dft")[])("demonstrations: %s", { timeout: 60_000 }, async (loss) => {
    const model = tiny();
    const options = { ...learner(model), demonstrations: randomBatch(3), loss, observationWeight: 0.1 };
    await expectTrained(model, await paramsOf(model), trainSft(options), stepsOn(name));
  });
});
