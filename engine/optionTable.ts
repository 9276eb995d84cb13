/**
 * Options as data. A part of the library (a loss, an estimator, a loop) declares each of its options once, in a table:
 * its default, its allowed values and a description. Four things are made from that declaration and are written nowhere
 * else: the type of the options object, the check of a caller's values, the options of the command line (`--set
 * PART.OPTION=VALUE` and `--list`), and the tables in docs/methods.md.
 *
 *     export const SAPO = options("sapo", {
 *       temperature: number(1, "τ where A > 0", { above: 0 }),
 *       level: oneOf(["token", "sequence"], "token", "what a ratio belongs to"),
 *     });
 *     export type SapoOptions = OptionsOf<typeof SAPO>;   // { readonly temperature?: number; readonly level?: … }
 *     const { temperature, level } = SAPO.read(given);    // every value checked, defaults filled in
 *
 * Conditions on two options at once (a minimum below a maximum) are checked where the options are used.
 */
import { check } from "./errors.ts";
import { checkKeys, showValue } from "./options.ts";

/** The mark, in the place of a default, of an option that the caller has to give. */
export const REQUIRED: unique symbol = Symbol("required");

/** The form of a value on the command line: one of some words, or its kind. `code`: it can only be given in code. */
export type OptionKind =
  "number" | "text" | "switch" | "schedule" | "bounds" | "number or word" | "code" | readonly string[];

/** An option without a default: if it is not given, the part does without it or derives a value. */
export interface Option<T> {
  /** The description of the option, in one line. */
  readonly about: string;
  readonly kind: OptionKind;
  /** The allowed values; completes "must be …". */
  readonly expected: string;
  readonly required: boolean;
  /** The value of an option that is not given. */
  readonly default: T | undefined;
  readonly accepts: (value: unknown) => boolean;
}

/** An option that always has a value, because it has a default. */
export interface DefaultedOption<T> extends Option<T> {
  readonly default: T;
  readonly required: false;
}

/** An option that the caller has to give. */
export interface RequiredOption<T> extends Option<T> {
  readonly required: true;
}

type Declared<T, D> = D extends typeof REQUIRED
  ? RequiredOption<T>
  : D extends undefined
    ? Option<T>
    : DefaultedOption<T>;
export type ValueOf<O> = O extends Option<infer T> ? T : never;
type Fields = Readonly<Record<string, Option<unknown>>>;
type Shown<T> = { [K in keyof T]: T[K] };

/** The options of one part. */
export interface OptionTable<F extends Fields = Fields> {
  /** The part that has these options; error messages begin with it. */
  readonly where: string;
  readonly fields: F;
  /**
   * The given options, checked, and the defaults of the others.
   * @throws WorldgradError one line, for an unknown name, a missing option, or a value that is not allowed
   */
  read(given?: Given<F>): Settled<F>;
}

type RequiredKey<F extends Fields> = {
  [K in keyof F]: F[K] extends RequiredOption<unknown> ? K : never;
}[keyof F];
type Needed<F extends Fields> = Pick<F, RequiredKey<F>>;
type Others<F extends Fields> = Pick<F, Exclude<keyof F, RequiredKey<F>>>;

/**
 * The options that a caller gives: those that have to be given, and any of the others. The texts of the table's fields
 * come along, for editors; a mapped type that renames keys (`as`) would drop them.
 */
export type Given<F extends Fields> = Shown<
  { readonly [K in keyof Others<F>]?: ValueOf<Others<F>[K]> } & {
    readonly [K in keyof Needed<F>]: ValueOf<Needed<F>[K]>;
  }
>;
/** The result of `read`: every option, with its default if none was given. */
export type Settled<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends DefaultedOption<unknown>
    ? ValueOf<F[K]>
    : F[K] extends RequiredOption<unknown>
      ? ValueOf<F[K]>
      : ValueOf<F[K]> | undefined;
};

type DefaultedKey<F extends Fields> = {
  [K in keyof F]: F[K] extends DefaultedOption<unknown> ? K : never;
}[keyof F];
/** Options with their defaults filled in; options without a default are there only if they were given. */
export type Kept<F extends Fields> = Shown<
  { readonly [K in DefaultedKey<F>]: ValueOf<F[K]> } & Given<Omit<F, DefaultedKey<F>>>
>;

/** The type of an options object, from its table. */
export type OptionsOf<T extends OptionTable> = T extends OptionTable<infer F> ? Given<F> : never;

/** @param where the part that has these options; error messages begin with it */
export function options<F extends Fields>(where: string, fields: F): OptionTable<F> {
  const names = Object.keys(fields);
  return {
    where,
    fields,
    read(given) {
      const values = (given ?? {}) as Readonly<Record<string, unknown>>;
      checkKeys(where, values, names);
      const settled = names.map((name) => {
        const { [name]: value = fields[name]!.default } = values;
        const { accepts, expected, required } = fields[name]!;
        const isOpen = value === undefined && !required;
        check(isOpen || accepts(value), () => `${where}: ${name} must be ${expected}, got ${showValue(value)}`);
        return [name, value] as const;
      });
      return Object.fromEntries(settled) as Settled<F>;
    },
  };
}

/** A part without options: `read` refuses every name. */
export const noOptions = (where: string): OptionTable<Record<never, never>> => options(where, {});

