/**
 * Checks of option objects, and values in error messages. A misspelt option that is silently ignored is a wrong
 * experiment, so every function with options checks its keys here first. TypeScript catches literals; this catches
 * JSON, JavaScript and spreads.
 *
 * Plain options with defaults and ranges are declared in a table, which calls this (optionTable.ts). Where options are
 * tensors, models or functions, an interface declares them, and the compiler compares the list of keys with it.
 */
import { check, fail } from "./errors.ts";

/** The type `{}` if the list `K` names every key of T; else a required property that names the missing ones. */
type Complete<T, K extends readonly unknown[]> = [Exclude<keyof T, K[number]>] extends [never]
  ? unknown
  : { readonly missing: Exclude<keyof T, K[number]> };

/**
 * Throws if `object` is no object of options, or has a key that is not in `allowed`; names the nearest allowed key if
 * one is near.
 *
 * @param where the part that has these options; the message begins with it
 * @param allowed all keys of the type of `object`: a key that is missing here, or that the type does not have, is a
 *   type error. A list in a constant needs `as const`.
 * @throws WorldgradError `echo: unknown option 'lamda'; did you mean 'lambda'?`, `sum: expected options { axis,
 *   keepdims }, got 0`
 *
 * @example
 * checkKeys("echo", options, ["lambda", "normalise"]);
 */
export function checkKeys<T extends object, const K extends readonly (string & keyof T)[]>(
  where: string,
  object: T,
  allowed: K & Complete<T, K>,
): void {
  const known: readonly string[] = allowed;
  check(
    typeof object === "object" && (object as unknown) !== null && !Array.isArray(object),
    () => `${where}: expected options { ${known.join(", ")} }, got ${showValue(object)}`,
  );
  for (const key of Object.keys(object)) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    const hint = near === undefined ? `known options: ${known.join(", ") || "none"}` : `did you mean '${near}'?`;
    fail(`${where}: unknown option '${key}'; ${hint}`);
  }
}

/**
 * Throws if an option that is an object with code lacks the methods that are called on it.
 *
 * @param expected completes "must be …"; shows how one is made
 * @throws WorldgradError `objective: advantage must be an estimator such as grpo(), got "grpo"`
 */
export function checkMethods(
  where: string,
  name: string,
  value: unknown,
  expected: string,
  methods: readonly string[],
): void {
  const has = (method: string): boolean => typeof (value as Record<string, unknown> | null)?.[method] === "function";
  check(methods.every(has), () => `${where}: ${name} must be ${expected}, got ${showValue(value)}`);
}

/** `value` for an error message: its JSON, at most 60 characters; "missing" for undefined. Never throws. */
export function showValue(value: unknown): string {
  if (value === undefined) return "missing";
  if (value instanceof Promise) return "a promise; await it";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  let text: string;
  try {
    text = JSON.stringify(value, marked)?.replaceAll(/"\\u0000(NaN|-?Infinity)"/g, "$1") ?? typeof value;
  } catch {
    // A tensor, whose error describes it; or a value that is cyclic, or nested beyond the stack.
    text = ownWords(value) ?? Object.prototype.toString.call(value);
  }
  if (text === "{}" && !isPlain(value as object)) text = `${kindOf(value as object)} {}`;
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** JSON has no NaN and no infinity, and would write null. */
const marked = (_: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isFinite(value) ? `\0${value}` : value;
const kindOf = (value: { readonly constructor?: unknown }): string =>
  typeof value.constructor === "function" ? value.constructor.name : "object";
const isPlain = (value: object): boolean => [Object.prototype, null].includes(Object.getPrototypeOf(value) as null);

const ownWords = (value: unknown): string | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) && "toJSON" in value
    ? (value as { readonly toString: () => string }).toString()
    : undefined;

/** The longest delay of a timer in milliseconds, some 25 days; a longer one would fire at once. */
export const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * Whether plain data has more than so many levels. Received data may be deeper than the stack allows: `JSON.parse`
 * reads it, but `JSON.stringify` and most recursive code fail.
 */
export function nestsBeyond(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => nestsBeyond(inner, levels - 1));
}

/**
 * The length above which a word has no near ones: the time grows with the product of two lengths, and foreign input may
 * be long.
 */
const LONGEST_WORD = 64;

/**
 * The member of `candidates` with the smallest edit distance to `word`, ignoring case, or undefined if none is near: at
 * most one edit for every three letters, and two at least where the word has four letters or more. Ties: the first
 * wins.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > LONGEST_WORD) return undefined;
  const limit = Math.max(word.length >= 4 ? 2 : 1, Math.floor(word.length / 3));
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    if (candidate.length > word.length + limit) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/**
 * Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
 * alignment: Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964). O(|a|·|b|).
 */
export function editDistance<T>(a: ArrayLike<T>, b: ArrayLike<T>): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let distance = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) distance = Math.min(distance, beforeLast[j - 2]! + 1);
      row.push(distance);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
