/** VAPO's value pre-training: what learns in its steps, from which targets, and at which rate. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { rolloutsOf } from "../../rl/episode/stream.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { headObjective, monteCarloReturns } from "../../rl/train/valuePretraining.ts";
import { randomBatch } from "../support/rlBatches.ts";
import { readAll } from "../support/rlExecutors.ts";
import { fullRlOptions, paramsOf } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

const made = (critic: object, more: Partial<RlOptions> = {}): RlOptions =>
  fullRlOptions(endingModel(device), objectiveOf({ method: "vapo", critic, entropy: 0.01 }), more);
const headOf = ({ heads }: RlOptions): Promise<number[][]> => readAll(treeLeaves(heads!["value"]!.head));

describe("value pre-training", () => {
  it("leaves the policy alone until its steps are over, and trains the head", async () => {
    const options = made({ pretrain: 2 }, { steps: 3 });
    const [policy, head] = [await paramsOf(options.model), await headOf(options)];
    for await (const { step, metrics } of trainRl(options)) {
      expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
      expect(metrics["grad_norm"]).toBeGreaterThan(0);
      if (step === 0) expect(await headOf(options)).not.toEqual(head);
      if (step < 2) {
        expect(await paramsOf(options.model)).toEqual(policy);
        expect(options.optimizer.state.step).toBe(0);
      } else expect(await paramsOf(options.model)).not.toEqual(policy);
    }
  });

  it("has whole returns as targets: every token of an episode with a reward at its end has that reward", () => {
    const batch = randomBatch(3);
    const returns = monteCarloReturns(batch);
    for (const { scorable, tokens, reward } of rolloutsOf(batch)) {
      const targets = tokens.map(({ row, t }) => returns[row]![t]!);
      if (scorable && targets.length > 0) expect(targets[0]).toBeCloseTo(reward, 9);
      if (!scorable) expect(targets.every(Number.isNaN)).toBe(true);
    }
    expect(
      returns.flatMap((row, i) => [...row].filter((_, t) => batch[i]!.stream.roles[t] === "observation")),
    ).toSatisfy((values: number[]) => values.every(Number.isNaN));
  });

  it("a rollout that nothing can be said of has no targets", () => {
    const [first, ...others] = randomBatch(3);
    const returns = monteCarloReturns([{ ...first!, reward: NaN }, ...others]); // its steps have rewards all the same
    expect([...returns[0]!].every(Number.isNaN)).toBe(true);
    expect(returns.slice(1).every((row) => [...row].some((x) => !Number.isNaN(x)))).toBe(true);
  });

  it("keeps the length that an aggregation divides by, and none where there is none", () => {
    expect(headObjective(objectiveOf({ method: "vapo", maxLength: 20 })).maxLength).toBe(20);
    const { maxLength: _, ...without } = objectiveOf({ method: "vapo", maxLength: 20 });
    expect("maxLength" in headObjective(without)).toBe(false);
  });

  it("a rate of 2 is the step at twice the learning rate, for the head alone", async () => {
    const twice = made({ pretrain: 1, rate: 2 }, { steps: 1, lr: () => 0.01 });
    const other = made({ pretrain: 1 }, { steps: 1, lr: () => 0.02 });
    for (const options of [twice, other]) for await (const _ of trainRl(options));
    expect(await headOf(twice)).toEqual(await headOf(other));
  });
});
