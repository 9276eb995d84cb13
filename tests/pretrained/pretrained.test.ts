/**
 * Two models that others trained, with numbers that others computed (tests/fixtures/pretrained): stories260K in
 * llama2.c's formats, and llm-viz's sorter with the layout of GPT-2, on every executor.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { logProbs } from "../../engine/ops/logProbs.ts";
import { softmax } from "../../engine/ops/softmax.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { modelFromTensors } from "../../pretrained/checkpoint.ts";
import { generate } from "../../nn/generate.ts";
import { modelFromLlama2c, tokenizerFromLlama2c } from "../../pretrained/llama2c.ts";
import type { SafeTensor } from "../../nn/safetensors.ts";
import { encodeWithOffsets } from "../../nn/tokenizer.ts";
import { forward, logits, transformerBlock } from "../../nn/transformer.ts";
import { BOS, fixture, greedyStory, stories, STORY, tokenizer } from "../support/stories.ts";
import { everyExecutor, reference, relativeError, wasm } from "../support/rlExecutors.ts";

const SENTENCE = "One day, a clever fox found a shiny key under the old oak tree.";

interface Encoded {
  readonly shape: number[];
  readonly data: string;
}
const decoded = ({ data }: Encoded): Float32Array =>
  new Float32Array(Uint8Array.from(Buffer.from(data, "base64")).buffer);
const jsonOf = (path: string): Record<string, Encoded> =>
  JSON.parse(new TextDecoder().decode(fixture(path))) as Record<string, Encoded>;

/** The sorter's tensors are as PyTorch's Linear has them, [out, in]; GPT-2's files have [in, out]. */
function sorterTensors(): Map<string, SafeTensor> {
  const { config: _, ...tensors } = jsonOf("gpt-nano-sort/sort-model.json");
  return new Map(
    Object.entries(tensors).map(([name, encoded]): [string, SafeTensor] => {
      const [data, shape] = [decoded(encoded), encoded.shape];
      if (!/(c_attn|c_proj|c_fc)\.weight$/.test(name)) return [name, { dtype: "F32", shape, data }];
      const [rows, columns] = shape as [number, number];
      const turned = Float32Array.from(data, (_x, i) => data[(i % rows) * columns + Math.floor(i / rows)]!);
      return [name, { dtype: "F32", shape: [columns, rows], data: turned }];
    }),
  );
}
const SORTER = {
  model_type: "gpt2",
  vocab_size: 3,
  n_embd: 48,
  n_layer: 3,
  n_head: 3,
  n_positions: 11,
  layer_norm_epsilon: 1e-5,
  activation_function: "gelu_new",
  tie_word_embeddings: false,
};

describe.each(everyExecutor)("on $name", ({ name, open }) => {
  const isExact = name === reference.name;
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  it("stories260K: the probability of a sentence", async () => {
    const { params, config } = modelFromLlama2c(stories, device);
    const ids = [BOS, ...tokenizer.encode(SENTENCE)];
    expect(ids.length).toBe(35);
    const all = scope(() => {
      const scores = logits(params, forward(params, config, tensor([ids.slice(0, -1)], { device, dtype: "i32" })));
      return logProbs(scores, tensor([ids.slice(1)], { device, dtype: "i32" })).logProbs;
    });
    const total = -[...(await all.read())].reduce((sum, x) => sum + x, 0);
    // In float64, and what another program got in float32.
    expect(Math.abs(total - 54.404152)).toBeLessThan(isExact ? 1e-6 : 1e-4);
    expect(Math.abs(total - 54.404121)).toBeLessThan(1e-4);
  });

  it("the sorter: every block, the logits, the probabilities; and it sorts", async () => {
    const model = modelFromTensors(SORTER, sorterTensors(), device);
    const { params, config } = model;
    const partials = jsonOf("gpt-nano-sort/sort-partials.json");
    const expected = (key: string): Float32Array => decoded(partials[key]!);
    const ids = tensor(Int32Array.from(expected("idx")), { device, shape: [3, 11] });
    const heads = new Map<number, Promise<ArrayLike<number>>>();
    const scores = scope(() => {
      const hidden = forward(params, config, ids, {
        watch: (layer, { out }) => heads.set(layer, out.read()),
      });
      return logits(params, hidden);
    });
    const tolerance = isExact ? 2e-6 : 1e-5;
    expect(relativeError(await heads.get(0)!, expected("y"))).toBeLessThan(tolerance);
    expect(relativeError(await scores.read(), expected("lm_head"))).toBeLessThan(tolerance);
    const probabilities = scope(() => softmax(scores));
    expect(relativeError(await probabilities.read(), expected("probs"))).toBeLessThan(tolerance);
    let x: Tensor = tensor(expected("x"), { device, shape: [3, 11, 48], dtype: device.float });
    const context = { config, positions_BT: ids, rotation: undefined };
    for (const [n, layer] of params.layers.entries()) {
      x = transformerBlock(x, layer, context, n);
      expect(relativeError(await x.read(), expected(`block${n}`)), `block ${n}`).toBeLessThan(tolerance);
    }
    const [sorted] = await generate(model, [[2, 0, 1, 1, 0, 2]], { maxNewTokens: 6, temperature: 0, stopIds: [] });
    expect(sorted!.tokens.map(({ id }) => id)).toEqual([0, 0, 1, 1, 2, 2]);
  });
});

