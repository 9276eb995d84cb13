/**
 * Calls of tools in what a model writes. A model uses one of three common forms; which one is found by rendering a call
 * with its chat template:
 *
 *     hermes    text<tool_call>{"name": …, "arguments": {…}}</tool_call>…    Qwen, Hermes, SmolLM
 *     llama3    {"name": …, "parameters": {…}}; …                            Llama 3, perhaps behind <|python_tag|>
 *     mistral   [{"name": …, "arguments": {…}}, …]                           Mistral, perhaps behind [TOOL_CALLS]
 *
 * Anything that is not JSON of this form stays text, and so does whatever stands in a thought (`<think>…</think>`). A
 * tag in a string of a call belongs to the string. The last two forms have no mark that every answer carries, so there
 * a call must also name a tool of the request and have arguments: a JSON answer with a field `name` is none.
 */
import type { Renderer } from "../chat/index.ts";
import { isFields } from "./http.ts";

/** A call as the OpenAI API has it. */
export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  /** `arguments`: an object as JSON. */
  readonly function: { readonly name: string; readonly arguments: string };
}

/** The form in which a model writes calls. */
export type ToolForm = "hermes" | "llama3" | "mistral";

/** The context that decides whether a text is a call. */
export interface AnswerContext {
  /** The names of the tools that may be called; undefined: any. */
  readonly names?: readonly string[] | undefined;
  /** Whether the prompt has begun a thought, so that the answer starts within it. */
  readonly isThought?: boolean | undefined;
}

/** An answer taken apart. */
export interface ParsedAnswer {
  /** The text without the calls. */
  readonly content: string;
  readonly calls: readonly ToolCall["function"][];
}

/** A call and its place in the text. */
interface Found {
  readonly start: number;
  readonly end: number;
  readonly call: ToolCall["function"];
}

/** The calls in a text that may still grow. */
interface Search {
  readonly found: readonly Found[];
  /** The length of the text that holds these calls and no others, whatever follows. */
  readonly certain: number;
}

const [OPEN, CLOSE] = ["<tool_call>", "</tool_call>"];
/** The mark that may stand before calls, and what separates them. */
const PLAIN = {
  llama3: { mark: "<|python_tag|>", separators: /[\s;]/ },
  mistral: { mark: "[TOOL_CALLS]", separators: /[\s[\],]/ },
} as const;

/** The reason why the calls of a template cannot be read. */
export type NoForm = "none" | "unsaid" | "other";

/**
 * The pattern of the call that a template without past calls tells the model to write: between tags, with words for
 * its parts.
 */
