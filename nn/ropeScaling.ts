/**
 * Scalings of rotary positions beyond the length that a model was first trained for, under the `rope_type` of
 * Transformers 5. `nn/rope.ts` has their frequencies. LongRoPE, partial rotation and a rotation per kind of layer are
 * left out: none of the families has them.
 */
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";

/** The change of the frequencies θ^(−2i/D) of rotary positions for longer texts. */
export type RopeScaling =
  /** All frequencies divided by `factor` (position interpolation, Chen et al. 2023, arXiv 2306.15595). */
  | { readonly type: "linear"; readonly factor: number }
  /** A larger base for texts beyond `maxPositions`, larger with their length ("NTK-aware", dynamic). */
  | { readonly type: "dynamic"; readonly factor: number }
  /** Low frequencies divided, high ones kept, a blend between (Llama 3.1). */
  | {
      readonly type: "llama3";
      readonly factor: number;
      readonly lowFreqFactor: number;
      readonly highFreqFactor: number;
      readonly originalMaxPositions: number;
    }
  /** YaRN (Peng et al. 2023, arXiv 2309.00071); cosines and sines are multiplied by its attention factor. */
  | {
      readonly type: "yarn";
      readonly factor: number;
      readonly originalMaxPositions: number;
      /** unless given: 0.1·ln(factor) + 1, or as `mscale` and `mscaleAllDim` define */
      readonly attentionFactor?: number;
      /** turns within the original length above which a frequency is kept; 32 unless given */
      readonly betaFast?: number;
      /** turns below which a frequency is divided; 1 unless given */
      readonly betaSlow?: number;
      readonly mscale?: number;
      readonly mscaleAllDim?: number;
      /** whether the border dimensions are rounded to integers; true unless given */
      readonly truncate?: boolean;
    };

/** The names of fields here and in `config.json`; a `?` marks those that may be missing. */
export const ROPE_FIELDS: Readonly<Record<RopeScaling["type"], Readonly<Record<string, string>>>> = {
  linear: { factor: "factor" },
  dynamic: { factor: "factor" },
  llama3: {
    factor: "factor",
    lowFreqFactor: "low_freq_factor",
    highFreqFactor: "high_freq_factor",
    originalMaxPositions: "original_max_position_embeddings",
  },
  yarn: {
    factor: "factor",
    originalMaxPositions: "original_max_position_embeddings",
    attentionFactor: "attention_factor?",
    betaFast: "beta_fast?",
    betaSlow: "beta_slow?",
    mscale: "mscale?",
    mscaleAllDim: "mscale_all_dim?",
    truncate: "truncate?",
  },
};
export const isRopeType = (type: unknown): type is RopeScaling["type"] =>
  typeof type === "string" && Object.hasOwn(ROPE_FIELDS, type);

/**
 * Checks a scaling.
 * @throws WorldgradError naming the field
 */
export function validateRopeScaling(scaling: RopeScaling): void {
  const given = scaling as unknown as Readonly<Record<string, unknown>>;
  const where = "config: ropeScaling";
  check(typeof scaling === "object", () => `${where} is ${showValue(scaling)}, expected an object`);
  check(
    isRopeType(scaling.type),
    () => `${where}.type is ${showValue(scaling.type)}, expected ${Object.keys(ROPE_FIELDS).join(", ")}`,
  );
  const fields = ROPE_FIELDS[scaling.type];
  const unknown = Object.keys(given).find((key) => key !== "type" && !Object.hasOwn(fields, key));
  check(unknown === undefined, () => `${where}.${unknown} is no field of type ${scaling.type}`);
  for (const [key, theirs] of Object.entries(fields)) {
    const value = given[key];
    if (value === undefined && theirs.endsWith("?")) continue;
    if (key === "truncate") {
      check(typeof value === "boolean", () => `${where}.truncate is ${showValue(value)}, expected true or false`);
      continue;
    }
    const fits = typeof value === "number" && Number.isFinite(value) && value > 0;
    check(fits, () => `${where}.${key} is ${showValue(value)}, expected a number > 0`);
  }
  check(scaling.factor >= 1, () => `${where}.factor is ${scaling.factor}, expected a number ≥ 1`);
  if (scaling.type === "llama3") {
    const { lowFreqFactor: low, highFreqFactor: high } = scaling;
    check(low < high, () => `${where}.highFreqFactor is ${high}, expected more than lowFreqFactor, ${low}`);
  }
  if (scaling.type === "llama3" || scaling.type === "yarn") {
    const { originalMaxPositions: original } = scaling;
    const fits = Number.isSafeInteger(original);
    check(fits, () => `${where}.originalMaxPositions is ${original}, expected an integer ≥ 1`);
  }
}
