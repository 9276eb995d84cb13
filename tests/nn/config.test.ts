/**
 * Model configurations: the golden config.json files, the older layout, refusals by name, writing, parameter counts.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import {
  configFromHuggingFace,
  configToHuggingFace,
  estimateParameters,
  type Family,
  type ModelConfig,
  modelConfig,
  type ModelOptions,
  validateConfig,
} from "../../nn/config.ts";
import { readSafetensors } from "../../nn/safetensors.ts";

type Json = Record<string, unknown>;
const FAMILIES: Family[] = ["llama", "qwen2", "qwen3", "gpt2"];
const fixture = (path: string): Buffer => readFileSync(new URL(`../fixtures/models/${path}`, import.meta.url));
const golden = (family: Family): Json => JSON.parse(fixture(`${family}_tiny/config.json`).toString()) as Json;

describe("reading config.json", () => {
  const shared = {
    vocabSize: 96,
    hiddenSize: 32,
    layers: 2,
    heads: 4,
    maxPositions: 128,
    normEps: 1e-5,
    initializerRange: 0.02,
    bosId: 1,
    eosIds: [2],
  };
  const llama: ModelConfig = {
    ...shared,
    family: "llama",
    intermediateSize: 88,
    kvHeads: 2,
    headDim: 8,
    norm: "rms",
    positions: "rotary",
    ropeTheta: 10_000,
    mlp: "swiglu",
    attentionBias: false,
    attentionOutputBias: false,
    mlpBias: false,
    qkNorm: false,
    tieEmbeddings: false,
    padId: 0,
  };
  const expected: Record<Family, ModelConfig> = {
    llama,
    qwen2: { ...llama, family: "qwen2", attentionBias: true, tieEmbeddings: true },
    qwen3: { ...llama, family: "qwen3", headDim: 16, ropeTheta: 1_000_000, qkNorm: true, tieEmbeddings: true },
    gpt2: {
      ...shared,
      family: "gpt2",
      intermediateSize: 128,
      kvHeads: 4,
      headDim: 8,
      norm: "layer",
      positions: "learned",
      ropeTheta: 10_000,
      mlp: "gelu_tanh",
      attentionBias: true,
      attentionOutputBias: true,
      mlpBias: true,
      qkNorm: false,
      tieEmbeddings: true,
    },
  };

  test.each(FAMILIES)("golden %s", (family) => {
    expect(configFromHuggingFace(golden(family))).toEqual(expected[family]);
  });

  test.each(FAMILIES)("the number of parameters is that of the golden %s file", (family) => {
    const tensors = readSafetensors(new Uint8Array(fixture(`${family}_tiny/model.safetensors`)));
    const count = [...tensors.values()].reduce((sum, { data }) => sum + data.length, 0);
    expect(estimateParameters(configFromHuggingFace(golden(family)))).toBe(count);
  });

  test("the layout of Transformers 4: rope_theta and rope_scaling, defaults left out", () => {
    const {
      rope_parameters: _,
      head_dim: __,
      num_key_value_heads: ___,
      attention_bias: ____,
      ...old
    } = golden("llama");
    const base = { ...llama, kvHeads: 4 };
    expect(configFromHuggingFace({ ...old, rope_theta: 500000.0, rope_scaling: null })).toEqual({
      ...base,
      ropeTheta: 5e5,
    });
    expect(configFromHuggingFace({ ...old, rope_scaling: { type: "default" } })).toEqual(base);
    expect(configFromHuggingFace(old)).toEqual(base);
  });

  test("what does not matter is ignored; what is absent is absent", () => {
    const odd = {
      ...golden("gpt2"),
      n_ctx: 128,
      task_specific_params: { "text-generation": { do_sample: true } },
      resid_pdrop: 0.1,
      bos_token_id: null,
      eos_token_id: [2, 3],
      pad_token_id: -1,
      quantization_config: null,
      pruned_heads: {},
    };
    const { bosId: _, ...rest } = expected.gpt2;
    expect(configFromHuggingFace(odd)).toEqual({ ...rest, eosIds: [2, 3] });
    // Windows that are named but off, or that would begin after the last layer.
    const off = { use_sliding_window: false, sliding_window: 4096 };
    expect(configFromHuggingFace({ ...golden("qwen2"), ...off })).toEqual(expected.qwen2);
    const late = { use_sliding_window: true, sliding_window: 4096, max_window_layers: 2 };
    expect(configFromHuggingFace({ ...golden("qwen2"), ...late })).toEqual(expected.qwen2);
  });

  const refused: [Family, Json, string][] = [
    ["llama", { model_type: "mamba" }, `'model_type' is "mamba", supported: llama, qwen2, qwen3, gpt2`],
    ["llama", { model_type: undefined }, "'model_type' is missing"],
    ["llama", { model_type: "toString" }, `'model_type' is "toString"`],
    ["llama", { rope_parameters: { rope_type: "llama3", rope_theta: 5e5 } }, `'rope_parameters' has type "llama3"`],
    ["llama", { rope_parameters: { rope_type: "yarn", factor: 4 } }, `'rope_parameters' has type "yarn"`],
    [
      "llama",
      { rope_parameters: undefined, rope_scaling: { type: "linear", factor: 2 } },
      `'rope_scaling' has type "linear"`,
    ],
    [
      "llama",
      { rope_scaling: { rope_type: "default", mrope_section: [16, 24, 24] } },
      "'rope_scaling.mrope_section' is not",
    ],
    ["qwen3", { rope_scaling: { type: "mrope" } }, `'rope_scaling' has type "mrope"`],
    ["llama", { rope_parameters: { full_attention: {} } }, "'rope_parameters.full_attention' is not supported"],
    [
      "llama",
      { rope_parameters: { rope_type: "default", partial_rotary_factor: 0.5 } },
      "partial_rotary_factor' is 0.5",
    ],
    ["llama", { partial_rotary_factor: 0.25 }, "'partial_rotary_factor' is 0.25"],
    ["llama", { rope_theta: 5 }, "'rope_parameters.rope_theta' is 10000, but 'rope_theta' is 5"],
    ["llama", { rope_parameters: "default" }, `'rope_parameters' is "default", expected an object`],
    ["llama", { hidden_act: "gelu" }, `'hidden_act' is "gelu", supported: silu, swish`],
    ["llama", { sliding_window: 128 }, "'sliding_window' is 128"],
    ["qwen2", { use_sliding_window: true, sliding_window: 64, max_window_layers: 1 }, "'use_sliding_window' is true"],
    ["qwen2", { layer_types: ["full_attention", "sliding_attention"] }, "'layer_types' is"],
    ["qwen2", { mlp_bias: true }, "'mlp_bias' is true"],
    ["qwen2", { num_key_value_heads: null }, "'num_key_value_heads' is missing"],
    ["qwen3", { head_dim: undefined }, "'head_dim' is missing"],
    ["qwen3", { quantization_config: { bits: 4 } }, `'quantization_config' is {"bits":4}`],
    ["gpt2", { activation_function: "relu" }, `'activation_function' is "relu", supported: gelu_new`],
    ["gpt2", { scale_attn_by_inverse_layer_idx: true }, "'scale_attn_by_inverse_layer_idx' is true"],
    ["gpt2", { reorder_and_upcast_attn: true }, "'reorder_and_upcast_attn' is true"],
    ["gpt2", { scale_attn_weights: false }, "'scale_attn_weights' is false"],
    ["gpt2", { add_cross_attention: true }, "'add_cross_attention' is true"],
    ["gpt2", { pruned_heads: { 0: [1] } }, "'pruned_heads' is"],
    ["gpt2", { is_encoder_decoder: true }, "'is_encoder_decoder' is true"],
    ["llama", { hidden_size: "32" }, `'hidden_size' is "32", expected a number`],
    ["llama", { attention_bias: "no" }, `'attention_bias' is "no", expected true or false`],
    ["llama", { eos_token_id: "</s>" }, `'eos_token_id' is "</s>", expected a token id`],
    ["llama", { num_key_value_heads: 3 }, "heads is 4, expected a multiple of kvHeads, 3"],
    ["llama", { num_hidden_layers: 0 }, "layers is 0, expected an integer ≥ 1"],
    ["llama", { num_attention_heads: 0 }, "heads is 0"],
    ["llama", { head_dim: 7 }, "headDim is 7, rotary positions need an even one"],
    ["llama", { rms_norm_eps: -1 }, "normEps is -1"],
    ["gpt2", { n_head: 5 }, "headDim is 6.4, expected an integer"],
  ];

  test.each(refused)("%s with %j is refused", (family, changes, message) => {
    const read = (): unknown => configFromHuggingFace({ ...golden(family), ...changes });
    expect(read).toThrow(message);
    expect(read).toThrow(WorldgradError);
  });

  const required: Record<Family, string> = {
    llama:
      "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads max_position_embeddings " +
      "rms_norm_eps hidden_act",
    qwen2: "vocab_size hidden_size num_key_value_heads rms_norm_eps",
    qwen3: "vocab_size hidden_size num_key_value_heads head_dim",
    gpt2: "vocab_size n_embd n_layer n_head n_positions layer_norm_epsilon activation_function",
  };

  test.each(FAMILIES)("missing fields of %s are named", (family) => {
    for (const name of required[family].split(" ")) {
      for (const value of [undefined, null]) {
        expect(() => configFromHuggingFace({ ...golden(family), [name]: value })).toThrow(`'${name}' is missing`);
      }
    }
  });

  test("anything else is an error of ours", () => {
    const field = fc.constantFrom(...FAMILIES.flatMap((family) => Object.keys(golden(family))));
    fc.assert(
      fc.property(fc.constantFrom(...FAMILIES), field, fc.jsonValue(), (family, name, value) => {
        try {
          configFromHuggingFace({ ...golden(family), [name]: value });
        } catch (error) {
          expect(error).toBeInstanceOf(WorldgradError);
        }
      }),
      { numRuns: 500 },
    );
    for (const json of [undefined, null, 3, "x", []])
      expect(() => configFromHuggingFace(json)).toThrow("expected an object");
  });
});

/** Valid configurations of all families. */
const configs: fc.Arbitrary<ModelConfig> = fc
  .record({
    family: fc.constantFrom(...FAMILIES),
    vocabSize: fc.integer({ min: 1, max: 1000 }),
    kvHeads: fc.integer({ min: 1, max: 4 }),
    group: fc.integer({ min: 1, max: 4 }),
    headDim: fc.integer({ min: 1, max: 16 }).map((half) => 2 * half),
    layers: fc.integer({ min: 1, max: 3 }),
    intermediateSize: fc.integer({ min: 1, max: 99 }),
    maxPositions: fc.integer({ min: 1, max: 4096 }),
    normEps: fc.constantFrom(1e-5, 1e-6, 1e-12),
    ropeTheta: fc.constantFrom(10_000, 1e6, 12345.5),
    flag: fc.boolean(),
    tieEmbeddings: fc.boolean(),
    ids: fc.record({ bosId: fc.nat(9), padId: fc.nat(9) }, { requiredKeys: [] }),
    eosIds: fc.array(fc.nat(9), { maxLength: 3 }),
  })
  .map(({ group, flag, ids, kvHeads, ropeTheta, ...options }) => {
    const gpt2 = options.family === "gpt2";
    const heads = kvHeads * group;
    const bias = options.family === "qwen2" || gpt2 ? {} : { attentionBias: flag, attentionOutputBias: flag };
    return modelConfig({
      ...options,
      ...ids,
      ...bias,
      heads,
      kvHeads: gpt2 ? heads : kvHeads,
      hiddenSize: heads * options.headDim,
      ...(options.family === "llama" ? { mlpBias: flag } : {}),
      ...(gpt2 ? { mlp: flag ? "gelu_erf" : "gelu_tanh" } : { ropeTheta }),
    });
  });

