/**
 * `config.json` in Hugging Face's layout ↔ our ModelConfig, for model_type llama, qwen2, qwen3 and gpt2 (field names
 * and defaults: `configuration_*.py` of Transformers 5, and the older layout of 4.x with `rope_theta` and
 * `rope_scaling`).
 *
 * Whatever changes the mathematics and is not ours is refused by the field's name; fields that change nothing of it
 * (caching, dropout in training, parallel plans, versions) are ignored, of which such files have many. Dropout is
 * among them: the weights mean the same without it.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { type Family, type ModelConfig, validateConfig } from "./model.ts";

type Json = Record<string, unknown>;

/** Reads fields of a config.json and complains by their names. */
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
 * @throws WorldgradError naming the field: an unknown model_type; missing or malformed fields; rope scaling, sliding
 * windows, unknown activations, quantised weights and whatever else is not supported
 */
export function configFromHuggingFace(json: unknown): ModelConfig {
  const fields = new Fields(json);
  const families: Record<Family, Family> = { llama: "llama", qwen2: "qwen2", qwen3: "qwen3", gpt2: "gpt2" };
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

function llamaFields(fields: Fields, family: "llama" | "qwen2" | "qwen3"): Rest {
  const hiddenSize = fields.number("hidden_size");
  const layers = fields.number("num_hidden_layers");
  const heads = fields.number("num_attention_heads");
  refuseSlidingWindow(fields, family, layers);
  // Where a family's own default is a fixed number (32 key-value heads, headDim 128), a missing field is more likely a
  // mistake.
  const kvHeadsGiven = family === "llama" || fields.raw("num_key_value_heads") !== undefined;
  const headDimGiven = family !== "qwen3" || fields.raw("head_dim") !== undefined;
  check(kvHeadsGiven, () => "config.json: 'num_key_value_heads' is missing");
  check(headDimGiven, () => "config.json: 'head_dim' is missing");
  const attentionBias = family === "qwen2" ? true : fields.boolean("attention_bias", false);
  if (family !== "llama") fields.refuse("mlp_bias", false);
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
    ropeTheta: readRopeTheta(fields),
    mlp: fields.choice("hidden_act", { silu: "swiglu", swish: "swiglu" }),
    attentionBias,
    attentionOutputBias: family === "qwen2" ? false : attentionBias,
    mlpBias: fields.boolean("mlp_bias", false),
    qkNorm: family === "qwen3",
    tieEmbeddings: fields.boolean("tie_word_embeddings", false),
  };
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

function refuseSlidingWindow(fields: Fields, family: Family, layers: number): void {
  const layerTypes = fields.raw("layer_types") ?? [];
  const allFull = Array.isArray(layerTypes) && layerTypes.every((type) => type === "full_attention");
  check(allFull, () => `config.json: 'layer_types' is ${showValue(layerTypes)}, only full_attention is supported`);
  if (family === "llama") return fields.refuse("sliding_window");
  // Qwen files name a window even where it is off; it begins at layer max_window_layers.
  const off = !fields.boolean("use_sliding_window", false) || fields.raw("sliding_window") === undefined;
  const begins = fields.number("max_window_layers", off ? layers : 0);
  check(
    off || begins >= layers,
    () =>
      `config.json: 'use_sliding_window' is true with 'sliding_window' ${showValue(fields.raw("sliding_window"))}, ` +
      "which is not supported",
  );
}

/**
 * The rotary base: `rope_parameters` since Transformers 5, `rope_theta` with `rope_scaling` before; both must not
 * disagree.
 */
function readRopeTheta(fields: Fields): number {
  fields.refuse("partial_rotary_factor", 1);
  let theta = fields.raw("rope_theta") === undefined ? undefined : fields.number("rope_theta");
  for (const name of ["rope_scaling", "rope_parameters"]) {
    const value = fields.raw(name);
    if (value === undefined) continue;
    const isObject = typeof value === "object" && !Array.isArray(value);
    check(isObject, () => `config.json: '${name}' is ${showValue(value)}, expected an object`);
    // Older files say `type`. Per-layer-type and multi-modal ropes are told by keys of theirs.
    const {
      rope_type: ropeType,
      type,
      rope_theta: inner,
      partial_rotary_factor: partial = 1,
      ...others
    } = value as Json;
    for (const kind of [ropeType, type]) {
      const plain = kind === undefined || kind === null || kind === "default";
      check(
        plain,
        () => `config.json: '${name}' has type ${showValue(kind)}; only "default", no scaling, is supported`,
      );
    }
    check(
      partial === 1,
      () => `config.json: '${name}.partial_rotary_factor' is ${showValue(partial)}, which is not supported`,
    );
    const other = Object.keys(others).find((key) => others[key] !== null && others[key] !== 1);
    check(other === undefined, () => `config.json: '${name}.${other}' is not supported`);
    if (inner === undefined || inner === null) continue;
    check(
      typeof inner === "number",
      () => `config.json: '${name}.rope_theta' is ${showValue(inner)}, expected a number`,
    );
    check(
      theta === undefined || theta === inner,
      () => `config.json: '${name}.rope_theta' is ${inner}, but 'rope_theta' is ${theta}`,
    );
    theta = inner;
  }
  // The default of Transformers 4 for all families, and what the first Llamas, whose files lack the field, were trained
  // with.
  return theta ?? 10_000;
}

/**
 * `config.json` for `transformers`, with the layouts of both 4.x and 5.x; `configFromHuggingFace` of it gives `config`
 * again.
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
  const names = { llama: "Llama", qwen2: "Qwen2", qwen3: "Qwen3", gpt2: "GPT2" };
  const common = {
    architectures: [family === "gpt2" ? "GPT2LMHeadModel" : `${names[family]}ForCausalLM`],
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
    rope_theta: config.ropeTheta,
    rope_parameters: { rope_type: "default", rope_theta: config.ropeTheta },
    attention_dropout: 0,
    ...(family === "llama" ? { attention_bias: config.attentionBias, mlp_bias: config.mlpBias } : {}),
    ...(family === "qwen3" ? { attention_bias: config.attentionBias } : {}),
    ...(family === "llama" ? {} : { use_sliding_window: false }),
  };
}
