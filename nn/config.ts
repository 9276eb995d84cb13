/**
 * The configuration of the one transformer, and its defaults per family. Reading and writing Hugging Face's
 * `config.json` is in `huggingface.ts`. The families (Llama: Touvron et al. 2023; Qwen2: Yang et al. 2024; Qwen3: Yang
 * et al. 2025; Mistral: Jiang et al. 2023; SmolLM3: Bakouch et al. 2025; GPT-2: Radford et al. 2019) are points in one
 * space of switches; `family` decides the names in checkpoints and the combinations of switches that exist there.
 * Training options and devices are not part of it.
 */
import { check, fail } from "../engine/errors.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import { type RopeScaling, validateRopeScaling } from "./ropeScaling.ts";

/** The family whose checkpoints and conventions a model follows. */
export type Family = "llama" | "mistral" | "qwen2" | "qwen3" | "smollm3" | "gpt2";

/** All sizes and switches of a transformer; `modelConfig` fills in those that are not given. */
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
  /** the largest T: the size of the table of learned positions; with rotary ones the length it was trained for */
  readonly maxPositions: number;
  readonly norm: "rms" | "layer";
  readonly normEps: number;
  readonly positions: "rotary" | "learned";
  /** base of the rotary frequencies θ^(−2i/D); without meaning for learned positions */
  readonly ropeTheta: number;
  /** the scaling of these frequencies for longer texts; none unless given */
  readonly ropeScaling?: RopeScaling;
  /** for each layer whether q and k are turned by their positions; everywhere unless given (SmolLM3: NoPE layers) */
  readonly rotaryLayers?: readonly boolean[];
  /** the largest number of keys that a token sees in the sliding layers, its own included; no limit unless given */
  readonly slidingWindow?: number;
  /** for each layer whether `slidingWindow` holds there; everywhere unless given */
  readonly slidingLayers?: readonly boolean[];
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

/** The options that a family leaves open; all others follow from `family` unless given. */
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
  mistral: LLAMA,
  qwen2: { ...LLAMA, attentionBias: true },
  qwen3: { ...LLAMA, qkNorm: true },
  smollm3: { ...LLAMA, ropeTheta: 2_000_000 },
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
  "ropeScaling",
  "rotaryLayers",
  "slidingWindow",
  "slidingLayers",
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
 * A complete, valid configuration from the given options and the family's defaults: family "llama"; intermediateSize
 * 8/3 · hiddenSize rounded up to a multiple of 8 (GPT-2: 4 · hiddenSize); kvHeads = heads; headDim = hiddenSize /
 * heads; maxPositions 1024; tied embeddings; initializerRange 0.02. SmolLM3 has no rotation in every fourth layer.
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
    ...(family === "smollm3" ? { rotaryLayers: nopeEvery(4, options.layers) } : {}),
    ...withoutUndefined(options),
  };
  validateConfig(config);
  return config;
}

/** The `rotaryLayers` in which each `interval`-th layer has no rotation. */
export function nopeEvery(interval: number, layers: number): boolean[] {
  const count = Number.isSafeInteger(layers) && layers > 0 ? Math.min(layers, MOST.layers) : 0;
  return Array.from({ length: count }, (_, n) => (n + 1) % interval !== 0);
}

/** Limits that no model of these families comes near: a larger number means a damaged file, and exhausts memory. */
const MOST = {
  vocabSize: 2 ** 26,
  hiddenSize: 2 ** 20,
  intermediateSize: 2 ** 22,
  layers: 2 ** 14,
  heads: 2 ** 14,
  kvHeads: 2 ** 14,
  headDim: 2 ** 14,
  maxPositions: 2 ** 31 - 1,
} as const;

/**
 * Checks a configuration: values that every model needs, and combinations that its family has (others could be
 * computed, but no checkpoint and no other program could express them).
 *
 * @throws WorldgradError naming the first option that is wrong
 */
