/**
 * The configuration of our one transformer, and its defaults per family. Reading and writing Hugging Face's
 * `config.json` is in `huggingface.ts`. The families (Llama: Touvron et al. 2023; Qwen2: Yang et al. 2024; Qwen3: Yang
 * et al. 2025; GPT-2: Radford et al. 2019) are points in one space of switches; `family` decides the names in
 * checkpoints and which combinations of switches exist there. Not here: training options, and anything about a device.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";

/** Whose checkpoints and conventions a model follows. */
export type Family = "llama" | "qwen2" | "qwen3" | "gpt2";

/** The sizes and choices that make a transformer, all of them; `modelConfig` fills in what is not said. */
export interface ModelConfig {
  readonly family: Family;
  /** V, number of token ids */
  readonly vocabSize: number;
  /** C, width of the residual stream */
  readonly hiddenSize: number;
  /** width of the MLP between its matrices */
  readonly intermediateSize: number;
  /** number of blocks */
  readonly layers: number;
  /** H, number of query heads */
  readonly heads: number;
  /** number of key and value heads; heads / kvHeads query heads share one */
  readonly kvHeads: number;
  /** D; heads · headDim need not be hiddenSize */
  readonly headDim: number;
  /**
   * T at most: the size of the table of learned positions; for rotary positions a promise of what it was trained for
   */
  readonly maxPositions: number;
  readonly norm: "rms" | "layer";
  readonly normEps: number;
  readonly positions: "rotary" | "learned";
  /** base of the rotary frequencies θ^(−2i/D); without meaning for learned positions */
  readonly ropeTheta: number;
  readonly mlp: "swiglu" | "gelu_tanh" | "gelu_erf";
  /** biases on the projections to q, k, v */
  readonly attentionBias: boolean;
  /** bias on the projection after attention */
  readonly attentionOutputBias: boolean;
  readonly mlpBias: boolean;
  /** RMSNorm over each head of q and k, before the rotation */
  readonly qkNorm: boolean;
  /** the output matrix is the embedding's transpose */
  readonly tieEmbeddings: boolean;
  /** standard deviation of the initial weights */
  readonly initializerRange: number;
  readonly bosId?: number;
  /** ids that end a text; empty if the model has none */
  readonly eosIds: readonly number[];
  readonly padId?: number;
}

/** What a family leaves open; everything else follows from `family` unless given. */
export type ModelOptions = Pick<ModelConfig, "vocabSize" | "hiddenSize" | "layers" | "heads"> & Partial<ModelConfig>;

type Switches = Pick<
  ModelConfig,
  | "norm"
  | "normEps"
  | "positions"
  | "mlp"
  | "attentionBias"
  | "attentionOutputBias"
  | "mlpBias"
  | "qkNorm"
  | "ropeTheta"
>;

const LLAMA: Switches = {
  norm: "rms",
  normEps: 1e-6,
  positions: "rotary",
  ropeTheta: 10_000,
  mlp: "swiglu",
  attentionBias: false,
  attentionOutputBias: false,
  mlpBias: false,
  qkNorm: false,
};

/** The switches of each family as its first release has them. */
const SWITCHES: Readonly<Record<Family, Switches>> = {
  llama: LLAMA,
  qwen2: { ...LLAMA, attentionBias: true },
  qwen3: { ...LLAMA, qkNorm: true },
  gpt2: {
    norm: "layer",
    normEps: 1e-5,
    positions: "learned",
    ropeTheta: 10_000,
    mlp: "gelu_tanh",
    attentionBias: true,
    attentionOutputBias: true,
    mlpBias: true,
    qkNorm: false,
  },
};

const KEYS = [
  "family",
  "vocabSize",
  "hiddenSize",
  "intermediateSize",
  "layers",
  "heads",
  "kvHeads",
  "headDim",
  "maxPositions",
  "norm",
  "normEps",
  "positions",
  "ropeTheta",
  "mlp",
  "attentionBias",
  "attentionOutputBias",
  "mlpBias",
  "qkNorm",
  "tieEmbeddings",
  "initializerRange",
  "bosId",
  "eosIds",
  "padId",
] as const;

/**
 * A complete, valid configuration from the options that matter; the family's habits fill in the rest.
 * Defaults: family "llama"; intermediateSize 8/3 · hiddenSize rounded up to a multiple of 8 (GPT-2: 4 · hiddenSize);
 * kvHeads = heads; headDim = hiddenSize / heads; maxPositions 1024; tied embeddings; initializerRange 0.02.
 *
 * @throws WorldgradError for unknown options and for values that no model can have, by name
 *
 * @example
 * const config = modelConfig({ vocabSize: 260, hiddenSize: 64, layers: 2, heads: 4 });
 * config.mlp; // "swiglu"
 */
export function modelConfig(options: ModelOptions): ModelConfig {
  checkKeys("modelConfig", options, KEYS);
  const { family = "llama", hiddenSize, heads } = options;
  check(
    Object.hasOwn(SWITCHES, family),
    () => `modelConfig: family is ${showValue(family)}, expected ${list(SWITCHES)}`,
  );
  const config: ModelConfig = {
    family,
    intermediateSize: family === "gpt2" ? 4 * hiddenSize : Math.ceil(hiddenSize / 3) * 8,
    kvHeads: heads,
    headDim: hiddenSize / heads,
    maxPositions: 1024,
    tieEmbeddings: true,
    initializerRange: 0.02,
    eosIds: [],
    ...SWITCHES[family],
    ...withoutUndefined(options),
  };
  validateConfig(config);
  return config;
}

/**
 * Checks a configuration: values that every model needs, and combinations that its family has (others could be
 * computed, but no checkpoint and no other program could say them).
 *
 * @throws WorldgradError naming the first option that is wrong
 */
