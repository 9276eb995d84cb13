/**
 * JSON Schema as shapes: the part of it that OpenAI's structured outputs have, and bounds of numbers, strings and
 * lists. Whatever is not supported is refused by its keyword, because an answer that ignored it would not fit the
 * schema. What may be left out is never added: an object has the properties that it declares, in their order.
 */
import { check, fail } from "../../../engine/errors.ts";
import { showValue } from "../../../engine/options.ts";
import { type Fields, isFields } from "../../fields.ts";
import { MOST_DIGITS, type Property, type Shape } from "./json.ts";
import { MOST_LEVELS } from "./machine.ts";

/** Keywords that say nothing about values; `format` is one of them unless a reader asks for more (2020-12, 7.2.1). */
const ANNOTATIONS = new Set(
  (
    "title description default examples deprecated readOnly writeOnly format $schema $id $comment $defs definitions " +
    "contentEncoding contentMediaType"
  ).split(" "),
);
const OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  string: ["minLength", "maxLength"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  array: ["items", "minItems", "maxItems"],
  object: ["properties", "required", "additionalProperties"],
  boolean: [],
  null: [],
};
const TYPES = Object.keys(OF_TYPE);
/** Keywords that stand for a whole schema; others beside them would have to hold, too. */
const WHOLE = ["$ref", "anyOf", "allOf", "const", "enum"];
/** The most parts of a schema, and how deep they may be nested. */
const [MOST_PARTS, MOST_NESTING] = [10_000, 200];

/** A shape without its levels, which are known when all shapes are. */
type Unmeasured<S> = S extends unknown ? Omit<S, "levels"> : never;

/** Any JSON value. */
export function anything(): Shape {
  const any: Shape = { kind: "choice", options: [], levels: 0 };
  const scalars: readonly Shape[] = [
    { kind: "string", min: 0, max: Infinity, levels: 0 },
    { kind: "number", isInteger: false, levels: 0 },
    { kind: "words", texts: ["true", "false", "null"], levels: 0 },
  ];
  any.options = [...scalars, { kind: "array", items: any, min: 0, max: Infinity, levels: 1 }, anyObject(any)];
  return any;
}

/** Any JSON object. */
export const anyObject = (others: Shape = anything()): Shape => ({ kind: "object", properties: [], others, levels: 1 });

/**
 * The values that fit a schema.
 * @param where the field that has the schema; error messages begin with it
 * @throws WorldgradError that names the keyword that is wrong or not supported, and its place
 */
export function shapeOf(schema: unknown, where: string): Shape {
  const reader = new SchemaReader(schema, where);
  const shape = reader.read(schema, "", 0);
  reader.measure();
  check(
    shape.levels <= MOST_LEVELS,
    () => `${where}: no value fits the schema, or only one of more than ${MOST_LEVELS} levels (a $ref without an end)`,
  );
  return shape;
}

class SchemaReader {
  readonly #root: unknown;
  readonly #where: string;
  readonly #all: Shape[] = [];
  /** Shapes of schemas that are referred to: one for each, also while it is being read. */
  readonly #known = new Map<unknown, Shape & { readonly kind: "choice" }>();
  #any: Shape | undefined;

  constructor(root: unknown, where: string) {
    this.#root = root;
    this.#where = where;
  }

  /** Finds out how many levels each shape needs at least; Infinity: it has no values. */
  measure(): void {
    for (let hasChanged = true; hasChanged;) {
      hasChanged = false;
      for (const shape of this.#all) {
        const levels = levelsOf(shape);
        if (levels === shape.levels) continue;
        shape.levels = levels;
        hasChanged = true;
      }
    }
  }

  read(schema: unknown, place: string, nesting: number): Shape {
    if (schema === true) return this.#anything();
    if (!isFields(schema)) return this.#refuse(place, `a schema must be an object, got ${showValue(schema)}`);
    check(nesting <= MOST_NESTING, () => `${this.#where}: the schema is nested more than ${MOST_NESTING} deep`);
    const whole = WHOLE.filter((keyword) => schema[keyword] !== undefined);
    const type = schema["type"];
    const types = type === undefined ? this.#typesMeant(schema) : Array.isArray(type) ? (type as unknown[]) : [type];
    for (const one of types)
      if (!TYPES.includes(one as string))
        this.#refuse(place, `type must be of ${TYPES.join(", ")}, got ${showValue(one)}`);
    const allowed = new Set<string>(["type", ...whole, ...types.flatMap((one) => OF_TYPE[one as string]!)]);
    for (const [keyword, value] of Object.entries(schema)) {
      const saysNothing = ANNOTATIONS.has(keyword) || (keyword === "uniqueItems" && value === false);
      if (!allowed.has(keyword) && !saysNothing) this.#refuse(place, `'${keyword}' is not supported`);
    }
    if (whole.length > 0) {
      const [keyword, ...others] = whole;
      const beside = [...others, ...Object.keys(schema).filter((key) => !ANNOTATIONS.has(key) && key !== keyword)];
      const isTyped = keyword === "enum" || keyword === "const";
      const further = beside.find((key) => key !== "type" || !isTyped);
      if (further !== undefined && !(keyword === "anyOf" && further === "type" && beside.length === 1))
        this.#refuse(place, `'${further}' beside '${keyword}' is not supported`);
      return this.#whole(keyword!, schema, place, nesting, isTyped && type !== undefined ? types : undefined);
    }
    if (types.length === 0) return this.#anything();
    const shapes = types.map((one) => this.#ofType(one as string, schema, place, nesting));
    return shapes.length === 1 ? shapes[0]! : this.#add({ kind: "choice", options: shapes });
  }

  /** The type that keywords are about, where `type` is missing: other types would be allowed, and are left out. */
  #typesMeant(schema: Fields): string[] {
    const meant = TYPES.filter((type) => type !== "integer").filter((type) =>
      OF_TYPE[type]!.some((keyword) => schema[keyword] !== undefined),
    );
    return meant;
  }

