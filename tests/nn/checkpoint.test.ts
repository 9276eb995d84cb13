/**
 * Checkpoints: bitwise round trips, names that PyTorch knows, and files that do not fit: one clear error, nothing
 * changed or leaked.
 */
import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { WorldgradError } from "../../engine/errors.ts";
import { grad } from "../../engine/grad.ts";
import { mul, add } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { modelFromFiles, modelFromTensors, modelToFiles } from "../../pretrained/checkpoint.ts";
import { optimizerToFiles, restoreOptimizer } from "../../nn/optimizerFiles.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { TransformerParams } from "../../nn/parameters.ts";
import { readSafetensors, type SafeTensorInput, writeSafetensors } from "../../nn/safetensors.ts";
import type { Model } from "../../nn/transformer.ts";
import { readAll } from "../support/rlExecutors.ts";
import { endingModel, toyModel } from "../support/rlToy.ts";

const folder = new URL("../fixtures/models/", import.meta.url);
const fixture = (model: string, name: string): Uint8Array => readFileSync(new URL(`${model}/${name}`, folder));
const configOf = (name: string): string => new TextDecoder().decode(fixture(name, "config.json"));

/** A step with gradient p in every parameter, so that moments are not zero. */
function someStep(model: Model, optimizer: AdamW<TransformerParams>): void {
  scope(() => {
    const squares = (params: TransformerParams) =>
      treeLeaves(params)
        .map((p) => sum(mul(mul(p, p), 0.5)))
        .reduce((a, b) => add(a, b));
    optimizer.step(grad(squares)(model.params));
  });
}

describe.each(["wasm", "reference"] as const)("on %s", (kind) => {
  let device: Device;
  beforeAll(async () => {
    device = await makeDevice(kind);
  });
  afterAll(() => device.dispose());

  it.each(["llama_tiny", "qwen2_tiny", "qwen3_tiny", "gpt2_tiny"])(
    "%s: what is written is what was read, under the same names",
    async (name) => {
      const original = fixture(name, "model.safetensors");
      const model = modelFromFiles(configOf(name), original, device);
      const files = await modelToFiles(model);
      const written = readSafetensors(files["model.safetensors"] as Uint8Array);
      const expected = readSafetensors(original);
      expect([...written.keys()].sort()).toEqual([...expected.keys()].sort());
      for (const [key, { shape, data }] of expected) {
        expect(written.get(key)!.shape).toEqual(shape);
        expect([...(written.get(key)!.data as Float32Array)]).toEqual([...(data as Float32Array)]);
      }
      const again = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, device);
      expect(again.config).toEqual(model.config);
      expect(await readAll(treeLeaves(again.params))).toEqual(await readAll(treeLeaves(model.params)));
    },
  );

  it("parameters, moments and step survive bitwise; the continuation is the same", async () => {
    const model = endingModel(device);
    const optimizer = new AdamW(model.params);
    for (let i = 0; i < 3; i++) someStep(model, optimizer);
    const files = { ...(await modelToFiles(model)), ...(await optimizerToFiles(model.config, optimizer)) };
    const copy = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, device);
    const restored = new AdamW(copy.params);
    restoreOptimizer(copy.config, restored, files["optimizer.safetensors"] as Uint8Array);
    expect(restored.state.step).toBe(3);
    const everything = (m: Model, o: AdamW<TransformerParams>): Promise<number[][]> =>
      readAll(treeLeaves([m.params, o.state.m, o.state.v]));
    expect(await everything(copy, restored)).toEqual(await everything(model, optimizer));
    someStep(model, optimizer);
    someStep(copy, restored);
    expect(await everything(copy, restored)).toEqual(await everything(model, optimizer));
  });
});

