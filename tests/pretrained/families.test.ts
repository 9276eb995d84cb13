/**
 * Checkpoints of every family with every variant of positions and masks against Transformers
 * (tests/fixtures/models/families, made by its make.py): logits, the gradient of every parameter, greedy text through
 * the cache, on every executor. Transformers computes angles and norms in f32, so that f64 agrees no closer than about
 * 1e-6 (3e-9 for GPT-2); f32 is held to 1e-5. docs/pretrained.md has the figures (scripts/familyTable.ts).
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { scope } from "../../engine/scope.ts";
import { configFromHuggingFace, configToHuggingFace } from "../../pretrained/config/huggingface.ts";
import { longestText } from "../../nn/config.ts";
import { Decoder } from "../../nn/decoder.ts";
import { generate } from "../../nn/generate.ts";
import { ropeFrequencies } from "../../nn/rope.ts";
import { forward, logits } from "../../nn/transformer.ts";
import { readSource } from "../project/sources.ts";
import { allLogits, difference, ids, ints, load, names, T, variants } from "../support/families.ts";
import { everyExecutor, reference, relativeError, wasm } from "../support/rlExecutors.ts";
import { isThorough } from "../support/tries.ts";

/**
 * One of each kind of kernel: a software adapter is slow, and the tables of angles are the same everywhere. `npm run
 * test:long` has them all.
 */
const ON_WEBGPU = ["llama_biases", "mistral_window_dynamic", "qwen3_window_yarn", "smollm3_window", "gpt2"];

const shown = readSource("docs/pretrained.md").split("\n");

/** The cells of an executor in docs/pretrained.md. */
function cellsShown(name: string, executor: string): readonly string[] {
  const row = shown.find((line) => line.includes(`| \`${name}\` `)) ?? "";
  const first = 3 + 3 * everyExecutor.findIndex((one) => one.name === executor);
  return row
    .split("|")
    .slice(first, first + 3)
    .map((cell) => cell.trim());
}

describe.each(everyExecutor)("families on $name", ({ name: executor, open }) => {
  const tolerance = executor === reference.name ? 4e-6 : 1e-5;
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  const cases = executor === "webgpu" && !isThorough ? ON_WEBGPU : names;
  it.each(cases)("%s: logits, loss, gradients, greedy text", async (name) => {
    const far = await difference(name, device);
    expect(far.logits, "logits").toBeLessThan(tolerance);
    expect(far.loss, "loss").toBeLessThan(tolerance);
    expect(far.gradient, `gradient of ${far.gradientOf}`).toBeLessThan(2 * tolerance);
    expect(far.sameText).toBe(true);
    expect(far.textLogProbs, "log-probabilities through the cache").toBeLessThan(2 * tolerance);

    const [inLogits, inGradient, text] = cellsShown(name, executor);
    expect(text, "docs/pretrained.md (scripts/familyTable.ts)").toBe("equal");
    if (executor === "webgpu") return; // whose digits are its adapter's
    for (const [cell, now] of [[inLogits, far.logits] as const, [inGradient, far.gradient] as const]) {
      // Functions of JavaScript may differ in the last bit from one version of Node to the next.
      const ratio = Math.max(Number(cell), 1e-8) / Math.max(now, 1e-8);
      expect(ratio, `docs/pretrained.md has ${cell}, measured ${now} (scripts/familyTable.ts)`).toBeCloseTo(1, 0.6);
    }
  });
});