  #whole(keyword: string, schema: Fields, place: string, nesting: number, types: unknown[] | undefined): Shape {
    const value = schema[keyword];
    if (keyword === "$ref") return this.#referred(value, place, nesting);
    if (keyword === "const") return this.#words([value], `${place}/const`, types);
    const list = Array.isArray(value) && value.length > 0 ? (value as readonly unknown[]) : undefined;
    if (list === undefined) return this.#refuse(place, `${keyword} must be a list, not empty, got ${showValue(value)}`);
    if (keyword === "enum") return this.#words(list, `${place}/enum`, types);
    if (keyword === "allOf" && list.length > 1) this.#refuse(place, "'allOf' of several schemas is not supported");
    const options = list.map((each, i) => this.read(each, `${place}/${keyword}/${i}`, nesting + 1));
    return this.#add({ kind: "choice", options });
  }

  #words(values: readonly unknown[], place: string, types: readonly unknown[] | undefined): Shape {
    const fitting = values.filter((value) => types === undefined || types.some((type) => isOf(value, type as string)));
    if (fitting.length === 0) this.#refuse(place, `no value is of the type ${showValue(types)}`);
    return this.#add({ kind: "words", texts: fitting.map((value) => JSON.stringify(value)) });
  }

  #referred(ref: unknown, place: string, nesting: number): Shape {
    if (typeof ref !== "string" || !/^#(\/|$)/.test(ref))
      return this.#refuse(place, `$ref must point into the schema, such as "#/$defs/NAME", got ${showValue(ref)}`);
    let target = this.#root;
    for (const part of ref.split("/").slice(1)) {
      const key = unescaped(part);
      const held: unknown = isFields(target) && Object.hasOwn(target, key) ? target[key] : undefined;
      target = Array.isArray(target) && /^\d+$/.test(key) ? (target[Number(key)] as unknown) : held;
    }
    if (target === undefined) return this.#refuse(place, `$ref ${showValue(ref)} points to nothing`);
    const known = this.#known.get(target);
    if (known) return known;
    const shape = this.#add({ kind: "choice", options: [] }) as Shape & { kind: "choice" };
    this.#known.set(target, shape);
    shape.options = [this.read(target, ref.slice(1), nesting + 1)];
    return shape;
  }

  #ofType(type: string, schema: Fields, place: string, nesting: number): Shape {
    switch (type) {
      case "string":
        return this.#add({ kind: "string", ...this.#sizes(schema, "minLength", "maxLength", place) });
      case "integer":
      case "number":
        return this.#number(type === "integer", schema, place);
      case "boolean":
        return this.#add({ kind: "words", texts: ["true", "false"] });
      case "null":
        return this.#add({ kind: "words", texts: ["null"] });
      case "array": {
        const { items = true } = schema;
        const sizes = this.#sizes(schema, "minItems", "maxItems", place);
        return this.#add({ kind: "array", items: this.read(items, `${place}/items`, nesting + 1), ...sizes });
      }
      default:
        return this.#object(schema, place, nesting);
    }
  }

  #object(schema: Fields, place: string, nesting: number): Shape {
    const { properties: given = {}, required = [], additionalProperties: others = true } = schema;
    if (!isFields(given)) return this.#refuse(place, `properties must be an object, got ${showValue(given)}`);
    if (!Array.isArray(required) || !required.every((key) => typeof key === "string"))
      return this.#refuse(place, `required must be a list of names, got ${showValue(required)}`);
    const names = new Set<string>(required);
    const properties: Property[] = Object.entries(given).map(([key, each]) => ({
      key,
      shape: this.read(each, `${place}/properties/${key}`, nesting + 1),
      isRequired: names.has(key),
    }));
    const ofOthers = others === false ? undefined : this.read(others, `${place}/additionalProperties`, nesting + 1);
    for (const key of names) {
      if (Object.hasOwn(given, key)) continue;
      if (ofOthers === undefined) this.#refuse(place, `required has ${showValue(key)}, which is no property`);
      else properties.push({ key, shape: ofOthers, isRequired: true });
    }
    if (properties.length > 0) {
      if (isFields(others) && Object.keys(others).length > 0)
        this.#refuse(place, "'additionalProperties' with a schema beside properties is not supported");
      return this.#add({ kind: "object", properties });
    }
    return this.#add({ kind: "object", properties, ...(ofOthers ? { others: ofOthers } : {}) });
  }

  #number(isInteger: boolean, schema: Fields, place: string): Shape {
    const bounds = OF_TYPE["number"]!.flatMap((keyword) => {
      const value = schema[keyword];
      if (value === undefined) return [];
      if (typeof value !== "number") return this.#refuse(place, `${keyword} must be a number, got ${showValue(value)}`);
      return [{ keyword, value }];
    });
    if (bounds.length === 0) return this.#add({ kind: "number", isInteger });
    const decimals = isInteger ? 0 : MOST_DIGITS;
    const widest = 10n ** BigInt(MOST_DIGITS + decimals) - 1n;
    let [least, most] = [-widest, widest];
    for (const { keyword, value } of bounds) {
      const { floor, isExact } = scaled(value, decimals);
      if (keyword === "minimum") least = larger(least, isExact ? floor : floor + 1n);
      else if (keyword === "exclusiveMinimum") least = larger(least, floor + 1n);
      else if (keyword === "maximum") most = smaller(most, floor);
      else most = smaller(most, isExact ? floor - 1n : floor);
    }
    if (least > most) {
      const said = bounds.map(({ keyword, value }) => `${keyword} ${value}`).join(", ");
      this.#refuse(place, `no number of at most ${MOST_DIGITS} digits has ${said}`);
    }
    return this.#add({ kind: "number", isInteger, least, most });
  }

  #sizes(schema: Fields, least: string, most: string, place: string): { readonly min: number; readonly max: number } {
    const [min, max] = [least, most].map((keyword, i) => {
      const value = schema[keyword] ?? (i === 0 ? 0 : Infinity);
      const isSize =
        value === Infinity || (Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31);
      if (!isSize) this.#refuse(place, `${keyword} must be an integer ≥ 0, got ${showValue(value)}`);
      return value as number;
    }) as [number, number];
    if (min > max) this.#refuse(place, `${least} ${min} is larger than ${most} ${max}`);
    return { min, max };
  }

  #anything(): Shape {
    return (this.#any ??= anything());
  }

  #add(shape: Unmeasured<Shape>): Shape {
    check(this.#all.length < MOST_PARTS, () => `${this.#where}: the schema has more than ${MOST_PARTS} parts`);
    const measured = { ...shape, levels: Infinity } as Shape;
    this.#all.push(measured);
    return measured;
  }

  #refuse(place: string, why: string): never {
    return fail(`${this.#where}: ${why}${place === "" ? "" : ` (at ${place.slice(0, 200)})`}`);
  }
}