export function validateConfig(config: ModelConfig): void {
  checkKeys("config", config, KEYS);
  const { family, hiddenSize, heads, kvHeads, headDim } = config;
  check(Object.hasOwn(SWITCHES, family), () => `config: family is ${showValue(family)}, expected ${list(SWITCHES)}`);
  const sizes = [
    "vocabSize",
    "hiddenSize",
    "intermediateSize",
    "layers",
    "heads",
    "kvHeads",
    "headDim",
    "maxPositions",
  ] as const;
  for (const key of sizes) {
    check(
      Number.isSafeInteger(config[key]) && config[key] > 0,
      () => `config: ${key} is ${showValue(config[key])}, expected an integer ≥ 1`,
    );
  }
  for (const key of ["normEps", "ropeTheta", "initializerRange"] as const) {
    check(
      Number.isFinite(config[key]) && config[key] > 0,
      () => `config: ${key} is ${showValue(config[key])}, expected a number > 0`,
    );
  }
  for (const key of ["attentionBias", "attentionOutputBias", "mlpBias", "qkNorm", "tieEmbeddings"] as const) {
    check(
      typeof config[key] === "boolean",
      () => `config: ${key} is ${showValue(config[key])}, expected true or false`,
    );
  }
  check(
    Array.isArray(config.eosIds),
    () => `config: eosIds is ${showValue(config.eosIds)}, expected a list of token ids`,
  );
  const ids = {
    bosId: config.bosId,
    padId: config.padId,
    ...Object.fromEntries(config.eosIds.map((id, i) => [`eosIds[${i}]`, id])),
  };
  for (const [key, id] of Object.entries(ids)) {
    check(
      id === undefined || (Number.isSafeInteger(id) && id >= 0),
      () => `config: ${key} is ${showValue(id)}, expected a token id`,
    );
  }
  check(heads % kvHeads === 0, () => `config: heads is ${heads}, expected a multiple of kvHeads, ${kvHeads}`);
  if (config.positions === "rotary") {
    check(headDim % 2 === 0, () => `config: headDim is ${headDim}, rotary positions need an even one`);
  }
  // Transformers' LlamaConfig insists, although its attention would not need it.
  if (family === "llama") {
    check(
      hiddenSize % heads === 0,
      () => `config: hiddenSize is ${hiddenSize}, expected a multiple of heads, ${heads} (family llama)`,
    );
  }
  if (family === "gpt2") {
    check(kvHeads === heads, () => `config: kvHeads is ${kvHeads}, family gpt2 has as many as heads, ${heads}`);
    check(
      headDim * heads === hiddenSize,
      () => `config: headDim is ${headDim}, family gpt2 has hiddenSize / heads, ${hiddenSize / heads}`,
    );
  }
  for (const [key, allowed] of Object.entries(allowedSwitches(config))) {
    const value = config[key as keyof ModelConfig];
    check(
      allowed.includes(value),
      () => `config: ${key} is ${showValue(value)}, family ${family} has ${allowed.map(showValue).join(" or ")}`,
    );
  }
}

/** The values that each switch may have in the family of `config`. */
function allowedSwitches(config: ModelConfig): Record<string, readonly unknown[]> {
  const { norm, positions, attentionBias, attentionOutputBias, mlpBias, qkNorm } = SWITCHES[config.family];
  const fixed = { norm: [norm], positions: [positions], qkNorm: [qkNorm] };
  switch (config.family) {
    // One switch of theirs, attention_bias, stands for two of ours.
    case "llama":
      return { ...fixed, mlp: ["swiglu"], attentionOutputBias: [config.attentionBias] };
    case "qwen3":
      return { ...fixed, mlp: ["swiglu"], attentionOutputBias: [config.attentionBias], mlpBias: [mlpBias] };
    case "qwen2":
    case "gpt2": {
      const mlp = config.family === "gpt2" ? ["gelu_tanh", "gelu_erf"] : ["swiglu"];
      return {
        ...fixed,
        mlp,
        attentionBias: [attentionBias],
        attentionOutputBias: [attentionOutputBias],
        mlpBias: [mlpBias],
      };
    }
    default:
      return fail(`config: family ${showValue(config.family)} is unknown`);
  }
}

/** Number of parameters, exactly (a tied output matrix counts once; PyTorch would count the same). */
export function estimateParameters(config: ModelConfig): number {
  const { vocabSize, hiddenSize, intermediateSize, headDim } = config;
  const query = config.heads * headDim;
  const keyValue = 2 * config.kvHeads * headDim;
  const norm = config.norm === "layer" ? 2 * hiddenSize : hiddenSize;
  const inputs = config.mlp === "swiglu" ? 2 : 1;
  const attention =
    hiddenSize * (query + keyValue) +
    query * hiddenSize +
    (config.attentionBias ? query + keyValue : 0) +
    (config.attentionOutputBias ? hiddenSize : 0) +
    (config.qkNorm ? 2 * headDim : 0);
  const mlp =
    (inputs + 1) * hiddenSize * intermediateSize + (config.mlpBias ? inputs * intermediateSize + hiddenSize : 0);
  const embeddings = vocabSize * hiddenSize * (config.tieEmbeddings ? 1 : 2);
  const positions = config.positions === "learned" ? config.maxPositions * hiddenSize : 0;
  return embeddings + positions + config.layers * (2 * norm + attention + mlp) + norm;
}

/** So that `{ kvHeads: undefined }` means the default and not undefined. */
function withoutUndefined(options: ModelOptions): ModelOptions {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as unknown as ModelOptions;
}

function list(record: object): string {
  return Object.keys(record).join(", ");
}
