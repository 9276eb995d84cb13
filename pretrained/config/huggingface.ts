/**
 * `config.json` in Hugging Face's layout ↔ our ModelConfig, for model_type llama, mistral, qwen2, qwen3, smollm3 and
 * gpt2 (field names and defaults: `configuration_*.py` of Transformers 5, and the older layout of 4.x with `rope_theta`
 * and `rope_scaling`).
 *
 * A field that changes the mathematics and is not supported is refused by its name. Fields that do not change it
 * (caching, parallel plans, versions) are ignored; so is dropout in training, because the weights mean the same
 * without it.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { type Family, type ModelConfig, nopeEvery, validateConfig } from "../../nn/config.ts";
import { readRope, writeRope } from "./rope.ts";

type Json = Record<string, unknown>;

/** Class names in Transformers. */
const CLASSES: Readonly<Record<Family, string>> = {
  llama: "LlamaForCausalLM",
  mistral: "MistralForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
  smollm3: "SmolLM3ForCausalLM",
  gpt2: "GPT2LMHeadModel",
};

/** The fields of a config.json; an error names the field. */
class Fields {
  readonly #json: Json;

  constructor(json: unknown) {
    const fits = typeof json === "object" && json !== null && !Array.isArray(json);
    check(fits, () => `config.json: is ${showValue(json)}, expected an object`);
    this.#json = json as Json;
  }

  raw(name: string): unknown {
    return this.#json[name] ?? undefined;
  }

  /** All fields. */
  get json(): Json {
    return this.#json;
  }

