/**
 * What an agent's text asks for. One command of bash, in one of three forms: the text itself, the first block between
 * fences of three backticks, or a call of the tool `bash`. `done`, or a call of `done` or `submit`, ends the episode.
 */
import { WorldgradError } from "../../engine/errors.ts";
import { type McpTool, parseToolCall, type ToolCall } from "../mcp/toolCall.ts";

export type HarborAction =
  | { readonly kind: "command"; readonly command: string }
  | { readonly kind: "end" }
  | { readonly kind: "mistake"; readonly what: string };

const tool = (name: string, description: string, properties: object, required: readonly string[]): McpTool => ({
  name,
  description,
  inputSchema: { type: "object", properties, required },
});

/** The tools that an agent has, as the OpenAI API and MCP list them. */
export const HARBOR_TOOLS: readonly McpTool[] = [
  tool("bash", "runs a command in a shell, whose directory and variables last", { command: { type: "string" } }, [
    "command",
  ]),
  tool("done", "ends the task", {}, []),
];
const KNOWN = [...HARBOR_TOOLS, tool("submit", "ends the task", {}, [])];

/** The languages of a fence that hold a command. */
const LANGUAGES = new Set(["", "bash", "sh", "shell"]);

/** The text between the first fences for a shell; undefined if there are none. */
function fenced(text: string): string | undefined {
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i++) {
    if (!lines[i]!.startsWith("```")) continue;
    const end = lines.findIndex((line, at) => at > i && line.trimEnd() === "```");
    const body = lines.slice(i + 1, end < 0 ? lines.length : end).join("\n");
    if (LANGUAGES.has(lines[i]!.slice(3).trim().toLowerCase())) return body;
    if (end < 0) return undefined;
    i = end;
  }
  return undefined;
}

/** The tool call in a text, as JSON with or without tags; undefined if there is none. */
function callIn(text: string): string | undefined {
  const at = text.indexOf("<tool_call>");
  if (at >= 0) {
    const end = text.indexOf("</tool_call>", at);
    return text.slice(at + "<tool_call>".length, end < 0 ? text.length : end).trim();
  }
  return text.startsWith("{") && text.slice(1).trimStart().startsWith('"name"') ? text : undefined;
}

/** What an action asks for. It never throws. */
export function actionOf(action: string): HarborAction {
  // As in a terminal: the return key is a line end, and NUL is nothing.
  const text = action.replaceAll("\0", "").replaceAll("\r\n", "\n").trim();
  const call = callIn(text);
  if (call === undefined) {
    const command = (fenced(text) ?? text).trim();
    return command === "done" ? { kind: "end" } : { kind: "command", command };
  }
  let read: ToolCall;
  try {
    read = parseToolCall(call, KNOWN);
  } catch (error) {
    if (!(error instanceof WorldgradError)) throw error;
    return { kind: "mistake", what: error.message };
  }
  if (read.name !== "bash") return { kind: "end" };
  const { command } = read.arguments;
  return typeof command === "string"
    ? { kind: "command", command: command.replaceAll("\0", "") }
    : { kind: "mistake", what: 'bash needs a "command", a text' };
}
