/** What `fit` says against what the WebAssembly executor measures when it does it. */
import type { Tensor } from "../../engine/tensor.ts";
import { describe, expect, it } from "vitest";
import { device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { tokenLogProbs } from "../../engine/ops/logProbs.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { KvCache } from "../../nn/cache.ts";
import { estimateParameters, modelConfig, type ModelOptions } from "../../nn/config.ts";
import { cacheBytes, loraParameters, mostTokens, stepMemory, weightBytes } from "../../pretrained/fit.ts";
import { addLora } from "../../pretrained/lora.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { packModel } from "../../pretrained/packed/matrix.ts";
import { initParams, type TransformerParams } from "../../nn/parameters.ts";
import { forward, type Model, outputMatrix, pickHidden } from "../../nn/transformer.ts";
import { SHAPES } from "../../scripts/shapes.ts";
import { processMemory } from "../../run/node/modelMemory.ts";

const SIZE = { vocabSize: 301, hiddenSize: 48, layers: 3, heads: 4, kvHeads: 2, maxPositions: 96 } as const;
const FAMILIES: Record<string, ModelOptions> = {
  llama: SIZE,
  "qwen2, separate head": { ...SIZE, family: "qwen2", tieEmbeddings: false },
  qwen3: { ...SIZE, family: "qwen3", headDim: 32 },
  gpt2: { ...SIZE, family: "gpt2", kvHeads: 4 },
};

describe.each(Object.entries(FAMILIES))("%s", (_, options) => {
  const config = modelConfig(options);

  it.each([false, true])("a training step, checkpointing %s", async (gradientCheckpointing) => {
    const [rows, tokens] = [2, 80];
    const on = await device("wasm", { threads: 1 });
    const params = initParams(config, new Rng(1), on);
    expect(on.backend.stats().liveBytes).toBe(weightBytes(config).f32);
    const optimizer = new AdamW(params);
    const loss = (p: TransformerParams<Tensor>) => {
      const ids = tensor(new Int32Array(rows * tokens), { device: on, shape: [rows, tokens] });
      const hidden = forward(p, config, ids, { gradientCheckpointing });
      const all = pickHidden(
        hidden,
        Int32Array.from({ length: rows * tokens }, (_, i) => i),
      );
      return sum(tokenLogProbs(all, outputMatrix(p), tensor(new Int32Array(rows * tokens), { device: on })).logProbs);
    };
    scope(() => void optimizer.step(valueAndGrad(loss)(params).grads));
    const held = on.backend.stats().liveBytes;
    scope(() => void optimizer.step(valueAndGrad(loss)(params).grads));
    const measured = on.backend.stats();
    const said = stepMemory(config, { rows, tokens, gradientCheckpointing })!;
    expect(said.held / held).toBeCloseTo(1, 2);
    expect(said.peak / measured.peakBytes).toBeGreaterThan(0.97);
    expect(said.peak / measured.peakBytes).toBeLessThan(1.03);
    expect(said.reserved).toBeGreaterThanOrEqual(said.peak);
    on.dispose();
  });

  it.each(["f32", "bf16", "q8"] as const)("a step of an adapter on weights in %s", async (storage) => {
    const [rows, tokens] = [2, 80];
    const on = await device("wasm", { threads: 1 });
    const whole: Model = { config, params: initParams(config, new Rng(1), on) };
    const base = storage === "f32" ? whole : await packModel(whole, storage);
    const kept = new Set(treeLeaves(base.params));
    for (const x of treeLeaves(whole.params)) if (!kept.has(x)) x.dispose();
    const adapted = addLora(base, { r: 8, targetModules: "all-linear" });
    const { params } = adapted.trainable;
    const optimizer = new AdamW(params);
    const loss = (p: typeof params) => {
      const { params: own } = adapted.trainable.modelOf(p);
      const ids = tensor(new Int32Array(rows * tokens), { device: on, shape: [rows, tokens] });
      const index = Int32Array.from({ length: rows * tokens }, (_, i) => i);
      const targets = tensor(new Int32Array(rows * tokens), { device: on });
      return sum(tokenLogProbs(pickHidden(forward(own, config, ids), index), outputMatrix(own), targets).logProbs);
    };
    scope(() => void optimizer.step(valueAndGrad(loss)(params).grads));
    const held = on.backend.stats().liveBytes;
    // The peak is that of the step if what went before took less: the unpacked weights did in these sizes.
    scope(() => void optimizer.step(valueAndGrad(loss)(params).grads));
    const said = stepMemory(config, { rows, tokens, trains: { rank: 8 }, storage })!;
    expect(said.held / held).toBeCloseTo(1, 1);
    expect(said.peak / on.backend.stats().peakBytes).toBeGreaterThan(0.95);
    expect(said.peak / on.backend.stats().peakBytes).toBeLessThan(1.05);
    expect(() => stepMemory(config, { rows, tokens, storage: "bf16" })).toThrow("weights in bf16 cannot be trained");
    on.dispose();
  });

  it("a cache", async () => {
    const on = await device("wasm", { threads: 1 });
    const cache = new KvCache(config, 3, 40, on);
    expect(on.backend.stats().liveBytes).toBe(3 * 40 * cacheBytes(config));
    cache.dispose();
    on.dispose();
  });
});

describe("sizes of models that are known", () => {
  // MiB of resident memory that bench/pretrained.ts measured (bench/pretrained.md), of Node 20 on Linux.
  it.each([
    ["SmolLM2-135M", "bf16", 128, false, 767],
    ["Qwen3-0.6B", "bf16", 128, false, 2108],
    ["Qwen3-0.6B", "bf16", 512, true, 1711],
  ] as const)(
    "%s in %s, a step of LoRA on 1 × %d tokens: the process",
    (name, storage, tokens, checkpoints, measured) => {
      const how = { trains: { rank: 16 }, storage, gradientCheckpointing: checkpoints } as const;
      const step = stepMemory(SHAPES[name], { rows: 1, tokens, ...how })!;
      const { total, tensors, gaps, node, tokenizer } = processMemory(SHAPES[name], step);
      expect(tensors + gaps + node + tokenizer).toBe(total);
      expect(total / 2 ** 20 / measured).toBeGreaterThan(0.95);
      expect(total / 2 ** 20 / measured).toBeLessThan(1.05);
    },
  );

  const qwen = SHAPES["Qwen3-0.6B"];

  it("Qwen3-0.6B: weights, LoRA, cache; a step of LoRA in one memory, of all weights not", () => {
    expect(estimateParameters(qwen)).toBe(596_049_920);
    expect(weightBytes(qwen).f32).toBe(4 * 596_049_920);
    expect(weightBytes(qwen).bf16 / 2 ** 20).toBeCloseTo(1137, 0);
    expect(loraParameters(qwen, 16)).toBe(28 * 16 * (3072 + 2 * 2048 + 3072 + 3 * 4096));
    expect(cacheBytes(qwen)).toBe(28 * 8 * 128 * 8);
    expect(stepMemory(qwen, { rows: 1, tokens: 16 })).toBeNull();
    const lora = { trains: { rank: 8 }, gradientCheckpointing: true } as const;
    expect(stepMemory(qwen, { rows: 1, tokens: 64, ...lora })!.peak).toBeLessThan(2 ** 32);
    expect(mostTokens(modelConfig(SIZE), { limit: 2 ** 22 })).toBeGreaterThanOrEqual(64);
  });
});
