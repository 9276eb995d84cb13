/**
 * `worldgrad/serve`: our policy behind the OpenAI API, and episodes that other people's agents play through it. It
 * needs Node.
 */
export { checkpointChat, type CheckpointChatOptions } from "./checkpointChat.ts";
export type { ToolCall, ToolForm } from "../chat/toolCalls.ts";
export { type ChatFormat, type ChatMessage, episodeChat } from "./chat.ts";
export { type EngineOptions, type FinishReason, type Generation, GenerationEngine } from "./engine.ts";
export { type GenerationRequest, type LogitsProcessor, OverloadedError } from "./engine.ts";
export type { ServedToken } from "./scores.ts";
export { HttpError } from "./http.ts";
export { type AgentCall, agentEpisodes, type AgentEpisodesOptions } from "./agents.ts";
export { type OpenEnvServer, serveOpenEnv, type ServeOpenEnvOptions } from "./openEnv.ts";
export { Rollout, type RolloutEnd, type RolloutFacts } from "./rollouts.ts";
export { PolicyServer, type Reload, type ServedModel, servePolicy, type ServePolicyOptions } from "./server.ts";
