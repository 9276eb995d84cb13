/**
 * `worldgrad/nats`: rollout workers on other machines, through a NATS server with JetStream. The learner takes
 * `natsWorkers` for `trainRlAsync`; a worker anywhere calls `serveNats`. docs/scale.md says what is promised. The
 * client's packages (`@nats-io/transport-node`, `jetstream`, `kv`, `obj`) are optional peers.
 */
export { type NatsWorkers, natsWorkers, type NatsWorkersOptions } from "./learner.ts";
export { serveNats, type ServeNatsOptions } from "./serve.ts";
export type { Served } from "./worker.ts";
export { type ConnectionOptions, publicAddress } from "./connection.ts";