describe("files that do not fit", () => {
  let device: Device;
  let config: string;
  let tensors: [string, SafeTensorInput][];
  beforeAll(async () => {
    device = await makeDevice("wasm");
    const files = await modelToFiles(toyModel(device));
    config = files["config.json"] as string;
    tensors = [...readSafetensors(files["model.safetensors"] as Uint8Array)];
  });
  afterAll(() => device.dispose());

  /** The message of the error, which has to leave memory as it was. */
  function refusal(load: () => unknown): string {
    const before = device.backend.stats().liveBytes;
    try {
      load();
    } catch (error) {
      expect(error).toBeInstanceOf(WorldgradError);
      expect(device.backend.stats().liveBytes).toBe(before);
      return (error as Error).message;
    }
    return "no error";
  }
  const load = (entries: [string, SafeTensorInput][], text = config): unknown =>
    modelFromFiles(text, writeSafetensors(entries), device);

  it("a missing tensor, one of another shape or type, one that the model has not", () => {
    const last = tensors.at(-1)![0];
    expect(refusal(() => load(tensors.slice(0, -1)))).toBe(`checkpoint: tensor "${last}" is missing`);
    const head = tensors.findIndex(([name]) => name === "lm_head.weight");
    const [, { shape }] = tensors[head]!;
    const flat = tensors.with(head, [
      "lm_head.weight",
      { ...tensors[head]![1], shape: [shape[1], shape[0]] } as SafeTensorInput,
    ]);
    expect(refusal(() => load(flat))).toBe(
      `checkpoint: "lm_head.weight" has shape [${shape[1]}, ${shape[0]}], expected [${shape.join(", ")}]`,
    );
    const ints = tensors.with(head, [
      "lm_head.weight",
      { dtype: "I32", shape, data: new Int32Array(shape[0]! * shape[1]!) },
    ]);
    expect(refusal(() => load(ints))).toBe('checkpoint: "lm_head.weight" has element type I32, expected a float');
    const extra: SafeTensorInput = { dtype: "F32", shape: [1], data: new Float32Array(1) };
    expect(refusal(() => load([...tensors, ["model.layers.9.x", extra]]))).toBe(
      'checkpoint: tensor "model.layers.9.x" is not part of a llama model',
    );
    expect(refusal(() => load([...tensors, ["model.layers.0.self_attn.rotary_emb.inv_freq", extra]]))).toBe("no error");
  });

  it("a config that is no JSON, or is not ours", () => {
    expect(refusal(() => load(tensors, "{"))).toMatch(/^config.json: not valid JSON: /);
    expect(refusal(() => load(tensors, "[]"))).toMatch(/config/);
    expect(refusal(() => load(tensors, config.replace('"llama"', '"mamba"')))).toMatch(/mamba/);
    expect(
      refusal(() => modelFromTensors({ ...(JSON.parse(config) as object), sliding_window: 4 }, new Map(), device)),
    ).toMatch(/sliding_window/);
  });

  it("truncated anywhere, or with flipped bytes: an error or a whole model, never half of one", () => {
    const bytes = writeSafetensors(tensors);
    for (const length of [0, 7, 8, 100, 1000, bytes.length - 4, bytes.length - 1]) {
      expect(refusal(() => modelFromFiles(config, bytes.subarray(0, length), device))).toMatch(/^safetensors: /);
    }
    const shapesOf = ({ params }: Model): (readonly number[])[] => treeLeaves(params).map((x) => x.shape);
    const wanted = shapesOf(toyModel(device));
    const before = device.backend.stats().liveBytes;
    const seen = new Set<boolean>();
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const spoilt = bytes.slice();
        spoilt[at]! ^= flip;
        const why = refusal(() => {
          const model = modelFromFiles(config, spoilt, device);
          expect(shapesOf(model)).toEqual(wanted);
          treeLeaves(model.params).forEach((x) => x.dispose());
        });
        expect(device.backend.stats().liveBytes).toBe(before);
        seen.add(why === "no error");
      }),
      { numRuns: 200, seed: 4 },
    );
    expect(seen.size).toBe(2);
  });

  it("moments that do not fit change neither moments nor step", async () => {
    const model = toyModel(device);
    const optimizer = new AdamW(model.params);
    someStep(model, optimizer);
    const files = await optimizerToFiles(model.config, optimizer);
    const bytes = files["optimizer.safetensors"] as Uint8Array;
    const saved = [...readSafetensors(bytes)];
    const fresh = new AdamW(model.params);
    const restore = (entries: [string, SafeTensorInput][], step: string | undefined = "1"): string =>
      refusal(() =>
        restoreOptimizer(model.config, fresh, writeSafetensors(entries, step === undefined ? {} : { step })),
      );
    expect(restore(saved.slice(0, -1))).toBe(`checkpoint: tensor "${saved.at(-1)![0]}" is missing`);
    expect(restore(saved.with(0, [saved[0]![0], { dtype: "F32", shape: [1], data: new Float32Array(1) }]))).toMatch(
      /has shape \[1\], expected/,
    );
    expect(restore([...saved, ["m.x", { dtype: "F32", shape: [1], data: new Float32Array(1) }]])).toBe(
      'checkpoint: tensor "m.x" is no moment of this model',
    );
    expect(restore(saved, "one")).toBe("checkpoint: the optimiser's step in the metadata is one, expected a number");
    expect(refusal(() => restoreOptimizer(model.config, fresh, writeSafetensors(saved)))).toMatch(
      /step in the metadata is missing/,
    );
    expect(refusal(() => restoreOptimizer(model.config, fresh, bytes.subarray(0, 500)))).toMatch(/^safetensors: /);
    expect(refusal(() => restoreOptimizer(model.config, fresh, bytes, -1))).toMatch(/step must be an integer/);
    expect(fresh.state.step).toBe(0);
    expect((await readAll(treeLeaves([fresh.state.m, fresh.state.v]))).flat().every((x) => x === 0)).toBe(true);
    expect(refusal(() => restoreOptimizer(model.config, fresh, bytes))).toBe("no error");
    expect(fresh.state.step).toBe(1);
  });
});