function levelsOf(shape: Shape): number {
  switch (shape.kind) {
    case "array":
      return 1 + (shape.min === 0 ? 0 : shape.items.levels);
    case "object":
      return (
        1 +
        shape.properties.reduce(
          (most, { isRequired, shape: { levels } }) => (isRequired ? Math.max(most, levels) : most),
          0,
        )
      );
    case "choice":
      return shape.options.reduce((least, { levels }) => Math.min(least, levels), Infinity);
    default:
      return 0;
  }
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** ⌊value · 10^decimals⌋ of the decimal number that a double is written as. */
function scaled(value: number, decimals: number): { readonly floor: bigint; readonly isExact: boolean } {
  const [, minus, whole = "", fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(
    String(value),
  )!;
  const digits = BigInt(minus + whole + fraction);
  const shift = decimals + Number(exponent) - fraction.length;
  if (shift >= 0) return { floor: digits * 10n ** BigInt(shift), isExact: true };
  const unit = 10n ** BigInt(-shift);
  const rest = digits % unit;
  return { floor: digits / unit - (rest < 0n ? 1n : 0n), isExact: rest === 0n };
}

function isOf(value: unknown, type: string): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isFields(value);
  return type === "integer" ? Number.isInteger(value) : typeof value === type;
}

/** A part of a JSON pointer (RFC 6901) in the fragment of an address. */
function unescaped(part: string): string {
  let plain = part;
  try {
    plain = decodeURIComponent(part);
  } catch {
    // A percent sign that begins no escape is one.
  }
  return plain.replaceAll("~1", "/").replaceAll("~0", "~");
}
