/**
 * `worldgrad/mcp`: the tools of an MCP server as an environment. It needs Node and the package
 * `@modelcontextprotocol/sdk`, which it loads when a session is opened.
 */
export {
  mcp,
  McpEnvironment,
  type McpEpisode,
  type McpOptions,
  type McpReward,
  type McpServerOf,
  type McpSetup,
  type McpSpec,
  type McpTask,
  type McpTurn,
} from "./environment.ts";
export type { McpCommand } from "./process.ts";
export { type McpAddress, McpError, type McpServer } from "./session.ts";
export { describeTools, type McpTool, parseToolCalls, type ReadCall, resultText, toolDefinitions } from "./toolCall.ts";
export type { ToolCall, ToolDefinition, ToolResult } from "./toolCall.ts";
