/**
 * `worldgrad/nats`: more than one machine, through a NATS server with JetStream. Workers elsewhere play: the learner
 * takes `natsWorkers` for `trainRlAsync`, a worker calls `serveNats`. Learners elsewhere compute gradients: the one
 * that has the run takes `natsLearners`, the others call `serveLearner`. docs/scale.md says what is promised. The
 * packages of NATS's client (`@nats-io/transport-node`, `jetstream`, `kv`, `obj`) are optional peers.
 */
export { type NatsWorkers, natsWorkers, type NatsWorkersOptions } from "./learner.ts";
export { type NatsLearners, natsLearners, type NatsLearnersOptions } from "./learners.ts";
export { serveLearner, type ServeLearnerOptions, serveNats, type ServeNatsOptions } from "./serve.ts";
export type { Followed } from "./follower.ts";
export type { Served } from "./worker.ts";
export { type ConnectionOptions, publicAddress } from "./connection.ts";