describe("llama2.c's files", () => {
  let device: Device;
  beforeAll(async () => {
    device = await reference.open();
  });
  afterAll(() => device.dispose());

  it("of another length, another version, or with sizes that no model has are refused, and nothing is left", () => {
    const before = device.backend.stats().liveBytes;
    const changed = (at: number, value: number): Uint8Array => {
      const copy = stories.slice();
      new DataView(copy.buffer).setInt32(4 * at, value, true);
      return copy;
    };
    const cases: [Uint8Array, string][] = [
      [stories.subarray(0, 20), "the file has 20 bytes, its header takes 28"],
      [stories.subarray(0, stories.length - 4), "the header describes 1056540 bytes, the file has 1056536"],
      [changed(0, 0x616b3432), "expected at most"],
      [changed(2, 6), "the header describes"],
      [changed(2, 0), "layers is 0 in the header"],
      [changed(3, 7), "expected"],
      [changed(5, -512), "the header describes 1187612 bytes"],
    ];
    for (const [bytes, message] of cases) expect(() => modelFromLlama2c(bytes, device)).toThrow(message);
    expect(device.backend.stats().liveBytes).toBe(before);
    const table = fixture("stories260K/tok512.bin");
    expect(() => tokenizerFromLlama2c(table, 511)).toThrow("goes on behind its 511 tokens");
    expect(() => tokenizerFromLlama2c(table, 513)).toThrow("ends at token 512 of 513");
    expect(() => tokenizerFromLlama2c(table.subarray(0, 900), 512)).toThrow("tokenizer");
  });

  it("the tokenizer gives back every text, with characters that it does not have as bytes", () => {
    for (const text of [SENTENCE, "", " ", "  two  spaces ", "Ünï 漢字 🦊", "a\nb\tc", "<s>", "<0x41>", "\u{0}x"]) {
      expect(tokenizer.decode(tokenizer.encode(text)), JSON.stringify(text)).toBe(text);
      expect(tokenizer.decode([BOS, ...tokenizer.encode(text)], { specials: "skip" })).toBe(text);
    }
    expect(tokenizer.encode("<s>")).not.toContain(BOS);
    const long = "once upon a time ".repeat(1_000);
    expect(tokenizer.decode(tokenizer.encode(long))).toBe(long);
    const { ids, offsets } = encodeWithOffsets(tokenizer, "<s>Then the 🦊", { specials: "tokens" });
    const pieces = offsets.map(([from, to]) => "<s>Then the 🦊".slice(from, to));
    expect(ids).toEqual([BOS, ...tokenizer.encode("Then the 🦊")]);
    expect(pieces).toEqual(["<s>", "The", "n", " the", " ", "🦊", "🦊", "🦊", "🦊"]);
    expect(() => tokenizer.decode([512])).toThrow("id 512 at position 0 is not in [0, 512)");
  });
});

// On the other executors this takes seconds: tests/pretrained/pretrained.long.test.ts.
it("stories260K on wasm: greedy text, byte for byte", async () => {
  const device = await wasm.open();
  expect(await greedyStory(device)).toBe(STORY);
  device.dispose();
});
