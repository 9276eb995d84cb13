/**
 * Memory does not grow: after each training step exactly the same bytes are live, and none more are reserved. A leak
 * per step shows in the second one; 1,000 of them on WebAssembly fill whatever a step fills slowly. A software adapter
 * takes ten times as long, and tests/engine/memory.test.ts has the 1,000 steps there.
 */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { pack } from "../../rl/train/pack.ts";
import { echo } from "../../rl/objective/echo.ts";
import { optimizerStep } from "../../rl/train/step.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { weighStep } from "../support/rlBatches.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { randomEpisode, toyModel, toyTemplate } from "../support/rlToy.ts";

const objective: Objective = {
  advantage: grpo(),
  policyLoss: ppoClip(),
  aggregation: "token-mean",
  world: echo(),
  kl: { beta: 0.1, estimator: "k3" },
};

const STEPS: Readonly<Record<string, number>> = { wasm: 1000, webgpu: 100 };

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", ({ name, open }) => {
  it(`${STEPS[name]!} steps, two micro-batches each`, async () => {
    const device = await open();
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const optimizer = new AdamW(model.params, { clipNorm: 1 });
    const rows = weighStep(
      objective,
      [1, 2].map((reward) => randomEpisode(new Rng(reward), { reward }, 1)),
      0,
    );
    const options = { lr: 1e-4, padId: toyTemplate.padId, maxTokens: 1 };
    expect([...pack(rows, options)].length).toBe(2);
    const step = async (): Promise<number> => {
      await optimizerStep(model, optimizer, rows, objective, options);
      return device.backend.stats().liveBytes;
    };
    const live = await step();
    const { reservedBytes } = device.backend.stats();
    for (let i = 1; i < STEPS[name]!; i++) if ((await step()) !== live) expect.fail(`live bytes changed in step ${i}`);
    expect(device.backend.stats().reservedBytes).toBe(reservedBytes);
    device.dispose();
  });
});
