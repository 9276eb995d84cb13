/**
 * Steps of decoding that are done again as they were captured: what they draw is what steps draw that are run op by op,
 * whatever came in between. Nothing is captured while a gradient is recorded, so there a decoder runs op by op.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import * as capturing from "../../engine/capture.ts";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { assign } from "../../engine/state.ts";
import { whileRecording } from "../../engine/tape.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { Decoder, type DrawOptions, type Part } from "../../nn/decoder.ts";
import { addLora } from "../../pretrained/lora.ts";
import { packModel } from "../../pretrained/packed/matrix.ts";
import type { SampledToken } from "../../nn/sampler.ts";
import type { Model } from "../../nn/transformer.ts";
import { everyExecutor } from "../support/rlExecutors.ts";
import { toyModel, V } from "../support/rlToy.ts";

const streamOf = (row: number): Rng => new Rng(7).split(row);

/** Two decoders that do the same: one as it is, one that runs every step op by op. */
interface Pair {
  readonly own: Decoder;
  readonly plain: Decoder;
}
const pairOf = (model: Model, rows: number, capacity: number): Pair => ({
  own: new Decoder(model, rows, capacity),
  plain: new Decoder(model, rows, capacity),
});
function each({ own, plain }: Pair, body: (decoder: Decoder) => void): void {
  body(own);
  body(plain);
}

/** Draws with both, and compares. */
async function draw({ own, plain }: Pair, parts: readonly Part[], options: DrawOptions): Promise<SampledToken[][]> {
  const drawn = await own.draw(parts, options);
  expect(drawn).toEqual(await whileRecording(() => plain.start(parts, options))());
  expect([...own.lengths]).toEqual([...plain.lengths]);
  return drawn;
}

async function feed({ own, plain }: Pair, tokens: readonly (readonly number[])[]): Promise<void> {
  expect([...(await own.feed(tokens))]).toEqual([...(await whileRecording(() => plain.feed(tokens)))]);
}

describe.each(everyExecutor)("on $name", ({ open, name }) => {
  let device: Device;
  beforeAll(async () => void (device = await open()), 60_000);
  afterAll(() => device.dispose());

  const change = (model: Model, factor: number): void =>
    scope(() => {
      for (const x of treeLeaves(model.trainable?.params ?? model.params)) assign(x, mul(x, factor));
    });

  it("rows that come and go, other draws, other weights, two decoders in turns", { timeout: 120_000 }, async () => {
    const model = toyModel(device);
    const pairs = [pairOf(model, 3, 60), pairOf(model, 3, 50), pairOf(model, 2, 60)];
    const replay = vi.spyOn(capturing.Captured.prototype, "replay");
    const rng = new Rng(3);
    const draws: DrawOptions[] = [
      { temperature: 0.8 },
      { temperature: 0 },
      { temperature: 0.8, burst: 3 },
      { topK: 4 },
    ];
    const last = pairs.map(() => new Map<number, number>());
    const rounds = name === "webgpu" ? 25 : 80;
    for (let n = 0; n < rounds; n++) {
      const at = rng.int(pairs.length);
      const [pair, ends] = [pairs[at]!, last[at]!];
      const rows = [...pair.own.lengths.keys()].filter(() => rng.int(4) > 0);
      for (const row of rows) {
        if (pair.own.lengths[row]! > 40) each(pair, (decoder) => decoder.truncate(row, 0));
        if (pair.own.lengths[row] === 0) ends.delete(row);
      }
      if (rows.length === 0) continue;
      if (n % 10 === 9) change(model, 0.98);
      const tokensOf = (row: number): number[] => {
        const end = ends.get(row);
        return end === undefined ? Array.from({ length: 1 + rng.int(3) }, () => rng.int(V)) : [end];
      };
      if (rng.int(5) === 0) {
        await feed(
          pair,
          [...pair.own.lengths.keys()].map((row) => (rows.includes(row) ? tokensOf(row).slice(0, 1) : [])),
        );
        continue;
      }
      const parts = rows.map((row): Part => ({ row, tokens: tokensOf(row), rng: streamOf(row) }));
      const drawn = await draw(pair, parts, draws[rng.int(draws.length)]!);
      rows.forEach((row, i) => ends.set(row, drawn[i]!.at(-1)!.id));
    }
    expect(replay.mock.calls.length).toBeGreaterThan(rounds / 5);
    replay.mockRestore();
    for (const pair of pairs) each(pair, (decoder) => decoder.dispose());
  });

  /** Draws on for two rows, after a start of `length` tokens. */
  async function goOn(model: Model, length: number, count: number, between?: (n: number) => void): Promise<void> {
    const pair = pairOf(model, 2, length + count);
    const rng = new Rng(5);
    const texts = [0, 1].map(() => Array.from({ length }, () => rng.int(V)));
    let parts = texts.map((tokens, row): Part => ({ row, tokens, rng: streamOf(row) }));
    for (let n = 0; n < count; n++) {
      const drawn = await draw(pair, parts, { temperature: 0.9 });
      parts = parts.map((part, i) => ({ ...part, tokens: [drawn[i]![0]!.id] }));
      between?.(n);
    }
    each(pair, (decoder) => decoder.dispose());
  }

  it("across the end of a table of angles, and where angles depend on the length", { timeout: 60_000 }, async () => {
    await goOn(toyModel(device, 1, { maxPositions: 1100 }), 1021, 8);
    await goOn(toyModel(device, 1, { maxPositions: 16, ropeScaling: { type: "dynamic", factor: 4 } }), 12, 10);
  });

  it("with an adapter that is trained in between, on packed weights", { timeout: 60_000 }, async () => {
    const packed = await packModel(toyModel(device), "bf16");
    const model = addLora(packed, { r: 2, loraAlpha: 8, targetModules: "all-linear" }, new Rng(1));
    await goOn(model, 5, 8, (n) => n % 3 === 0 && change(model, 1.5));
  });
});
