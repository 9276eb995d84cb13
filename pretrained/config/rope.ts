/**
 * Rotary positions in both layouts of `config.json`: `rope_parameters` since Transformers 5, `rope_theta` with
 * `rope_scaling` before.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { isRopeType, ROPE_FIELDS, type RopeScaling } from "../../nn/ropeScaling.ts";

type Json = Record<string, unknown>;

/** The base of the rotary frequencies, and their scaling if there is one. */
export interface Rope {
  readonly ropeTheta: number;
  readonly ropeScaling?: RopeScaling;
}

/**
 * Reads `rope_parameters`, `rope_scaling` and `rope_theta` of a config.json; values that are given twice have to
 * agree.
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
    const supported = kind === "default" || isRopeType(kind);
    check(
      supported && kind === type,
      () =>
        `config.json: '${name}' has type ${showValue(kind)}` +
        (supported
          ? ` and type ${showValue(type)}`
          : `; default, ${Object.keys(ROPE_FIELDS).join(", ")} are supported`),
    );
  }
  const fields = type === "default" ? {} : ROPE_FIELDS[type as RopeScaling["type"]];
  const known = Object.values(fields).map((theirs) => theirs.replace("?", ""));
  // A field of another type changes nothing at its neutral value, nor does `finetuned` in old YaRN files.
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

/** The value that Transformers uses for a missing field. */
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
  for (const [key, theirs] of Object.entries(ROPE_FIELDS[ropeScaling.type])) {
    const value = (ropeScaling as unknown as Json)[key];
    if (value !== undefined) parameters[theirs.replace("?", "")] = value;
  }
  return { rope_theta: ropeTheta, rope_parameters: parameters, rope_scaling: parameters };
}
