/** JSON as Python reads it, for templates: integers keep all their digits, and `1.0` is no integer. */
import { check } from "../../engine/errors.ts";
import { Float } from "./jinja/values.ts";

/** Texts, and numbers outside of them. */
const PARTS = /"(?:[^"\\]|\\[^])*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Digits of an integer that Python's `int` reads by default (`sys.get_int_max_str_digits`): more cost n². */
const MOST_DIGITS = 4300;

/**
 * Parses JSON. Integers beyond 2⁵³ become bigints, numbers with a point or an exponent become `Float`.
 * @throws if the text is no JSON, or has an integer of more digits than Python reads
 */
export function parseExactly(text: string): unknown {
  JSON.parse(text); // it throws here, before texts and numbers get marks
  return unmarked(JSON.parse(text.replace(PARTS, marked)));
}

const marked = (part: string): string => (part.startsWith('"') ? `"t${part.slice(1)}` : `"n${part}"`);

function unmarked(value: unknown): unknown {
  if (typeof value === "string") return value.startsWith("t") ? value.slice(1) : numberIn(value.slice(1));
  if (Array.isArray(value)) return value.map(unmarked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key.slice(1), unmarked(item)]));
}

function numberIn(text: string): number | bigint | Float {
  const value = Number(text);
  if (/[.eE]/.test(text)) return new Float(value);
  if (Number.isSafeInteger(value)) return value;
  const digits = text.replace("-", "").length;
  check(digits <= MOST_DIGITS, () => `JSON: expected integers of at most ${MOST_DIGITS} digits, got one of ${digits}`);
  return BigInt(text);
}
