/**
 * Calls of tools in what a model writes. A model uses one of two common forms; which one is found by rendering a call
 * with its chat template:
 *
 *     hermes   text<tool_call>{"name": …, "arguments": {…}}</tool_call>…    Qwen, Hermes, SmolLM
 *     llama3   {"name": …, "parameters": {…}}                               Llama 3, perhaps behind <|python_tag|>
 *
 * Anything that is not JSON of this form stays text.
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

/** How a model writes calls. */
export type ToolForm = "hermes" | "llama3";

/** An answer taken apart. */
export interface ParsedAnswer {
  readonly content: string;
  readonly calls: readonly ToolCall["function"][];
}

const [OPEN, CLOSE, PYTHON] = ["<tool_call>", "</tool_call>", "<|python_tag|>"];

/** The form in which a template writes calls; undefined if it writes neither tools nor calls, or in another form. */
export function toolFormOf(chat: Renderer): ToolForm | undefined {
  const call = { type: "function", id: "call00000", function: { name: "qNAMEq", arguments: { qKEYq: 1 } } };
  const tool = { type: "function", function: { name: "qTOOLq", description: "", parameters: { type: "object" } } };
  const text = (messages: Parameters<Renderer["renderText"]>[0]): string => {
    try {
      return chat.renderText(messages, { tools: [tool] });
    } catch {
      return "";
    }
  };
  const user = { role: "user", content: "q" };
  if (!text([user]).includes("qTOOLq")) return undefined;
  const written = text([user, { role: "assistant", content: "", tool_calls: [call] }]);
  const at = written.indexOf("qNAMEq");
  if (at < 0) return undefined;
  if (written.lastIndexOf(OPEN, at) >= 0 && written.indexOf(CLOSE, at) >= 0) return "hermes";
  return /"parameters"\s*:\s*\{\s*"qKEYq"/.test(written.slice(at)) ? "llama3" : undefined;
}

/** Takes an answer apart. Its content is the text before the first call. */
export function parseAnswer(form: ToolForm, text: string): ParsedAnswer {
  const calls: ToolCall["function"][] = [];
  if (form === "hermes") {
    const at = text.indexOf(OPEN);
    if (at < 0) return { content: text, calls };
    for (const part of text.slice(at).split(OPEN).slice(1)) {
      const call = callOf(part.split(CLOSE)[0]!);
      if (call === undefined) return { content: text, calls: [] };
      calls.push(call);
    }
    return { content: text.slice(0, at), calls };
  }
  const body = text.trim();
  const parts = objectsIn(body.startsWith(PYTHON) ? body.slice(PYTHON.length) : body);
  for (const part of parts) {
    const call = callOf(part);
    if (call === undefined) return { content: text, calls: [] };
    calls.push(call);
  }
  return calls.length === 0 ? { content: text, calls } : { content: "", calls };
}

/** The JSON objects of a text; none if anything but semicolons and spaces stands between them. */
function objectsIn(text: string): string[] {
  const found: string[] = [];
  let [depth, start] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!;
    if (depth === 0 && sign !== "{") {
      if (sign !== ";" && sign.trim() !== "") return [];
    } else if (sign === '"') {
      // Strings are skipped as a whole, because braces in them are text.
      at = closingQuote(text, at);
      if (at < 0) return [];
    } else if (sign === "{" && depth++ === 0) start = at;
    else if (sign === "}" && --depth === 0) found.push(text.slice(start, at + 1));
  }
  return depth === 0 ? found : [];
}

/** The place of the quote that ends a JSON string; −1: none does. */
function closingQuote(text: string, opening: number): number {
  for (let at = opening + 1; at < text.length; at++) {
    if (text[at] === '"') return at;
    if (text[at] === "\\") at++;
  }
  return -1;
}

/** The length of the part of a growing text that cannot belong to a call, whatever follows. */
export function plainLength(form: ToolForm, text: string): number {
  if (form === "llama3") {
    const begun = text.trimStart();
    return begun === "" || begun.startsWith("{") || PYTHON.startsWith(begun.slice(0, PYTHON.length)) ? 0 : text.length;
  }
  const at = text.indexOf(OPEN);
  if (at >= 0) return at;
  for (let length = OPEN.length - 1; length > 0; length--) {
    if (text.endsWith(OPEN.slice(0, length))) return text.length - length;
  }
  return text.length;
}

function callOf(json: string): ToolCall["function"] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isFields(value) || typeof value["name"] !== "string") return undefined;
  const given = value["arguments"] ?? value["parameters"] ?? {};
  return isFields(given) ? { name: value["name"], arguments: JSON.stringify(given) } : undefined;
}
