/** What is frozen under an adapter as plain data: it comes back as it was, and lies about it are refused. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { arraysFromBytes, arraysToBytes } from "../../distribute/nats/arrays.ts";
import { setupFromBytes, setupToBytes } from "../../distribute/nats/protocol.ts";
import { packModel } from "../../pretrained/packed/matrix.ts";
import type { Model } from "../../nn/transformer.ts";
import { frozenModel, type FrozenWeights, frozenWeights } from "../../distribute/async/frozen.ts";
import type { WireSetup } from "../../distribute/async/workers.ts";
import { readAll } from "../support/rlExecutors.ts";
import { endingModel, toyModel } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm", { threads: 1 });
});
afterAll(() => device.dispose());

const numbers = ({ params }: Model): Promise<number[][]> => readAll(treeLeaves(params));

/** Through the bytes that travel. */
function sent(frozen: FrozenWeights): FrozenWeights {
  const setup: WireSetup = {
    kind: "setup",
    config: toyModel(device).config,
    adapter: { settings: { r: 2 }, frozen },
    device: { kind: "wasm", precision: "f32" },
    tokenizer: {},
    template: {},
    rollout: {},
    rows: 1,
  };
  const back = setupFromBytes(setupToBytes(setup), 1e6);
  expect(back).toEqual(setup);
  return back.adapter!.frozen;
}

describe("a frozen model", () => {
  it.each(["bf16", "f16", "q8"] as const)("in %s comes back, whichever way its matrices lie", async (format) => {
    for (const model of [endingModel(device), toyModel(device)]) {
      const packed = await packModel(model, format);
      const back = frozenModel(model.config, sent(await frozenWeights(packed)), device);
      expect(await numbers(back)).toEqual(await numbers(packed));
    }
  });

  it("in parts: some matrices packed, some not", async () => {
    const model = toyModel(device);
    const mixed = await packModel(model, (path) => (path.includes("mlp") ? "q8" : undefined));
    const back = frozenModel(model.config, sent(await frozenWeights(mixed)), device);
    expect(await numbers(back)).toEqual(await numbers(mixed));
  });

  const PATH = "layers.0.mlp.up.weight";
  const changed =
    (more: object) =>
    (weights: FrozenWeights): FrozenWeights => ({ ...weights, [PATH]: { ...weights[PATH]!, ...more } });
  it.each<[string, (weights: FrozenWeights) => FrozenWeights]>([
    [
      `"${PATH}" is missing`,
      (weights) => Object.fromEntries(Object.entries(weights).filter(([path]) => path !== PATH)),
    ],
    ["no parameter is called layers.9", (weights) => ({ ...weights, "layers.9": weights[PATH]! })],
    ["must be a matrix [16, 64]", changed({ shape: [64, 16] })],
    ["must be a matrix [16, 64]", changed({ transposed: false })],
    ['"positions" must be', (weights) => ({ ...weights, positions: weights["embedding"]! })],
    ['"norm.weight" must be', (weights) => ({ ...weights, "norm.weight": weights[PATH]! })],
    ["packedFromHost: bf16[16, 64] has 512 words, got 3", changed({ words: new Int32Array(3) })],
    ['expected bf16, f16, q8, got "q4"', changed({ format: "q4" })],
    ["needs 16 values, got 3", (weights) => ({ ...weights, "norm.weight": new Float32Array(3) })],
  ])("is refused: %s", async (why, lie) => {
    const packed = await packModel(endingModel(device), "bf16");
    const frozen = lie(await frozenWeights(packed));
    expect(() => frozenModel(packed.config, frozen, device)).toThrow(why);
  });
});

describe("a frame with packed words", () => {
  const matrix = { format: "q8", shape: [2, 3], transposed: false, words: new Int32Array(24) } as const;
  const framed = (entry: string, bytes: number): Uint8Array =>
    new Uint8Array([...new TextEncoder().encode(`[${entry}]\n`), ...new Uint8Array(bytes)]);

  it("says their format and shape, and their number follows", () => {
    const bytes = arraysToBytes([matrix]);
    expect(bytes.length).toBe('[["q8",2,3,false]]\n'.length + 96);
    expect(arraysFromBytes("here", bytes)).toEqual([matrix]);
  });

  it.each([
    ["has no type and length", '["q4",2,3,false]'],
    ["has no type and length", '["q8",2,3]'],
    ["has no type and length", '["q8",2,3,"no"]'],
    ["has no type and length", '["q8",0,3,false]'],
    ["has no type and length", '["q8",2,-3,false]'],
    ["has no type and length", '["q8",2,1.5,false]'],
    ["has no type and length", '["q8",1e300,3,false]'],
    ["ends after the object's", '["q8",9007199254740991,9007199254740991,false]'],
    ["ends after the object's", '["q8",2,300,false]'],
    ["48 bytes too many", '["q8",1,3,false]'],
    ["64 bytes too many", '["bf16",2,3,false]'],
  ])("%s: %s", (why, entry) => {
    expect(() => arraysFromBytes("here", framed(entry, 96))).toThrow(why);
  });
});
