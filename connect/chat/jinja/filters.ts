/** Jinja's filters and tests, as far as chat templates use them. */
import { fail } from "../../../engine/errors.ts";
import type { Budget } from "./budget.ts";
import { byName, percented, replaced } from "./methods.ts";
import { capitalized, isCase, linesOf, trimEnd, trimStart } from "./text.ts";
import {
  areEqual,
  type Arguments,
  Attributes,
  Callable,
  compare,
  contains,
  described,
  Float,
  hasLength,
  integer,
  isTrue,
  itemsOf,
  jsonOf,
  Missing,
  numberOf,
  plainOf,
  sizeOf,
  Stream,
  textOf,
  Tuple,
  type Value,
  View,
  Written,
} from "./values.ts";

/** The part of the running program that filters need. */
export interface Runtime {
  readonly budget: Budget;
  /** `value[key]` or `value.key`. */
  item(value: Value, key: Value): Value;
}

type Filter = (value: Value, args: Arguments, runtime: Runtime) => Value;
type Test = (value: Value, args: readonly Value[], budget: Budget) => boolean;

/** Filters that handle safe text themselves, and filters that keep it safe. All others get it as plain text. */
const READ_SAFE = new Set(["d", "default", "format", "safe"]);
const STAY_SAFE = new Set(["capitalize", "indent", "lower", "reverse", "string", "trim", "upper"]);

/** A filter by its name. @throws if it is not known */
export function filterNamed(name: string): Filter {
  const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name]! : fail(`the filter ${name} is not known here`);
  if (READ_SAFE.has(name)) return filter;
  return (value, args, runtime) => {
    const result = filter(plainOf(value), args, runtime);
    const staysSafe = value instanceof Written && STAY_SAFE.has(name) && typeof result === "string";
    return staysSafe ? new Written(result) : result;
  };
}

/** A test by its name. @throws if it is not known */
export function testNamed(name: string): Test {
  const test = Object.hasOwn(TESTS, name) ? TESTS[name]! : fail(`the test ${name} is not known here`);
  return (value, args, budget) => test(plainOf(value), args, budget);
}

const whole = (value: Value): number => {
  const number = value instanceof Float ? undefined : numberOf(value);
  return number ?? fail(`expected an integer, got ${described(value)}`);
};

/** Items, paid for one by one. */
function* paid(value: Value, { budget }: Runtime): Generator<Value, undefined> {
  for (const item of itemsOf(value)) {
    budget.step();
    yield item;
  }
  return undefined;
}

/** The items of `paid`; for `map` and `select` a false value, such as None, has none. */
const orNone = (value: Value, runtime: Runtime): Iterable<Value> => (isTrue(value) ? paid(value, runtime) : []);

/** A function that finds the value at a path such as `function.name` in an item. */
function getter(path: Value | undefined, runtime: Runtime, otherwise?: Value): (item: Value) => Value {
  if (path === undefined || path === null) return (item) => item;
  const parts =
    typeof path === "string" ? path.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part)) : [path];
  return (item) => {
    const found = parts.reduce<Value>((value, part) => runtime.item(value, part), item);
    return found instanceof Missing && otherwise !== undefined ? otherwise : found;
  };
}

/** A sort key that ignores the case of texts, unless `isSensitive` is true. */
const key = (isSensitive: Value | undefined) => (value: Value) =>
  typeof value === "string" && !(isSensitive !== undefined && isTrue(isSensitive)) ? value.toLowerCase() : value;

function sorted(items: readonly Value[], keyOf: (item: Value) => Value, isReverse: boolean, budget: Budget): Value[] {
  const keyed = items.map((item) => [keyOf(item), item] as const);
  return keyed.sort(([a], [b]) => compare(isReverse ? b : a, isReverse ? a : b, budget)).map(([, item]) => item);
}