export function validateConfig(config: ModelConfig): void {
  checkKeys("config", config, KEYS);
  const { family, hiddenSize, heads, kvHeads, headDim } = config;
  check(Object.hasOwn(SWITCHES, family), () => `config: family is ${showValue(family)}, expected ${list(SWITCHES)}`);
  for (const key of Object.keys(MOST) as (keyof typeof MOST)[]) {
    check(
      Number.isSafeInteger(config[key]) && config[key] > 0,
      () =>
        `config: ${key} is ${showValue(config[key])}, expected an integer ≥ 1` +
        (key === "headDim" ? `; without one it is hiddenSize / heads, ${hiddenSize} / ${heads}` : ""),
    );
    check(config[key] <= MOST[key], () => `config: ${key} is ${config[key]}, expected at most ${MOST[key]}`);
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
  validatePositions(config);
  // Transformers' LlamaConfig requires this, although its attention would not need it.
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

/** Checks the options of positions: scaling, layers without a rotation, sliding windows. */
function validatePositions(config: ModelConfig): void {
  const { family, layers, positions, ropeScaling, rotaryLayers, slidingWindow, slidingLayers } = config;
  const has = (families: readonly Family[]): boolean => families.includes(family);
  if (ropeScaling !== undefined) {
    check(positions === "rotary", () => `config: ropeScaling is given, but positions are ${positions}`);
    validateRopeScaling(ropeScaling);
    const small = ropeScaling.type === "dynamic" && config.headDim < 4;
    check(!small, () => `config: headDim is ${config.headDim}, dynamic rope scaling needs 4 at least`);
  }
  for (const [key, list] of Object.entries({ rotaryLayers, slidingLayers })) {
    const isList = Array.isArray(list) && list.length === layers && list.every((value) => typeof value === "boolean");
    const fits = list === undefined || isList;
    check(fits, () => `config: ${key} is ${showValue(list)}, expected true or false for each of ${layers} layers`);
  }
  check(
    rotaryLayers === undefined || has(["smollm3"]),
    () => `config: rotaryLayers is given, family ${family} turns every layer`,
  );
  if (slidingWindow !== undefined) {
    const fits = Number.isSafeInteger(slidingWindow) && slidingWindow >= 1 && slidingWindow < 2 ** 31;
    check(fits, () => `config: slidingWindow is ${showValue(slidingWindow)}, expected an integer ≥ 1`);
    const allowed = has(["mistral", "qwen2", "qwen3", "smollm3"]);
    check(allowed, () => `config: slidingWindow is given, family ${family} has none`);
  }
  check(
    slidingLayers === undefined ||
      (slidingWindow !== undefined && slidingLayers.includes(true) && family !== "mistral"),
    () =>
      family === "mistral"
        ? "config: slidingLayers is given, in family mistral the window holds in every layer"
        : `config: slidingLayers is ${showValue(slidingLayers)}, but slidingWindow is ${showValue(slidingWindow)}`,
  );
}

/** The window of layer `n`, if it has one. */
export const windowOf = ({ slidingWindow, slidingLayers }: ModelConfig, n: number): number | undefined =>
  (slidingLayers?.[n] ?? true) ? slidingWindow : undefined;

/**
 * The largest number of positions of a text: `maxPositions`, with a rotary scaling times its factor (for llama3 and
 * yarn from the original length).
 */
export function longestText({ maxPositions, ropeScaling }: ModelConfig): number {
  if (ropeScaling === undefined) return maxPositions;
  const from = "originalMaxPositions" in ropeScaling ? ropeScaling.originalMaxPositions : maxPositions;
  return Math.min(Math.max(maxPositions, Math.floor(from * ropeScaling.factor)), MOST.maxPositions);
}

/** The values that each switch may have in the family of `config`. */
function allowedSwitches(config: ModelConfig): Record<string, readonly unknown[]> {
  const { norm, positions, attentionBias, attentionOutputBias, mlpBias, qkNorm } = SWITCHES[config.family];
  const fixed = { norm: [norm], positions: [positions], qkNorm: [qkNorm] };
  switch (config.family) {
    // Their one switch attention_bias stands for two here.
    case "llama":
    case "smollm3":
      return { ...fixed, mlp: ["swiglu"], attentionOutputBias: [config.attentionBias] };
    case "qwen3":
      return { ...fixed, mlp: ["swiglu"], attentionOutputBias: [config.attentionBias], mlpBias: [mlpBias] };
    case "mistral":
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

/** The options without those that are undefined, so that `{ kvHeads: undefined }` means the default. */
function withoutUndefined(options: ModelOptions): ModelOptions {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as unknown as ModelOptions;
}

function list(record: object): string {
  return Object.keys(record).join(", ");
}
