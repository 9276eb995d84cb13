/**
 * The decoder: what a row draws and the bits of its log-probabilities depend on that row alone, however the work is
 * cut.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { Decoder, type Part } from "../../nn/decoder.ts";
import { generate } from "../../nn/generate.ts";
import type { SampledToken } from "../../nn/sampler.ts";
import type { Model } from "../../nn/transformer.ts";
import { everyExecutor, reference, wasm, webgpu } from "../support/rlExecutors.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { toyModel, V } from "../support/rlToy.ts";

const prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11, 12, 13], [3, 3], [1, 2, 3]];
const streamOf = (text: number): Rng => new Rng(7).split(text);

/** Draws `count` tokens for each of the given texts, in rows of the caller's choice. */
async function drawAlong(
  decoder: Decoder,
  texts: readonly number[],
  count: number,
  { burst = 1, temperature = 0.8, rowOf = (i: number): number => i } = {},
): Promise<SampledToken[][]> {
  const drawn = texts.map((): SampledToken[] => []);
  for (let n = 0; n < count; n += burst) {
    const parts = texts.map((text, i): Part => {
      const last = drawn[i]!.at(-1);
      return { row: rowOf(i), tokens: last ? [last.id] : prompts[text]!, rng: streamOf(text) };
    });
    (await decoder.draw(parts, { temperature, burst })).forEach((tokens, i) => drawn[i]!.push(...tokens));
  }
  return drawn.map((tokens) => tokens.slice(0, count));
}