/** `select`, `reject`, `selectattr`, `rejectattr`. */
function selecting(isKept: boolean, hasAttribute: boolean): Filter {
  return (value, [given, named], runtime) => {
    if (named.size > 0) fail("select takes no named arguments");
    const args = [...given];
    const get = hasAttribute
      ? getter(args.shift() ?? fail("expected the name of an attribute"), runtime)
      : getter(undefined, runtime);
    const [name, ...rest] = args;
    const test =
      name === undefined ? isTrue : testNamed(typeof name === "string" ? name : fail("expected the name of a test"));
    return new Stream(
      (function* () {
        for (const item of orNone(value, runtime)) if (test(get(item), rest, runtime.budget) === isKept) yield item;
        return undefined;
      })(),
    );
  };
}

function extreme(isMax: boolean): Filter {
  return (value, args, runtime) => {
    const [isSensitive, attribute] = byName(["case_sensitive", "attribute"], args);
    const get = getter(attribute, runtime);
    const keyed = (item: Value): Value => key(isSensitive)(get(item));
    let best: Value | undefined;
    for (const item of paid(value, runtime)) {
      const order = best === undefined ? 0 : compare(keyed(item), keyed(best), runtime.budget);
      if (best === undefined || (isMax ? order > 0 : order < 0)) best = item;
    }
    return best ?? new Missing("an item of an empty sequence");
  };
}

/** A number that a text has, by Python's rules for literals. */
function parsed(value: string): number | undefined {
  const literal = trimStart(trimEnd(value)).replace(/(?<=\d)_(?=\d)/g, "");
  return /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(literal) ? Number(literal) : undefined;
}

