/**
 * Tool calls as text: how an agent's action names tools and their arguments, and how a tool's result becomes an
 * observation. Two kinds of text are read:
 *
 *     {"name": "get-sum", "arguments": {"a": 2, "b": 3}}    forms of models with tool calling (../chat/toolCalls.ts):
 *                                                           one call or several, text and thoughts around them
 *     get-sum a=2 b=3                                       words, for small models: name=value, quoted if it has
 *     get-sum 2 3                                           spaces; values without a name fill the required arguments
 *
 * An argument's type comes from the tool's schema: `2` is a number if the schema asks for a number, and a text if it
 * asks for a text; `"2"` is a text wherever one may be. The server checks arguments; here only calls are refused that
 * no server could accept.
 */
import { check, fail, WorldgradError } from "../../engine/errors.ts";
import { nearest, nestsBeyond, showValue } from "../../engine/options.ts";
import { type Fields, isFields } from "../fields.ts";
import { CALL_MARK, FUNCTION, namedCall } from "../chat/markedCalls.ts";
import { THINK, THINK_END, thoughtIn } from "../chat/thoughts.ts";
import { parseAnswer, type ParsedAnswer, type ToolForm } from "../chat/toolCalls.ts";

/** A tool as its server describes it. */
export interface McpTool {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of its arguments. */
  readonly inputSchema: Fields;
}

/** A tool and the arguments for it. */
export interface ToolCall {
  readonly name: string;
  readonly arguments: Fields;
}

/** A tool as the OpenAI API lists it, for chat templates that show tools to a model. */
export interface ToolDefinition {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description: string; readonly parameters: Fields };
}

/** Tools in the form of the OpenAI API, `tools` of a chat template. */
export const toolDefinitions = (tools: readonly McpTool[]): ToolDefinition[] =>
  tools.map(({ name, description, inputSchema }) => ({
    type: "function",
    function: { name, description, parameters: inputSchema },
  }));

/** One line for each tool: `get-sum a b: Returns the sum of two numbers`; optional arguments are in brackets. */
export function describeTools(tools: readonly McpTool[]): string {
  return tools
    .map(({ name, description, inputSchema }) => {
      const { properties, required } = partsOf(inputSchema);
      const words = Object.keys(properties).map((word) => (required.includes(word) ? word : `[${word}]`));
      const [about] = description.split("\n");
      return `${[name, ...words].join(" ")}${about ? `: ${about}` : ""}`;
    })
    .join("\n");
}

/** The largest depth of arguments and answers, that of Python's JSON; `JSON.stringify` fails at some thousands. */
export const MOST_LEVELS = 1000;

function partsOf(schema: Fields): { properties: Readonly<Record<string, Fields>>; required: readonly string[] } {
  const { properties, required } = schema;
  return {
    properties: (isFields(properties) ? properties : {}) as Readonly<Record<string, Fields>>,
    required: Array.isArray(required) ? required.filter((word) => typeof word === "string") : [],
  };
}

/** A call of an action, or one line for the agent that says why it is none. */
export type ReadCall =
  { readonly call: ToolCall; readonly mistake?: undefined } | { readonly call?: undefined; readonly mistake: string };

/** Calls of one action; those beyond it are not made, and the agent is told so. */
const MOST_CALLS = 16;

/**
 * The tool calls of an action in their order, in whichever form, at least one entry. A mistake is an unknown tool, an
 * unknown argument, a value of another type, or a call that cannot be read.
 * @param tools those that may be called
 */
export function parseToolCalls(action: string, tools: readonly McpTool[]): ReadCall[] {
  const text = withoutThought(action.trim());
  if (text === undefined) return [{ mistake: "the action is a thought without an end" }];
  const calls = callsIn(text, tools).map((read): ReadCall => {
    try {
      const call = read();
      toolNamed(call.name, tools);
      return { call };
    } catch (error) {
      if (!(error instanceof WorldgradError)) throw error;
      return { mistake: error.message };
    }
  });
  const rest = calls.length - MOST_CALLS;
  if (rest <= 0) return calls;
  return [
    ...calls.slice(0, MOST_CALLS),
    { mistake: `an action has at most ${MOST_CALLS} calls; ${rest} were not made` },
  ];
}

/** The results of an action's calls as one observation: several have their numbers above them. */
export const joinResults = (results: readonly string[], calls: number): string =>
  calls <= 1 ? results.join("") : results.map((text, n) => `[${n + 1}/${calls}]\n${text}`).join("\n");

/** The marks by which forms of calls are told apart, and from a text. */
const [OPEN, CLOSE, PYTHON] = ["<tool_call>", "</tool_call>", "<|python_tag|>"];
const MARKS = [OPEN, FUNCTION, CALL_MARK, PYTHON] as const;