describe.each(gpuEnabled ? [reference, wasm, webgpu] : [reference, wasm])("on $name", ({ open, name }) => {
  let device: Device;
  let models: Model[];
  beforeAll(async () => {
    device = await open();
    models = [toyModel(device), toyModel(device, 1, { family: "gpt2", kvHeads: 2 })];
  }, 60_000);
  afterAll(() => device.dispose());
  // On WebGPU a fixed width keeps the shapes, and with them the bits.
  const options = name === "webgpu" ? { width: 16 } : {};

  it("the same bits alone, together, in another order, in bursts, in other rows", { timeout: 120_000 }, async () => {
    for (const model of models) {
      const everyone = prompts.map((_, text) => text);
      const open = (rows: number): Decoder => new Decoder(model, rows, 40, options);
      const run = async (
        texts: readonly number[],
        more: Parameters<typeof drawAlong>[3] = {},
        rows = texts.length,
      ): Promise<SampledToken[][]> => {
        const decoder = open(rows);
        const drawn = await drawAlong(decoder, texts, 6, more);
        decoder.dispose();
        return drawn;
      };
      const together = await run(everyone);
      expect(new Set(together.map((tokens) => tokens.map(({ id }) => id).join())).size).toBeGreaterThan(3);
      for (const text of everyone) expect(await run([text])).toEqual([together[text]]);
      expect((await run(everyone.toReversed())).toReversed()).toEqual(together);
      for (const burst of [2, 3, 6]) expect(await run(everyone, { burst })).toEqual(together);
      expect(await run([2, 0], { rowOf: (i) => 3 - i }, 5)).toEqual([together[2], together[0]]);
    }
  });

  it("texts that come and go, read while others draw: the same bits", { timeout: 120_000 }, async () => {
    const model = models[0]!;
    const alone = await Promise.all(
      prompts.map(async (_, text) => {
        const decoder = new Decoder(model, 1, 40, options);
        const [tokens] = await drawAlong(decoder, [text], 4);
        decoder.dispose();
        return tokens!;
      }),
    );
    const decoder = new Decoder(model, 2, 40, options);
    const rng = new Rng(4);
    const playing: { text: number; row: number; read: number; tokens: SampledToken[] }[] = [];
    const waiting = prompts.map((_, text) => text);
    const free = [0, 1];
    const finished: SampledToken[][] = [];
    while (playing.length > 0 || waiting.length > 0) {
      while (free.length > 0 && waiting.length > 0)
        playing.push({ text: waiting.shift()!, row: free.pop()!, read: 0, tokens: [] });
      // Prompts are read in pieces of random length; some rows rest.
      const chosen = playing.filter(() => rng.int(3) > 0);
      if (chosen.length === 0) continue;
      const parts = chosen.map((p): Part => {
        const prompt = prompts[p.text]!;
        if (p.read === prompt.length) return { row: p.row, tokens: [p.tokens.at(-1)!.id], rng: streamOf(p.text) };
        const piece = prompt.slice(p.read, p.read + 1 + rng.int(4));
        p.read += piece.length;
        return { row: p.row, tokens: piece, ...(p.read === prompt.length ? { rng: streamOf(p.text) } : {}) };
      });
      const drawn = await decoder.draw(parts, { temperature: 0.8 });
      chosen.forEach((p, i) => {
        p.tokens.push(...drawn[i]!);
        if (p.tokens.length < 4) return;
        finished[p.text] = p.tokens;
        playing.splice(playing.indexOf(p), 1);
        decoder.truncate(p.row, 0);
        free.push(p.row);
      });
    }
    decoder.dispose();
    expect(finished).toEqual(alone);
  });

  it("a shared prompt that is copied, and what a burst drew too much: as if read anew", async () => {
    const model = models[0]!;
    const decoder = new Decoder(model, 3, 40, options);
    const [expected] = await drawAlong(decoder, [2], 6, { rowOf: () => 0 });
    await decoder.draw([{ row: 1, tokens: prompts[2]! }]);
    decoder.copy([{ from: 1, to: 2, length: prompts[2]!.length - 1 }]);
    expect([...decoder.lengths]).toEqual([14, 9, 8]);
    const part = { row: 2, tokens: prompts[2]!.slice(-1), rng: streamOf(2) };
    const [first] = await decoder.draw([part], { temperature: 0.8, burst: 5 });
    expect(first).toEqual(expected!.slice(0, 5));
    // Two of the five are kept; the second has not been read yet.
    decoder.truncate(2, 10);
    const rest = { row: 2, tokens: [first![1]!.id], rng: streamOf(2) };
    expect((await decoder.draw([rest], { temperature: 0.8, burst: 4 }))[0]).toEqual(expected!.slice(2));
    decoder.dispose();
  });

  it("a long prompt takes one pass, however few rows there are", async () => {
    const decoder = new Decoder(models[0]!, 1, 40);
    const run = vi.spyOn(device.backend, "run");
    const calls = async (count: number): Promise<number> => {
      run.mockClear();
      await decoder.draw([{ row: 0, tokens: Array<number>(count).fill(3), rng: streamOf(0) }]);
      return run.mock.calls.length;
    };
    expect(await calls(33)).toBe(await calls(1));
    run.mockRestore();
    decoder.dispose();
  });

  it("reading alone leaves nothing on the device, and rows that were multiplied need a width", async () => {
    const decoder = new Decoder(models[0]!, 1, 40);
    const read = { row: 0, tokens: [1, 2, 3] };
    await decoder.draw([read]);
    const { liveBuffers } = device.backend.stats();
    for (let n = 0; n < 3; n++) await decoder.draw([read]);
    expect(device.backend.stats().liveBuffers).toBe(liveBuffers);
    decoder.select([0, 0, 0]);
    const again = await decoder.feed([[4], [4], [4]]);
    expect([...again.subarray(V, 2 * V)]).toEqual([...again.subarray(0, V)]);
    decoder.dispose();
    const narrow = new Decoder(models[0]!, 1, 40, { width: 1 });
    await narrow.draw([read]);
    narrow.select([0, 0]);
    await expect(narrow.feed([[4], [4]])).rejects.toThrow("Decoder: 2 rows are to be read at once, the width is 1");
    expect([...narrow.lengths]).toEqual([3, 3]);
    narrow.dispose();
  });

  it("in two halves: what other rows do in between changes nothing", async () => {
    const model = models[0]!;
    for (const sampling of [{ temperature: 0.8 }, { temperature: 0.8, topK: 5 }]) {
      const decoder = new Decoder(model, 4, 40, options);
      const parts = [0, 1].map((text): Part => ({ row: text, tokens: prompts[text]!, rng: streamOf(text) }));
      const expected = await decoder.draw(parts, sampling);
      for (const row of [0, 1]) decoder.truncate(row, 0);
      await decoder.draw([{ row: 2, tokens: prompts[2]! }]);
      const finish = decoder.start(parts, sampling);
      decoder.copy([{ from: 2, to: 3, length: 5 }]);
      decoder.truncate(2, 0);
      // A row that was read for a draw may even be given away before the draw is looked at.
      decoder.truncate(0, 0);
      expect(await finish()).toEqual(expected);
      decoder.dispose();
    }
  });

  it("a row that is full in a burst keeps its bits; bad parts are named and change nothing", async () => {
    const model = models[0]!;
    const full = new Decoder(model, 2, 6, options);
    const [, wide] = [await drawAlong(full, [0, 1], 4), [...full.lengths]];
    expect(wide).toEqual([6, 4]);
    await expect(full.draw([{ row: 0, tokens: [1], rng: streamOf(0) }])).rejects.toThrow(
      "row 0 has 6 tokens, 1 more do not fit into 6",
    );
    await expect(full.draw([{ row: 1, tokens: [] }])).rejects.toThrow("row 1 has no tokens to read");
    await expect(full.draw([{ row: 1, tokens: [V] }])).rejects.toThrow(
      `row 1 is to read the id ${V}, which is none of the vocabulary of ${V}`,
    );
    for (const id of [-1, 1.5, NaN, undefined as never]) {
      await expect(full.draw([{ row: 1, tokens: [2, id] }])).rejects.toThrow(`row 1 is to read the id ${id}, which`);
    }
    await expect(full.draw([])).rejects.toThrow("the list of parts is empty");
    await expect(full.draw([0, 1].map(() => ({ row: 1, tokens: [1] })))).rejects.toThrow("a row occurs twice");
    await expect(full.draw([{ row: 2, tokens: [1] }])).rejects.toThrow("row 2 of 2 does not exist");
    await expect(full.draw([{ row: 1, tokens: [1] }], { burst: 0 })).rejects.toThrow(
      "burst must be an integer ≥ 1, got 0",
    );
    expect(() => full.truncate(1, 9)).toThrow("row 1 has 4 tokens, not 9");
    expect(() => full.copy([{ from: 1, to: 0, length: 5 }])).toThrow("row 1 has 4 tokens, not 5");
    expect(() => new Decoder(model, 4, 6, { width: 3 })).toThrow("width must be an integer ≥ 4");
    expect([...full.lengths]).toEqual([6, 4]);
    full.dispose();

    const roomy = new Decoder(model, 2, 30, options);
    const longer = await drawAlong(roomy, [0, 1], 8, { burst: 8 });
    const narrow = new Decoder(model, 2, 6, options);
    const cut = await drawAlong(narrow, [0, 1], 8, { burst: 8 });
    expect(cut[0]!.slice(0, 4)).toEqual(longer[0]!.slice(0, 4)); // positions 3 … 6: what comes behind is noise
    expect(cut[1]!.slice(0, 6)).toEqual(longer[1]!.slice(0, 6));
    expect([...narrow.lengths]).toEqual([6, 6]);
    roomy.dispose();
    narrow.dispose();
  });
});

