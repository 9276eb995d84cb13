/**
 * The worker's side: it takes tickets from the server's work queue, plays them with the same `RolloutServer` that
 * threads run, and stores every episode as soon as it is over. A ticket is acknowledged when all of its episodes are
 * stored; until then the worker renews it, and if the worker dies, the server gives the ticket to another one.
 *
 * A worker plays only environments that it was given, only setups whose hash is right, and only policies of a learner
 * with the same versions of protocol and library.
 */
import { randomBytes } from "node:crypto";
import type { JsMsg } from "@nats-io/jetstream";
import { check, fail, WorldgradError } from "../../engine/errors.ts";
import type { FromWorker } from "../async/messages.ts";
import type { ServeOptions } from "../async/serve.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { type Link, lossOfServer, reasonOf } from "./connection.ts";
import type { EpisodeMessage, EpisodeName } from "./episodes.ts";
import { toJson } from "./json.ts";
import { Outbox } from "./outbox.ts";
import { type PolicyEntry, policyFromJson, type Ticket, ticketFromJson, type TicketJob } from "./protocol.ts";
import { openQueue, type Queue } from "./queue.ts";
import { Session } from "./session.ts";

/** A ticket that is being played. */
interface Held {
  readonly message: JsMsg;
  readonly ticket: Ticket;
  /** Episodes that are not stored yet. */
  left: number;
}

/** An episode that is being played. */
interface Playing {
  readonly held: Held;
  readonly job: TicketJob;
}

/** The numbers of episodes and tokens that a worker has played. */
export interface Served {
  readonly episodes: number;
  readonly tokens: number;
}

/** The limits of a worker. */
export interface WorkerSettings {
  readonly name: string;
  /** Episodes at a time. */
  readonly episodes: number;
  /** The largest number of bytes of a policy's weights. */
  readonly largest: number;
  /** The largest number of bytes of an episode that is sent as a message; larger ones become objects. */
  readonly inline?: number | undefined;
}

const PRESENCE_MS = 1000;
/** Milliseconds for which a request for a ticket waits at the server. */
const ASK_MS = 2000;

/** A worker, from the first look for a queue to its end. */
export class Worker {
  readonly #link: Link;
  readonly #settings: WorkerSettings;
  readonly #serve: ServeOptions;
  readonly #note: (line: string) => void;
  /** Two processes with one name are two workers. */
  readonly #id: string = randomBytes(6).toString("hex");
  #queue: Queue | undefined;
  #session: Session | undefined;
  #policy: PolicyEntry | undefined;
  readonly #playing = new Map<number, Playing>();
  readonly #held = new Set<Held>();
  #nextId = 0;
  #stopped = false;
  #refused: string | undefined;
  #wake: () => void = () => {};
  #counts = { episodes: 0, tokens: 0 };
  #outbox: Outbox | undefined;
  #broken: Error | undefined;

  constructor(link: Link, settings: WorkerSettings, serve: ServeOptions, note: (line: string) => void) {
    this.#link = link;
    this.#settings = settings;
    this.#serve = serve;
    this.#note = note;
  }

