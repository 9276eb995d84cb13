/**
 * The key/value cache: any way of cutting texts into pieces gives the full forward's logits, rows may be kept, dropped,
 * copied.
 */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { KvCache } from "../../nn/cache.ts";
import { Decoder } from "../../nn/decoder.ts";
import { forward, logits, type Model } from "../../nn/transformer.ts";
import { reference, relativeError, wasm } from "../support/rlExecutors.ts";
import { endingModel, toyModel, V } from "../support/rlToy.ts";

describe.each([
  { ...reference, exact: 1e-12 },
  { ...wasm, exact: 1e-5 },
])("on $name", ({ open, exact, name }) => {
  let device: Device;
  let models: Model[];
  beforeAll(async () => {
    device = await open();
    models = [toyModel(device), endingModel(device), toyModel(device, 2, { family: "qwen3", kvHeads: 2, headDim: 4 })];
  });
  afterAll(() => device.dispose());

  async function lastLogits(model: Model, ids: readonly number[]): Promise<number[]> {
    const all = scope(() =>
      logits(model.params, forward(model.params, model.config, tensor([[...ids]], { device, dtype: "i32" }))),
    );
    const values = [...(await all.read())];
    all.dispose();
    return values.slice(-V);
  }
  const randomIds = (rng: Rng, n: number): number[] => Array.from({ length: n }, () => rng.int(V));

  it("random pieces, rows dropped, reordered and copied on the way", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 1e6 }), async (seed) => {
        const rng = new Rng(seed);
        const model = models[seed % models.length]!;
        let texts: number[][] = Array.from({ length: 1 + rng.int(4) }, () => []);
        const decoder = new Decoder(model, texts.length, 30);
        for (let round = 0; round < 4; round++) {
          const pieces = texts.map(() => randomIds(rng, rng.int(6)));
          if (pieces.every((piece) => piece.length === 0)) pieces[0] = randomIds(rng, 2);
          const rows = await decoder.feed(pieces);
          texts = texts.map((text, b) => [...text, ...pieces[b]!]);
          expect([...decoder.lengths]).toEqual(texts.map((text) => text.length));
          for (const [b, text] of texts.entries()) {
            if (pieces[b]!.length === 0) continue;
            const actual = rows.subarray(b * V, (b + 1) * V);
            expect(relativeError(actual, await lastLogits(model, text))).toBeLessThanOrEqual(exact);
          }
          const kept = Array.from({ length: 1 + rng.int(4) }, () => rng.int(texts.length));
          decoder.select(kept);
          texts = kept.map((b) => texts[b]!);
        }
        decoder.dispose();
      }),
      { numRuns: name === "wasm" ? 12 : 6, seed: 5 },
    );
  });

  it("a full row rests while others go on", async () => {
    const model = models[0]!;
    const rng = new Rng(1);
    const [full, other] = [randomIds(rng, 12), randomIds(rng, 12)];
    const decoder = new Decoder(model, 2, 12);
    await decoder.feed([full, other.slice(0, 2)]);
    const rows = await decoder.feed([[], other.slice(2)]);
    expect(relativeError(rows.subarray(V, 2 * V), await lastLogits(model, other))).toBeLessThanOrEqual(exact);
    await expect(decoder.feed([[1], []])).rejects.toThrow("row 0 has 12 tokens, 1 more do not fit into 12");
    expect([...decoder.lengths]).toEqual([12, 12]);
    decoder.dispose();
  });

  it("frees everything; a failed feed leaves nothing behind", async () => {
    const model = models[0]!;
    await lastLogits(model, [1]);
    const before = device.backend.stats().liveBytes;
    const decoder = new Decoder(model, 3, 20);
    const size = (device.float === "f64" ? 8 : 4) * 2 * 2 * 3 * 20 * 1 * 8; // layers, (k, v), rows, capacity, heads, D
    expect(device.backend.stats().liveBytes).toBe(before + size);
    await decoder.feed([[1], [2, 3], [4]]);
    decoder.select([2]);
    expect(device.backend.stats().liveBytes).toBe(before + size / 3);
    await expect(decoder.feed([[V]])).rejects.toThrow(`id ${V}, which is none of the vocabulary`);
    expect(device.backend.stats().liveBytes).toBe(before + size / 3);
    const rows = await decoder.feed([[5, 6]]);
    expect(relativeError(rows, await lastLogits(model, [4, 5, 6]))).toBeLessThanOrEqual(exact);
    decoder.dispose();
    expect(device.backend.stats().liveBytes).toBe(before);
  });

  it("read by hand: the places of `append` and `forward`, some tokens at a time", async () => {
    const model = models[2]!;
    const text = randomIds(new Rng(8), 7);
    const store = new KvCache(model.config, 2, 12, device);
    const pieces = [
      [0, 4],
      [4, 5],
      [5, 7],
    ] as const;
    for (const [from, to] of pieces) {
      const places = store.append([{ row: 1, count: to - from }]);
      const ids = tensor([text.slice(from, to)], { device, dtype: "i32" });
      const all = scope(() =>
        logits(model.params, forward(model.params, model.config, ids, { cache: { store, places } })),
      );
      if (to === 7)
        expect(relativeError((await all.read()).slice(-V), await lastLogits(model, text))).toBeLessThanOrEqual(exact);
      all.dispose();
      ids.dispose();
    }
    expect([...store.lengths]).toEqual([0, 7]);
    store.dispose();
  });

  it("bad input is named", async () => {
    const { config } = models[0]!;
    expect(() => new KvCache(config, 0, 4, device)).toThrow("rows must be an integer ≥ 1, got 0");
    expect(() => new KvCache(config, 1, 65, device)).toThrow("capacity must be between 1 and the model's 64 positions");
    const decoder = new Decoder(models[0]!, 2, 4);
    await expect(decoder.feed([[1]])).rejects.toThrow("expected 2 rows, got 1");
    await expect(decoder.feed([[], []])).rejects.toThrow("every row is empty");
    expect(() => decoder.select([])).toThrow("KvCache.select: the list of rows is empty");
    expect(() => decoder.select([2])).toThrow("KvCache.select: row 2 of 2 does not exist");
    // huggingface/transformers#47433: lengths that mean something else, or nothing
    const cache = new KvCache(config, 2, 8, device);
    cache.append([{ row: 0, count: 3 }]);
    for (const n of [-1, 1.5, NaN]) {
      const refused = (what: string): string => `KvCache.${what} must be an integer ≥ 0, got ${n}`;
      expect(() => cache.truncate(0, n)).toThrow(refused("truncate: length"));
      expect(() => cache.append([{ row: 0, count: n }])).toThrow(refused("append: count"));
      expect(() => cache.copy([{ from: 0, to: 1, length: n }])).toThrow(refused("copy: length"));
    }
    expect([...cache.lengths]).toEqual([3, 0]);
    cache.dispose();
    decoder.dispose();
  });
});
