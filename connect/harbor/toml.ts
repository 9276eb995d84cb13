/** Reading of TOML with the package `smol-toml`, an optional peer, and of the fields of a file that others wrote. */
import { createRequire } from "node:module";
import { fail, WorldgradError } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";

type Parse = (text: string) => Readonly<Record<string, unknown>>;
let parser: Parse | undefined;

/** @throws WorldgradError if the package is not installed */
function loadParser(): Parse {
  try {
    return (createRequire(import.meta.url)("smol-toml") as { readonly parse: Parse }).parse;
  } catch (error) {
    if ((error as { code?: unknown }).code !== "MODULE_NOT_FOUND") throw error;
    return fail("harbor: the package smol-toml is not installed; npm install smol-toml");
  }
}

/** The table of a TOML file. @param file its name in messages @throws WorldgradError in one line */
export function parseToml(text: string, file: string): Fields {
  parser ??= loadParser();
  try {
    return new Fields(file, "", parser(text));
  } catch (error) {
    if (error instanceof WorldgradError) throw error;
    return fail(`${file}: ${(error as Error).message.split("\n")[0]}`);
  }
}

const isTable = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);

/** A table of a file. Whatever has another type than is asked for is an error that names file, field and value. */
export class Fields {
  readonly #file: string;
  readonly #place: string;
  readonly #values: Readonly<Record<string, unknown>>;

  /** @param place the table's name; empty: the file itself */
  constructor(file: string, place: string, values: Readonly<Record<string, unknown>>) {
    this.#file = file;
    this.#place = place;
    this.#values = values;
  }

  /** The full name of a field, `[verifier] timeout_sec`. */
  name(field: string): string {
    return this.#place === "" ? field : `[${this.#place}] ${field}`;
  }

  #read<T>(field: string, expected: string, accepts: (value: unknown) => value is T): T | undefined {
    const value: unknown = Object.hasOwn(this.#values, field) ? this.#values[field] : undefined;
    if (value === undefined || accepts(value)) return value;
    return fail(`${this.#file}: ${this.name(field)} must be ${expected}, got ${showValue(value)}`);
  }

  has(field: string): boolean {
    return Object.hasOwn(this.#values, field);
  }

  /** Whatever is there. */
  any(field: string): unknown {
    return this.has(field) ? this.#values[field] : undefined;
  }

  text(field: string): string | undefined {
    return this.#read(field, "a text", (value): value is string => typeof value === "string");
  }

  /** A text, or a whole number as one. */
  word(field: string): string | undefined {
    const accepts = (value: unknown): value is string | number =>
      typeof value === "string" || (typeof value === "number" && Number.isSafeInteger(value));
    return this.#read(field, "a text or a whole number", accepts)?.toString();
  }

  flag(field: string): boolean | undefined {
    return this.#read(field, "true or false", (value): value is boolean => typeof value === "boolean");
  }

  /** A finite number that is at least `least`. */
  number(field: string, least: number): number | undefined {
    const accepts = (value: unknown): value is number =>
      typeof value === "number" && Number.isFinite(value) && value >= least;
    return this.#read(field, `a number ≥ ${least}`, accepts);
  }

  /** Seconds: a number above 0. */
  seconds(field: string): number | undefined {
    const accepts = (value: unknown): value is number =>
      typeof value === "number" && Number.isFinite(value) && value > 0;
    return this.#read(field, "a number > 0", accepts);
  }

  /** MiB of a size as in "2G"; a number is one of MiB. */
  mebibytes(field: string): number | undefined {
    const size = /^(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?$/i;
    const text = this.#read(
      field,
      'a size, as in "2G"',
      (value): value is string | number =>
        (typeof value === "number" && value > 0) || (typeof value === "string" && size.test(value)),
    );
    if (typeof text !== "string") return text;
    const [, digits, unit] = size.exec(text)!;
    const power = { "": 1 / 2 ** 20, k: 1 / 1024, m: 1, g: 1024, t: 2 ** 20 }[unit!.toLowerCase()]!;
    return Math.max(1, Math.ceil(Number(digits) * power));
  }

  list(field: string): readonly unknown[] {
    return this.#read(field, "a list", (value): value is readonly unknown[] => Array.isArray(value)) ?? [];
  }

  /** A table; an empty one if there is none. */
  table(field: string): Fields {
    const place = this.#place === "" ? field : `${this.#place}.${field}`;
    return new Fields(this.#file, place, this.#read(field, "a table", isTable) ?? {});
  }

  /** A table of names and texts; numbers and truth values are written as texts. */
  texts(field: string): Readonly<Record<string, string>> {
    const table = this.#read(field, "a table", isTable) ?? {};
    return Object.fromEntries(
      Object.entries(table).map(([name, value]) => {
        const where = `${this.#file}: ${this.name(`${field}.${name}`)}`;
        if (!/^[A-Za-z_]\w*$/.test(name)) fail(`${where}: no name of a variable`);
        const isPlain = ["string", "number", "boolean"].includes(typeof value);
        return [name, isPlain ? String(value) : fail(`${where} must be a text, got ${showValue(value)}`)];
      }),
    );
  }
}
