/** What a worker could do that means harm: everything twice, noise, and well-formed lies. */
import type { ChildProcess } from "node:child_process";
import { jetstream, type JetStreamClient, jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { Rng } from "../../engine/random.ts";
import { type EpisodeMessage, episodeFromBytes, episodeToBytes } from "../../distribute/nats/episodes.ts";
import { type Ticket, ticketFromJson, type TicketJob } from "../../distribute/nats/protocol.ts";
import type { NatsServer } from "./natsServer.ts";

/** What a run with a fault is given. */
export interface Field {
  readonly server: NatsServer;
  readonly url: string;
  /** Starts a worker process. */
  worker(pause?: number): ChildProcess;
  readonly rng: Rng;
}

/** A fault while it happens. */
export interface Happening {
  /** Is called with every episode that arrives. */
  readonly arrived?: (count: number) => void;
  readonly end: () => Promise<{ readonly tries: number; readonly remark: string }>;
}

/** A client that does what no worker does. */
export async function raw(url: string): Promise<{
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly queue: string;
}> {
  const { host, pathname } = new URL(url.replace("nats:", "http:"));
  const connection = await connect({ servers: `nats://${host}` });
  return {
    connection,
    js: jetstream(connection),
    manager: await jetstreamManager(connection),
    queue: pathname.slice(1),
  };
}

const awaited = async <T>(get: () => Promise<T>): Promise<T> => {
  for (let tries = 0; ; tries++) {
    try {
      return await get();
    } catch (error) {
      if (tries > 100) throw error;
      await new Promise((next) => setTimeout(next, 50));
    }
  }
};

/** Publishes every episode again: under another id, as a second worker would, and under none. */
export const repeats = async ({ url }: Field): Promise<Happening> => {
  const { connection, js, queue } = await raw(url);
  let tries = 0;
  const seen = new Set<string>();
  connection.subscribe(`${queue}.episodes`, {
    callback: (_, { data }) => {
      const key = Buffer.from(data).toString("base64");
      if (seen.has(key) || seen.size > 100) return;
      seen.add(key);
      tries++;
      void js.publish(`${queue}.episodes`, data).catch(() => {});
      void js.publish(`${queue}.episodes`, data, { msgID: `again-${tries}` }).catch(() => {});
    },
  });
  return {
    async end() {
      await connection.close();
      return { tries: 2 * tries, remark: "without an id, and with another" };
    },
  };
};

/** Garbage, episodes with wrong bytes, tickets that are none, tickets that are taken and thrown away. */
export const malice = async ({ url, rng }: Field): Promise<Happening> => {
  const { connection, js, queue } = await raw(url);
  let tries = 0;
  const send = (subject: string, data: Uint8Array | string): void => {
    tries++;
    if (subject.endsWith("presence")) connection.publish(subject, data);
    else void js.publish(subject, data).catch(() => {});
  };
  const frames: Uint8Array[] = [];
  connection.subscribe(`${queue}.episodes`, {
    callback: (_, { data }) => {
      if (frames.length < 8 && data.length > 1000) frames.push(new Uint8Array(data));
    },
  });
  let stolen = 0;
  const hostile = setInterval(() => {
    const bytes = Uint8Array.from({ length: rng.int(300) }, () => rng.int(256));
    send(`${queue}.episodes`, bytes);
    send(`${queue}.presence`, bytes);
    send(`${queue}.presence`, '{"kind":"here","worker":"\\u001b[2J"}');
    send(`${queue}.tickets`, rng.int(2) === 0 ? bytes : '{"protocol":2,"library":"0.1.0","jobs":[]}');
    const frame = frames[rng.int(Math.max(1, frames.length))];
    if (frame === undefined) return;
    const wrong = new Uint8Array(frame);
    for (let i = 0; i < 3; i++) wrong[rng.int(wrong.length)] = rng.int(256);
    send(`${queue}.episodes`, wrong);
    send(`${queue}.episodes`, frame.subarray(0, rng.int(frame.length)));
    new DataView(wrong.buffer).setUint32(4, 0xffffffff);
    send(`${queue}.episodes`, wrong);
  }, 150);
  const steal = async (): Promise<void> => {
    const consumer = await awaited(() => js.consumers.get(`${queue}_tickets`, "workers"));
    while (stolen < 2) {
      const message = await consumer.next({ expires: 1000 });
      if (message === null) continue;
      message.ack();
      stolen++;
      tries++;
    }
  };
  void steal().catch(() => {});
  return {
    async end() {
      clearInterval(hostile);
      await connection.close();
      return { tries, remark: `${stolen} tickets taken and thrown away` };
    },
  };
};

type Played = Extract<EpisodeMessage, { kind: "episode" }>;

/** Messages that are right but for one thing. `honest` is what a worker would say of the ticket's job. */
const LIES: Readonly<Record<string, (honest: Played, ticket: Ticket, earlier: Played) => Played>> = {
  "a key that nobody asked for": (honest) => ({ ...honest, key: "0".repeat(64) }),
  "a turn that nobody asked for": (honest) => ({ ...honest, turn: honest.turn + 1 }),
  "another job's episode": (honest, _, { trajectory }) => ({ ...honest, trajectory }),
  "weights of another hash": (honest, { version }) => ({ ...honest, weights: { [version]: "0".repeat(64) } }),
  "weights without a hash": (honest) => ({ ...honest, weights: {} }),
  "a version to come": (honest, { version, sha256 }) => drawnBy(version + 1, sha256, honest),
  "a version that is over": (honest, { version, sha256 }) => drawnBy(version - 1, sha256, honest),
  "another run": (honest) => ({ ...honest, run: `${honest.run}0` }),
  "a life to come": (honest) => ({ ...honest, life: honest.life + 1 }),
  "another configuration": (honest) => ({ ...honest, configuration: "0".repeat(64) }),
  "a reward that its steps do not give": (honest) => ({
    ...honest,
    trajectory: { ...honest.trajectory, reward: honest.trajectory.reward + 1 },
  }),
};

function drawnBy(version: number, hash: string, message: Played): Played {
  const { stream } = message.trajectory;
  const versions = stream.versions.map((own) => (own < 0 ? own : version));
  return {
    ...message,
    weights: { [version]: hash },
    trajectory: { ...message.trajectory, stream: { ...stream, versions } },
  };
}

/** An episode of a job that was not played: an earlier one with the job's names. */
function pretended(ticket: Ticket, { key, turn, request }: TicketJob, earlier: Played): Played {
  const { run, life, configuration, attempt, version, sha256 } = ticket;
  const { env, seed, group } = request;
  const named = { ...earlier, run, life, configuration, attempt, key, turn };
  return drawnBy(version, sha256, { ...named, trajectory: { ...earlier.trajectory, env, seed, group } });
}

/**
 * Reads the tickets of others, and sends an episode for each of their jobs before the worker that has it can: right in
 * its form, and wrong in one thing. Each episode that another worker stores it sends again as its own.
 */
export const lies = async ({ url }: Field): Promise<Happening> => {
  const { connection, js, queue } = await raw(url);
  const told = new Map<string, number>();
  let earlier: Played | undefined;
  const send = (what: string, message: Played): void => {
    told.set(what, (told.get(what) ?? 0) + 1);
    void js.publish(`${queue}.episodes`, episodeToBytes(message)).catch(() => {});
  };
  const own = "worker of lies";
  connection.subscribe(`${queue}.episodes`, {
    callback: (_, { data }) => {
      const message = episodeFromBytes(new Uint8Array(data));
      if (message.kind !== "episode" || message.worker === own) return;
      earlier = message;
      send("an episode again, as its own", { ...message, worker: own });
    },
  });
  connection.subscribe(`${queue}.tickets`, {
    callback: (_, message) => {
      const ticket = ticketFromJson(message.string());
      for (const job of ticket.jobs) {
        if (earlier === undefined || earlier.trajectory.seed === job.request.seed) continue;
        const honest = { ...pretended(ticket, job, earlier), worker: own };
        for (const [what, lie] of Object.entries(LIES)) send(what, lie(honest, ticket, earlier));
      }
    },
  });
  return {
    async end() {
      await connection.close();
      const untold = Object.keys(LIES).filter((what) => !told.has(what));
      if (untold.length > 0) throw new Error(`the worker of lies has not told: ${untold.join(", ")}`);
      return { tries: [...told.values()].reduce((a, b) => a + b), remark: `${told.size} kinds of lies` };
    },
  };
};
