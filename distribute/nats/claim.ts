/**
 * Ownership of a queue: one learner at a time owns it. A run that is continued takes its queue back at once, even from
 * a learner that is still alive; another run is refused while the queue's learner sends signs of life.
 */
import { randomBytes } from "node:crypto";
import type { KV } from "@nats-io/kv";
import { check } from "../../engine/errors.ts";
import type { Link } from "./connection.ts";
import { Fields, fromJson, toJson } from "./json.ts";

/** The key of the entry that names the learner. */
const KEY = "learner";
const BEAT_MS = 1000;
/** The number of a new learner's looks for a sign of life, and the time between two of them. */
const LOOKS = 12;
const LOOK_MS = 500;

/** The claim of a learner on its queue. */
export interface Claim {
  /** The number of the learner's life, which counts the learners that have begun with this queue. */
  readonly life: number;
  /** Whether the learner before this one had the same run. */
  readonly sameRun: boolean;
  /** Stops the signs of life. */
  stop(): void;
  /** Announces that the learner has ended. */
  release(): Promise<void>;
}

/**
 * Claims the queue for a run.
 * @param lost is called when another learner has taken the queue
 * @throws if another run's learner gives a sign of life
 */
export async function claimQueue(
  { address }: Link,
  policy: KV,
  run: string,
  { note, lost }: { readonly note: (line: string) => void; readonly lost: (why: string) => void },
): Promise<Claim> {
  const before = await policy.get(KEY);
  const session = randomBytes(8).toString("hex");
  let [life, sameRun] = [0, false];
  if (before !== null && before.operation === "PUT") {
    const fields = new Fields("learner", fromJson("learner", before.string()));
    life = fields.integer("life") + 1;
    sameRun = fields.text("run") === run;
    if (!sameRun && fields.flag("open")) {
      for (let look = 0; look < LOOKS; look++) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
        const now = await policy.get(KEY);
        check(
          now === null || now.revision === before.revision,
          () =>
            `nats: another run learns with the queue "${address.queue}" of ${address.server}; take a queue of its ` +
            `own, as in ${address.server}/another`,
        );
      }
      note("an earlier run has left the queue without a word; it is taken over");
    }
  }
  const entry = (open: boolean): string => toJson({ session, run, life, open });
  await policy.put(KEY, entry(true));
  const beat = setInterval(() => void policy.put(KEY, entry(true)).catch(() => {}), BEAT_MS);
  let isOver = false;
  const stop = (): void => {
    isOver = true;
    clearInterval(beat);
  };
  const watch = async (): Promise<void> => {
    for await (const { operation, value } of await policy.watch({ key: KEY })) {
      if (isOver) return;
      if (operation !== "PUT") continue;
      const fields = new Fields("learner", fromJson("learner", new TextDecoder().decode(value)));
      if (fields.text("session") === session) continue;
      stop();
      lost(`nats: another learner has taken the queue "${address.queue}"; this one ends`);
      return;
    }
  };
  // The watch ends with the connection.
  void watch().catch(() => {});
  const release = async (): Promise<void> => {
    stop();
    await policy.put(KEY, entry(false));
  };
  return { life, sameRun, stop, release };
}