/** The first of these marks in a text: its place, or −1. */
const markIn = (text: string): number =>
  MARKS.map((mark) => text.indexOf(mark)).reduce(
    (first, at) => (at >= 0 && (first < 0 || at < first) ? at : first),
    -1,
  );

/** The text behind a thought, whose beginning the prompt may have written; undefined if the thought has no end. */
export function withoutThought(text: string): string | undefined {
  const mark = markIn(text);
  const end = text.indexOf(THINK_END);
  // A line ends behind a thought, or a call begins there: `grep "</think>" log` is no thought.
  const isBehind = (to: number): boolean => mark === to || /^\s{0,8}?\n/.test(text.slice(to, to + 9));
  const isBegun = end >= 0 && (mark < 0 || end < mark) && isBehind(end + THINK_END.length);
  if (!isBegun && !text.startsWith(THINK)) return text;
  if (end < 0) return undefined;
  return text.slice(thoughtIn(text, !text.startsWith(THINK), true).answer);
}

/** Readers of the calls in a text; each throws if it is none. */
function callsIn(text: string, tools: readonly McpTool[]): (() => ToolCall)[] {
  const form = formIn(text);
  if (form === undefined) return [() => fromWords(text, tools)];
  const schemas = Object.fromEntries(tools.map(({ name, inputSchema }) => [name, inputSchema]));
  const answer = parseAnswer(form, text, { schemas });
  if (answer.calls.length === 0) {
    const isWords = tools.some(({ name }) => text.startsWith(name) && /^\s|^$/.test(text.slice(name.length)));
    const inner = isWords ? text : unwrapped(text);
    return [() => (/^[{[]/.test(inner) ? fromJson(inner) : fromWords(inner, tools))];
  }
  return inOrder(answer).map((call) => () => {
    if (typeof call === "string") return fail(`a tool call cannot be read: ${showValue(call)}`);
    return fromFields(call.arguments, call);
  });
}

/** The calls of an answer in their places, those that cannot be read as texts. */
const inOrder = ({ calls, around }: ParsedAnswer): (ParsedAnswer["calls"][number] | string)[] =>
  around.flatMap((beside, i) => [...unreadIn(beside), ...calls.slice(i, i + 1)]);

/** The calls in a text beside those that could be read, each from its mark to the next one. */
function unreadIn(beside: string): string[] {
  const mark = MARKS.find((one) => beside.includes(one));
  if (mark === undefined) return [];
  return beside
    .split(mark)
    .slice(1)
    .map((rest) => mark + rest.trimEnd());
}

/** Whether a text has the marks of a call, or is a JSON object with a name. */
export const isCall = (text: string): boolean =>
  markIn(text) >= 0 || (text.startsWith("{") && text.slice(1).trimStart().startsWith('"name"'));

/**
 * The names of the tools in a text without a thought, in the order of its calls, whatever tools there are; in words the
 * first one. Undefined: a call among others that cannot be read. None: the text is empty, or one call without a name
 * that can be read.
 */
export function namesCalled(text: string): readonly (string | undefined)[] {
  const form = formIn(text);
  const answer = form && parseAnswer(form, text);
  if (answer && answer.calls.length > 0)
    return inOrder(answer).map((call) => (typeof call === "string" ? undefined : call.name));
  const words = markIn(text) === 0 ? unwrapped(text) : text;
  return /^[{[]/.test(words) ? [] : words.trim().split(/\s/, 1).filter(Boolean);
}

/** The form of the calls in a text; undefined: it has no mark of one, and is words. */
function formIn(text: string): ToolForm | undefined {
  const at = markIn(text);
  if (at >= 0 && text.startsWith(CALL_MARK, at))
    return namedCall(text, at + CALL_MARK.length) === undefined ? "mistral" : "mistral_args";
  if (text.startsWith(PYTHON)) return "llama3";
  if (at >= 0 && !text.startsWith(PYTHON, at)) return text.includes(FUNCTION) ? "qwen3_coder" : "hermes";
  return text.startsWith("{") ? "llama3" : /^\[\s{0,8}\{/.test(text) ? "mistral" : undefined;
}

/** What stands behind the mark of the first call. */
function unwrapped(text: string): string {
  const at = Math.max(0, markIn(text));
  const body = text.slice(at + (MARKS.find((mark) => text.startsWith(mark, at))?.length ?? 0));
  const end = body.lastIndexOf(CLOSE);
  return (end < 0 ? body : body.slice(0, end)).trim();
}

function toolNamed(name: string, tools: readonly McpTool[]): McpTool {
  const known = tools.map((tool) => tool.name);
  const near = nearest(name, known);
  const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean ${near}?`;
  return tools.find((tool) => tool.name === name) ?? fail(`unknown tool ${showValue(name)}; ${hint}`);
}

function fromJson(text: string): ToolCall {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fail(`the tool call is no valid JSON: ${showValue(text)}`);
  }
  return fromFields(text, isFields(value) ? value : {});
}

/** The call that a JSON object is. @param text its source, for numbers */
function fromFields(text: string, fields: Fields): ToolCall {
  const { name, arguments: given = fields["parameters"] ?? {} } = fields;
  if (typeof name !== "string") return fail('a tool call needs a "name", a text');
  // Some models write the arguments as a text that holds JSON, as the OpenAI API sends them.
  let args: unknown = given;
  exact(name, typeof given === "string" ? given : text);
  if (typeof given === "string") {
    try {
      args = JSON.parse(given);
    } catch {
      return fail(`${name}: the arguments are no valid JSON: ${showValue(given)}`);
    }
  }
  return isFields(args)
    ? { name, arguments: shallow(`${name}: "arguments"`, args) }
    : fail(`${name}: "arguments" must be an object`);
}

/** `word`, `name=value`, values in single or double quotes (a backslash keeps the next character as it is). */
const WORD = /(?:([\w.-]+)=)?(?:"((?:\\[^]|[^"\\])*)"|'((?:\\[^]|[^'\\])*)'|([^\s"'][^\s]*))(?=\s|$)/gy;

function fromWords(text: string, tools: readonly McpTool[]): ToolCall {
  const name = /^\S+/.exec(text)?.[0] ?? fail("the action is empty; name a tool");
  const { inputSchema } = toolNamed(name, tools);
  const { properties, required } = partsOf(inputSchema);
  // Without a prototype, so that an argument may be called __proto__.
  const args = Object.create(null) as Record<string, unknown>;
  const free = [...required, ...Object.keys(properties).filter((word) => !required.includes(word))];
  const put = (key: string, value: string, isQuoted: boolean): void => {
    const known = Object.keys(properties);
    if (!Object.hasOwn(properties, key)) {
      const near = nearest(key, known);
      const hint = near === undefined ? `it has ${known.join(", ") || "none"}` : `did you mean ${near}?`;
      fail(`${name}: unknown argument ${showValue(key)}; ${hint}`);
    }
    if (Object.hasOwn(args, key)) fail(`${name}: argument ${key} is there twice`);
    args[key] = typed(`${name}: ${key}`, value, admittedBy(properties[key], inputSchema), isQuoted);
  };
  let at = name.length;
  for (;;) {
    while (/\s/.test(text[at] ?? "")) at++;
    if (at >= text.length) break;
    WORD.lastIndex = at;
    const found = WORD.exec(text);
    if (found === null) return fail(`${name}: cannot read ${showValue(text.slice(at))}; is a quote missing?`);
    at = WORD.lastIndex;
    const [whole, key, double, single, bare] = found;
    const quoted = double ?? single;
    const value = quoted === undefined ? bare! : quoted.replace(/\\([^])/g, "$1");
    // `a=b` is a value with a name only if the tool has such an argument, or takes none without.
    const isNamed = key !== undefined && (Object.hasOwn(properties, key) || quoted !== undefined || free.length === 0);
    if (isNamed) put(key, value, quoted !== undefined);
    else {
      const next = free.find((word) => !Object.hasOwn(args, word));
      if (next === undefined) return fail(`${name}: too many arguments, from ${showValue(whole)} on`);
      put(next, key === undefined ? value : whole, quoted !== undefined);
    }
  }
  return { name, arguments: { ...args } };
}

/** The types that an argument may have (JSON Schema's; undefined: any), and its values, if they are listed. */
interface Admitted {
  readonly types: ReadonlySet<unknown> | undefined;
  readonly values: readonly unknown[];
}

/** The largest number of parts of a schema that are read; a schema that has more admits anything. */
const MOST_PARTS = 100;

/**
 * The types and values that a schema admits by `type`, `enum`, `const`, `anyOf`, `oneOf` and references within `root`.
 * Other keywords are ignored.
 */
function admittedBy(schema: unknown, root: Fields): Admitted {
  const types = new Set<unknown>();
  const values: unknown[] = [];
  let isAny = false;
  const open: unknown[] = [schema];
  for (const part of open) {
    if (!isFields(part) || open.length > MOST_PARTS) {
      isAny = true;
      break;
    }
    const { type, enum: listed, const: only, anyOf, oneOf, $ref } = part;
    const own = Array.isArray(listed) ? (listed as readonly unknown[]) : only !== undefined ? [only] : [];
    const alternatives: unknown = anyOf ?? oneOf;
    for (const value of own) values.push(value);
    if (type !== undefined) for (const one of Array.isArray(type) ? (type as unknown[]) : [type]) types.add(one);
    else if (own.length > 0) for (const value of own) types.add(typeOf(value));
    else if (typeof $ref === "string") open.push(referenced($ref, root));
    else if (Array.isArray(alternatives)) for (const one of alternatives) open.push(one);
    else isAny = true;
  }
  return { types: isAny ? undefined : types, values };
}

const typeOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

/** The schema at `#/$defs/Name`. */
function referenced(pointer: string, root: Fields): unknown {
  const [start, ...steps] = pointer.split("/");
  if (start !== "#") return undefined;
  return steps
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>((at, step) => (isFields(at) && Object.hasOwn(at, step) ? at[step] : undefined), root);
}

/**
 * The value of an argument, in a type that its schema admits. If it admits texts and other types, a quoted value is a
 * text; if it admits texts and numbers, a value that is no number is a text.
 */
function typed(where: string, value: string, { types, values }: Admitted, isQuoted: boolean): unknown {
  const listed = values.find((each) => (typeof each === "string" ? each : JSON.stringify(each)) === value);
  if (listed !== undefined && !(isQuoted && typeof listed !== "string")) return listed;
  const others = [...(types ?? [])].filter((type) => type !== "null");
  const isText = types === undefined || types.has("string");
  if (isText && (isQuoted || (others.length === 1 && others[0] === "string"))) return value;
  if (types?.has("number") || types?.has("integer")) {
    const number = value.trim() === "" ? NaN : Number(value);
    if (Number.isFinite(number)) {
      exact(where, value);
      return number;
    }
    if (types.size === 1) return fail(`${where} must be a number, got ${showValue(value)}`);
  }
  if (types?.has("string")) return value;
  let read: unknown;
  try {
    read = JSON.parse(value);
  } catch {
    // Without a type, a value that is no JSON is a text.
    return types === undefined
      ? value
      : fail(`${where} must be ${[...types].map(said).join(" or ")}, got ${showValue(value)}`);
  }
  exact(where, value);
  return shallow(where, read);
}

/**
 * Refuses integers beyond 2⁵³, which would be sent as others: another record would be read or deleted.
 * @throws if the text has one outside of quotes
 */
function exact(where: string, text: string): void {
  for (const [part] of text.matchAll(/"(?:[^"\\]|\\[^])*"|[+-]?\d[\d.eE+-]*/g)) {
    const isInteger = /^[+-]?\d+$/.test(part) && !Number.isSafeInteger(Number(part));
    if (isInteger && String(Number(part)) !== part)
      fail(`${where}: the number ${part} has more digits than can be sent; if a text is allowed, put it in quotes`);
  }
}

/** @throws if an argument has more levels than can be sent */
function shallow<T>(where: string, value: T): T {
  check(!nestsBeyond(value, MOST_LEVELS), () => `${where} has more than ${MOST_LEVELS} levels`);
  return value;
}

/** A tool's answer, as far as it is used here. */
export interface ToolResult {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  readonly isError?: unknown;
}

/**
 * A tool's result as text: its texts, one after the other, and for other data a note of its kind and size. If a result
 * has no content, its structured content is written as JSON. Above `limit` characters the middle is cut out.
 */
export function resultText(result: ToolResult, limit: number): string {
  const parts = Array.isArray(result.content) ? (result.content as readonly unknown[]) : [];
  const texts = parts.map(partText);
  const { structuredContent } = result;
  if (texts.length === 0 && structuredContent !== undefined) texts.push(JSON.stringify(structuredContent));
  const text = texts.join("\n");
  if (text.length <= limit) return text;
  const note = ` … ${text.length - limit} characters left out … `;
  const head = Math.ceil(limit / 2);
  const tail = limit - head;
  // The cut does not split a surrogate pair.
  const before = text.slice(0, head).replace(/[\uD800-\uDBFF]$/, "");
  const after = text.slice(text.length - tail).replace(/^[\uDC00-\uDFFF]/, "");
  return `${before}${note}${after}`;
}

/** A part's field as text; what is none is shown as JSON. `String` would call a `toString` that the server wrote. */
const said = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? "missing"));

function partText(part: unknown): string {
  if (!isFields(part)) return "";
  const { type, text, data, mimeType, uri, resource } = part;
  switch (type) {
    case "text":
      return said(text);
    case "image":
    case "audio":
      return `[${type} ${said(mimeType)}, ${Math.floor((said(data).length * 3) / 4)} bytes]`;
    case "resource_link":
      return `[resource ${said(uri)}]`;
    case "resource":
      return isFields(resource) && typeof resource["text"] === "string"
        ? resource["text"]
        : `[resource ${isFields(resource) ? said(resource["uri"]) : "without an address"}]`;
    default:
      return `[${said(type)}]`;
  }
}
