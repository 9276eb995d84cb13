/**
 * Ragged batches compile a bounded number of pipelines: sizes are uniforms, and what is baked into a kernel (multiples
 * of four, blocks, rungs of the ladder) has few values. The sweep records the keys of all kernels of a training step;
 * it needs no GPU.
 */
import { describe, expect, test } from "vitest";
import type { Backend, Buffer } from "../../engine/backends/backend.ts";
import { Device } from "../../engine/device.ts";
import { scope, tensor, type Tensor, valueAndGrad } from "../../engine/index.ts";
import { tokenLogProbs } from "../../engine/ops/logProbs.ts";
import { mean } from "../../engine/ops/reduce.ts";
import { Rng } from "../../engine/random.ts";
import type { AdapterProfile } from "../../kernels/kernel.ts";
import { generatorsFor } from "../../kernels/wgsl/generators.ts";
import { AdamW, forward, initParams, modelConfig, type ModelOptions, type TransformerParams } from "../../nn/index.ts";

/** A device that computes nothing and notes which kernels it was given. */
function recorder(profile: AdapterProfile, keys: Set<string>): Device {
  const alloc = (bytes: number): Buffer => ({ bytes });
  const nothing = { liveBytes: 0, liveBuffers: 0, peakBytes: 0, reservedBytes: 0, compiledKernels: 0 };
  const backend: Backend = {
    kind: "webgpu",
    description: "recorder",
    profile,
    generators: generatorsFor(profile),
    alloc,
    part: (_whole, _offset, bytes) => alloc(bytes),
    free: () => undefined,
    write: () => undefined,
    read: (_buffer, bytes) => Promise.resolve(new ArrayBuffer(bytes)),
    synchronize: () => Promise.resolve(),
    stats: () => nothing,
    dispose: () => undefined,
    run(program) {
      for (const { kernel } of program.steps) keys.add(kernel.key);
    },
  };
  return new Device(backend);
}

const base = { vocabSize: 11, hiddenSize: 8, layers: 1, heads: 2, maxPositions: 512 } as const;
const models: Record<string, ModelOptions> = {
  llama: { ...base, kvHeads: 1 },
  gpt2: { ...base, family: "gpt2" },
};

describe.each([
  { schedule: "software", adapter: "swiftshader" },
  { schedule: "software", adapter: "llvmpipe" },
  { schedule: "gpu", adapter: "nvidia" },
] as const)("$adapter", (profile) => {
  test.each(Object.keys(models))("a training step of %s with T from 1 to 512", (family) => {
    const keys = new Set<string>();
    const on = recorder(profile, keys);
    const config = modelConfig(models[family]!);
    const params = initParams(config, new Rng(1), on);
    const optimizer = new AdamW(params, { clipNorm: 1 });
    const step = (B: number, T: number): void =>
      scope(() => {
        const ids = tensor(new Int32Array(B * T), { device: on, shape: [B, T] });
        const segments = tensor(new Int32Array(B * T), { device: on, shape: [B, T] });
        const loss = (p: TransformerParams<Tensor>): Tensor =>
          mean(tokenLogProbs(forward(p, config, ids, { segments }), p.embedding, ids).logProbs);
        optimizer.step(valueAndGrad(loss)(params).grads);
      });
    let settled = 0;
    for (let T = 1; T <= 512; T++) {
      step(1 + (T % 3), T);
      if (T === 256) settled = keys.size;
    }
    // Measured: 60 to 96. A size that is baked in would give hundreds.
    expect(keys.size).toBeLessThan(120);
    expect(keys.size - settled).toBeLessThan(8);
  });
});