describe("where features meet", () => {
  let device: Device;
  beforeAll(async () => {
    device = await reference.open();
  });
  afterAll(() => device.dispose());

  it.each(names)("%s: the cache in ragged pieces is the full forward", async (name) => {
    const model = load(name, device);
    // Beyond maxPositions dynamic scaling turns what comes later by other angles than what is cached, in Transformers
    // too.
    const length = Math.min(T, model.config.maxPositions);
    const rows = ids.map((row) => row.slice(0, length));
    const full = await allLogits(model, rows);
    const decoder = new Decoder(model, 2, length);
    await decoder.feed([rows[0]!.slice(0, 6), rows[1]!.slice(0, 1)]);
    await decoder.feed([rows[0]!.slice(6, 7), rows[1]!.slice(1, 9)]);
    const last = await decoder.feed([rows[0]!.slice(7), rows[1]!.slice(9)]);
    expect(relativeError([...last], [...full[length - 1]!, ...full[2 * length - 1]!])).toBeLessThan(1e-12);
    decoder.dispose();
  });

  it.each(["mistral_window_dynamic", "qwen3_window_yarn", "smollm3_window", "dynamic"])(
    "%s: packed texts, some beyond maxPositions, are what they are alone",
    async (name) => {
      const model = load(name, device);
      const { config, params } = model;
      const texts = [ids[0]!.slice(0, 5), ids[1]!.slice(0, 17), ids[0]!.slice(3, 21)];
      const packed = [...texts.flat(), 0, 0];
      const segments = [...texts.flatMap((text, n) => text.map(() => n)), -1, -1];
      const at = Int32Array.from([...texts.flatMap((text) => text.map((_, t) => t)), 0, 0]);
      const all = scope(() =>
        logits(
          params,
          forward(params, config, ints([packed], device), { segments: ints([segments], device), positions: at }),
        ),
      );
      const together = [...(await all.read())].slice(0, texts.flat().length * config.vocabSize);
      const alone: number[] = [];
      for (const text of texts) alone.push(...(await allLogits(model, [text])).flat());
      expect(relativeError(together, alone)).toBeLessThan(1e-12);
    },
  );

  it("dynamic: a row's text does not depend on longer texts beside it, in the cache or not", async () => {
    const model = load("mistral_window_dynamic", device);
    const { prompt, tokens } = variants["mistral_window_dynamic"]!.greedy;
    const options = { maxNewTokens: tokens.length, temperature: 0 };
    const long = [...ids[0]!, ...ids[1]!.slice(0, 10)];
    const both = await generate(model, [prompt, long], options);
    expect(both[0]!.tokens.map(({ id }) => id)).toEqual(tokens);
    const rows = await allLogits(model, [ids[0]!.slice(0, 24), ids[1]!]);
    const alone = await allLogits(model, [ids[1]!]);
    expect(rows.slice(24)).toEqual(alone);
  });

  it("a window matters, a layer without a rotation matters", async () => {
    const far = async (name: string, change: object): Promise<number> => {
      const model = load(name, device);
      const other = { ...model, config: { ...model.config, ...change } };
      return relativeError((await allLogits(other, ids)).flat(), (await allLogits(model, ids)).flat());
    };
    expect(await far("mistral_window", { slidingWindow: 6 })).toBeGreaterThan(1e-2);
    expect(await far("mistral_window", { slidingWindow: 24 })).toBeGreaterThan(1e-2);
    expect(await far("qwen2_window", { slidingLayers: [true, false] })).toBeGreaterThan(1e-2);
    expect(await far("smollm3", { rotaryLayers: [true, true] })).toBeGreaterThan(1e-2);
    expect(await far("mistral", { slidingWindow: 24 })).toBe(0);
  });
});

describe("configurations", () => {
  it.each(names)("%s: read, written and read again", (name) => {
    const config = configFromHuggingFace(variants[name]!.config);
    const written = JSON.parse(JSON.stringify(configToHuggingFace(config))) as Record<string, unknown>;
    expect(configFromHuggingFace(written)).toEqual(config);
    // The layout of Transformers 4 has no rope_parameters.
    const { rope_parameters: _, ...older } = written;
    expect(configFromHuggingFace(older)).toEqual(config);
    for (const field of ["rope_parameters", "no_rope_layers", "layer_types", "sliding_window"]) {
      if (!(field in written) || !(field in variants[name]!.config)) continue;
      expect(written[field], field).toEqual(variants[name]!.config[field]);
    }
  });

  it("positions reach as far as the scaling is made for", () => {
    const longest = (name: string): number => longestText(configFromHuggingFace(variants[name]!.config));
    expect(longest("llama")).toBe(64);
    expect(longest("linear")).toBe(192);
    expect(longest("dynamic")).toBe(56);
    expect(longest("llama3")).toBe(128);
    expect(longest("yarn")).toBe(64);
  });

  it("dynamic frequencies are the plain ones up to maxPositions, and lower beyond", () => {
    const config = configFromHuggingFace(variants["dynamic"]!.config);
    const [short, edge, long] = [3, 14, 24].map((length) => ropeFrequencies(config, length).frequencies);
    expect([...short!]).toEqual([...edge!]);
    expect(long![0]).toBe(1);
    // The base grows by (4·24/14 − 3)^(8/6), so that the last frequency, θ^(−6/8), falls by 4·24/14 − 3.
    expect(long![3]! * (27 / 7)).toBeCloseTo(edge![3]!, 12);
  });
});

it("tables are shared, and grow with the positions that occur", async () => {
  const device = await wasm.open();
  const model = load("llama3", device);
  const far = { ...model, config: { ...model.config, maxPositions: 2 ** 20 } };
  const before = device.backend.stats().liveBytes;
  await allLogits(far, ids);
  const first = device.backend.stats().liveBytes - before;
  await allLogits(far, ids);
  expect(device.backend.stats().liveBytes - before).toBe(first);
  expect(first).toBeLessThan(2 ** 16);
  device.dispose();
});
