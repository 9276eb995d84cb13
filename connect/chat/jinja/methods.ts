/** Methods and attributes of Python's texts, lists and dicts. */
import { fail } from "../../../engine/errors.ts";
import type { Budget } from "./budget.ts";
import { capitalized, isCase, isSpace, lengthOf, linesOf, titled, trimEnd, trimStart } from "./text.ts";
import {
  areEqual,
  type Arguments,
  Attributes,
  Callable,
  described,
  type Dict,
  escapedText,
  itemsOf,
  keyOf,
  numberOf,
  reprOf,
  sizeOf,
  textOf,
  Tuple,
  typeOf,
  type Value,
  View,
  Written,
} from "./values.ts";

/** A method: it takes its object, its arguments by number, the budget, and its arguments by name. */
type Method<T> = (self: T, args: readonly Value[], budget: Budget, named: ReadonlyMap<string, Value>) => Value;

const text = (value: Value | undefined): string =>
  typeof value === "string" ? value : fail(`expected a text, got ${value === undefined ? "none" : described(value)}`);

function whole(value: Value | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  const number = value === null || typeof value === "object" ? undefined : numberOf(value);
  return number ?? fail(`expected an integer, got ${described(value)}`);
}

/** The characters that `strip` removes; undefined stands for white space. */
const chars = (value: Value | undefined): ReadonlySet<string> | undefined =>
  value === undefined || value === null ? undefined : new Set(text(value));

/** The texts that a text may begin or end with: one, or a tuple of several. */
const options = (value: Value | undefined): string[] =>
  value instanceof Tuple ? value.items.map(text) : [text(value)];

const lower = (value: string): string => value.toLowerCase();
const upper = (value: string): string => value.toUpperCase();

function pieces(self: string, separator: Value | undefined, limit: number, budget: Budget): string[] {
  budget.step(self.length);
  if (separator !== undefined && separator !== null) {
    const by = text(separator);
    if (by === "") fail("an empty separator");
    budget.searching(self, by);
    const parts = self.split(by);
    return limit < 0 || parts.length <= limit ? parts : [...parts.slice(0, limit), parts.slice(limit).join(by)];
  }
  const parts: string[] = [];
  let rest = trimStart(self);
  while (rest !== "") {
    if (parts.length === limit) return [...parts, rest];
    let end = 0;
    while (end < rest.length && !isSpace(rest[end]!)) end++;
    parts.push(rest.slice(0, end));
    while (end < rest.length && isSpace(rest[end]!)) end++;
    rest = rest.slice(end);
  }
  return parts;
}

/** Pieces from the end. */
function piecesBack(self: string, separator: Value | undefined, limit: number, budget: Budget): string[] {
  if (limit < 0) return pieces(self, separator, limit, budget);
  const back = (value: string): string => [...value].reverse().join("");
  const by = separator === undefined || separator === null ? separator : back(text(separator));
  return pieces(back(self), by, limit, budget).map(back).reverse();
}

/** @param find `indexOf` or `lastIndexOf` */
function places(self: string, args: readonly Value[], budget: Budget, find: "indexOf" | "lastIndexOf"): number {
  if (args.length > 1) fail("a search from a place");
  budget.searching(self, text(args[0]));
  const at = self[find](text(args[0]));
  return at < 0 ? at : lengthOf(self.slice(0, at));
}

function placed(self: string, args: readonly Value[], budget: Budget, find: "indexOf" | "lastIndexOf"): number {
  const at = places(self, args, budget, find);
  return at < 0 ? fail("substring not found") : at;
}

/** A text as three parts: before a separator, the separator, after it. */
function parted(self: string, at: number, by: string): Tuple {
  return new Tuple([self.slice(0, at), by, self.slice(at + by.length)]);
}

/** `str.replace`, paid for before it is made. */
export function replaced(self: string, from: string, to: string, count: number, budget: Budget): string {
  budget.searching(self, from);
  const most = count < 0 ? Infinity : count;
  if (from === "") {
    budget.step(self.length);
    budget.letters(self.length + (self.length + 1) * to.length);
    const chars = ["", ...self];
    return chars.map((char, i) => char + (i < most ? to : "")).join("");
  }
  let times = 0;
  let end = 0;
  for (let at = self.indexOf(from); at >= 0 && times < most; at = self.indexOf(from, end)) {
    budget.step();
    end = at + from.length;
    times++;
  }
  budget.letters(self.length + times * to.length);
  return self.slice(0, end).replaceAll(from, () => to) + self.slice(end);
}

/** Text of a width. @param side where the text stands in it */
function padded(self: string, args: readonly Value[], budget: Budget, side: "left" | "right"): string {
  const missing = whole(args[0], 0) - lengthOf(self);
  if (missing <= 0) return self;
  budget.letters(missing + self.length);
  const fill = (args[1] === undefined ? " " : text(args[1])).repeat(missing);
  return side === "left" ? self + fill : fill + self;
}

