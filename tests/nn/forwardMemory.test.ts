/** What `forward` keeps, with and without a gradient, and that `gradientCheckpointing` changes memory and no bit. */
import { describe, expect, it } from "vitest";
import { gradientProbe } from "../../methods/gradients.ts";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { crossEntropy } from "../../engine/ops/crossEntropy.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { estimateParameters, type ModelOptions, modelConfig } from "../../nn/config.ts";
import { initParams, type TransformerParams } from "../../nn/parameters.ts";
import { forward, type ForwardOptions, logits } from "../../nn/transformer.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { readAll, reference, wasm } from "../support/rlExecutors.ts";
import { fullRlOptions, paramsOf, reportsOf, toyObjective } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

const SMALL = { vocabSize: 19, hiddenSize: 16, layers: 3, heads: 4, kvHeads: 2, maxPositions: 12 } as const;
const FAMILIES: Record<string, ModelOptions> = {
  llama: SMALL,
  "qwen3, head of its own": { ...SMALL, family: "qwen3", tieEmbeddings: false },
  gpt2: { ...SMALL, family: "gpt2", kvHeads: 4 },
};
const [B, TOKENS] = [2, 9];

/** Loss and gradients, and the most memory that they took beyond what was there. */
async function gradients(
  device: Device,
  options: ModelOptions,
  how: ForwardOptions = {},
  T = TOKENS,
): Promise<{ values: number[][]; peak: number }> {
  const config = modelConfig({ initializerRange: 0.3, ...options });
  const params = initParams(config, new Rng(3), device);
  const rng = new Rng(4);
  const draw = (n: number): Int32Array => Int32Array.from({ length: n }, () => rng.int(config.vocabSize));
  const ids = tensor(draw(B * T), { device, shape: [B, T] });
  const targets = tensor(draw(B * T), { device, shape: [B, T] });
  const { liveBytes } = device.backend.stats();
  const result = valueAndGrad((p: TransformerParams) => crossEntropy(logits(p, forward(p, config, ids, how)), targets))(
    params,
  );
  const { peakBytes } = device.backend.stats();
  return { values: await readAll([result.value, ...treeLeaves(result.grads)]), peak: peakBytes - liveBytes };
}

describe.each([reference, wasm])("on $name", ({ open }) => {
  it.each(Object.keys(FAMILIES))("gradients with checkpointing have the same bits: %s", async (family) => {
    const device = await open();
    // Two texts in a row, and padding: positions begin again.
    const T = TOKENS;
    const segments = tensor(
      Int32Array.from({ length: B * T }, (_, i) => (i % T < 4 ? 0 : i % T < 8 ? 1 : -1)),
      { device, shape: [B, T] },
    );
    const positions = Int32Array.from({ length: B * T }, (_, i) => (i % T) % 4);
    for (const how of [{}, { segments, positions }]) {
      const plain = await gradients(device, FAMILIES[family]!, how);
      const again = await gradients(device, FAMILIES[family]!, { ...how, gradientCheckpointing: true });
      expect(again.values).toEqual(plain.values);
    }
    device.dispose();
  });

  it("a run of reinforcement learning has the same bits, whatever the loss consists of", async () => {
    const device = await open();
    const objective = { ...toyObjective, advantage: grpo(), policyLoss: ppoClip(), kl: { beta: 0.1, estimator: "k3" } };
    const run = async (gradientCheckpointing: boolean): Promise<unknown> => {
      const model = endingModel(device);
      const options = {
        ...fullRlOptions(model, objective as never),
        gradientCheckpointing,
        probes: [gradientProbe({ every: 1 })],
        iterations: 2,
      };
      const reports = await reportsOf(trainRl(options));
      return [reports.map(({ metrics }) => metrics), await paramsOf(model)];
    };
    expect(await run(true)).toEqual(await run(false));
    device.dispose();
  });
});

describe("memory (wasm)", () => {
  const T = 64;
  const narrow = { ...SMALL, vocabSize: 8, maxPositions: T };
  /** The residual stream: C floats per token. */
  const stream = 4 * B * T * narrow.hiddenSize;

  it("without a gradient: that of one block, however many there are", async () => {
    const peak = async (layers: number): Promise<number> => {
      const device = await wasm.open();
      const config = modelConfig({ ...narrow, layers });
      const params = initParams(config, new Rng(3), device);
      const ids = tensor(new Int32Array(B * T), { device, shape: [B, T] });
      forward(params, config, tensor(new Int32Array(1), { device, shape: [1, 1] })).dispose(); // the rotary tables
      const { liveBytes } = device.backend.stats();
      scope(() => void forward(params, config, ids));
      const used = device.backend.stats().peakBytes - liveBytes;
      device.dispose();
      return used;
    };
    const shallow = await peak(2);
    expect(await peak(9)).toBe(shallow);
    expect(shallow).toBeLessThan(24 * stream);
  });

  it("with a gradient and checkpointing: an input per block, and one block", async () => {
    const peak = async (layers: number, gradientCheckpointing: boolean): Promise<number> => {
      const device = await wasm.open();
      const { peak } = await gradients(device, { ...narrow, layers }, { gradientCheckpointing }, T);
      device.dispose();
      return peak;
    };
    const perBlock = async (how: boolean): Promise<number> => ((await peak(10, how)) - (await peak(4, how))) / 6;
    const size = (layers: number): number => 4 * estimateParameters(modelConfig({ ...narrow, layers }));
    const gradient = size(2) - size(1);
    // Going back, the gradients of a block take the place of its input.
    expect(await perBlock(true)).toBeLessThan(1.1 * Math.max(stream, gradient));
    expect(await perBlock(false)).toBeGreaterThan(12 * stream);
  });
});