const TOLD =
  /<tool_call>\s*\{+(?=[^]{0,100}?["']name["']\s*:)(?=[^]{0,100}?["']arguments["']\s*:)[^]{0,200}?\}+\s*<\/tool_call>/;

/** The form in which a model writes calls, by its template; undefined if it has no tools, or another form. */
export function toolFormOf(chat: Renderer): ToolForm | undefined {
  const form = callsWrittenBy(chat);
  return form === "none" || form === "unsaid" || form === "other" ? undefined : form;
}

/**
 * The form of `toolFormOf` or the reason why there is none: the template writes no tools ("none"), tools without a
 * form of their calls ("unsaid"), or calls in a form that is not read here ("other"). A template that leaves out past
 * calls, as SmolLM3's does, may tell the model with the tools how to write one.
 */
export function callsWrittenBy(chat: Renderer): ToolForm | NoForm {
  const call = { type: "function", id: "qIDq00000", function: { name: "qNAMEq", arguments: { qKEYq: 1 } } };
  const parameters = { type: "object", properties: { qKEYq: { type: "number", description: "" } }, required: [] };
  const tool = { type: "function", function: { name: "qTOOLq", description: "", parameters } };
  const text = (messages: Parameters<Renderer["renderText"]>[0]): string => {
    try {
      return chat.renderText(messages, { tools: [tool] });
    } catch {
      return "";
    }
  };
  const user = { role: "user", content: "q" };
  const told = text([user]);
  if (!told.includes("qTOOLq")) return "none";
  const written = text([user, { role: "assistant", content: "", tool_calls: [call] }]);
  const at = written.indexOf("qNAMEq");
  // A template may refuse such calls, or know one by its id, in which the clients of its makers put the name.
  if (at < 0 && (written === "" || written.includes("qIDq"))) return "other";
  if (at < 0) return TOLD.test(told) ? "hermes" : "unsaid";
  if (written.lastIndexOf(OPEN, at) >= 0 && written.indexOf(CLOSE, at) >= 0)
    return /"arguments"\s*:\s*\{\s*"qKEYq"/.test(written) ? "hermes" : "other";
  if (/\[TOOL_CALLS\]\s*\[\s*\{[^]*"arguments"\s*:\s*\{\s*"qKEYq"/.test(written)) return "mistral";
  return /"parameters"\s*:\s*\{\s*"qKEYq"/.test(written.slice(at)) ? "llama3" : "other";
}

/** Takes an answer apart. Its content is the text before the first call, and what stands beside further ones. */
export function parseAnswer(form: ToolForm, text: string, context: AnswerContext = {}): ParsedAnswer {
  const { found } = search(form, text, context, true);
  if (found.length === 0) return { content: text, calls: [] };
  const between = found.map(({ end }, i) => text.slice(end, found[i + 1]?.start));
  const beside = between.filter((part) => /[^\s;,[\]]/.test(part));
  return { content: text.slice(0, found[0]!.start) + beside.join(""), calls: found.map(({ call }) => call) };
}

/** The length of the part of a growing text that cannot belong to a call, whatever follows. */
export function plainLength(form: ToolForm, text: string, context: AnswerContext = {}): number {
  const { found, certain } = search(form, text, context, false);
  return Math.min(certain, found[0]?.start ?? certain);
}

/** @param isWhole whether no text follows */
function search(form: ToolForm, text: string, context: AnswerContext, isWhole: boolean): Search {
  return form === "hermes" ? tagged(text, context, isWhole) : untagged(form, text, context, isWhole);
}

/** Calls between tags. One without an end goes to the next, or to the end of the text. */
function tagged(text: string, { isThought = false }: AnswerContext, isWhole: boolean): Search {
  const found: Found[] = [];
  let state: "text" | "thought" | "call" = isThought ? "thought" : "text";
  let [start, jsonEnd] = [0, 0];
  const close = (bodyEnd: number, end: number): void => {
    const call = callOf(text.slice(start + OPEN.length, bodyEnd));
    if (call) found.push({ start, end, call });
    state = "text";
  };
  for (const { 0: tag, index } of text.matchAll(/<\/?(?:think|tool_call)>/g)) {
    if (index < jsonEnd) continue;
    if (state === "thought") {
      if (tag === "</think>") state = "text";
    } else if (state === "call" && tag === CLOSE) close(index, index + CLOSE.length);
    else if (tag === OPEN) {
      if (state === "call") close(index, index);
      state = "call";
      start = index;
      jsonEnd = objectEnd(text, start + OPEN.length);
      // A string that has not ended may hold the tags that follow. If it never ends, they are tags.
      if (jsonEnd === Infinity && !isWhole) return { found, certain: start };
      if (jsonEnd === Infinity || !callOf(text.slice(start + OPEN.length, jsonEnd))) jsonEnd = 0;
    } else if (state === "text" && tag === "<think>") state = "thought";
  }
  if (state !== "call")
    return { found, certain: text.length - (state === "text" ? beginningOf(text, [OPEN, "<think>"]) : 0) };
  if (isWhole) close(text.length, text.length);
  return { found, certain: start };
}

/** The length of the longest end of a text with which one of the tags begins. */
function beginningOf(text: string, tags: readonly string[]): number {
  let longest = 0;
  for (const tag of tags)
    for (let length = tag.length - 1; length > longest; length--)
      if (text.endsWith(tag.slice(0, length))) longest = length;
  return longest;
}

/** Calls that are all of an answer, or all that stands behind one of its thoughts. */
function untagged(form: keyof typeof PLAIN, text: string, context: AnswerContext, isWhole: boolean): Search {
  let start = context.isThought ? thoughtEnd(text, 0) : 0;
  while (start >= 0) {
    const calls = callsBehind(form, text, start, context, isWhole);
    if (typeof calls !== "number") return calls;
    const next = text.indexOf("<think>", calls);
    start = next < 0 ? -1 : thoughtEnd(text, next);
  }
  return { found: [], certain: text.length };
}

/** The calls from a place on, if JSON objects alone stand there; otherwise the place of something else. */
function callsBehind(
  form: keyof typeof PLAIN,
  text: string,
  start: number,
  context: AnswerContext,
  isWhole: boolean,
): Search | number {
  const { mark, separators } = PLAIN[form];
  let at = start + /^\s*/.exec(text.slice(start))![0].length;
  if (text.startsWith(mark, at)) at += mark.length;
  else if (!isWhole && mark.startsWith(text.slice(at))) return { found: [], certain: start };
  const found: Found[] = [];
  let isFirst = true;
  while (at < text.length) {
    if (separators.test(text[at]!)) at++;
    else if (text[at] !== "{") return at;
    else {
      const end = objectEnd(text, at);
      // Either this is no object but text, or the object's end has not come.
      if (end < 0 || end === Infinity) return { found, certain: isFirst ? start : at };
      const call = callOf(text.slice(at, end), context.names ?? true);
      if (call) found.push({ start: isFirst ? start : at, end, call });
      isFirst = false;
      at = end;
    }
  }
  return { found, certain: isFirst ? start : text.length };
}

/** The position of the text behind a thought; −1: the thought has no end. */
function thoughtEnd(text: string, from: number): number {
  const at = text.indexOf("</think>", from);
  return at < 0 ? -1 : at + "</think>".length;
}

/**
 * The end of the JSON object that begins at a place; Infinity: not in this text; −1: no JSON, because a tag or a
 * backslash stands outside its strings. Braces and tags in strings are text.
 */
function objectEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const sign = text[at]!;
    if (sign === '"') {
      at = closingQuote(text, at);
      if (at < 0) return Infinity;
    } else if (sign === "<" || sign === "\\") return -1;
    else if (sign === "{") depth++;
    else if (sign === "}" && --depth === 0) return at + 1;
  }
  return Infinity;
}

/** The place of the quote that ends a JSON string; −1: none does. */
function closingQuote(text: string, opening: number): number {
  for (let at = opening + 1; at < text.length; at++) {
    if (text[at] === '"') return at;
    if (text[at] === "\\") at++;
  }
  return -1;
}

/** @param among undefined: the tags say that it is a call; else it must have arguments, and one of these names */
function callOf(json: string, among?: readonly string[] | true): ToolCall["function"] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isFields(value) || typeof value["name"] !== "string") return undefined;
  const { name, arguments: given = value["parameters"] } = value;
  const field = value["arguments"] === undefined ? "parameters" : "arguments";
  if (among !== undefined && (given === undefined || (among !== true && !among.includes(name)))) return undefined;
  if (!isFields(given ?? {})) return undefined;
  // In the model's own words: numbers have digits that JSON.parse does not keep.
  return { name, arguments: isFields(given) ? sourceOf(json, field) : "{}" };
}

/** The text of an object's field in its valid JSON; of several with its name the last counts, as for JSON.parse. */
function sourceOf(json: string, field: string): string {
  let [depth, key, start, source] = [0, "", -1, ""];
  for (let at = 0; at < json.length; at++) {
    const sign = json[at]!;
    if (sign === '"') {
      const end = closingQuote(json, at) + 1;
      if (depth === 1 && start < 0) key = JSON.parse(json.slice(at, end)) as string;
      at = end - 1;
    } else if (sign === ":" && depth === 1) start = at + 1;
    else if (sign === "{" || sign === "[") depth++;
    const isEnd = (sign === "}" || sign === "]") && --depth === 0;
    if (!isEnd && !(sign === "," && depth === 1)) continue;
    if (key === field) source = json.slice(start, at).trim();
    start = -1;
  }
  return source;
}