describe.each(everyExecutor)("generate on $name", ({ open, tolerance }) => {
  it("greedy and sampled, with a stop token, and top-k on the host", { timeout: 120_000 }, async () => {
    const device = await open();
    const model = toyModel(device);
    const before = device.backend.stats().liveBuffers;
    const greedy = await generate(model, prompts, { maxNewTokens: 7, temperature: 0 });
    // Top-k 1 is greedy, chosen on the host from the logits.
    const onHost = await generate(model, prompts, { maxNewTokens: 7, topK: 1, rng: new Rng(1) });
    greedy.forEach(({ tokens }, r) => {
      expect(tokens.map(({ id }) => id)).toEqual(onHost[r]!.tokens.map(({ id }) => id));
      tokens.forEach(({ logProb, plainLogProb, samplingLogProb }, t) => {
        expect([logProb, samplingLogProb]).toEqual([plainLogProb, 0]);
        expect(Math.abs(plainLogProb - onHost[r]!.tokens[t]!.plainLogProb)).toBeLessThan(tolerance);
      });
    });
    const sampled = await generate(model, prompts, { maxNewTokens: 7, rng: new Rng(1) });
    const stop = sampled[0]!.tokens[4]!.id;
    const stopped = await generate(model, prompts, { maxNewTokens: 7, rng: new Rng(1), stopIds: [stop] });
    sampled.forEach(({ tokens }, r) => {
      const ids = tokens.map(({ id }) => id);
      const end = ids.indexOf(stop);
      expect(stopped[r]!.stopReason).toBe(end < 0 ? "length" : "stop");
      expect(stopped[r]!.tokens.map(({ id }) => id)).toEqual(end < 0 ? ids : ids.slice(0, end + 1));
    });
    expect(device.backend.stats().liveBuffers).toBeLessThanOrEqual(before + 2); // rotary tables
    device.dispose();
  });
});
