/**
 * `worldgrad/worker`: an agent that learns in a Web Worker beside a page. `serveAgent` is for the worker, `AgentWorker`
 * for the page; docs/embedding.md shows both.
 */
export { type AgentPort, AgentWorker, type AgentWorkerOptions } from "./agentWorker.ts";
export type { AgentPlayOptions, PlayedEpisode, Port, TrainedStep } from "./messages.ts";
export { type Memory, type PageSide, type ServedAgent, serveAgent } from "./serveAgent.ts";
