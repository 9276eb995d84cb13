/**
 * Rotary positions beyond what a model was first trained for: the scalings that Transformers 5 knows by `rope_type`, in
 * both layouts of `config.json` (`rope_parameters` since 5, `rope_theta` with `rope_scaling` before). What they do to
 * the frequencies is in `nn/rope.ts`. Not here: LongRoPE, partial rotation, and a rotation of its own per kind of
 * layer, which none of our families has.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";

type Json = Record<string, unknown>;

/**
 * How the frequencies θ^(−2i/D) of rotary positions are changed for longer texts, or that they depend on the length.
 */
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
      /** unless given: 0.1·ln(factor) + 1, or what `mscale` and `mscaleAllDim` say */
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

/** Our names and theirs; a `?` marks what may be missing. */
const FIELDS: Readonly<Record<RopeScaling["type"], Readonly<Record<string, string>>>> = {
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
const isType = (type: unknown): type is RopeScaling["type"] => typeof type === "string" && Object.hasOwn(FIELDS, type);

/**
 * Checks a scaling.
 * @throws WorldgradError naming the field
 */
export function validateRopeScaling(scaling: RopeScaling): void {
  const given = scaling as unknown as Json;
  const where = "config: ropeScaling";
  check(typeof scaling === "object", () => `${where} is ${showValue(scaling)}, expected an object`);
  check(
    isType(scaling.type),
    () => `${where}.type is ${showValue(scaling.type)}, expected ${Object.keys(FIELDS).join(", ")}`,
  );
  const fields = FIELDS[scaling.type];
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

/** The base of the rotary frequencies, and their scaling if there is one. */
export interface Rope {
  readonly ropeTheta: number;
  readonly ropeScaling?: RopeScaling;
}

/**
 * Reads `rope_parameters`, `rope_scaling` and `rope_theta` of a config.json; what stands twice has to agree.
 * @param defaultTheta the family's base where the file has none
 * @throws WorldgradError naming the field
 */
export function readRope(json: Json, defaultTheta: number): Rope {
  const present = (value: unknown): unknown => value ?? undefined;
  let theta = numberOf("rope_theta", present(json["rope_theta"]));
  const partial = present(json["partial_rotary_factor"]) ?? 1;
  check(partial === 1, () => `config.json: 'partial_rotary_factor' is ${showValue(partial)}, which is not supported`);
  let scaling: RopeScaling | undefined;
  let said: string | undefined;
  for (const name of ["rope_scaling", "rope_parameters"]) {
    const value = present(json[name]);
    if (value === undefined) continue;
    const isObject = typeof value === "object" && !Array.isArray(value);
    check(isObject, () => `config.json: '${name}' is ${showValue(value)}, expected an object`);
    const own = readScaling(name, value as Json, json);
    const shown = JSON.stringify(own ?? "default");
    // A file for both generations of Transformers has both.
    check(
      said === undefined || said === shown || own === undefined,
      () => `config.json: '${name}' says ${shown}, but 'rope_scaling' ${said}`,
    );
    said ??= shown;
    scaling ??= own;
    const inner = numberOf(`${name}.rope_theta`, present((value as Json)["rope_theta"]));
    check(
      theta === undefined || inner === undefined || theta === inner,
      () => `config.json: '${name}.rope_theta' is ${inner}, but 'rope_theta' is ${theta}`,
    );
    theta ??= inner;
  }
  return { ropeTheta: theta ?? defaultTheta, ...(scaling ? { ropeScaling: scaling } : {}) };
}

function numberOf(name: string, value: unknown): number | undefined {
  const fits = value === undefined || typeof value === "number";
  check(fits, () => `config.json: '${name}' is ${showValue(value)}, expected a number`);
  return value;
}

function readScaling(name: string, value: Json, json: Json): RopeScaling | undefined {
  // Older files say `type`, some say both.
  const { rope_type: ropeType, type: older, rope_theta: _, partial_rotary_factor: partial, ...others } = value;
  const type = ropeType ?? older ?? "default";
  check(
    partial === undefined || partial === null || partial === 1,
    () => `config.json: '${name}.partial_rotary_factor' is ${showValue(partial)}, which is not supported`,
  );
  for (const kind of [ropeType ?? type, older ?? type]) {
    const supported = kind === "default" || isType(kind);
    check(
      supported && kind === type,
      () =>
        `config.json: '${name}' has type ${showValue(kind)}` +
        (supported ? ` and type ${showValue(type)}` : `; default, ${Object.keys(FIELDS).join(", ")} are supported`),
    );
  }
  const fields = type === "default" ? {} : FIELDS[type as RopeScaling["type"]];
  const known = Object.values(fields).map((theirs) => theirs.replace("?", ""));
  // Neutral values of other types' fields change nothing, nor does the note of old YaRN files that there was a
  // training.
  const neutral = (key: string): boolean => others[key] === null || others[key] === 1 || key === "finetuned";
  const other = Object.keys(others).find((key) => !known.includes(key) && !neutral(key));
  check(other === undefined, () => `config.json: '${name}.${other}' is not supported`);
  if (type === "default") return undefined;
  const scaling: Json = { type };
  for (const [key, theirs] of Object.entries(fields)) {
    const field = theirs.replace("?", "");
    const found = others[field] ?? undefined;
    if (found === undefined && theirs.endsWith("?")) continue;
    scaling[key] = found ?? implied(name, key, field, type as RopeScaling["type"], scaling, json);
  }
  return scaling as unknown as RopeScaling;
}

/** What Transformers puts where a field is missing. */
function implied(name: string, key: string, field: string, type: string, scaling: Json, json: Json): unknown {
  const original = json["original_max_position_embeddings"] ?? json["max_position_embeddings"];
  if (key === "originalMaxPositions") return original;
  const stated = (json["rope_parameters"] ?? json["rope_scaling"]) as Json | undefined;
  const before = stated?.["original_max_position_embeddings"] ?? original;
  if (key === "factor" && type === "yarn") return Number(json["max_position_embeddings"]) / Number(before);
  return fail(`config.json: '${name}.${field}' is missing, which ${String(scaling["type"])} needs`);
}

/** The fields of both layouts. */
export function writeRope({ ropeTheta, ropeScaling }: Rope): Json {
  const parameters: Json = { rope_type: ropeScaling?.type ?? "default", rope_theta: ropeTheta };
  if (ropeScaling === undefined) return { rope_theta: ropeTheta, rope_parameters: parameters };
  for (const [key, theirs] of Object.entries(FIELDS[ropeScaling.type])) {
    const value = (ropeScaling as unknown as Json)[key];
    if (value !== undefined) parameters[theirs.replace("?", "")] = value;
  }
  return { rope_theta: ropeTheta, rope_parameters: parameters, rope_scaling: parameters };
}
