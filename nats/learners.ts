/** The side of the learner that has the run: `natsLearners` and its options. */
import { inCode, number, options, type OptionsOf } from "../engine/optionTable.ts";
import { sharedLearners } from "../rl/learners/shared.ts";
import type { Learners } from "../rl/train/learners.ts";
import { CONNECTION, connectTo } from "./connection.ts";
import { Hub } from "./hub.ts";

const LEARNERS = options("natsLearners", {
  ...CONNECTION.fields,
  silence: number(10, "seconds without a word after which another learner counts as gone", { above: 0 }),
  settings: inCode<unknown>("plain data for `serveLearner`'s `objective`", "plain data", () => true),
});

/** Options of `natsLearners`: the server, credentials, and when a silent learner is given up. */
export interface NatsLearnersOptions extends OptionsOf<typeof LEARNERS> {
  /** Is called with one line for the user: learners that come and go. */
  readonly note?: (line: string) => void;
}

/** Other learners at a server, for `trainRl` and `trainRlAsync`. */
export interface NatsLearners extends Learners {
  close(): Promise<void>;
}

/**
 * Connects to a NATS server with JetStream, through which other learners (`serveLearner`, `npm run worker -- --learn`)
 * compute gradients of some micro-batches. The run is the same, bit for bit, with any number of them.
 * @throws within seconds if there is no server, or if it refuses
 *
 * @example
 * const learners = await natsLearners({ server: "nats://127.0.0.1:4222" });
 * for await (const { metrics } of trainRl({ ...options, learners })) console.log(metrics);
 * await learners.close();
 */
export async function natsLearners({ note = () => {}, ...given }: NatsLearnersOptions): Promise<NatsLearners> {
  const settled = LEARNERS.read(given);
  const link = await connectTo(settled, "worldgrad learner", note);
  const hub = new Hub(link, { silence: settled.silence, settings: settled.settings }, note);
  return { ...sharedLearners((pass) => hub.share(pass)), close: () => hub.close() };
}
