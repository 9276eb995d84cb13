/** A queue on a server: its two streams, its buckets, and the consumer that all workers share. */
import type { ConsumerConfig, JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import type { KV } from "@nats-io/kv";
import type { ObjectStore } from "@nats-io/obj";
import { fail } from "../../engine/errors.ts";
import { type Link, reasonOf, sha256 } from "./connection.ts";
import { type Names, namesOf } from "./protocol.ts";

const SECOND = 1e9; // JetStream counts nanoseconds

/** The streams, buckets and consumer of a queue. */
export interface Queue {
  readonly names: Names;
  readonly js: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly weights: ObjectStore;
  readonly large: ObjectStore;
  readonly policy: KV;
  /** Seconds in which a ticket has to be renewed. */
  readonly ackWait: number;
}

/** The limits of a queue. */
export interface QueueLimits {
  /** Bytes and messages that wait in stream `episodes`. */
  readonly quotaBytes: number;
  readonly quotaEpisodes: number;
  /** Seconds after which a ticket that nobody renews goes to another worker. */
  readonly ackWait: number;
  /** The number of workers that may die while they have a ticket. */
  readonly maxDeliveries: number;
}

/** Limits of the learner's side. */
export interface FleetLimits extends QueueLimits {
  /** The largest number of bytes of an episode. */
  readonly largest: number;
  /** Seconds between two looks for episodes that got lost. */
  readonly recheck: number;
}

/** Creates the missing parts of a queue. Only the learner does, so workers need no permission for it. */
export async function makeQueue(link: Link, limits: QueueLimits): Promise<Queue> {
  const { jetstream, kv, obj } = link.library;
  const names = namesOf(link.address.queue);
  const manager = await jetstream.jetstreamManager(link.connection);
  const { AckPolicy, DiscardPolicy, RetentionPolicy, StorageType } = jetstream;
  const stream = async (config: Parameters<typeof manager.streams.add>[0]): Promise<void> => {
    await link.insist(`stream ${config.name}`, async () => {
      try {
        await manager.streams.info(config.name);
      } catch (error) {
        if (!(error instanceof jetstream.JetStreamApiError) || error.status !== 404) throw error;
        await manager.streams.add(config);
        return;
      }
      const { name, retention: _, storage: __, ...changes } = config;
      await manager.streams.update(name, changes);
    });
  };
  await stream({
    name: names.tickets.stream,
    subjects: [names.tickets.subject],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.File,
    discard: DiscardPolicy.New,
    max_msg_size: -1,
  });
  await stream({
    name: names.episodes.stream,
    subjects: [names.episodes.subject],
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.New,
    max_msgs: limits.quotaEpisodes,
    max_bytes: limits.quotaBytes,
  });
  await link.insist("the workers' consumer", () =>
    manager.consumers.add(names.tickets.stream, {
      durable_name: names.workers,
      ack_policy: AckPolicy.Explicit,
      ack_wait: limits.ackWait * SECOND,
      max_deliver: limits.maxDeliveries,
      max_ack_pending: 65_536,
      max_waiting: 16_384,
    }),
  );
  const stores = new obj.Objm(link.connection);
  const store = (name: string): Promise<ObjectStore> =>
    link.insist(`object store ${name}`, () => stores.create(name, { storage: StorageType.File }));
  const policy = await link.insist(`bucket ${names.policy}`, () =>
    new kv.Kvm(link.connection).create(names.policy, { history: 1, storage: StorageType.File }),
  );
  const [weights, large] = [await store(names.weights), await store(names.large)];
  const { ackWait } = limits;
  return { names, js: jetstream.jetstream(link.connection), manager, weights, large, policy, ackWait };
}

/** Opens a queue that a learner has made; undefined if there is none yet. */
export async function openQueue(link: Link): Promise<Queue | undefined> {
  const { jetstream, kv, obj } = link.library;
  const names = namesOf(link.address.queue);
  const manager = await jetstream.jetstreamManager(link.connection);
  let consumer: ConsumerConfig;
  try {
    ({ config: consumer } = await manager.consumers.info(names.tickets.stream, names.workers));
  } catch (error) {
    if (error instanceof jetstream.JetStreamApiError && error.status === 404) return undefined;
    throw error;
  }
  const stores = new obj.Objm(link.connection);
  return {
    names,
    js: jetstream.jetstream(link.connection),
    manager,
    policy: await new kv.Kvm(link.connection).open(names.policy),
    weights: await stores.open(names.weights, false),
    large: await stores.open(names.large, false),
    ackWait: (consumer.ack_wait ?? 30 * SECOND) / SECOND,
  };
}

/**
 * Reads an object of at most `most` bytes and checks its hash.
 * @throws if it is missing, too large, or has another hash; the caller decides what that means
 */
export async function objectOf(
  store: ObjectStore,
  name: string,
  { most, hash: expected }: { readonly most: number; readonly hash: string },
): Promise<Uint8Array> {
  const info = await store.info(name);
  if (info === null || info.deleted) return fail(`nats: there is no object ${name}`);
  if (info.size > most) return fail(`nats: object ${name} has ${info.size} bytes, at most ${most} are read`);
  let bytes: Uint8Array | null;
  try {
    bytes = await store.getBlob(name);
  } catch (error) {
    return fail(`nats: object ${name}: ${reasonOf(error)}`);
  }
  if (bytes === null) return fail(`nats: there is no object ${name}`);
  const hash = sha256(bytes);
  return hash === expected ? bytes : fail(`nats: object ${name} has the SHA-256 ${hash}, expected ${expected}`);
}

/**
 * Deletes an object and all messages about it. The client's `delete` would leave a message for every name, and names
 * here contain numbers, so a long run would fill its store with such messages.
 */
export async function removeObject(
  manager: JetStreamManager,
  store: ObjectStore,
  bucket: string,
  name: string,
): Promise<void> {
  await store.delete(name);
  const encoded = Buffer.from(name).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
  await manager.streams.purge(`OBJ_${bucket}`, { filter: `$O.${bucket}.M.${encoded}` });
}

/** Deletes the objects of an earlier run. */
export async function clearQueue({ manager, names, weights, large }: Queue): Promise<void> {
  await manager.streams.purge(names.episodes.stream);
  for (const [store, bucket] of [
    [weights, names.weights],
    [large, names.large],
  ] as const) {
    for (const { name } of await store.list()) await removeObject(manager, store, bucket, name);
  }
}

/** Those of the tickets that are not in the stream any more. */
export async function ticketsGone({ manager, names }: Queue, tickets: ReadonlySet<number>): Promise<Set<number>> {
  const gone = new Set<number>();
  for (const seq of tickets) {
    if ((await manager.streams.getMessage(names.tickets.stream, { seq })) === null) gone.add(seq);
  }
  return gone;
}

/** The number of messages that are deleted at once. */
const AT_ONCE = 64;

/** Deletes messages of stream `episodes`, and those that are added to the list meanwhile. */
export async function deleteEpisodes({ manager, names }: Queue, sequences: number[]): Promise<void> {
  while (sequences.length > 0) {
    const some = sequences.splice(0, AT_ONCE);
    await Promise.allSettled(some.map((n) => manager.streams.deleteMessage(names.episodes.stream, n, false)));
  }
}