  /** Whether the file has the field, even as null. */
  has(name: string): boolean {
    return Object.hasOwn(this.#json, name) && this.#json[name] !== undefined;
  }

  /** A number; null counts as missing, and missing is an error without a `fallback`. */
  number(name: string, fallback?: number): number {
    const value = this.raw(name) ?? fallback ?? fail(`config.json: '${name}' is missing`);
    check(typeof value === "number", () => `config.json: '${name}' is ${showValue(value)}, expected a number`);
    return value;
  }

  boolean(name: string, fallback: boolean): boolean {
    const value = this.raw(name) ?? fallback;
    check(typeof value === "boolean", () => `config.json: '${name}' is ${showValue(value)}, expected true or false`);
    return value;
  }

  /** One of the keys of `known`, translated. */
  choice<T>(name: string, known: Readonly<Record<string, T>>): T {
    const value = this.raw(name) ?? fail(`config.json: '${name}' is missing`);
    const supported = typeof value === "string" && Object.hasOwn(known, value);
    check(
      supported,
      () => `config.json: '${name}' is ${showValue(value)}, supported: ${Object.keys(known).join(", ")}`,
    );
    return known[value]!;
  }

  /** Refuses the field unless it is missing, null or one of `harmless`. */
  refuse(name: string, ...harmless: unknown[]): void {
    const value = this.raw(name);
    check(
      value === undefined || harmless.includes(value),
      () => `config.json: '${name}' is ${showValue(value)}, which is not supported`,
    );
  }

  /** Token ids: missing, null, one or a list. Some older files write −1 for none. */
  ids(name: string): number[] {
    const value = this.raw(name) ?? [];
    const ids: unknown[] = Array.isArray(value) ? value : [value];
    const fit = (list: unknown[]): list is number[] => list.every((id) => Number.isSafeInteger(id));
    check(fit(ids), () => `config.json: '${name}' is ${showValue(value)}, expected a token id or a list of them`);
    return ids.filter((id) => id >= 0);
  }
}

/**
 * The configuration that a parsed `config.json` describes.
 *
 * @throws WorldgradError naming the field: an unknown model_type; missing or malformed fields; kinds of rope scaling,
 * layers or activations that are not supported, quantised weights, sizes that no model has
 */
export function configFromHuggingFace(json: unknown): ModelConfig {
  const fields = new Fields(json);
  const families = Object.fromEntries(Object.keys(CLASSES).map((name) => [name, name])) as Record<Family, Family>;
  const family = fields.choice("model_type", families);
  for (const name of ["quantization_config", "pruned_heads"]) {
    const value = fields.raw(name);
    const empty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
    check(value === undefined || empty, () => `config.json: '${name}' is ${showValue(value)}, which is not supported`);
  }
  for (const name of ["is_encoder_decoder", "add_cross_attention"]) fields.refuse(name, false);
  const bosId = fields.ids("bos_token_id")[0];
  const padId = fields.ids("pad_token_id")[0];
  const config: ModelConfig = {
    family,
    vocabSize: fields.number("vocab_size"),
    ...(family === "gpt2" ? gpt2Fields(fields) : llamaFields(fields, family)),
    initializerRange: fields.number("initializer_range", 0.02),
    ...(bosId === undefined ? {} : { bosId }),
    eosIds: fields.ids("eos_token_id"),
    ...(padId === undefined ? {} : { padId }),
  };
  validateConfig(config);
  return config;
}

type Rest = Omit<ModelConfig, "family" | "vocabSize" | "initializerRange" | "bosId" | "eosIds" | "padId">;

function llamaFields(fields: Fields, family: Exclude<Family, "gpt2">): Rest {
  const hiddenSize = fields.number("hidden_size");
  const layers = fields.number("num_hidden_layers");
  const heads = fields.number("num_attention_heads");
  // Some families' own default is a fixed number (32 key-value heads, headDim 128). A missing field is then more
  // likely a mistake.
  const kvHeadsGiven = family === "llama" || fields.raw("num_key_value_heads") !== undefined;
  const headDimGiven = family !== "qwen3" || fields.raw("head_dim") !== undefined;
  check(kvHeadsGiven, () => "config.json: 'num_key_value_heads' is missing");
  check(headDimGiven, () => "config.json: 'head_dim' is missing");
  const attentionBias = family === "qwen2" ? true : fields.boolean("attention_bias", false);
  if (family === "mistral") fields.refuse("attention_bias", false);
  const hasMlpBias = family === "llama" || family === "smollm3";
  if (!hasMlpBias) fields.refuse("mlp_bias", false);
  const rotaryLayers = family === "smollm3" ? readRotaryLayers(fields, layers) : undefined;
  return {
    hiddenSize,
    intermediateSize: fields.number("intermediate_size"),
    layers,
    heads,
    kvHeads: fields.number("num_key_value_heads", heads),
    headDim: fields.number("head_dim", Math.floor(hiddenSize / heads)),
    maxPositions: fields.number("max_position_embeddings"),
    norm: "rms",
    normEps: fields.number("rms_norm_eps"),
    positions: "rotary",
    // 10,000 is Transformers' default; the first Llamas, whose files lack the field, were trained with it.
    ...readRope(fields.json, family === "smollm3" ? 2_000_000 : 10_000),
    ...(rotaryLayers ? { rotaryLayers } : {}),
    ...readWindow(fields, family, layers, rotaryLayers),
    mlp: fields.choice("hidden_act", { silu: "swiglu", swish: "swiglu" }),
    attentionBias,
    attentionOutputBias: family === "qwen2" ? false : attentionBias,
    mlpBias: fields.boolean("mlp_bias", false),
    qkNorm: family === "qwen3",
    tieEmbeddings: fields.boolean("tie_word_embeddings", family === "smollm3"),
  };
}

/**
 * The layers with rotary positions: `no_rope_layers` has a 1 for each. Without that field every layer has them, except
 * each `no_rope_layer_interval`-th.
 */
function readRotaryLayers(fields: Fields, layers: number): boolean[] {
  const list = fields.raw("no_rope_layers");
  if (list === undefined) {
    const interval = fields.number("no_rope_layer_interval", 4);
    const fits = Number.isSafeInteger(interval) && interval >= 1;
    check(fits, () => `config.json: 'no_rope_layer_interval' is ${interval}, expected an integer ≥ 1`);
    return nopeEvery(interval, layers);
  }
  const fits = Array.isArray(list) && list.length >= layers && list.every((value) => value === 0 || value === 1);
  check(
    fits,
    () => `config.json: 'no_rope_layers' is ${showValue(list)}, expected 0 or 1 for each of ${layers} layers`,
  );
  return (list as number[]).slice(0, layers).map((value) => value === 1);
}

function gpt2Fields(fields: Fields): Rest {
  fields.refuse("scale_attn_weights", true);
  fields.refuse("scale_attn_by_inverse_layer_idx", false);
  fields.refuse("reorder_and_upcast_attn", false);
  const hiddenSize = fields.number("n_embd");
  const heads = fields.number("n_head");
  return {
    hiddenSize,
    intermediateSize: fields.number("n_inner", 4 * hiddenSize),
    layers: fields.number("n_layer"),
    heads,
    kvHeads: heads,
    headDim: hiddenSize / heads,
    maxPositions: fields.number("n_positions"),
    norm: "layer",
    normEps: fields.number("layer_norm_epsilon"),
    positions: "learned",
    ropeTheta: 10_000,
    mlp: fields.choice("activation_function", {
      gelu_new: "gelu_tanh",
      gelu_pytorch_tanh: "gelu_tanh",
      gelu: "gelu_erf",
    }),
    attentionBias: true,
    attentionOutputBias: true,
    mlpBias: true,
    qkNorm: false,
    tieEmbeddings: fields.boolean("tie_word_embeddings", true),
  };
}

/**
 * The layers with sliding-window attention. Mistral: all of them, unless `sliding_window` is null. Qwen and SmolLM3:
 * if `use_sliding_window`, those that `layer_types` calls sliding_attention; without that list, those from
 * `max_window_layers` on (Qwen) or those without rotary positions (SmolLM3). Qwen's files name a window even if it is
 * off.
 */
function readWindow(
  fields: Fields,
  family: Family,
  layers: number,
  rotaryLayers: readonly boolean[] | undefined,
): Pick<ModelConfig, "slidingWindow" | "slidingLayers"> {
  const types = readLayerTypes(fields, layers);
  if (family === "llama") {
    fields.refuse("sliding_window");
    const sliding = types?.includes(true) === true;
    check(!sliding, () => "config.json: 'layer_types' has sliding_attention, which llama does not have");
    return {};
  }
  const missing = family === "smollm3" ? undefined : 4096;
  const stated = fields.has("sliding_window") ? fields.raw("sliding_window") : missing;
  const isOn = family === "mistral" || fields.boolean("use_sliding_window", false);
  const window = isOn && stated !== undefined ? fields.number("sliding_window", missing) : undefined;
  if (window !== undefined) {
    const fits = Number.isSafeInteger(window) && window >= 1;
    check(fits, () => `config.json: 'sliding_window' is ${window}, expected an integer ≥ 1`);
  }
  if (family === "mistral") {
    const fits = types === undefined || types.every((sliding) => sliding === (window !== undefined));
    check(fits, () => "config.json: 'layer_types' differs from 'sliding_window', which mistral has in every layer");
    return window === undefined ? {} : { slidingWindow: window };
  }
  const slides = (n: number): boolean => {
    if (types !== undefined) return types[n] === true;
    if (window === undefined) return false;
    return rotaryLayers === undefined ? n >= fields.number("max_window_layers", 28) : !rotaryLayers[n];
  };
  const slidingLayers = Array.from({ length: Math.min(layers, 2 ** 14) }, (_, n) => slides(n));
  if (!slidingLayers.includes(true)) return {};
  check(
    window !== undefined,
    () =>
      "config.json: 'layer_types' has sliding_attention, but 'use_sliding_window' and 'sliding_window' give no size",
  );
  return { slidingWindow: window, ...(slidingLayers.every(Boolean) ? {} : { slidingLayers }) };
}

/** A flag for each layer that `layer_types` calls sliding; undefined without that list. */
function readLayerTypes(fields: Fields, layers: number): boolean[] | undefined {
  const types = fields.raw("layer_types");
  if (types === undefined) return undefined;
  const known = (type: unknown): boolean => type === "full_attention" || type === "sliding_attention";
  check(
    Array.isArray(types) && types.every(known),
    () => `config.json: 'layer_types' is ${showValue(types)}, supported: full_attention, sliding_attention`,
  );
  const list = types as string[];
  check(
    list.length === layers,
    () => `config.json: 'layer_types' has ${list.length} entries, 'num_hidden_layers' is ${layers}`,
  );
  return list.map((type) => type === "sliding_attention");
}

/**
 * The `config.json` of a configuration, in the layouts of both 4.x and 5.x of `transformers`. `configFromHuggingFace`
 * reads `config` back from it.
 *
 * @param dtype of the weights beside it
 * @throws WorldgradError if `config` is not valid
 */
export function configToHuggingFace(
  config: ModelConfig,
  dtype: "float32" | "float16" | "bfloat16" | "float64" = "float32",
): Record<string, unknown> {
  validateConfig(config);
  const { family, eosIds } = config;
  const common = {
    architectures: [CLASSES[family]],
    model_type: family,
    dtype,
    torch_dtype: dtype,
    vocab_size: config.vocabSize,
    tie_word_embeddings: config.tieEmbeddings,
    initializer_range: config.initializerRange,
    bos_token_id: config.bosId ?? null,
    eos_token_id: eosIds.length === 0 ? null : eosIds.length === 1 ? eosIds[0] : eosIds,
    pad_token_id: config.padId ?? null,
    use_cache: true,
  };
  if (family === "gpt2") {
    return {
      ...common,
      n_embd: config.hiddenSize,
      n_layer: config.layers,
      n_head: config.heads,
      n_inner: config.intermediateSize,
      n_positions: config.maxPositions,
      activation_function: config.mlp === "gelu_tanh" ? "gelu_new" : "gelu",
      layer_norm_epsilon: config.normEps,
      // Ours has no dropout; the defaults of GPT2Config are 0.1.
      attn_pdrop: 0,
      embd_pdrop: 0,
      resid_pdrop: 0,
    };
  }
  return {
    ...common,
    hidden_size: config.hiddenSize,
    intermediate_size: config.intermediateSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    max_position_embeddings: config.maxPositions,
    hidden_act: "silu",
    rms_norm_eps: config.normEps,
    ...writeRope(config),
    attention_dropout: 0,
    ...(family === "llama" || family === "smollm3"
      ? { attention_bias: config.attentionBias, mlp_bias: config.mlpBias }
      : {}),
    ...(family === "qwen3" ? { attention_bias: config.attentionBias } : {}),
    ...(config.rotaryLayers ? { no_rope_layers: config.rotaryLayers.map(Number) } : {}),
    ...windowFields(config),
  };
}

function windowFields({ family, layers, slidingWindow, slidingLayers }: ModelConfig): Json {
  if (family === "llama") return {};
  if (family === "mistral") return { sliding_window: slidingWindow ?? null };
  if (slidingWindow === undefined) return { use_sliding_window: false };
  const sliding = slidingLayers ?? Array.from({ length: layers }, () => true);
  return {
    use_sliding_window: true,
    sliding_window: slidingWindow,
    // Newer programs go by `layer_types`; older ones know only the first layer of the window.
    ...(family === "smollm3" ? {} : { max_window_layers: sliding.indexOf(true) }),
    layer_types: sliding.map((value) => (value ? "sliding_attention" : "full_attention")),
  };
}
