/**
 * Calls of tools in two further forms (toolCalls.ts), whose parts are marked and whose names and arguments stand apart:
 *
 *     qwen3_coder     <tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>
 *     mistral_args    [TOOL_CALLS]NAME[ARGS]{…}[TOOL_CALLS]NAME[ARGS]{…}
 *
 * The values of the first are texts; the schema of the tool says what they mean.
 */
import { isFields } from "../fields.ts";

/** A call as the OpenAI API has it: its arguments are an object as JSON. */
export interface MarkedCall {
  readonly name: string;
  readonly arguments: string;
}

/** The schemas of the parameters of tools, by the tools' names. */
export type Schemas = Readonly<Record<string, unknown>>;

/** How a function begins. */
export const FUNCTION = "<function=";
const [FUNCTION_END, PARAMETER] = ["</function>", "<parameter="];
/**
 * The end of a value. Models leave out the tag of the end (vllm-project/vllm#23099); then it is the line before the
 * next parameter or before the end of the function.
 */
const VALUE_END = /<\/parameter>|\r?\n[ \t]*(?=<parameter=[^<>\n]{1,128}>|<\/function>)/g;

interface Scanned {
  readonly name: string;
  readonly values: readonly (readonly [key: string, value: string])[];
  /** The place behind it. */
  readonly end: number;
}

/** The function that begins at `from`, perhaps after spaces; Infinity: its end has not come; −1: none begins there. */
function scan(text: string, from: number): Scanned | number {
  const start = from + /^\s*/.exec(text.slice(from, from + 64))![0].length;
  const begins = text.slice(start, start + FUNCTION.length);
  if (begins !== FUNCTION) return FUNCTION.startsWith(begins) && start + begins.length === text.length ? Infinity : -1;
  const close = text.indexOf(">", start);
  if (close < 0) return text.length - start > 256 ? -1 : Infinity;
  const name = text.slice(start + FUNCTION.length, close).trim();
  if (name === "" || name.includes("<")) return -1;
  const values: [string, string][] = [];
  for (let at = close + 1; ;) {
    const end = text.indexOf(FUNCTION_END, at);
    const parameter = text.indexOf(PARAMETER, at);
    if (end >= 0 && (parameter < 0 || end < parameter)) return { name, values, end: end + FUNCTION_END.length };
    const key = parameter < 0 ? -1 : text.indexOf(">", parameter);
    if (key < 0) return Infinity;
    VALUE_END.lastIndex = key + 1;
    const found = VALUE_END.exec(text);
    if (found === null) return Infinity;
    const value = text
      .slice(key + 1, found.index)
      .replace(/^\r?\n/, "")
      .replace(/\r?\n$/, "");
    values.push([text.slice(parameter + PARAMETER.length, key).trim(), value]);
    at = found.index + found[0].length;
  }
}

/** The place behind the function that begins at `from`; Infinity: its end has not come; −1: none begins there. */
export function functionEnd(text: string, from: number): number {
  const found = scan(text, from);
  return typeof found === "number" ? found : found.end;
}

/** The call that a function is; undefined if it is none. @param schemas of the request's tools */
export function functionCall(body: string, schemas: Schemas): MarkedCall | undefined {
  const found = scan(body, 0);
  if (typeof found === "number") return undefined;
  const schema = Object.hasOwn(schemas, found.name) ? schemas[found.name] : undefined;
  const properties = isFields(schema) && isFields(schema["properties"]) ? schema["properties"] : {};
  const values = found.values.map(([key, value]) => {
    const about = Object.hasOwn(properties, key) ? properties[key] : undefined;
    return `${JSON.stringify(key)}: ${jsonOf(value, about)}`;
  });
  return { name: found.name, arguments: `{${values.join(", ")}}` };
}

/**
 * The value as JSON. Templates write texts as they are, lists and objects as JSON, and the rest as Python does. Numbers
 * keep their digits.
 */
function jsonOf(text: string, schema: unknown): string {
  const { type, anyOf, oneOf } = isFields(schema) ? schema : {};
  const others = [anyOf, oneOf].flatMap((each) => (Array.isArray(each) ? (each as unknown[]) : []));
  const types = [type, ...others.map((each) => (isFields(each) ? each["type"] : undefined))].flat();
  const isUnsaid = types.every((each) => each === undefined);
  const may = (...names: readonly string[]): boolean => types.some((each) => names.includes(each as string));
  const word = text.trim().toLowerCase();
  if (may("null") && (word === "null" || word === "none")) return "null";
  if (may("boolean") && (word === "true" || word === "false")) return word;
  if (may("integer", "number") && /^\s*-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?\s*$/i.test(text)) return text.trim();
  const parsed = isUnsaid || may("object", "array") ? parsedJson(text) : undefined;
  return isFields(parsed) || Array.isArray(parsed) ? text.trim() : JSON.stringify(text);
}

/** The value of a text; undefined if it is no JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The mark before a call of the second form. */
export const CALL_MARK = "[TOOL_CALLS]";

/** The most letters between a mark and the arguments. */
const MOST_LETTERS = 256;

/** The name of the call behind its mark, and the place of its arguments; undefined: this is no call. */
export function namedCall(text: string, from: number): { readonly name: string; readonly json: number } | undefined {
  // Models of 2025 also write an id between the two, and some leave out the second mark.
  const head = text.slice(from, from + MOST_LETTERS);
  const found = /^\s*([\w.-]{1,128})\s*(?:\[CALL_ID\]\s*\w*\s*)?(?:\[ARGS\])?\s*(?=\{)/.exec(head);
  return found ? { name: found[1]!, json: from + found[0].length } : undefined;
}

/** Whether the text behind a mark may still become a name with arguments. */
export const mayBeNamed = (text: string): boolean =>
  text.length < MOST_LETTERS && /^\s*([\w.-]{1,128}\s*(\[[\w\]]{0,8}\s*\w*\s*(\[[A-Z]{0,4}\]?)?\s*)?)?$/.test(text);
