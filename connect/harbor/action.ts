/**
 * What an agent's text asks for. One command of bash, in one of three forms: the text itself, the first block between
 * fences of three backticks, or calls of the tool `bash`, of which there may be several. `done`, or a call of `done` or
 * `submit`, ends the episode. A thought before it is left out.
 */
import { isCall, type McpTool, parseToolCalls, type ReadCall, withoutThought } from "../mcp/toolCall.ts";

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
export function fenced(text: string): string | undefined {
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

/** What an action asks for, in this order: at least one thing. It never throws. */
export function actionsOf(action: string): HarborAction[] {
  // As in a terminal: the return key is a line end, and NUL is nothing.
  const text = withoutThought(action.replaceAll("\0", "").replaceAll("\r\n", "\n").trim());
  if (text === undefined || isCall(text)) return parseToolCalls(text ?? action, KNOWN).map(asked);
  const command = (fenced(text) ?? text).trim();
  return [command === "done" ? { kind: "end" } : { kind: "command", command }];
}

function asked({ call, mistake }: ReadCall): HarborAction {
  if (call === undefined) return { kind: "mistake", what: mistake };
  if (call.name !== "bash") return { kind: "end" };
  const { command } = call.arguments;
  return typeof command === "string"
    ? { kind: "command", command: command.replaceAll("\0", "") }
    : { kind: "mistake", what: 'bash needs a "command", a text' };
}
