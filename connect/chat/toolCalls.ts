/**
 * Calls of tools in what a model writes. A model uses one of five common forms; which one is found by rendering a call
 * with its chat template:
 *
 *     hermes        text<tool_call>{"name": …, "arguments": {…}}</tool_call>…    Qwen to 3, Hermes, SmolLM
 *     qwen3_coder   text<tool_call><function=NAME>…</function></tool_call>…      Qwen3-Coder, Qwen 3.5, Nemotron 3
 *     llama3        {"name": …, "parameters": {…}}; …                            Llama 3, perhaps behind <|python_tag|>
 *     mistral       [{"name": …, "arguments": {…}}, …]                           Mistral, perhaps behind [TOOL_CALLS]
 *     mistral_args  text[TOOL_CALLS]NAME[ARGS]{…}[TOOL_CALLS]…                   Mistral since Small 3.2, Devstral
 *
 * Anything that is not of this form stays text, and so does whatever stands in a thought (`<think>…</think>`). A tag in
 * a string of a call belongs to the string. `llama3` and `mistral` have no mark that every answer carries, so there a
 * call must also name a tool of the request and have arguments: a JSON answer with a field `name` is none.
 * markedCalls.ts reads names and arguments of the two forms that are not JSON.
 */
import type { Renderer } from "./types.ts";
import { isFields } from "../fields.ts";
import {
  CALL_MARK,
  FUNCTION,
  functionCall,
  functionEnd,
  mayBeNamed,
  namedCall,
  parsedJson,
  type Schemas,
} from "./markedCalls.ts";

/** A call as the OpenAI API has it. */
export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  /** `arguments`: an object as JSON. */
  readonly function: { readonly name: string; readonly arguments: string };
}

/** The form in which a model writes calls. */
export type ToolForm = "hermes" | "qwen3_coder" | "llama3" | "mistral" | "mistral_args";

/** The context that decides whether a text is a call. */
export interface AnswerContext {
  /** The names of the tools that may be called; undefined: any. */
  readonly names?: readonly string[] | undefined;
  /** The schemas of their parameters, for forms whose values are texts; default: all values are texts. */
  readonly schemas?: Schemas | undefined;
  /** Whether the prompt has begun a thought, so that the answer starts within it. */
  readonly isThought?: boolean | undefined;
}

