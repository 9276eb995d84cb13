/** What `fit` and the lines before loading say, against what the WebAssembly executor takes when it does it. */
import { describe, expect, it } from "vitest";
import { createWasmBackend } from "../../engine/backends/wasm.ts";
import { Device, device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { modelConfig } from "../../nn/config.ts";
import { drawMemory, stepMemory } from "../../pretrained/fit.ts";
import { generate } from "../../nn/generate.ts";
import { addLora } from "../../pretrained/lora.ts";
import { initParams } from "../../nn/parameters.ts";
import { drawMemoryLine, memoryLine } from "../../run/node/modelMemory.ts";
import { fitReport } from "../../run/fit/report.ts";
import { promptSteps, rlStepMemory } from "../../run/fit/promptSteps.ts";

const config = modelConfig({
  vocabSize: 301,
  hiddenSize: 96,
  layers: 3,
  heads: 4,
  kvHeads: 2,
  maxPositions: 96,
});

const near = (said: number, measured: number): void => {
  expect(said / measured).toBeGreaterThan(0.97);
  expect(said / measured).toBeLessThan(1.03);
};

describe("what is counted is what is taken", () => {
  it.each([false, true])("a step of RL, of an adapter: %s", async (isAdapter) => {
    const task = { groups: 2, groupSize: 3, prompt: 20, completion: 12, maxBatchTokens: 70 };
    const on = await device("wasm", { threads: 1 });
    const base = { config, params: initParams(config, new Rng(1), on) };
    const model = isAdapter ? addLora(base, { r: 4, targetModules: "all-linear" }) : base;
    const { value } = await promptSteps(model, task).next();
    expect(value!.metrics["step_tokens"]).toBe(6 * 32);
    const measured = on.backend.stats();
    const trains = isAdapter ? ({ rank: 4 } as const) : "all";
    const said = (await rlStepMemory(config, { ...task, trains }))!;
    near(said.peak, measured.peakBytes);
    near(said.held, measured.liveBytes);
    expect(await rlStepMemory(config, { ...task, trains, limit: 2 ** 20 })).toBeNull();
    await expect(rlStepMemory(config, { ...task, groupSize: 1, trains })).rejects.toThrow(
      "groupSize=1: the advantage grpo compares the episodes of a group",
    );
    on.dispose();
  });

  it("drawing tokens", async () => {
    const on = await device("wasm", { threads: 1 });
    const model = { config, params: initParams(config, new Rng(1), on) };
    const prompts = [0, 1].map(() => Array.from({ length: 30 }, (_, i) => i));
    await generate(model, prompts, { maxNewTokens: 10, temperature: 0, stopIds: [] });
    const said = (await drawMemory(config, { rows: 2, prompt: 30, capacity: 40 }))!;
    near(said.peak, on.backend.stats().peakBytes);
    near(said.held, on.backend.stats().liveBytes);
    expect(await drawMemory(config, { rows: 2, prompt: 30, capacity: 40, limit: 2 ** 17 })).toBeNull();
    await expect(drawMemory(config, { rows: 0, prompt: 1, capacity: 2 })).rejects.toThrow(
      "rows must be an integer ≥ 1",
    );
    on.dispose();
  });
});

describe("lines", () => {
  it("say what is needed, and whether it is there", async () => {
    const counted = { held: 0, peak: 2 ** 31, reserved: 2 ** 31 + 2 ** 20, outside: 0, largest: 1 };
    const line = (memory: typeof counted | null, free = 2 ** 33): string =>
      memoryLine(config, "wasm", "to draw", memory, free);
    expect(line(counted)).toBe("memory: to draw: the process takes 2.10 GiB; fits, 8.00 GiB are free");
    expect(line(counted, 2 ** 31)).toBe("memory: to draw: the process takes 2.10 GiB; does not fit, 2.00 GiB are free");
    expect(line({ ...counted, outside: 3 * 2 ** 29 })).toBe(
      "memory: to draw: the process takes 2.10 GiB, 1.50 GiB of them weights outside of the WebAssembly memory " +
        "(slower); fits, 8.00 GiB are free",
    );
    expect(line(null)).toBe("memory: to draw: does not fit into one WebAssembly memory of 4.00 GiB");
    expect(memoryLine(config, "webgpu", "to draw", counted)).toBe("memory: to draw: 2.00 GiB on the GPU");
    const [wasm, reference] = [new Device(await createWasmBackend({ threads: 1 })), await device("reference")];
    const size = { rows: 2, prompt: 30, capacity: 40, storage: "bf16" } as const;
    expect(await drawMemoryLine(config, size, wasm)).toMatch(
      /^memory: to draw 2 × 40 tokens with weights in bf16: the process takes 9\d\.\d\d MiB; fits, .* are free$/,
    );
    expect(await drawMemoryLine(config, size, reference)).toBeUndefined();
    for (const on of [wasm, reference]) on.dispose();
  });

  it("of `npm run fit`: loading and a step of RL beside training steps; weights outside on the CPU only", async () => {
    const large = modelConfig({ vocabSize: 1000, hiddenSize: 4096, intermediateSize: 16384, layers: 10, heads: 32 });
    const question = { rows: 1, tokens: 16, rank: 4 };
    const cpu = await fitReport(large, question);
    expect(cpu).toMatch(/LoRA, rank 4, on f32 +\S+ GiB .*: fits, with 7\.\d\d GiB of the weights outside \(slower\)/);
    expect(cpu).toMatch(
      /Loading in f32, and drawing with a cache of 1 × 16 tokens:\n +10\.\d\d GiB \(.*\): fits, with 6/,
    );
    expect(cpu).toMatch(
      /A step of RL, LoRA, rank 4, on f32: 2 episodes of 64 \+ 16 tokens:\n +\S+ GiB \(.*\): fits, with/,
    );
    expect(cpu).toMatch(/all weights +\S+ GiB .*: does not fit; no step does/);
    const gpu = await fitReport(large, { ...question, gpu: 2 ** 32 });
    expect(gpu).toMatch(/Loading in f32, .*:\n +10\.\d\d GiB \(.*\): does not fit/);
    expect(gpu).not.toContain("outside");
    expect(stepMemory(large, { rows: 1, tokens: 16, trains: { rank: 4 } })!.outside).toBeGreaterThan(6 * 2 ** 30);
  });
});