describe("writing config.json", () => {
  test("written and read again: the same configuration", () => {
    fc.assert(
      fc.property(configs, (config) => {
        const json = JSON.parse(JSON.stringify(configToHuggingFace(config))) as unknown;
        expect(configFromHuggingFace(json)).toEqual(config);
      }),
    );
  });

  test.each(FAMILIES)("the golden %s file, read and written, says what it said", (family) => {
    const original = golden(family);
    const written = configToHuggingFace(configFromHuggingFace(original));
    for (const [key, value] of Object.entries(written)) {
      if (key in original) expect([key, value]).toEqual([key, key === "n_inner" ? 128 : original[key]]);
    }
    const names = {
      llama: "LlamaForCausalLM",
      qwen2: "Qwen2ForCausalLM",
      qwen3: "Qwen3ForCausalLM",
      gpt2: "GPT2LMHeadModel",
    };
    expect(written["architectures"]).toEqual([names[family]]);
    expect([written["dtype"], written["torch_dtype"]]).toEqual(["float32", "float32"]);
    // What transformers reads and we did not write has the value that its class would assume.
    const ours = new Set(Object.keys(written));
    const assumed = [
      "summary_",
      "scale_attn",
      "reorder",
      "add_cross",
      "transformers_version",
      "pretraining_tp",
      "max_window",
      "sliding_window",
      "layer_types",
    ];
    const isAssumed = (key: string): boolean => assumed.some((beginning) => key.startsWith(beginning));
    expect(Object.keys(original).filter((key) => !ours.has(key) && !isAssumed(key))).toEqual([]);
  });

  test("both layouts of the rotary base, several ends, the dtype", () => {
    const options: ModelOptions = {
      family: "qwen3",
      vocabSize: 300,
      hiddenSize: 64,
      layers: 1,
      heads: 2,
      eosIds: [1, 2],
    };
    const written = configToHuggingFace(modelConfig({ ...options, ropeTheta: 1e6 }), "bfloat16");
    expect(written).toMatchObject({
      rope_theta: 1e6,
      rope_parameters: { rope_type: "default", rope_theta: 1e6 },
      eos_token_id: [1, 2],
      dtype: "bfloat16",
      pad_token_id: null,
    });
  });
});

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
      (changes: Json): (() => unknown) =>
      () =>
        modelConfig({ ...options, ...changes });
    expect(bad({ hidenSize: 3 })).toThrow("modelConfig: unknown option 'hidenSize'; did you mean 'hiddenSize'?");
    expect(bad({ family: "bert" })).toThrow('family is "bert", expected llama, qwen2, qwen3, gpt2');
    expect(bad({ heads: 3 })).toThrow("headDim is 21.333333333333332, expected an integer");
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
      (changes: Json): (() => unknown) =>
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
