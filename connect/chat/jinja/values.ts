/**
 * Values of a running template, with Python's text, truth and equality. Integers are numbers, and beyond 2⁵³ bigints,
 * which can only be written and compared; lists are arrays; dicts are maps. Types that JavaScript lacks are classes
 * here.
 */
import { fail } from "../../../engine/errors.ts";
import type { Budget } from "./budget.ts";
import { compareTexts, lengthOf, HIDDEN_NAMES, quoted } from "./text.ts";

export type Value =
  | string
  | number
  | bigint
  | boolean
  | null
  | Missing
  | Float
  | Value[]
  | Tuple
  | Dict
  | Range
  | Stream
  | View
  | Written
  | Attributes
  | Callable;

export type Key = string | number | null;
export type Dict = Map<Key, Value>;

/**
 * An undefined value: it is written as nothing, false and empty; any other use is an error that says what is missing.
 */
export class Missing {
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

export class Tuple {
  readonly items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** Python's `range`. */
export class Range {
  readonly start: number;
  readonly step: number;
  readonly length: number;
  constructor(start: number, step: number, length: number) {
    this.start = start;
    this.step = step;
    this.length = length;
  }
}

/** A generator: what `map` and `select` return. It is read once, has no length and is true. */
export class Stream {
  readonly items: Iterator<Value>;
  constructor(items: Iterator<Value>) {
    this.items = items;
  }
}

/** `dict.keys()`, `dict.values()`, `dict.items()`. */
export class View {
  readonly of: Dict;
  readonly kind: "keys" | "values" | "items";
  constructor(of: Dict, kind: "keys" | "values" | "items") {
    this.of = of;
    this.kind = kind;
  }

