/** Workers on other machines, for the learner: `natsWorkers`, its options, and the object that `trainRlAsync` takes. */
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { RolloutWorkers } from "../async/workers.ts";
import { CONNECTION, connectTo } from "./connection.ts";
import { Fleet } from "./fleet.ts";

const LEARNER = options("natsWorkers", {
  ...CONNECTION.fields,
  quotaBytes: number(2 ** 28, "bytes of episodes that the server stores; workers wait when it is full", {
    integer: true,
    min: 1024,
  }),
  quotaEpisodes: number(100_000, "episodes that the server stores", { integer: true, min: 1 }),
  largest: number(2 ** 26, "bytes of an episode at most", { integer: true, min: 1024 }),
  ackWait: number(15, "seconds after which the episodes of a worker that says nothing go to another", { above: 0 }),
  maxDeliveries: number(20, "how many workers may die of the same episodes before the run ends", {
    integer: true,
    min: 1,
  }),
  recheck: number(10, "seconds between two looks for episodes that got lost", { above: 0 }),
});

/** Options of `natsWorkers`: the server, credentials, and limits. */
export interface NatsWorkersOptions extends OptionsOf<typeof LEARNER> {
  /** Is called with one line for the user: workers that come and go, a server that is away. */
  readonly note?: (line: string) => void;
}

/** Workers on other machines, for `trainRlAsync`. */
export interface NatsWorkers extends RolloutWorkers {
  /** State for checkpoints, so that a resumed run uses the episodes that its workers have stored. */
  readonly memory: NonNullable<RolloutWorkers["memory"]>;
  /** Closes the connection; a run that was started does so itself at its end. */
  close(): Promise<void>;
}

/**
 * Connects to a NATS server with JetStream, through which workers anywhere (`serveNats`, `npm run worker`) play.
 * @throws within seconds if there is no server, or if it refuses
 *
 * @example
 * const workers = await natsWorkers({ server: "nats://127.0.0.1:4222" });
 * for await (const { metrics } of trainRlAsync({ ...options, workers, maxStaleness: 1 })) console.log(metrics);
 */
export async function natsWorkers({ note = () => {}, ...given }: NatsWorkersOptions): Promise<NatsWorkers> {
  const settled = LEARNER.read(given);
  const link = await connectTo(settled, "worldgrad learner", note);
  const fleet = new Fleet(link, settled, note);
  return {
    count: 1,
    memory: { state: () => fleet.state(), restore: (saved) => fleet.restore(saved) },
    start(_index, setup, events) {
      fleet.start(setup, events);
      return { post: (message) => fleet.post(message), terminate: () => fleet.close() };
    },
    learnt: (streams) => fleet.learnt(streams),
    metrics: () => fleet.metrics(),
    close: () => fleet.close(),
  };
}
