/** Python's operators, slices and sequences. */
import { fail } from "../../../engine/errors.ts";
import type { Budget } from "./budget.ts";
import { percented } from "./methods.ts";
import {
  areEqual,
  compare,
  contains,
  described,
  type Dict,
  escapedText,
  Float,
  integer,
  itemsOf,
  keyOf,
  numberOf,
  Range,
  sizeOf,
  Tuple,
  type Value,
  Written,
} from "./values.ts";

/** The largest length of a `range`, as in Jinja's sandbox. */
const LONGEST_RANGE = 100_000;

/** The result of `+`, `-`, `*`, `/`, `//`, `%` and `**`. */
export function operate(sign: string, left: Value, right: Value, budget: Budget): Value {
  if (typeof left === "bigint" || (typeof right === "bigint" && sign !== "%"))
    return fail(`${sign} with an integer of more than 53 bits`);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined) {
    return arithmetic(sign, a, b, left instanceof Float || right instanceof Float);
  }
  if (sign === "+" && typeof left === "string" && typeof right === "string") return budget.made(left + right);
  if (left instanceof Written || right instanceof Written) return operateSafe(sign, left, right, budget);
  if (sign === "+" && Array.isArray(left) && Array.isArray(right)) {
    budget.step(left.length + right.length);
    return [...left, ...right];
  }
  if (sign === "+" && left instanceof Tuple && right instanceof Tuple) {
    budget.step(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  if (sign === "%" && typeof left === "string") return percented(left, right, budget);
  if (sign === "*" && (typeof left === "number" || typeof right === "number")) {
    const [of, times] = typeof left === "number" ? [right, Math.max(left, 0)] : [left, Math.max(right as number, 0)];
    if (typeof of === "string") {
      budget.letters(of.length * times);
      return of.repeat(times);
    }
    if (Array.isArray(of) && of.length > 0) {
      budget.step(of.length * times);
      return Array.from({ length: of.length * times }, (_, i) => of[i % of.length]!);
    }
  }
  return fail(`${described(left)} ${sign} ${described(right)}, which Python refuses`);
}

/** The result of `operate` with a safe text, which is safe too: plain text beside it is escaped. */
function operateSafe(sign: string, left: Value, right: Value, budget: Budget): Value {
  const isText = (value: Value): value is string | Written => typeof value === "string" || value instanceof Written;
  if (sign === "+" && isText(left) && isText(right))
    return new Written(budget.made(escapedText(left, budget) + escapedText(right, budget)));
  if (sign === "*" && (typeof left === "number" || typeof right === "number")) {
    const [of, times] = left instanceof Written ? [left.text, right] : [(right as Written).text, left];
    return new Written(operate(sign, of, times, budget) as string);
  }
  if (sign === "%" && isText(left)) return percented(left, right, budget);
  return fail(`${described(left)} ${sign} ${described(right)}, which Python refuses`);
}

/** Whether a comparison holds. */
export function holds(sign: string, left: Value, right: Value, budget: Budget): boolean {
  if (sign === "in") return contains(right, left, budget);
  if (sign === "not in") return !contains(right, left, budget);
  if (sign === "==") return areEqual(left, right, budget);
  if (sign === "!=") return !areEqual(left, right, budget);
  const order = compare(left, right, budget);
  if (sign === "<") return order < 0;
  return sign === ">" ? order > 0 : sign === "<=" ? order <= 0 : order >= 0;
}

/** `value[start:stop:step]`; None stands for a bound that is left out. */
export function slice(value: Value, bounds: readonly Value[], budget: Budget): Value {
  if (value instanceof Written) return new Written(slice(value.text, bounds, budget) as string);
  const isList = Array.isArray(value) || value instanceof Tuple || value instanceof Range;
  if (!isList && typeof value !== "string") return fail(`a slice of ${described(value)}`);
  budget.step(Array.isArray(value) ? value.length >> 2 : typeof value === "string" ? value.length : sizeOf(value));
  const items = Array.isArray(value) ? value : [...itemsOf(value)];
  const [start, stop, step] = [0, 1, 2].map((i) => {
    const bound = bounds[i] ?? null;
    return bound === null ? undefined : (numberOf(bound) ?? fail(`a slice to ${described(bound)}`));
  });
  const kept = sliceOf(items, start, stop, step ?? 1);
  if (typeof value === "string") return budget.made(kept.map((char) => char as string).join(""));
  return value instanceof Tuple ? new Tuple(kept) : kept;
}

/** An item of a sequence by its place; undefined behind its end. */
export function nth(value: Value, at: number): Value | undefined {
  if (Array.isArray(value)) return value[at];
  if (value instanceof Tuple) return value.items[at];
  if (value instanceof Range) return at < value.length ? value.start + at * value.step : undefined;
  let i = 0;
  for (const char of value as string) if (i++ === at) return char;
  return undefined;
}

/** Python's slice of a list. */
function sliceOf(items: readonly Value[], start: number | undefined, stop: number | undefined, step: number): Value[] {
  if (step === 0) fail("a slice with step 0");
  const [low, high] = step > 0 ? [0, items.length] : [-1, items.length - 1];
  const place = (bound: number): number => Math.min(Math.max(bound < 0 ? bound + items.length : bound, low), high);
  const from = start === undefined ? (step > 0 ? low : high) : place(start);
  const to = stop === undefined ? (step > 0 ? high : low) : place(stop);
  const kept: Value[] = [];
  for (let i = from; step > 0 ? i < to : i > to; i += step) kept.push(items[i]!);
  return kept;
}

function arithmetic(sign: string, a: number, b: number, isFloat: boolean): Value {
  if (b === 0 && "/%".includes(sign[0]!)) fail("a division by zero");
  const made = (value: number): Value => (isFloat ? new Float(value) : integer(value));
  switch (sign) {
    case "+":
      return made(a + b);
    case "-":
      return made(a - b);
    case "*":
      return made(a * b);
    case "/":
      return new Float(a / b);
    case "//":
      return made(Math.floor(a / b));
    case "%":
      return made(a - b * Math.floor(a / b));
    default:
      return b < 0 ? new Float(a ** b) : made(a ** b);
  }
}

/** Python's `range`. */
export function rangeOf(args: readonly Value[]): Range {
  const numbers = args.map(
    (one) => (one instanceof Float ? undefined : numberOf(one)) ?? fail(`a range to ${described(one)}`),
  );
  const [start, stop, step = 1] = numbers.length === 1 ? [0, numbers[0]!] : numbers;
  if (start === undefined || stop === undefined || step === 0) return fail("a range without an end, or with step 0");
  const length = Math.max(0, Math.ceil((stop - start) / step));
  return length > LONGEST_RANGE
    ? fail(`a range of ${length} numbers, at most ${LONGEST_RANGE} allowed`)
    : new Range(start, step, length);
}

/** Python's `dict`. */
export function dictOf(args: readonly Value[], named: ReadonlyMap<string, Value>, budget: Budget): Dict {
  const [from = new Map<string, Value>()] = args;
  const pairs =
    from instanceof Map
      ? [...from]
      : [...itemsOf(from)].map((pair) => {
          const [key = null, value = null] = itemsOf(pair);
          return [keyOf(key), value] as const;
        });
  budget.step(pairs.length);
  return new Map([...pairs, ...named]);
}
