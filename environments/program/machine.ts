/**
 * Runs programs (syntax.ts) on a stack machine: `compile` makes a list of instructions, `run` carries them out. All
 * programs end, because the number of steps and the depth of calls are bounded; an instruction costs a step, and so
 * does each number of a list that it makes.
 *
 * Numbers are integers with an absolute value up to 10⁹, and no operation makes a list longer. `/` rounds down, and `%`
 * is the remainder of that. Arithmetic with a list applies to each of its numbers.
 */
import { type Expression, INPUT, type Operator, type Program } from "./syntax.ts";

/** An integer, or a list of them. */
export type Value = number | readonly number[];

/** The result of a run: a value, or an error in a few words. */
export type Outcome = { readonly value: Value } | { readonly error: string };

type Instruction =
  | { readonly do: "push"; readonly value: number }
  | { readonly do: "load" | "store" | "call" | "callWith"; readonly name: string }
  | { readonly do: "calculate"; readonly operator: Operator };

/** A program that is ready to run. */
export type Code = readonly Instruction[];

const LARGEST = 1e9;
const MOST_ITEMS = 64;
const MOST_STEPS = 2_000;
const MOST_CALLS = 16;

/** The error that ends a run without a value; it does not leave this file. */
class Fault extends Error {}

export function compile({ statements, result }: Program): Code {
  const code: Instruction[] = [];
  const emit = (expression: Expression): void => {
    switch (expression.kind) {
      case "number":
        code.push({ do: "push", value: expression.value });
        return;
      case "name":
        code.push({ do: "load", name: expression.name });
        return;
      case "operation":
        emit(expression.left);
        emit(expression.right);
        code.push({ do: "calculate", operator: expression.operator });
        return;
      case "call":
        emit(expression.of);
        if (expression.argument) emit(expression.argument);
        code.push({ do: expression.argument ? "callWith" : "call", name: expression.name });
    }
  };
  for (const { name, value } of statements) {
    emit(value);
    code.push({ do: "store", name });
  }
  emit(result);
  return code;
}

/**
 * Runs a program. Faults of the program are returned, not thrown.
 * @param functions the programs that it may call, by name
 */
export function run(code: Code, input: Value, functions: ReadonlyMap<string, Code> = new Map()): Outcome {
  try {
    return { value: new Machine(functions).run(code, input) };
  } catch (error) {
    if (error instanceof Fault) return { error: error.message };
    throw error;
  }
}

class Machine {
  readonly #functions: ReadonlyMap<string, Code>;
  #steps = 0;
  #calls = 0;

  constructor(functions: ReadonlyMap<string, Code>) {
    this.#functions = functions;
  }

  run(code: Code, input: Value): Value {
    if (++this.#calls > MOST_CALLS) throw new Fault("too many calls");
    const names = new Map<string, Value>([[INPUT, input]]);
    const stack: Value[] = [];
    for (const instruction of code) {
      switch (instruction.do) {
        case "push":
          stack.push(instruction.value);
          break;
        case "load":
          stack.push(names.get(instruction.name)!);
          break;
        case "store":
          names.set(instruction.name, stack.pop()!);
          break;
        case "calculate": {
          const right = stack.pop()!;
          stack.push(calculate(instruction.operator, stack.pop()!, right));
          break;
        }
        case "callWith": {
          const argument = stack.pop()!;
          if (typeof argument !== "number") throw new Fault(`${instruction.name} takes a number`);
          stack.push(select(instruction.name, stack.pop()!, argument));
          break;
        }
        case "call": {
          const other = this.#functions.get(instruction.name);
          const of = stack.pop()!;
          stack.push(other ? this.run(other, of) : apply(instruction.name, of));
        }
      }
      const made = stack.at(-1);
      this.#steps += 1 + (typeof made === "object" ? made.length : 0);
      if (this.#steps > MOST_STEPS) throw new Fault("too many steps");
    }
    return stack.pop()!;
  }
}

function calculate(operator: Operator, left: Value, right: Value): Value {
  if (typeof left === "number" && typeof right === "number") return arithmetic(operator, left, right);
  if (typeof left === "number") return (right as readonly number[]).map((item) => arithmetic(operator, left, item));
  if (typeof right === "number") return left.map((item) => arithmetic(operator, item, right));
  if (left.length !== right.length) throw new Fault("lengths differ");
  return left.map((item, i) => arithmetic(operator, item, right[i]!));
}

function arithmetic(operator: Operator, a: number, b: number): number {
  if ((operator === "/" || operator === "%") && b === 0) throw new Fault("division by 0");
  const values = { "+": a + b, "-": a - b, "*": a * b, "/": Math.floor(a / b), "%": a - b * Math.floor(a / b) };
  const value = values[operator];
  if (Math.abs(value) > LARGEST) throw new Fault("too large");
  return value + 0; // no −0
}

const listOf = (name: string, of: Value): readonly number[] => {
  if (typeof of === "number") throw new Fault(`${name} of a number`);
  return of;
};

function apply(name: string, of: Value): Value {
  const list = listOf(name, of);
  const some = (): readonly number[] => {
    if (list.length === 0) throw new Fault(`${name} of nothing`);
    return list;
  };
  switch (name) {
    case "sum":
      return list.reduce((sum, item) => arithmetic("+", sum, item), 0);
    case "len":
      return list.length;
    case "max":
      return Math.max(...some());
    case "min":
      return Math.min(...some());
    case "head":
      return some()[0]!;
    case "last":
      return some().at(-1)!;
    case "sort":
      return list.toSorted((a, b) => a - b);
    case "rev":
      return list.toReversed();
    case "tail":
      return list.slice(1);
    case "even":
      return list.filter((item) => item % 2 === 0);
    default:
      return list.filter((item) => item % 2 !== 0); // odd
  }
}

function select(name: string, of: Value, n: number): Value {
  const list = listOf(name, of);
  if (name === "above") return list.filter((item) => item > n);
  if (name === "below") return list.filter((item) => item < n);
  if (n < 0) throw new Fault(`${name} of fewer than 0`);
  return name === "take" ? list.slice(0, n) : list.slice(n);
}

/** Shows an input or a result: `7` or `[3 9 4]`. */
export const show = (value: Value): string => (typeof value === "number" ? String(value) : `[${value.join(" ")}]`);

/** Parses a value of up to 64 numbers in the form of `show`; undefined if the text is none. */
export function readValue(written: string): Value | undefined {
  const number = (digits: string): number => (/^-?\d{1,10}$/.test(digits) ? Number(digits) : NaN);
  const inside = /^\[(.*)\]$/.exec(written)?.[1];
  const items = inside === undefined ? [number(written)] : inside === "" ? [] : inside.split(" ").map(number);
  if (items.length > MOST_ITEMS || !items.every((item) => Math.abs(item) <= LARGEST)) return undefined;
  return inside === undefined ? items[0]! + 0 : items.map((item) => item + 0);
}

export const sameValue = (a: Value, b: Value): boolean => show(a) === show(b);