  async run(): Promise<Served> {
    const { address } = this.#link;
    void lossOfServer(this.#link).then((error) => {
      if (!this.#stopped) this.#broken = error;
      this.#wake();
    });
    const timers: ReturnType<typeof setInterval>[] = [];
    try {
      this.#note(`${this.#settings.name}: connected to ${address.server}, queue "${address.queue}"`);
      const queue = await this.#awaitQueue();
      if (queue === undefined) return this.#counts;
      this.#queue = queue;
      this.#outbox = new Outbox(this.#link, queue, this.#id, this.#settings.inline, () => this.#isOver(), this.#note);
      timers.push(
        setInterval(() => this.#held.forEach(({ message }) => message.working()), (1000 * queue.ackWait) / 4),
        setInterval(() => this.#say("here"), PRESENCE_MS),
      );
      void this.#watch(queue);
      while (!this.#isOver()) await this.#turn(queue);
      if (this.#broken) throw this.#broken;
      return this.#counts;
    } finally {
      for (const timer of timers) clearInterval(timer);
      await this.#end();
    }
  }

  /** Gives back what is being played, and ends. */
  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  #isOver(): boolean {
    return this.#stopped || this.#broken !== undefined;
  }

  /** Resolves when there is room, another policy, or the worker ends; at the latest after the given milliseconds. */
  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #end(): Promise<void> {
    this.#stopped = true;
    const { connection } = this.#link;
    for (const { message } of this.#held) message.nak();
    this.#held.clear();
    this.#say("left");
    const late = new Promise<void>((resolve) => setTimeout(resolve, 2000).unref());
    if (!connection.isClosed()) await Promise.race([connection.drain().catch(() => {}), late]);
    await this.#closeSession();
  }

  async #closeSession(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    this.#playing.clear();
    await session?.close();
  }

  /** The queue, when a learner has made it. */
  async #awaitQueue(): Promise<Queue | undefined> {
    for (let looks = 0; !this.#isOver(); looks++) {
      const queue = await this.#link.insist(
        "the queue",
        () => openQueue(this.#link),
        () => this.#isOver(),
      );
      if (queue) return queue;
      if (looks === 0) this.#note("no learner has been here yet; waiting for one");
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    if (this.#broken) throw this.#broken;
    return undefined;
  }

  /** Sends a message to the learner, without waiting for an answer. */
  #say(kind: "here" | "left" | "refused", why?: string): void {
    const { connection } = this.#link;
    if (connection.isClosed() || connection.isDraining() || this.#queue === undefined) return;
    const worker = `${this.#settings.name.slice(0, 100)} ${this.#id}`;
    try {
      connection.publish(
        this.#queue.names.presence,
        toJson({ kind, worker, ...this.#counts, ...(why ? { why } : {}) }),
      );
    } catch {
      // The next one will arrive.
    }
  }

  /** Follows the newest policy. */
  async #watch(queue: Queue): Promise<void> {
    while (!this.#isOver()) {
      try {
        for await (const entry of await queue.policy.watch({ key: "policy" })) {
          if (entry.operation !== "PUT") continue;
          try {
            this.#policy = policyFromJson(entry.string());
            this.#refused = undefined;
          } catch (error) {
            this.#policy = undefined;
            this.#refuse(reasonOf(error));
          }
          await this.#follow().catch(() => {}); // the first ticket that needs the policy reports the error
          this.#wake();
        }
      } catch {
        // The server is away, or this worker ends.
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  #refuse(why: string): void {
    if (this.#refused === why) return;
    this.#refused = why;
    this.#note(`refuses: ${why}`);
    this.#say("refused", why);
  }

  /** Installs the newest policy in the middle of episodes, unless these are pinned to theirs. */
  async #follow(): Promise<void> {
    const [entry, session] = [this.#policy, this.#session];
    if (!entry || !session?.isOf(entry)) return;
    const [first] = this.#held;
    if (first === undefined || first.ticket.pinned || first.ticket.life !== entry.life) return;
    await session.install(entry);
  }

  /** Takes a ticket, when there is room for one. */
  async #turn(queue: Queue): Promise<void> {
    const isBusy = this.#outbox!.isFull || this.#playing.size >= this.#settings.episodes;
    if (isBusy || this.#policy === undefined) {
      await this.#change(500);
      return;
    }
    let message: JsMsg | null;
    try {
      const consumer = await queue.js.consumers.get(queue.names.tickets.stream, queue.names.workers);
      message = await consumer.next({ expires: ASK_MS });
    } catch (error) {
      if (this.#isOver()) return;
      await new Promise((resolve) => setTimeout(resolve, 200));
      if (/403|permission/i.test(reasonOf(error))) this.#broken = new WorldgradError(`nats: ${reasonOf(error)}`);
      return;
    }
    if (message === null) return;
    if (this.#isOver()) return message.nak();
    let ticket: Ticket;
    try {
      ticket = ticketFromJson(message.string());
    } catch (error) {
      // Sent without a reason, because servers before 2.10.4 do not understand one.
      this.#note(`a message of stream "tickets" is dropped: ${reasonOf(error)}`);
      return message.term();
    }
    const held: Held = { message, ticket, left: ticket.jobs.length };
    this.#held.add(held);
    try {
      await this.#begin(queue, held);
    } catch (error) {
      this.#held.delete(held);
      if (!this.#isOver()) await this.#return(held, reasonOf(error));
    }
  }

  /** A ticket that this worker cannot play: another one may. */
  async #return({ message, ticket }: Held, why: string): Promise<void> {
    this.#refuse(why);
    message.nak(ticket.life === this.#policy?.life ? 1000 : 100);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }

  async #begin(queue: Queue, held: Held): Promise<void> {
    const { ticket, message } = held;
    const entry = await this.#policyFor(queue, ticket);
    if (entry === undefined) {
      // The learner has begun anew, and asks for what it needs.
      this.#held.delete(held);
      return message.term();
    }
    const unknown = ticket.jobs.find(({ request }) => !Object.hasOwn(this.#serve.environments, request.env));
    check(
      unknown === undefined,
      () =>
        `unknown environment "${unknown!.request.env}", this worker has ` +
        Object.keys(this.#serve.environments).join(", "),
    );
    const session = await this.#sessionFor(queue, entry);
    await session.install(ticket.pinned || entry.version < ticket.version ? ticket : entry);
    const jobs = ticket.jobs.map((job) => {
      const id = this.#nextId++;
      this.#playing.set(id, { held, job });
      return { id, request: job.request, sampling: job.sampling, pinned: ticket.pinned };
    });
    session.play(jobs);
  }

  /** The entry of the ticket's life, with its version or a later one; undefined if that life is over. */
  async #policyFor(queue: Queue, ticket: Ticket): Promise<PolicyEntry | undefined> {
    const until = performance.now() + 1000 * this.#link.patience;
    for (;;) {
      const entry = this.#policy;
      if (entry && entry.run === ticket.run) {
        if (entry.life > ticket.life) return undefined;
        const isThere = ticket.pinned || entry.version >= ticket.version;
        if (entry.life === ticket.life && isThere) {
          check(entry.configuration === ticket.configuration, () => "the ticket is for another configuration");
          return entry;
        }
      }
      check(performance.now() < until && !this.#isOver(), () => "the policy of the ticket does not come");
      await this.#change(100);
      // The entry is written before the ticket, but the news of it may come later.
      const newest = await queue.policy.get("policy");
      if (newest === null || newest.operation !== "PUT") return undefined;
      this.#policy = policyFromJson(newest.string());
      if (this.#policy.run !== ticket.run) return undefined;
    }
  }

  async #sessionFor(queue: Queue, entry: PolicyEntry): Promise<Session> {
    if (this.#session?.isOf(entry)) return this.#session;
    for (const held of this.#held) {
      if (held.ticket.run === entry.run && held.ticket.configuration === entry.configuration) continue;
      this.#held.delete(held);
      held.message.term();
    }
    await this.#closeSession();
    const { largest, episodes } = this.#settings;
    const from = { link: this.#link, queue, largest, isOver: () => this.#isOver() };
    const session = await Session.open(from, entry, this.#serve, episodes, (message) => this.#played(message));
    this.#session = session;
    this.#note(`plays for run ${entry.run} with configuration ${entry.configuration.slice(0, 12)}`);
    return session;
  }

  #played(message: FromWorker): void {
    if (message.kind === "episode") void this.#store(message.id, message.trajectory);
    else if (message.kind === "failed") void this.#failed(message.message);
  }

  #nameOf({ held: { ticket }, job }: Playing): EpisodeName {
    const { run, life, configuration, attempt } = ticket;
    const worker = `${this.#settings.name.slice(0, 100)} ${this.#id}`;
    return { run, life, configuration, key: job.key, turn: job.turn, attempt, worker };
  }

  /** Stores an episode. If the stream is full, the worker waits, and takes no other ticket meanwhile. */
  async #store(id: number, trajectory: Trajectory): Promise<void> {
    const playing = this.#playing.get(id);
    const session = this.#session;
    if (playing === undefined || session === undefined) return;
    const weights = session.hashesOf(trajectory.stream.versions);
    const message: EpisodeMessage = { ...this.#nameOf(playing), kind: "episode", trajectory, weights };
    try {
      await this.#outbox!.send(message);
    } catch (error) {
      if (!this.#isOver()) this.#broken ??= error instanceof Error ? error : new Error(String(error));
      return this.#wake();
    }
    this.#playing.delete(id);
    this.#counts.episodes++;
    this.#counts.tokens += trajectory.stream.ids.length;
    const { held } = playing;
    if (--held.left === 0 && this.#held.delete(held)) held.message.ack();
    this.#wake();
  }

  /** The rollout threw, because of a bug or a task that does not fit: the learner is told, and the server made anew. */
  async #failed(message: string): Promise<void> {
    const playing = [...this.#playing.values()];
    const held = [...this.#held];
    this.#note(`a rollout failed: ${message}`);
    this.#playing.clear();
    this.#held.clear();
    try {
      const [first] = playing;
      if (first) await this.#outbox!.send({ ...this.#nameOf(first), kind: "failed", message: message.slice(0, 4000) });
      for (const { message: own } of held) {
        if (own === first?.held.message) own.term();
        else own.nak();
      }
      await this.#closeSession();
    } catch (error) {
      this.#broken ??= error instanceof Error ? error : fail(String(error));
    }
    this.#wake();
  }
}