/** The range of allowed numbers; without bounds every finite one. */
export interface NumberRange {
  readonly min?: number;
  readonly max?: number;
  /** Bounds that are not allowed themselves. */
  readonly above?: number;
  readonly below?: number;
  readonly integer?: boolean;
  /** Whether `Infinity` is allowed, too. */
  readonly infinite?: boolean;
  /** Whether 0 is allowed, too, whatever the bounds are. */
  readonly orZero?: boolean;
}

/** A number. @param fallback the default; `undefined`: none; `REQUIRED`: it has to be given */
export function number<D extends number | undefined | typeof REQUIRED>(
  fallback: D,
  about: string,
  range: NumberRange = {},
): Declared<number, D> {
  return declared(fallback, about, "number", rangeText(range), (value) => isWithin(value, range));
}

/** A yes or no. */
export function flag<D extends boolean | undefined | typeof REQUIRED>(
  fallback: D,
  about: string,
): Declared<boolean, D> {
  return declared(fallback, about, "switch", "true or false", (value) => typeof value === "boolean");
}

/** Any text. */
export function text<D extends string | undefined | typeof REQUIRED>(fallback: D, about: string): Declared<string, D> {
  return declared(fallback, about, "text", "text", (value) => typeof value === "string");
}

/** One of some words. */
export function oneOf<const W extends readonly string[], D extends W[number] | undefined | typeof REQUIRED>(
  words: W,
  fallback: D,
  about: string,
): Declared<W[number], D> {
  const quoted = words.map((word) => `"${word}"`);
  const expected = quoted.length < 2 ? quoted.join() : `${quoted.slice(0, -1).join(", ")} or ${quoted.at(-1)}`;
  return declared(fallback, about, words, expected, (value) => words.includes(value as string));
}

/** One of some words, or a finite number. */
export function wordOrNumber<const W extends readonly string[], D extends W[number] | number | undefined>(
  words: W,
  fallback: D,
  about: string,
): Declared<W[number] | number, D> {
  const expected = `${words.map((word) => `"${word}"`).join(", ")} or a finite number`;
  const accepts = (value: unknown): boolean => words.includes(value as string) || isWithin(value, {});
  return declared(fallback, about, "number or word", expected, accepts);
}

/** A number, or a function from the optimiser step (from 0) to one. */
export type Schedule = number | ((step: number) => number);

/** A number that may change with the steps; the result of a function is checked where it is called. */
export function schedule<D extends Schedule | undefined | typeof REQUIRED>(
  fallback: D,
  about: string,
  range: NumberRange = {},
): Declared<Schedule, D> {
  const expected = `${rangeText(range)}, or a function of the step`;
  return declared(fallback, about, "schedule", expected, (v) => typeof v === "function" || isWithin(v, range));
}

/** A lower and an upper bound, or `null` for none. */
export function bounds<D extends readonly [number, number] | null | undefined | typeof REQUIRED>(
  fallback: D,
  about: string,
): Declared<readonly [low: number, high: number] | null, D> {
  const accepts = (value: unknown): boolean =>
    value === null ||
    (Array.isArray(value) && value.length === 2 && value.every((x) => isWithin(x, {})) && value[0] <= value[1]);
  return declared(fallback, about, "bounds", "[low, high] with low ≤ high, or null", accepts);
}

/** A value that only code can give: a function, or an object of its own kind. */
export function inCode<T>(about: string, expected: string, accepts: (value: unknown) => boolean): Option<T>;
export function inCode<T>(
  about: string,
  expected: string,
  accepts: (value: unknown) => boolean,
  required: typeof REQUIRED,
): RequiredOption<T>;
export function inCode<T>(
  about: string,
  expected: string,
  accepts: (value: unknown) => boolean,
  required?: typeof REQUIRED,
): Option<T> {
  return declared<T, typeof REQUIRED | undefined>(required, about, "code", expected, accepts);
}

function declared<T, D>(
  fallback: D,
  about: string,
  kind: OptionKind,
  expected: string,
  accepts: (value: unknown) => boolean,
): Declared<T, D> {
  const required = fallback === REQUIRED;
  return { about, kind, expected, required, default: required ? undefined : fallback, accepts } as Declared<T, D>;
}

function isWithin(value: unknown, { min, max, above, below, integer, infinite, orZero }: NumberRange): boolean {
  if (typeof value !== "number" || Number.isNaN(value)) return false;
  if (value === 0 && orZero) return true;
  if (!Number.isFinite(value)) return infinite === true && value > 0;
  return (
    (!integer || Number.isInteger(value)) &&
    (min === undefined || value >= min) &&
    (max === undefined || value <= max) &&
    (above === undefined || value > above) &&
    (below === undefined || value < below)
  );
}

/** `in [0, 1)`, `> 0`, `an integer ≥ 1`, `a finite number`, `≥ 0.1, or 0`. */
function rangeText({ min, max, above, below, integer, infinite, orZero }: NumberRange): string {
  const low = min ?? above;
  const high = max ?? below;
  const range =
    low !== undefined && high !== undefined
      ? `in ${min === undefined ? "(" : "["}${low}, ${high}${max === undefined ? ")" : "]"}`
      : low !== undefined
        ? `${min === undefined ? ">" : "≥"} ${low}`
        : high !== undefined
          ? `${max === undefined ? "<" : "≤"} ${high}`
          : "";
  const text = integer ? `an integer ${range}`.trim() : range || "a finite number";
  return `${text}${infinite ? " or Infinity" : ""}${orZero ? ", or 0" : ""}`;
}
