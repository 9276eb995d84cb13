/**
 * JSON that keeps every number and trusts no input: NaN and the infinities are written as `{"$": "NaN"}`, and what was
 * read is checked field by field before it is used.
 */
import { check, fail } from "../../engine/errors.ts";

const SPECIAL: Readonly<Record<string, number>> = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** JSON text of plain data. The keys are in the order of the data. */
export const toJson = (value: unknown): string =>
  JSON.stringify(value, (_, x: unknown) => (typeof x === "number" && !Number.isFinite(x) ? { $: String(x) } : x));

/** The data of a text by `toJson`. @throws WorldgradError if it is not JSON */
export function fromJson(where: string, text: string): unknown {
  try {
    return JSON.parse(text, (key, x: unknown) => {
      if (key === "__proto__") throw new Error('"__proto__" is no key');
      const special = isRecord(x) && typeof x["$"] === "string" ? SPECIAL[x["$"]] : undefined;
      return special ?? x;
    });
  } catch (error) {
    return fail(`${where}: not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Whether `x` is an object and not a list. */
export const isRecord = (x: unknown): x is Readonly<Record<string, unknown>> =>
  typeof x === "object" && x !== null && !Array.isArray(x);

/** An object that was read; each field is checked when it is taken. Errors begin with `where`. */
export class Fields {
  readonly #where: string;
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(where: string, value: unknown) {
    check(isRecord(value), () => `${where}: expected an object, got ${shown(value)}`);
    this.#where = where;
    this.#fields = value;
  }

  /** Any value. */
  any(name: string): unknown {
    return Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined;
  }

  /** An integer in [low, high]. */
  integer(name: string, low = 0, high: number = Number.MAX_SAFE_INTEGER): number {
    const value = this.any(name);
    const isFine = Number.isInteger(value) && (value as number) >= low && (value as number) <= high;
    check(isFine, () => `${this.#where}: ${name} must be an integer in [${low}, ${high}], got ${shown(value)}`);
    return value as number;
  }

  /** A finite number whose absolute value is at most `most`, or NaN. */
  number(name: string, most = 1e9): number {
    const value = this.any(name);
    const isFine = typeof value === "number" && !(Math.abs(value) > most);
    check(isFine, () => `${this.#where}: ${name} must be a number of at most ±${most}, got ${shown(value)}`);
    return value;
  }

  /** A text of at most `most` characters. */
  text(name: string, most = 256): string {
    const value = this.any(name);
    const isFine = typeof value === "string" && value.length <= most;
    check(isFine, () => `${this.#where}: ${name} must be text of at most ${most} characters, got ${shown(value)}`);
    return value;
  }

  /** A SHA-256 in hexadecimal digits. */
  hash(name: string): string {
    const value = this.text(name);
    check(/^[0-9a-f]{64}$/.test(value), () => `${this.#where}: ${name} must be a SHA-256, got ${shown(value)}`);
    return value;
  }

  /** true or false. */
  flag(name: string): boolean {
    const value = this.any(name);
    check(typeof value === "boolean", () => `${this.#where}: ${name} must be true or false, got ${shown(value)}`);
    return value;
  }

  /** A list of at most `most` members. */
  list(name: string, most: number): readonly unknown[] {
    const value = this.any(name);
    const isFine = Array.isArray(value) && value.length <= most;
    check(isFine, () => `${this.#where}: ${name} must be a list of at most ${most}, got ${shown(value)}`);
    return value as readonly unknown[];
  }

  /** Any object; its reader checks its content. */
  object(name: string): object {
    const value = this.any(name);
    check(isRecord(value), () => `${this.#where}: ${name} must be an object, got ${shown(value)}`);
    return value;
  }

  /** One of several texts. */
  choice<T extends string>(name: string, choices: readonly T[]): T {
    const value = this.any(name);
    const found = choices.find((choice) => choice === value);
    check(found !== undefined, () => `${this.#where}: ${name} must be ${choices.join(" or ")}, got ${shown(value)}`);
    return found;
  }

  /** An object of plain data, with at most `most` values in at most four levels. */
  plain(name: string, most: number): Readonly<Record<string, unknown>> {
    const value = this.any(name);
    check(isRecord(value), () => `${this.#where}: ${name} must be an object, got ${shown(value)}`);
    let count = 0;
    const look = (x: unknown, depth: number): void => {
      check(++count <= most && depth <= 4, () => `${this.#where}: ${name} has more than ${most} values or four levels`);
      if (typeof x === "object" && x !== null) for (const inner of Object.values(x)) look(inner, depth + 1);
    };
    look(value, 0);
    return value;
  }

  /** An object whose values are numbers, texts or booleans. */
  facts(name: string, most: number, longest: number): Readonly<Record<string, number | string | boolean>> {
    const value = this.any(name);
    check(isRecord(value), () => `${this.#where}: ${name} must be an object, got ${shown(value)}`);
    const entries = Object.entries(value);
    check(entries.length <= most, () => `${this.#where}: ${name} has ${entries.length} entries, at most ${most}`);
    for (const [key, x] of entries) {
      const isShort = key.length <= 256 && (typeof x !== "string" || x.length <= longest);
      const isPlain =
        typeof x === "string" || typeof x === "boolean" || (typeof x === "number" && Math.abs(x) !== Infinity);
      check(isPlain && isShort, () => `${this.#where}: ${name}.${key.slice(0, 40)} is no fact: ${shown(x)}`);
    }
    return value as Readonly<Record<string, number | string | boolean>>;
  }
}

/** A value in an error message, cut. */
function shown(value: unknown): string {
  const text = value === undefined ? "nothing" : toJson(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
