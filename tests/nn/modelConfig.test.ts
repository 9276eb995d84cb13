/** `modelConfig` and `validateConfig`: defaults, and what no model can have. */
import { describe, expect, test } from "vitest";
import {
  estimateParameters,
  modelConfig,
  type ModelConfig,
  type ModelOptions,
  validateConfig,
} from "../../nn/config.ts";

describe("modelConfig", () => {
  const options: ModelOptions = { vocabSize: 260, hiddenSize: 64, layers: 2, heads: 4 };

  test("defaults per family", () => {
    expect(modelConfig(options)).toMatchObject({
      family: "llama",
      intermediateSize: 176,
      kvHeads: 4,
      headDim: 16,
      mlp: "swiglu",
    });
    expect(modelConfig({ ...options, family: "gpt2" })).toMatchObject({
      intermediateSize: 256,
      norm: "layer",
      mlpBias: true,
    });
    expect(modelConfig({ ...options, family: "qwen2" })).toMatchObject({
      attentionBias: true,
      attentionOutputBias: false,
    });
    expect(modelConfig({ ...options, family: "qwen3" })).toMatchObject({ qkNorm: true });
    const absent = { kvHeads: undefined } as unknown as Partial<ModelConfig>;
    expect(modelConfig({ ...options, ...absent }).kvHeads).toBe(4);
  });

  test("unknown options and impossible values are named", () => {
    const bad =
      (changes: Record<string, unknown>): (() => unknown) =>
      () =>
        modelConfig({ ...options, ...changes });
    expect(bad({ hidenSize: 3 })).toThrow("modelConfig: unknown option 'hidenSize'; did you mean 'hiddenSize'?");
    expect(bad({ family: "bert" })).toThrow('family is "bert", expected llama, mistral, qwen2, qwen3, smollm3, gpt2');
    expect(bad({ heads: 3 })).toThrow(
      "headDim is 21.333333333333332, expected an integer ≥ 1; without one it is hiddenSize / heads, 64 / 3",
    );
    expect(bad({ headDim: 21.5 })).toThrow("headDim is 21.5, expected an integer");
    expect(bad({ layers: "2" })).toThrow('layers is "2"');
    expect(bad({ vocabSize: NaN })).toThrow("vocabSize is NaN");
    expect(bad({ initializerRange: Infinity })).toThrow("initializerRange is Infinity");
    expect(bad({ tieEmbeddings: 1 })).toThrow("tieEmbeddings is 1, expected true or false");
    expect(bad({ eosIds: 2 })).toThrow("eosIds is 2, expected a list");
    expect(bad({ eosIds: [2, -1] })).toThrow("eosIds[1] is -1, expected a token id");
    expect(bad({ bosId: 0.5 })).toThrow("bosId is 0.5");
  });

  test("combinations that a family does not have are refused", () => {
    const bad =
      (changes: Record<string, unknown>): (() => unknown) =>
      () =>
        modelConfig({ ...options, ...changes });
    expect(bad({ norm: "layer" })).toThrow('norm is "layer", family llama has "rms"');
    expect(bad({ mlp: "gelu_erf" })).toThrow('mlp is "gelu_erf", family llama has "swiglu"');
    expect(bad({ attentionBias: true })).toThrow("attentionOutputBias is false, family llama has true");
    expect(bad({ qkNorm: true })).toThrow("qkNorm is true, family llama has false");
    expect(bad({ family: "qwen2", attentionBias: false })).toThrow("attentionBias is false, family qwen2 has true");
    expect(bad({ family: "qwen3", mlpBias: true })).toThrow("mlpBias is true");
    expect(bad({ family: "gpt2", kvHeads: 2 })).toThrow("kvHeads is 2, family gpt2 has as many as heads, 4");
    expect(bad({ family: "gpt2", headDim: 8 })).toThrow("headDim is 8, family gpt2 has hiddenSize / heads, 16");
    expect(bad({ family: "gpt2", mlp: "swiglu" })).toThrow('family gpt2 has "gelu_tanh" or "gelu_erf"');
    expect(bad({ hiddenSize: 62, headDim: 16 })).toThrow(
      "hiddenSize is 62, expected a multiple of heads, 4 (family llama)",
    );
    expect(() => validateConfig({ ...modelConfig(options), heads: 6 })).toThrow(
      "heads is 6, expected a multiple of kvHeads",
    );
  });

  test("parameters, counted by hand", () => {
    const config = modelConfig({ ...options, kvHeads: 2, tieEmbeddings: false });
    const block = 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 176 + 2 * 64;
    expect(estimateParameters(config)).toBe(2 * 260 * 64 + 2 * block + 64);
  });
});