const all = (self: string, is: RegExp): boolean => self !== "" && is.test(self);

const TEXT: Readonly<Record<string, Method<string>>> = {
  capitalize: capitalized,
  count: (self, [part], budget) => {
    budget.searching(self, text(part));
    budget.step(self.length);
    return text(part) === "" ? lengthOf(self) + 1 : self.split(text(part)).length - 1;
  },
  endswith: (self, [end]) => options(end).some((one) => self.endsWith(one)),
  find: (self, args, budget) => places(self, args, budget, "indexOf"),
  format: (self, args, budget, named) => formatted(self, args, named, budget),
  index: (self, args, budget) => placed(self, args, budget, "indexOf"),
  isalnum: (self) => all(self, /^[\p{L}\p{N}]*$/u),
  isalpha: (self) => all(self, /^\p{L}*$/u),
  isdecimal: (self) => all(self, /^\p{Nd}*$/u),
  isdigit: (self) => all(self, /^[\p{Nd}²³¹⁰-⁹₀-₉]*$/u),
  islower: (self) => isCase(self, lower),
  isnumeric: (self) => all(self, /^\p{N}*$/u),
  isspace: (self) => self !== "" && [...self].every(isSpace),
  isupper: (self) => isCase(self, upper),
  join: (self, [parts = null], budget) => {
    const texts = [...itemsOf(parts)].map(text);
    budget.step(texts.length);
    budget.letters(texts.reduce((sum, one) => sum + one.length + self.length, 0));
    return texts.join(self);
  },
  ljust: (self, args, budget) => padded(self, args, budget, "left"),
  lower: (self) => lower(self),
  lstrip: (self, [set]) => trimStart(self, chars(set)),
  partition: (self, [by], budget) => {
    budget.searching(self, text(by));
    const at = self.indexOf(text(by));
    return at < 0 ? new Tuple([self, "", ""]) : parted(self, at, text(by));
  },
  removeprefix: (self, [start]) => (self.startsWith(text(start)) ? self.slice(text(start).length) : self),
  removesuffix: (self, [end]) => (self.endsWith(text(end)) ? self.slice(0, self.length - text(end).length) : self),
  replace: (self, [from, to, count], budget, named) =>
    replaced(self, text(from), text(to), whole(count ?? named.get("count"), -1), budget),
  rfind: (self, args, budget) => places(self, args, budget, "lastIndexOf"),
  rindex: (self, args, budget) => placed(self, args, budget, "lastIndexOf"),
  rjust: (self, args, budget) => padded(self, args, budget, "right"),
  rpartition: (self, [by], budget) => {
    budget.searching(self, text(by));
    const at = self.lastIndexOf(text(by));
    return at < 0 ? new Tuple(["", "", self]) : parted(self, at, text(by));
  },
  rsplit: (self, [by, limit], budget, named) =>
    piecesBack(self, by ?? named.get("sep"), whole(limit ?? named.get("maxsplit"), -1), budget),
  rstrip: (self, [set]) => trimEnd(self, chars(set)),
  split: (self, [by, limit], budget, named) =>
    pieces(self, by ?? named.get("sep"), whole(limit ?? named.get("maxsplit"), -1), budget),
  splitlines: (self, [keep], _, named) => linesOf(self, (keep ?? named.get("keepends")) === true),
  startswith: (self, [start]) => options(start).some((one) => self.startsWith(one)),
  strip: (self, [set]) => trimStart(trimEnd(self, chars(set)), chars(set)),
  title: titled,
  upper: (self) => upper(self),
  zfill: (self, [width], budget) => {
    const sign = /^[-+]/.test(self) ? self[0]! : "";
    return sign + padded(self.slice(sign.length), [whole(width, 0) - sign.length, "0"], budget, "right");
  },
};
const OTHER_TEXT = new Set(
  (
    "casefold center encode expandtabs format_map isascii isidentifier isprintable istitle maketrans swapcase " +
    "translate"
  ).split(" "),
);

const LIST: Readonly<Record<string, Method<Value[]>>> = {
  copy: (self) => [...self],
  count: (self, [item = null], budget) => self.filter((one) => areEqual(one, item, budget)).length,
  index: (self, [item = null], budget) => {
    const at = self.findIndex((one) => areEqual(one, item, budget));
    return at < 0 ? fail("the item is not in the list") : at;
  },
};
const OTHER_LIST = new Set("append clear extend insert pop remove reverse sort".split(" "));

