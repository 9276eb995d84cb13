/**
 * Every method in every world of tests/support/hardWorlds.ts: it plays and learns, and all metrics are finite. What a
 * world is about is asserted by tests of its own.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { Model } from "../../nn/transformer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { HARD_WORLDS } from "../support/hardWorlds.ts";
import { METHOD_CASES } from "../support/methodCases.ts";
import { wasm } from "../support/rlExecutors.ts";
import { paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { toyModel } from "../support/rlToy.ts";
import { tries } from "../support/tries.ts";

describe.each(Object.entries(HARD_WORLDS))("in the world %s", (_world, env) => {
  let device: Device;
  beforeAll(async () => void (device = await wasm.open()));
  afterAll(() => device.dispose());
  const tiny = (seed = 1): Model => toyModel(device, seed, { layers: 1, hiddenSize: 8, maxPositions: 48 });

  it.each(METHOD_CASES)("%s", { timeout: 60_000 }, async (_name, choice) => {
    const model = tiny();
    const steps = tries(8);
    const head = initValueHead(model.config, device);
    const options = toyRlOptions(model, {
      objective: objectiveOf(choice),
      reference: tiny(2),
      heads: { value: { head, optimizer: new AdamW(head) } },
      env,
      mixedGroups: true, // methods that compare would refuse the world whose tasks ignore the seed
      warn: () => {},
      groups: 3,
      groupSize: 4,
      rollout: { maxActionTokens: 12, maxTurns: 4 },
      steps,
      maxBatchTokens: 400,
    });
    const reports = await reportsOf(trainRl(options));
    expect(reports).toHaveLength(steps);
    for (const { metrics } of reports)
      expect(Object.entries(metrics).filter(([, value]) => !Number.isFinite(value))).toEqual([]);
    expect((await paramsOf(model)).flat().every(Number.isFinite)).toBe(true);
  });
});
