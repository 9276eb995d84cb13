/**
 * Model configurations: the golden config.json files, the older layout, refusals by name, writing, parameter counts.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import { configFromHuggingFace, configToHuggingFace } from "../../pretrained/config/huggingface.ts";
import { estimateParameters, type Family, type ModelConfig, modelConfig, type ModelOptions } from "../../nn/config.ts";
import type { RopeScaling } from "../../nn/ropeScaling.ts";
import { readSafetensors } from "../../nn/safetensors.ts";

type Json = Record<string, unknown>;
/** Those that the fixtures have golden files of; families.test.ts has the others. */
type GoldenFamily = "llama" | "qwen2" | "qwen3" | "gpt2";
const FAMILIES: GoldenFamily[] = ["llama", "qwen2", "qwen3", "gpt2"];
const fixture = (path: string): Buffer => readFileSync(new URL(`../fixtures/models/${path}`, import.meta.url));
const golden = (family: GoldenFamily): Json => JSON.parse(fixture(`${family}_tiny/config.json`).toString()) as Json;

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
  const expected: Record<GoldenFamily, ModelConfig> = {
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

  const refused: [GoldenFamily, Json, string][] = [
    [
      "llama",
      { model_type: "mamba" },
      `'model_type' is "mamba", supported: llama, mistral, qwen2, qwen3, smollm3, gpt2`,
    ],
    ["llama", { model_type: undefined }, "'model_type' is missing"],
    ["llama", { model_type: "toString" }, `'model_type' is "toString"`],
    ["llama", { rope_parameters: { rope_type: "longrope" } }, `'rope_parameters' has type "longrope"; default, linear`],
    ["llama", { rope_parameters: { rope_type: "llama3", factor: 8 } }, "'rope_parameters.low_freq_factor' is missing"],
    ["llama", { rope_parameters: { rope_type: "linear" } }, "'rope_parameters.factor' is missing, which linear needs"],
    [
      "llama",
      { rope_parameters: { rope_type: "linear", factor: 0.5 } },
      "ropeScaling.factor is 0.5, expected a number ≥ 1",
    ],
    ["llama", { rope_parameters: { rope_type: "yarn", factor: "4" } }, `ropeScaling.factor is "4"`],
    ["llama", { rope_parameters: { rope_type: "yarn", factor: 4, truncate: 1 } }, "ropeScaling.truncate is 1"],
    [
      "llama",
      { rope_parameters: { rope_type: "yarn", factor: 4, low_freq_factor: 2 } },
      "low_freq_factor' is not supported",
    ],
    ["llama", { rope_parameters: { rope_type: "yarn", type: "linear", factor: 4 } }, `type "linear" and type "yarn"`],
    [
      "llama",
      { rope_parameters: { rope_type: "llama3", factor: 8, low_freq_factor: 4, high_freq_factor: 1 } },
      "ropeScaling.highFreqFactor is 1, expected more than lowFreqFactor, 4",
    ],
    [
      "llama",
      { rope_parameters: { rope_type: "linear", factor: 2 }, rope_scaling: { type: "linear", factor: 3 } },
      `'rope_parameters' says {"type":"linear","factor":2}, but 'rope_scaling'`,
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
    ["qwen2", { use_sliding_window: true, sliding_window: 0 }, "'sliding_window' is 0, expected an integer ≥ 1"],
    ["qwen2", { use_sliding_window: "yes" }, `'use_sliding_window' is "yes"`],
    ["qwen2", { layer_types: ["full_attention", "sliding_attention"] }, "'layer_types' has sliding_attention, but"],
    ["qwen2", { layer_types: ["full_attention", "linear_attention"] }, "'layer_types' is"],
    ["qwen2", { layer_types: ["full_attention"] }, "'layer_types' has 1 entries, 'num_hidden_layers' is 2"],
    ["llama", { model_type: "mistral", attention_bias: true }, "'attention_bias' is true"],
    ["llama", { model_type: "mistral", layer_types: ["full_attention", "full_attention"] }, "'layer_types' differs"],
    ["llama", { model_type: "smollm3", no_rope_layers: [1] }, "'no_rope_layers' is [1], expected 0 or 1 for each of 2"],
    ["llama", { model_type: "smollm3", no_rope_layer_interval: 0 }, "'no_rope_layer_interval' is 0"],
    ["llama", { num_hidden_layers: 2 ** 32 }, "layers is 4294967296, expected at most 16384"],
    ["qwen2", { num_hidden_layers: 2 ** 32, layer_types: null }, "expected at most 16384"],
    ["llama", { model_type: "smollm3", num_hidden_layers: 2 ** 32 }, "expected at most 16384"],
    ["gpt2", { n_layer: 1e15 }, "layers is 1000000000000000, expected at most"],
    ["llama", { vocab_size: 2 ** 40 }, "vocabSize is 1099511627776, expected at most"],
    ["llama", { hidden_size: 2 ** 40 }, "hiddenSize is 1099511627776, expected at most"],
    ["gpt2", { n_positions: 2 ** 40 }, "maxPositions is 1099511627776, expected at most"],
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

  test.each(refused)("%s with %j is refused: %s", (family, changes, message) => {
    const read = (): unknown => configFromHuggingFace({ ...golden(family), ...changes });
    expect(read).toThrow(message);
    expect(read).toThrow(WorldgradError);
  });

  const required: Record<GoldenFamily, string> = {
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
    family: fc.constantFrom<Family>("llama", "mistral", "qwen2", "qwen3", "smollm3", "gpt2"),
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
    scaling: fc.constantFrom<RopeScaling | undefined>(
      undefined,
      { type: "linear", factor: 2.5 },
      { type: "dynamic", factor: 4 },
      { type: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 512 },
      { type: "yarn", factor: 4, originalMaxPositions: 128 },
      { type: "yarn", factor: 4, originalMaxPositions: 128, attentionFactor: 1.5, betaFast: 16, truncate: false },
    ),
    window: fc.constantFrom(undefined, 1, 4096),
    layerFlags: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
  })
  .map(({ group, flag, ids, kvHeads, ropeTheta, scaling, window, layerFlags, ...options }) => {
    const gpt2 = options.family === "gpt2";
    const heads = kvHeads * group;
    const own = layerFlags.slice(0, options.layers);
    const slides = window !== undefined && !gpt2 && options.family !== "llama";
    const some = own.includes(true) && own.includes(false) && options.family !== "mistral";
    const ropeScaling = scaling?.type === "dynamic" && options.headDim < 4 ? undefined : scaling;
    const bias =
      options.family === "qwen2" || options.family === "mistral" || gpt2
        ? {}
        : { attentionBias: flag, attentionOutputBias: flag };
    return modelConfig({
      ...options,
      ...ids,
      ...bias,
      heads,
      kvHeads: gpt2 ? heads : kvHeads,
      hiddenSize: heads * options.headDim,
      ...(options.family === "llama" || options.family === "smollm3" ? { mlpBias: flag } : {}),
      ...(gpt2 ? { mlp: flag ? "gelu_erf" : "gelu_tanh" } : { ropeTheta, ...(ropeScaling ? { ropeScaling } : {}) }),
      ...(slides ? { slidingWindow: window, ...(some ? { slidingLayers: own } : {}) } : {}),
      ...(options.family === "smollm3" ? { rotaryLayers: own } : {}),
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
    const names: Record<GoldenFamily, string> = {
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