/** An answer taken apart. */
export interface ParsedAnswer {
  /** The text without the calls. */
  readonly content: string;
  readonly calls: readonly ToolCall["function"][];
  /** The text before each call, and behind the last one. */
  readonly around: readonly string[];
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
  if (at < 0) return TOLD.test(told) ? "hermes" : /<function=[^<]*<parameter=/.test(told) ? "qwen3_coder" : "unsaid";
  if (written.lastIndexOf(OPEN, at) >= 0 && written.indexOf(CLOSE, at) >= 0) {
    if (/<function=qNAMEq>\s*<parameter=qKEYq>\s*1\s*<\/parameter>\s*<\/function>/.test(written)) return "qwen3_coder";
    return /"arguments"\s*:\s*\{\s*"qKEYq"/.test(written) ? "hermes" : "other";
  }
  if (/\[TOOL_CALLS\]qNAMEq(\[CALL_ID\]\w+)?(\[ARGS\])?\{\s*"qKEYq"/.test(written)) return "mistral_args";
  if (/\[TOOL_CALLS\]\s*\[\s*\{[^]*"arguments"\s*:\s*\{\s*"qKEYq"/.test(written)) return "mistral";
  return /"parameters"\s*:\s*\{\s*"qKEYq"/.test(written.slice(at)) ? "llama3" : "other";
}

/** Takes an answer apart. Its content is the text before the first call, and what stands beside further ones. */
export function parseAnswer(form: ToolForm, text: string, context: AnswerContext = {}): ParsedAnswer {
  const { found } = search(form, text, context, true);
  const around = [0, ...found.map(({ end }) => end)].map((end, i) => text.slice(end, found[i]?.start));
  const [before, ...behind] = around;
  const beside = behind.filter((part) => /[^\s;,[\]]/.test(part));
  return { content: before! + beside.join(""), calls: found.map(({ call }) => call), around };
}

/** The length of the part of a growing text that cannot belong to a call, whatever follows. */
export function plainLength(form: ToolForm, text: string, context: AnswerContext = {}): number {
  const { found, certain } = search(form, text, context, false);
  return Math.min(certain, found[0]?.start ?? certain);
}

/** @param isWhole whether no text follows */
function search(form: ToolForm, text: string, context: AnswerContext, isWhole: boolean): Search {
  if (form === "mistral_args") return marked(text, context, isWhole);
  const isTagged = form === "hermes" || form === "qwen3_coder";
  return isTagged ? tagged(form, text, context, isWhole) : untagged(form, text, context, isWhole);
}

/** How the two forms between tags begin, end and are read. */
const TAGGED = {
  hermes: { tags: /<\/?(?:think|tool_call)>/g, bodyEnd: objectEnd, read: (body: string) => callOf(body) },
  qwen3_coder: {
    // Qwen3-Coder often leaves out the outer tag (ollama/ollama#16686); then it must name a tool of the request.
    tags: /<\/?(?:think|tool_call)>|<function=/g,
    bodyEnd: functionEnd,
    read: (body: string, { schemas = {} }: AnswerContext) => functionCall(body, schemas),
  },
} as const;

/** Calls without an end whose ends are looked for: each is read to the end of the text. */
const MOST_ENDLESS = 8;

/** Calls between tags. One without an end goes to the next, or to the end of the text. */
function tagged(form: keyof typeof TAGGED, text: string, context: AnswerContext, isWhole: boolean): Search {
  const { tags, bodyEnd, read } = TAGGED[form];
  const found: Found[] = [];
  let state: "text" | "thought" | "call" = context.isThought ? "thought" : "text";
  let [start, bodyStart, jsonEnd, endless] = [0, 0, 0, 0];
  const close = (to: number, end: number): void => {
    const call = read(text.slice(bodyStart, to), context);
    const isBare = bodyStart === start;
    if (call && (!isBare || (context.names?.includes(call.name) ?? true))) found.push({ start, end, call });
    state = "text";
  };
  for (const { 0: tag, index } of text.matchAll(tags)) {
    if (index < jsonEnd) continue;
    if (state === "thought") {
      if (tag === "</think>") state = "text";
    } else if (state === "call" && tag === CLOSE) close(index, index + CLOSE.length);
    else if (tag === OPEN || tag === FUNCTION) {
      if (state === "call") close(index, index);
      state = "call";
      start = index;
      bodyStart = tag === OPEN ? start + OPEN.length : start;
      jsonEnd = endless < MOST_ENDLESS ? bodyEnd(text, bodyStart) : -1;
      if (jsonEnd === Infinity) endless++;
      // A string that has not ended may hold the tags that follow. If it never ends, they are tags.
      if (jsonEnd === Infinity && !isWhole) return { found, certain: start };
      if (jsonEnd === Infinity || jsonEnd < 0 || !read(text.slice(bodyStart, jsonEnd), context)) jsonEnd = 0;
    } else if (state === "text" && tag === "<think>") state = "thought";
  }
  if (state !== "call")
    return { found, certain: text.length - (state === "text" ? beginningOf(text, [OPEN, FUNCTION, "<think>"]) : 0) };
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

/** Calls of which each has a mark of its own. */
function marked(text: string, { isThought = false }: AnswerContext, isWhole: boolean): Search {
  const found: Found[] = [];
  let at = isThought ? thoughtEnd(text, 0) : 0;
  let endless = 0;
  while (at >= 0 && endless < MOST_ENDLESS) {
    const start = text.indexOf(CALL_MARK, at);
    const thought = text.indexOf("<think>", at);
    if (thought >= 0 && (start < 0 || thought < start)) at = thoughtEnd(text, thought);
    else if (start < 0) return { found, certain: text.length - beginningOf(text, [CALL_MARK, "<think>"]) };
    else {
      at = start + CALL_MARK.length;
      const named = namedCall(text, at);
      if (named === undefined) {
        if (!isWhole && mayBeNamed(text.slice(at))) return { found, certain: start };
        continue;
      }
      const end = objectEnd(text, named.json);
      if (end === Infinity && !isWhole) return { found, certain: start };
      if (end === Infinity) endless++;
      if (end < 0 || end === Infinity) continue;
      const source = text.slice(named.json, end);
      if (isFields(parsedJson(source))) found.push({ start, end, call: { name: named.name, arguments: source } });
      at = end;
    }
  }
  return { found, certain: text.length };
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
  const value = parsedJson(json);
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
