/**
 * `worldgrad/nats`: workers on other machines, which play through a NATS server with JetStream. The learner takes
 * `natsWorkers` for `trainRlAsync`, a worker calls `serveNats`. docs/scale.md says what is promised. The packages of
 * NATS's client (`@nats-io/transport-node`, `jetstream`, `kv`, `obj`) are optional peers.
 */
export { type NatsWorkers, natsWorkers, type NatsWorkersOptions } from "./learner.ts";
export { serveNats, type ServeNatsOptions } from "./serve.ts";
export type { Served } from "./worker.ts";
export { type ConnectionOptions, publicAddress } from "./connection.ts";
