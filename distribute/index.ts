/**
 * `worldgrad/distribute`: playing and learning at the same time, with workers.
 */
export { type AsyncOptions, type AsyncRlOptions, SCHEDULES, trainRlAsync } from "./async/train.ts";
export { localWorkers, type MessageTarget, messageWorkers, type RolloutWorker } from "./async/workers.ts";
export type { RolloutWorkers, WebWorkerLike, WorkerEvents, WorkerSetup } from "./async/workers.ts";
export { type ServeOptions, serveRollouts } from "./async/serve.ts";
export { type Finished, type QueueOptions, StalenessQueue } from "./async/queue.ts";
export type { FromWorker, Job, Policy, ToWorker, WireRequest } from "./async/messages.ts";