  *items(): Generator<Value, undefined> {
    if (this.kind === "keys") yield* this.of.keys();
    else if (this.kind === "values") yield* this.of.values();
    else for (const [key, value] of this.of) yield new Tuple([key, value]);
    return undefined;
  }
}

/** Safe text (markupsafe's `Markup`), the result of the filter `safe`: text that is added to it is escaped. */
export class Written {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Arguments = readonly [positional: readonly Value[], named: ReadonlyMap<string, Value>];
type Call = (...args: Arguments) => Value;

/** An object with attributes: a `namespace`, which templates set, or `loop`, which may be called. */
export class Attributes {
  readonly name: string;
  readonly get: (name: string) => Value | undefined;
  readonly set: ((name: string, value: Value) => void) | undefined;
  readonly call: Call | undefined;
  constructor(name: string, get: Attributes["get"], set?: Attributes["set"], call?: Call) {
    this.name = name;
    this.get = get;
    this.set = set;
    this.call = call;
  }
}

/** A function: a macro, a method, or one that the program was given. */
export class Callable {
  readonly name: string;
  readonly call: Call;
  constructor(name: string, call: Call) {
    this.name = name;
    this.call = call;
  }
}

/** The name of a value's type in Python. */
export function typeOf(value: Value): string {
  if (typeof value === "string") return "str";
  if (typeof value === "number" || typeof value === "bigint") return "int";
  if (typeof value === "boolean") return "bool";
  if (value === null) return "None";
  if (Array.isArray(value)) return "list";
  if (value instanceof Map) return "dict";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof Float) return "float";
  if (value instanceof Missing) return "undefined";
  if (value instanceof Attributes) return value.name;
  if (value instanceof Callable) return "function";
  if (value instanceof Stream) return "generator";
  return value instanceof Range ? "range" : value instanceof View ? `dict_${value.kind}` : "safe text";
}

/** An integer as JavaScript writes it, without an exponent; else a float. */
const numberFrom = (value: number): Value =>
  Number.isSafeInteger(value)
    ? value + 0
    : Number.isInteger(value) && Math.abs(value) < 1e21
      ? BigInt(String(value))
      : new Float(value);

/** A JSON value, or another of JavaScript, as a value. */
export function valueFrom(value: unknown): Value {
  if (value === undefined) return new Missing("a variable");
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return numberFrom(value);
  if (typeof value === "bigint" || value instanceof Float) return value;
  if (Array.isArray(value)) return value.map(valueFrom);
  if (typeof value === "object") {
    return new Map(Object.entries(value).flatMap(([k, v]) => (v === undefined ? [] : [[k, valueFrom(v)] as const])));
  }
  return fail(`a variable is a ${typeof value}, expected JSON`);
}

/** The JavaScript number of a Python number, of which True is 1; undefined for other values. */
export function numberOf(value: Value): number | undefined {
  if (typeof value === "number") return value;
  return value instanceof Float ? value.value : typeof value === "boolean" ? Number(value) : undefined;
}

/** An integer. @throws if it is too large to be exact */
export function integer(value: number): number {
  return Number.isSafeInteger(value) ? value + 0 : fail("an integer of more than 53 bits");
}

/** Whether Python takes it for true. */
export function isTrue(value: Value): boolean {
  if (value === null || value instanceof Missing) return false;
  if (typeof value === "object") {
    if (value instanceof Float) return value.value !== 0;
    if (value instanceof Written) return value.text !== "";
    return !hasLength(value) || sizeOf(value) > 0;
  }
  return Boolean(value);
}

type Sized = string | Value[] | Tuple | Dict | Range | View | Missing;

export const hasLength = (value: Value): value is Sized =>
  typeof value === "string" ||
  Array.isArray(value) ||
  [Tuple, Map, Range, View, Missing].some((type) => value instanceof type);

/** Python's `len`. */
export function sizeOf(value: Value): number {
  if (typeof value === "string") return lengthOf(value);
  if (Array.isArray(value) || value instanceof Range) return value.length;
  if (value instanceof Map) return value.size;
  if (value instanceof View) return value.of.size;
  if (value instanceof Tuple) return value.items.length;
  return value instanceof Missing ? 0 : fail(`${typeOf(value)} has no length`);
}

/** The items of a value, as iterating over it gives them. */
export function* itemsOf(value: Value): Generator<Value, undefined> {
  if (typeof value === "string" || Array.isArray(value)) yield* value;
  else if (value instanceof Written) yield* value.text;
  else if (value instanceof Tuple) yield* value.items;
  else if (value instanceof Map) yield* value.keys();
  else if (value instanceof View) yield* value.items();
  else if (value instanceof Range) {
    for (let i = 0; i < value.length; i++) yield value.start + i * value.step;
  } else if (value instanceof Stream) {
    for (let next = value.items.next(); next.done !== true; next = value.items.next()) yield next.value;
  } else if (!(value instanceof Missing)) fail(`${typeOf(value)} cannot be iterated over`);
  return undefined;
}

/** Safe text as plain text, for uses that add nothing to it; other values as they are. */
export const plainOf = (value: Value): Value => (value instanceof Written ? value.text : value);

/** A text as markupsafe's `escape` writes it; safe text as it is. */
export function escapedText(value: string | Written, budget: Budget): string {
  if (value instanceof Written) return value.text;
  budget.letters(5 * value.length);
  return value.replace(/[&<>"']/g, (sign) => ESCAPES[sign]!);
}
const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
};

/** Python's `==`. */
export function areEqual(left: Value, right: Value, budget: Budget): boolean {
  budget.step();
  const [a, b] = [plainOf(left), plainOf(right)];
  if (typeof a === "string" && typeof b === "string") {
    if (a.length === b.length) budget.reading(a);
    return a === b;
  }
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined) return x === y;
  if (a instanceof Missing && b instanceof Missing) return true;
  if (Array.isArray(a) && Array.isArray(b)) return areItemsEqual(a, b, budget);
  if (a instanceof Tuple && b instanceof Tuple) return areItemsEqual(a.items, b.items, budget);
  if (a instanceof Map && b instanceof Map) {
    return a.size === b.size && [...a].every(([key, value]) => b.has(key) && areEqual(value, b.get(key)!, budget));
  }
  const isOpaque = [Range, View].some((type) => a instanceof type || b instanceof type);
  return isOpaque && typeOf(a) === typeOf(b) ? fail(`two of ${typeOf(a)} are not compared here`) : a === b;
}

const areItemsEqual = (a: readonly Value[], b: readonly Value[], budget: Budget): boolean =>
  a.length === b.length && a.every((item, i) => areEqual(item, b[i]!, budget));

/** Python's order of two values: negative, 0 or positive. @throws if they have none */
export function compare(one: Value, other: Value, budget: Budget): number {
  budget.step();
  const [a, b] = [plainOf(one), plainOf(other)];
  const [x, y] = [a, b].map((each) => (typeof each === "bigint" ? each : numberOf(each)));
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : 0;
  if (typeof a === "string" && typeof b === "string") {
    budget.reading(a.length < b.length ? a : b);
    return compareTexts(a, b);
  }
  const [left, right] = [a, b].map((each) =>
    each instanceof Tuple ? each.items : Array.isArray(each) ? each : undefined,
  );
  if (left === undefined || right === undefined || typeOf(a) !== typeOf(b)) {
    return fail(`${described(a)} and ${described(b)} have no order`);
  }
  const at = left.findIndex((item, i) => i >= right.length || !areEqual(item, right[i]!, budget));
  if (at < 0) return left.length - right.length;
  return at >= right.length ? 1 : compare(left[at]!, right[at]!, budget);
}

/** The type of a value, or what is missing, for errors. */
export const described = (value: Value): string =>
  value instanceof Missing ? `${value.what} is undefined` : typeOf(value);

/** Python's `in`. */
export function contains(given: Value, sought: Value, budget: Budget): boolean {
  const [container, item] = [plainOf(given), plainOf(sought)];
  if (typeof container === "string") {
    if (typeof item !== "string") return fail(`a text cannot contain ${described(item)}`);
    budget.searching(container, item);
    return container.includes(item);
  }
  if (container instanceof Map) return container.has(keyOf(item));
  for (const one of itemsOf(container)) if (areEqual(one, item, budget)) return true;
  return false;
}

/** A key of a dict. */
export function keyOf(given: Value): Key {
  const value = plainOf(given);
  if (typeof value === "string" || typeof value === "number" || value === null) return value;
  return value instanceof Missing ? Number.NaN : fail(`${typeOf(value)} as the key of a dict`);
}

/** Python's `str`: the text that a template writes. */
export function textOf(value: Value, budget: Budget): string {
  if (typeof value === "string") return value;
  if (value instanceof Missing) return "";
  return value instanceof Written ? value.text : reprOf(value, budget);
}

/** Python's `repr`. */
export function reprOf(value: Value, budget: Budget): string {
  budget.step();
  const all = (items: readonly Value[]): string => items.map((item) => reprOf(item, budget)).join(", ");
  let text: string;
  if (typeof value === "string") text = quoted(value);
  else if (value instanceof Written) text = `Markup(${quoted(value.text)})`;
  else if (typeof value === "boolean") text = value ? "True" : "False";
  else if (value === null) text = "None";
  else if (typeof value === "number" || typeof value === "bigint") text = String(value);
  else if (value instanceof Float) text = floatText(value.value);
  else if (Array.isArray(value)) text = `[${all(value)}]`;
  else if (value instanceof Tuple) text = `(${all(value.items)}${value.items.length === 1 ? "," : ""})`;
  else if (value instanceof Map) {
    const pairs = [...value].map(([key, item]) => `${reprOf(key, budget)}: ${reprOf(item, budget)}`);
    text = `{${pairs.join(", ")}}`;
  } else if (value instanceof View) text = `dict_${value.kind}([${all([...value.items()])}])`;
  else if (value instanceof Missing) text = "Undefined";
  else return fail(`a ${typeOf(value)} is written as text`);
  return budget.made(text);
}

/** A float as Python writes it: the shortest digits, an exponent below 1e-4 and from 1e16 on. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** Options of `json`, by Python's names. */
export interface JsonOptions {
  readonly ensureAscii: boolean;
  readonly indent: string | undefined;
  readonly separators: readonly [item: string, key: string];
  readonly sortKeys: boolean;
}

/** Python's `json.dumps`. */
export function jsonOf(given: Value, options: JsonOptions, budget: Budget, outer = "\n"): string {
  budget.step();
  const value = plainOf(given);
  const { indent, separators, sortKeys } = options;
  const inner = indent === undefined ? "" : budget.made(outer + indent);
  const list = (open: string, parts: readonly string[], close: string): string =>
    parts.length === 0
      ? open + close
      : open + inner + parts.join(separators[0] + inner) + (indent === undefined ? "" : outer) + close;
  const texts = (items: readonly Value[]): string[] => items.map((item) => jsonOf(item, options, budget, inner));
  if (typeof value === "string") return budget.made(jsonText(value, options));
  if (value === null) return "null";
  if (typeof value === "boolean" || typeof value === "number" || typeof value === "bigint") return String(value);
  if (value instanceof Float) {
    const text = floatText(value.value);
    return { nan: "NaN", inf: "Infinity", "-inf": "-Infinity" }[text] ?? text;
  }
  if (Array.isArray(value)) return budget.made(list("[", texts(value), "]"));
  if (value instanceof Tuple) return budget.made(list("[", texts(value.items), "]"));
  if (!(value instanceof Map)) return fail(`${described(value)}, which is not JSON`);
  const entries = [...value];
  if (sortKeys) entries.sort(([a], [b]) => compare(a, b, budget));
  const pairs = entries.map(
    ([key, item]) => jsonText(key === null ? "null" : String(key), options) + separators[1] + texts([item])[0]!,
  );
  return budget.made(list("{", pairs, "}"));
}

const JSON_ESCAPES: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\b": "\\b",
  "\f": "\\f",
};

function jsonText(text: string, { ensureAscii }: JsonOptions): string {
  const unit = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const escaped = text
    .replace(/["\\]/g, String.raw`\$&`)
    .replace(/[\x00-\x1f]/g, (char) => JSON_ESCAPES[char] ?? unit(char));
  const ascii = (char: string): string =>
    char.codePointAt(0)! >= HIDDEN_NAMES ? char : char.split("").map(unit).join("");
  return `"${ensureAscii ? escaped.replace(/[^\x20-\x7e]/gu, ascii) : escaped}"`;
}