const DICT: Readonly<Record<string, Method<Dict>>> = {
  copy: (self) => new Map(self),
  get: (self, [key = null, otherwise = null]) => self.get(keyOf(key)) ?? (self.has(keyOf(key)) ? null : otherwise),
  items: (self) => new View(self, "items"),
  keys: (self) => new View(self, "keys"),
  values: (self) => new View(self, "values"),
};
const OTHER_DICT = new Set("clear fromkeys pop popitem setdefault update".split(" "));

/** Methods of a safe text that return safe text, and methods that return no text. All others are refused. */
const STAY_SAFE = new Set("capitalize lower lstrip removeprefix removesuffix rstrip strip title upper".split(" "));
const OF_SAFE = /^(?:is[a-z]+|count|r?find|r?index|startswith|endswith)$/;

/** A method of a safe text, as in markupsafe 3: that of its text. */
function safeMethod(self: Written, name: string, budget: Budget): Value | undefined {
  const method = methodOf(self.text, name, TEXT, OTHER_TEXT, budget);
  if (method === undefined || OF_SAFE.test(name)) return method;
  return new Callable(name, (args, named) => {
    if (!STAY_SAFE.has(name)) fail(`${name} of a safe text, which is not known here`);
    return new Written((method as Callable).call(args, named) as string);
  });
}

/** The result of Python's `getattr`: a method, or an attribute of an object. */
export function attributeOf(value: Value, name: string, budget: Budget): Value | undefined {
  if (value instanceof Attributes) return value.get(name);
  if (value instanceof Callable && name === "name") return value.name;
  if (typeof value === "string") return methodOf(value, name, TEXT, OTHER_TEXT, budget);
  if (value instanceof Written) return safeMethod(value, name, budget);
  if (Array.isArray(value)) return methodOf(value, name, LIST, OTHER_LIST, budget);
  return value instanceof Map ? methodOf(value, name, DICT, OTHER_DICT, budget) : undefined;
}

function methodOf<T extends Value>(
  self: T,
  name: string,
  methods: Readonly<Record<string, Method<T>>>,
  others: ReadonlySet<string>,
  budget: Budget,
): Value | undefined {
  if (others.has(name)) {
    return new Callable(name, () => fail(`${typeOf(self)}.${name}, which changes its object or is not known here`));
  }
  const method = Object.hasOwn(methods, name) ? methods[name]! : undefined;
  if (method === undefined) return undefined;
  return new Callable(name, (args, named) => {
    if (typeof self === "string") budget.reading(self);
    const result = method(self, args, budget, named);
    if (typeof result === "string") budget.letters(result.length);
    else if (Array.isArray(result) || result instanceof Map) budget.step(sizeOf(result));
    return result;
  });
}

/** `str.format`, with fields that have a name or a number and nothing else. */
function formatted(self: string, args: readonly Value[], named: ReadonlyMap<string, Value>, budget: Budget): string {
  let next = 0;
  return self.replace(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (whole_: string, name?: string) => {
    if (whole_ === "{{" || whole_ === "}}") return whole_[0]!;
    if (name === undefined) return fail(`format: the field at '${whole_}' is not of a name or a number`);
    const value = /^\d*$/.test(name) ? args[name === "" ? next++ : Number(name)] : named.get(name);
    return budget.made(value === undefined ? fail(`format: there is no '${name}'`) : textOf(value, budget));
  });
}

/** Python's `text % values`, with `%s`, `%r`, `%d` and `%%`. What is put into a safe text is escaped. */
export function percented(self: string | Written, values: Value, budget: Budget): string | Written {
  const args = values instanceof Tuple ? [...values.items] : [values];
  const isSafe = self instanceof Written;
  const made = (text: string): string => (isSafe ? escapedText(text, budget) : budget.made(text));
  const result = (isSafe ? self.text : self).replace(/%([srd%]?)/g, (_, letter: string) => {
    if (letter === "%") return "%";
    if (args.length === 0) fail("not enough values for a format");
    const value = args.shift()!;
    if (letter === "s") return isSafe && value instanceof Written ? value.text : made(textOf(value, budget));
    if (letter === "r") return made(reprOf(value, budget));
    if (letter === "d" && typeof value === "bigint") return String(value);
    const number = letter === "d" ? numberOf(value) : undefined;
    return number === undefined ? fail(`a format of ${described(value)} with %${letter}`) : String(Math.trunc(number));
  });
  if (args.length > 0 && !(values instanceof Map)) fail("too many values for a format");
  return isSafe ? new Written(result) : result;
}

/** Arguments of a filter by number or name. @throws if there is one that it does not have */
export function byName(names: readonly string[], [positional, named]: Arguments): (Value | undefined)[] {
  const extra = [...named.keys()].find((name) => !names.includes(name));
  if (extra !== undefined || positional.length > names.length)
    fail(`unexpected argument ${extra ?? positional.length}`);
  return names.map((name, i) => positional[i] ?? (positional.length > i ? null : named.get(name)));
}