const FILTERS: Readonly<Record<string, Filter>> = {
  abs: (value) => {
    const number = numberOf(value) ?? fail(`abs of ${described(value)}`);
    return value instanceof Float ? new Float(Math.abs(number)) : Math.abs(number);
  },
  capitalize: (value, _, { budget }) => capitalized(textOf(value, budget)),
  count: (value) => sizeOf(value),
  d: (value, args, runtime) => FILTERS["default"]!(value, args, runtime),
  default: (value, args) => {
    const [otherwise = "", isBoolean = false] = byName(["default_value", "boolean"], args);
    return value instanceof Missing || (isTrue(isBoolean) && !isTrue(value)) ? otherwise : value;
  },
  dictsort: (value, args, runtime) => {
    const [isSensitive, by = "key", reverse = false] = byName(["case_sensitive", "by", "reverse"], args);
    if (!(value instanceof Map) || (by !== "key" && by !== "value")) fail(`dictsort of ${described(value)}`);
    const pairs = [...paid(value, runtime)].map((name) => new Tuple([name, runtime.item(value, name)]));
    const at = by === "key" ? 0 : 1;
    return sorted(pairs, (pair) => key(isSensitive)((pair as Tuple).items[at]!), isTrue(reverse), runtime.budget);
  },
  first: (value, _, runtime) => {
    const { value: item } = paid(value, runtime).next();
    return item === undefined ? new Missing("the first item of an empty sequence") : item;
  },
  float: (value, args) => {
    const [otherwise = new Float(0)] = byName(["default"], args);
    const number = typeof value === "string" ? parsed(value) : numberOf(value);
    if (value instanceof Missing) fail(`${value.what} is undefined`);
    return number === undefined ? otherwise : new Float(number);
  },
  format: (value, [positional, named], { budget }) =>
    named.size > 0
      ? fail("format with names")
      : percented(value instanceof Written ? value : textOf(value, budget), new Tuple(positional), budget),
  indent: (value, args, { budget }) => {
    const [width = 4, first = false, blank = false] = byName(["width", "first", "blank"], args);
    const lines = linesOf(`${textOf(value, budget)}\n`);
    const size = typeof width === "string" ? width.length : whole(width);
    budget.letters(lines.length * Math.max(size, 0));
    const by = typeof width === "string" ? width : " ".repeat(Math.max(size, 0));
    const indented = lines.map((line, i) => (i > 0 && (line !== "" || isTrue(blank)) ? by + line : line)).join("\n");
    return isTrue(first) ? by + indented : indented;
  },
  int: (value, args) => {
    const [otherwise = 0, base = 10] = byName(["default", "base"], args);
    if (base !== 10) fail("int with a base");
    if (value instanceof Missing) fail(`${value.what} is undefined`);
    const number = typeof value === "string" ? parsed(value) : numberOf(value);
    return number === undefined || !Number.isFinite(number) ? otherwise : integer(Math.trunc(number));
  },
  items: (value) => {
    if (!(value instanceof Missing || value instanceof Map)) fail(`the items of ${described(value)}`);
    return new Stream(value instanceof Map ? new View(value, "items").items() : [].values());
  },
  join: (value, args, runtime) => {
    const [by = "", attribute] = byName(["d", "attribute"], args);
    const get = getter(attribute, runtime);
    const separator = textOf(by, runtime.budget);
    const texts = [...paid(value, runtime)].map((item) => textOf(get(item), runtime.budget));
    runtime.budget.letters(texts.length * separator.length);
    return texts.join(separator);
  },
  last: (value, _, runtime) => {
    if (value instanceof Stream) fail("the last item of a generator");
    const item = [...paid(value, runtime)].at(-1);
    return item === undefined ? new Missing("the last item of an empty sequence") : item;
  },
  length: (value) => sizeOf(value),
  list: (value, _, runtime) => [...paid(value, runtime)],
  lower: (value, _, { budget }) => textOf(value, budget).toLowerCase(),
  map: (value, args, runtime) => {
    const [[name, ...rest], named] = args;
    if (name !== undefined && typeof name !== "string") return fail("expected the name of a filter");
    const apply =
      name === undefined
        ? getter(named.get("attribute") ?? fail("map needs a filter or an attribute"), runtime, named.get("default"))
        : (item: Value) => filterNamed(name)(item, [rest, named], runtime);
    return new Stream(
      (function* () {
        for (const item of orNone(value, runtime)) yield apply(item);
        return undefined;
      })(),
    );
  },
  max: extreme(true),
  min: extreme(false),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  replace: (value, args, { budget }) => {
    const [from = null, to = null, count = null] = byName(["old", "new", "count"], args);
    const times = count === null ? -1 : whole(count);
    return replaced(textOf(value, budget), textOf(from, budget), textOf(to, budget), times, budget);
  },
  reverse: (value, _, runtime) => {
    if (typeof value === "string") return [...value].reverse().join("");
    return new Stream([...paid(value, runtime)].reverse().values());
  },
  round: (value, args) => {
    const [precision = 0, method = "common"] = byName(["precision", "method"], args);
    const number = numberOf(value) ?? fail(`round of ${described(value)}`);
    if (precision !== 0) fail("round with a precision");
    if (method === "ceil") return new Float(Math.ceil(number));
    if (method === "floor") return new Float(Math.floor(number));
    const half = Math.abs(number % 1) === 0.5;
    const result = half ? 2 * Math.round(number / 2) : Math.round(number);
    return value instanceof Float ? new Float(result) : result;
  },
  safe: (value, _, { budget }) => new Written(textOf(value, budget)),
  select: selecting(true, false),
  selectattr: selecting(true, true),
  sort: (value, args, runtime) => {
    const [reverse = false, isSensitive, attribute] = byName(["reverse", "case_sensitive", "attribute"], args);
    const paths = typeof attribute === "string" ? attribute.split(",") : [attribute];
    const gets = paths.map((path) => getter(path, runtime));
    const keyed = (item: Value): Value => new Tuple(gets.map((get) => key(isSensitive)(get(item))));
    return sorted([...paid(value, runtime)], keyed, isTrue(reverse), runtime.budget);
  },
  string: (value, _, { budget }) => textOf(value, budget),
  sum: (value, args, runtime) => {
    const [attribute, start = 0] = byName(["attribute", "start"], args);
    const get = getter(attribute, runtime);
    let sum = numberOf(start) ?? fail(`a sum from ${described(start)}`);
    let isFloat = start instanceof Float;
    for (const item of paid(value, runtime)) {
      const one = get(item);
      sum += numberOf(one) ?? fail(`a sum with ${described(one)}`);
      isFloat ||= one instanceof Float;
    }
    return isFloat ? new Float(sum) : integer(sum);
  },
  title: (value, _, { budget }) =>
    textOf(value, budget)
      .split(/([-\s({[<]+)/)
      .map(capitalized)
      .join(""),
  tojson: (value, args, { budget }) => {
    const names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    const [ascii = false, indent = null, separators = null, sortKeys = false] = byName(names, args);
    if (typeof indent === "number") budget.letters(Math.max(indent, 0));
    const by =
      indent === null ? undefined : typeof indent === "string" ? indent : " ".repeat(Math.max(whole(indent), 0));
    const given = separators === null ? undefined : [...itemsOf(separators)].map((one) => textOf(one, budget));
    const pair: readonly [string, string] =
      given === undefined ? [by === undefined ? ", " : ",", ": "] : [given[0] ?? "", given[1] ?? ""];
    return jsonOf(
      value,
      { ensureAscii: isTrue(ascii), indent: by, separators: pair, sortKeys: isTrue(sortKeys) },
      budget,
    );
  },
  trim: (value, args, { budget }) => {
    const [chars = null] = byName(["chars"], args);
    const set = chars === null ? undefined : new Set(textOf(chars, budget));
    return trimStart(trimEnd(textOf(value, budget), set), set);
  },
  unique: (value, args, runtime) => {
    const [isSensitive, attribute] = byName(["case_sensitive", "attribute"], args);
    const get = getter(attribute, runtime);
    const seen: Value[] = [];
    const items = [...paid(value, runtime)].filter((item) => {
      const own = key(isSensitive)(get(item));
      return !seen.some((one) => areEqual(one, own, runtime.budget)) && seen.push(own) > 0;
    });
    return new Stream(items.values());
  },
  upper: (value, _, { budget }) => textOf(value, budget).toUpperCase(),
};

const ordered =
  (test: (order: number) => boolean): Test =>
  (a, [b = null], budget) =>
    test(compare(a, b, budget));
const equal: Test = (a, [b = null], budget) => areEqual(a, b, budget);
const unequal: Test = (a, [b = null], budget) => !areEqual(a, b, budget);
const greater = ordered((order) => order > 0);
const less = ordered((order) => order < 0);
const atMost = ordered((order) => order <= 0);
const atLeast = ordered((order) => order >= 0);

const TESTS: Readonly<Record<string, Test>> = {
  "!=": unequal,
  "<": less,
  "<=": atMost,
  "==": equal,
  ">": greater,
  ">=": atLeast,
  boolean: (value) => typeof value === "boolean",
  callable: (value) => value instanceof Callable || (value instanceof Attributes && value.call !== undefined),
  defined: (value) => !(value instanceof Missing),
  divisibleby: (value, [by = null]) => whole(value) % whole(by) === 0,
  eq: equal,
  equalto: equal,
  even: (value) => whole(value) % 2 === 0,
  false: (value) => value === false,
  float: (value) => value instanceof Float,
  ge: atLeast,
  greaterthan: greater,
  gt: greater,
  in: (value, [container = null], budget) => contains(container, value, budget),
  integer: (value) => typeof value === "number" || typeof value === "bigint",
  iterable: (value) => hasLength(value) || value instanceof Stream,
  le: atMost,
  lessthan: less,
  lower: (value) =>
    typeof value === "string" ? isCase(value, (text) => text.toLowerCase()) : fail("is lower of no text"),
  lt: less,
  mapping: (value) => value instanceof Map,
  ne: unequal,
  none: (value) => value === null,
  number: (value) => typeof value === "bigint" || numberOf(value) !== undefined,
  odd: (value) => Math.abs(whole(value) % 2) === 1,
  sameas: (a, [b = null]) => a === b,
  sequence: (value) => hasLength(value),
  string: (value) => typeof value === "string",
  true: (value) => value === true,
  undefined: (value) => value instanceof Missing,
  upper: (value) =>
    typeof value === "string" ? isCase(value, (text) => text.toUpperCase()) : fail("is upper of no text"),
};
