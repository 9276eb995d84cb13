/**
 * All workers of a queue, as the learner sees them. For `trainRlAsync` they are together one rollout worker, to which
 * it gives policies and requests for episodes; the server's work queue distributes the requests.
 *
 * An episode is identified by the hash of its request. So when a killed learner continues and asks for episodes that
 * its workers had stored, it finds them in the stream at once. `memory` is the state that a checkpoint has to contain
 * for that.
 */
import { beginTurns } from "../../data/history.ts";
import { randomBytes } from "node:crypto";
import { check, WorldgradError } from "../../engine/errors.ts";
import type { Policy, ToWorker } from "../async/messages.ts";
import { setupToWire, type WorkerEvents, type WorkerSetup } from "../async/workers.ts";
import type { TokenStream } from "../../rl/episode/stream.ts";
import { type Claim, claimQueue } from "./claim.ts";
import { type Link, lossOfServer, publicAddress, reasonOf, sha256 } from "./connection.ts";
import { checkEpisode, episodeFromBytes, type EpisodeMessage } from "./episodes.ts";
import { Fields, isRecord, toJson } from "./json.ts";
import { checkLedgerState, Ledger, type LedgerState } from "./ledger.ts";
import { Policies } from "./policies.ts";
import { setupToBytes, ticketToJson } from "./protocol.ts";
import {
  clearQueue,
  deleteEpisodes,
  makeQueue,
  objectOf,
  removeObject,
  ticketsGone,
  type FleetLimits,
  type Queue,
} from "./queue.ts";
import { namesOfAll, Requests, type Wanted } from "./requests.ts";
import { NOTHING, prefixed, printable, Roster } from "./roster.ts";

/** The number of failures of one episode after which the run ends. */
const MOST_FAILURES = 3;

/** The largest number of times that an episode is given out again. */
const MOST_ATTEMPTS = 10;

/** All workers that are connected to a server, as one rollout worker. */
export class Fleet {
  readonly #link: Link;
  readonly #options: FleetLimits;
  readonly #note: (line: string) => void;
  readonly #ledger: Ledger;
  #run: string = randomBytes(8).toString("hex");
  #life = 0;
  #created: string | undefined;
  #setup: WorkerSetup | undefined;
  #events: WorkerEvents | undefined;
  #queue: Queue | undefined;
  #configuration = "";
  #setupObject = "";
  /** Requests to the server, which are made in order. */
  #chain: Promise<void> = Promise.resolve();
  #cleaning: Promise<void> = Promise.resolve();
  #closed: Promise<void> | undefined;
  #failed = false;
  /** The last version that was posted. */
  #version = -1;
  readonly #policies: Policies = new Policies();
  readonly #requests: Requests = new Requests();
  readonly #sequences = new WeakMap<TokenStream, number>();
  #claim: Claim | undefined;
  #roster: Roster | undefined;
  #timers: ReturnType<typeof setInterval>[] = [];
  #counts = { ...NOTHING };
  #rejections = 0;
  #isLooking = false;
  readonly #doomed: number[] = [];

  constructor(link: Link, settled: FleetLimits, note: (line: string) => void) {
    this.#link = link;
    this.#options = settled;
    this.#note = note;
    this.#ledger = new Ledger({ messages: settled.quotaEpisodes, bytes: settled.quotaBytes });
  }

  state(): unknown {
    const ledger = this.#ledger.save();
    this.#ledger.saved(ledger);
    this.#trim();
    return { run: this.#run, created: this.#created ?? null, ...ledger, weights: this.#policies.state };
  }

  restore(saved: unknown): void {
    check(this.#setup === undefined, () => "natsWorkers: the state of a checkpoint comes before the run starts");
    check(isRecord(saved), () => "checkpoint: the state of the rollout workers is damaged");
    const fields = new Fields("checkpoint", saved);
    this.#run = fields.text("run");
    this.#created = (fields.any("created") ?? undefined) as string | undefined;
    this.#ledger.restore(checkLedgerState(saved as unknown as LedgerState));
    this.#policies.restore(fields.list("weights", 64));
  }

  start(setup: WorkerSetup, events: WorkerEvents): void {
    check(this.#setup === undefined, () => "natsWorkers: these workers belong to a run already; make new ones");
    this.#setup = setup;
    this.#events = events;
    void lossOfServer(this.#link).then(({ message }) => {
      if (!this.#closed) this.#fail(message);
    });
    this.#then(() => this.#open(setup));
  }

  post(message: ToWorker): void {
    if (this.#closed || this.#failed) return;
    if (message.kind === "policy") {
      const { policy } = message;
      this.#version = policy.version;
      this.#then(() => this.#publish(policy));
      return;
    }
    const asked = message.jobs.map((job) => this.#requests.ask(this.#run, job, this.#version));
    this.#then(() => this.#give(asked));
  }

  learnt(streams: readonly TokenStream[]): void {
    for (const stream of streams) {
      const sequence = this.#sequences.get(stream);
      if (sequence !== undefined) this.#ledger.mark(sequence, "learnt");
    }
    this.#trim();
  }

  metrics(): Record<string, number> {
    const counts = this.#counts;
    this.#counts = { ...NOTHING };
    return { "async/workers": this.#roster?.size ?? 0, ...prefixed(counts) };
  }

  /** Ends the learner's side. Stored episodes stay, for a run that is resumed. */
  close(): Promise<void> {
    this.#closed ??= this.#shut();
    return this.#closed;
  }

  async #shut(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#claim?.stop();
    this.#roster?.close();
    const { connection } = this.#link;
    if (connection.isClosed()) return;
    const last = async (): Promise<void> => {
      await this.#cleaning;
      if (!this.#queue || this.#failed) return;
      const { manager, names } = this.#queue;
      await manager.streams.purge(names.tickets.stream);
      await this.#claim?.release();
    };
    const late = new Promise<void>((resolve) => setTimeout(resolve, 2000).unref());
    await Promise.race([last().catch(() => {}), late]);
    await Promise.race([connection.close().catch(() => {}), late]);
  }

  #fail(message: string): void {
    if (this.#failed || this.#closed) return;
    this.#failed = true;
    this.#events?.receive({ kind: "failed", message });
  }

  /** Runs something after all earlier requests to the server. */
  #then(work: () => Promise<void>): void {
    this.#chain = this.#chain.then(async () => {
      if (this.#closed || this.#failed) return;
      try {
        await work();
      } catch (error) {
        this.#fail(error instanceof WorldgradError ? error.message : `nats: ${reasonOf(error)}`);
      }
    });
  }

  async #open(setup: WorkerSetup): Promise<void> {
    const queue = await makeQueue(this.#link, this.#options);
    const { names, manager, policy, weights } = queue;
    const { address, connection } = this.#link;
    const how = { note: this.#note, lost: (why: string) => this.#fail(why) };
    this.#claim = await claimQueue(this.#link, policy, this.#run, how);
    this.#life = this.#claim.life;
    await manager.streams.purge(names.tickets.stream);
    if (!this.#claim.sameRun) await clearQueue(queue);
    const { state, created } = await manager.streams.info(names.episodes.stream);
    if (this.#created !== undefined && this.#created !== String(created)) this.#ledger.reset();
    this.#created = String(created);
    const bytes = setupToBytes(setupToWire(setup));
    this.#configuration = sha256(bytes);
    this.#setupObject = `${this.#run}.setup.${this.#configuration.slice(0, 16)}`;
    await this.#link.insist("the setup", () => weights.putBlob({ name: this.#setupObject }, bytes));
    this.#queue = queue;
    this.#roster = new Roster(
      connection,
      names.presence,
      publicAddress(`${address.server}/${address.queue}`),
      this.#note,
    );
    const advisory = `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${names.tickets.stream}.${names.workers}`;
    connection.subscribe(advisory, {
      callback: (_, message) => {
        const ticket = message.json<{ stream_seq?: unknown }>().stream_seq;
        if (!this.#requests.open.some((wanted) => wanted.ticket === ticket)) return;
        this.#fail(`nats: ${this.#options.maxDeliveries} workers have taken the same episodes and not returned them`);
      },
    });
    await this.#read(queue, state.messages);
    this.#timers.push(setInterval(() => this.#look(), 1000 * this.#options.recheck));
  }

  /** Reads the stream from its beginning to the end of the run. Resolves when all that was there has been read. */
  async #read({ names, js }: Queue, stored: number): Promise<void> {
    const consumer = await js.consumers.get(names.episodes.stream, {});
    const messages = await consumer.consume({ max_messages: 256, expires: 5000, idle_heartbeat: 2000 });
    let caughtUp: () => void = () => {};
    const ready = new Promise<void>((resolve) => (caughtUp = resolve));
    if (stored === 0) caughtUp();
    const reading = async (): Promise<void> => {
      for await (const message of messages) {
        await this.#arrived(message.seq, message.data);
        if (message.info.pending === 0) caughtUp();
      }
    };
    void reading().catch((error: unknown) => {
      if (!this.#closed) this.#fail(`nats: reading episodes: ${reasonOf(error)}`);
    });
    await ready;
  }

  /** A message of the stream `episodes`, whoever wrote it. */
  async #arrived(sequence: number, data: Uint8Array): Promise<void> {
    if (this.#ledger.isDone(sequence)) {
      this.#ledger.add(sequence, data.length, "learnt");
      return;
    }
    let message: EpisodeMessage;
    try {
      message = episodeFromBytes(data);
      check(message.run === this.#run, () => "episode: of another run");
      check(message.configuration === this.#configuration, () => "episode: played with another configuration");
      check(message.life <= this.#life, () => "episode: of a life that has not begun");
    } catch (error) {
      return this.#reject(sequence, error);
    }
    this.#ledger.add(sequence, data.length, "stored");
    if (message.life < this.#life && message.kind !== "failed") {
      // The message is from an earlier life; it may be asked for later, or have been asked for already.
      const waiting = this.#requests.keep(message.key, { sequence, bytes: new Uint8Array(data) });
      if (waiting) await this.#take(waiting, sequence, data);
      return;
    }
    const wanted = this.#requests.find(message);
    if (wanted === undefined) {
      this.#counts.duplicate_episodes++;
      return this.#delete([sequence]);
    }
    if (message.kind === "failed") {
      this.#delete([sequence]);
      if (message.attempt !== wanted.attempt) return;
      const said = `worker ${printable(message.worker)}: ${printable(message.message)}`;
      this.#note(said);
      if (++wanted.failures >= MOST_FAILURES) this.#fail(said);
      else this.#again(this.#requests.open.filter(({ ticket }) => ticket === wanted.ticket));
      return;
    }
    await this.#take(wanted, sequence, data);
  }

  /** Gives the learner an episode if it was asked for. @returns whether it was */
  async #take(wanted: Wanted, sequence: number, data: Uint8Array): Promise<void> {
    try {
      const message = await this.#unpacked(episodeFromBytes(data));
      const { config, rollout, template } = this.#setup!;
      beginTurns(template, message.trajectory.stream); // contexts follow from the tokens, so they are not sent
      const temperature = wanted.sampling.temperature ?? rollout.temperature ?? 1;
      checkEpisode(message, {
        request: wanted.request,
        temperature: temperature === 0 ? 1 : temperature,
        vocabSize: config.vocabSize,
        maxTokens: rollout.maxTokens ?? config.maxPositions,
        maxTurns: rollout.maxTurns ?? 8,
        weightsOf: (version) =>
          version <= this.#version && (!wanted.pinned || version === wanted.version)
            ? this.#policies.hashOf(version)
            : undefined,
      });
      if (!this.#requests.isOpen(wanted)) return this.#delete([sequence]);
      this.#requests.arrived(wanted);
      this.#sequences.set(message.trajectory.stream, sequence);
      this.#ledger.mark(sequence, "given");
      this.#trim(); // a step may need more than the stream holds
      this.#events!.receive({ kind: "episode", id: wanted.id, trajectory: message.trajectory });
    } catch (error) {
      this.#reject(sequence, error);
    }
  }

  /** Reads the episode if the message only names an object. */
  async #unpacked(message: EpisodeMessage): Promise<Extract<EpisodeMessage, { kind: "episode" }>> {
    if (message.kind === "episode") return message;
    check(message.kind === "object", () => "episode: it has failed");
    const { large, manager, names } = this.#queue!;
    const how = { most: this.#options.largest, hash: message.sha256 };
    const inner = episodeFromBytes(await objectOf(large, message.object, how));
    this.#later(() => removeObject(manager, large, names.large, message.object));
    check(inner.kind === "episode" && inner.key === message.key, () => "episode: the object is of another episode");
    return inner;
  }

  #reject(sequence: number, error: unknown): void {
    this.#counts.rejected_messages++;
    if (this.#rejections++ < 5) this.#note(`a message of stream "episodes" is dropped: ${printable(reasonOf(error))}`);
    this.#delete([sequence]);
  }

  /** Takes those episodes that are stored, and writes tickets for the others. */
  async #give(asked: readonly Wanted[]): Promise<void> {
    for (const wanted of asked) {
      while (this.#requests.isOpen(wanted)) {
        const stored = this.#requests.takeStored(wanted);
        if (stored === undefined) break;
        await this.#take(wanted, stored.sequence, stored.bytes);
        if (!this.#requests.isOpen(wanted)) this.#counts.stored_episodes++;
      }
    }
    await this.#ticket(asked.filter((wanted) => this.#requests.isOpen(wanted)));
  }

  /** Writes a ticket for episodes of one version. */
  async #ticket(jobs: readonly Wanted[]): Promise<void> {
    const [first] = jobs;
    if (first === undefined) return;
    const { version, pinned, attempt } = first;
    const { object, sha256: hash } = this.#policies.find(version);
    const text = ticketToJson({
      run: this.#run,
      life: this.#life,
      configuration: this.#configuration,
      attempt,
      version,
      object,
      sha256: hash,
      pinned,
      jobs: jobs.map(({ key, turn, request, sampling }) => ({ key, turn, request, sampling })),
    });
    const { js, names } = this.#queue!;
    const id = sha256(toJson([this.#run, this.#life, attempt, namesOfAll(jobs)]));
    const isOver = (): boolean => this.#closed !== undefined;
    const write = (): Promise<{ seq: number }> => js.publish(names.tickets.subject, text, { msgID: id });
    const { seq } = await this.#link.insist("a ticket", write, isOver);
    for (const job of jobs) [job.ticket, job.missed] = [seq, 0];
  }

  /** Writes tickets for episodes once more. */
  #again(lost: readonly Wanted[]): void {
    for (const wanted of lost) [wanted.attempt, wanted.ticket] = [wanted.attempt + 1, undefined];
    if (lost.some(({ attempt }) => attempt > MOST_ATTEMPTS))
      this.#fail(
        `nats: workers have taken the same episodes ${MOST_ATTEMPTS + 1} times and stored none; see their lines`,
      );
    this.#counts.reissued_episodes += lost.length;
    this.#then(async () => {
      for (const wanted of lost) if (this.#requests.isOpen(wanted)) await this.#ticket([wanted]);
    });
  }

  /**
   * Looks for requested episodes whose ticket is gone although no valid episode was stored (by a fault of a worker). An
   * episode that is found twice in this state is given out again.
   */
  #look(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const look = async (): Promise<void> => {
      const open = this.#requests.open.filter(({ ticket }) => ticket !== undefined);
      const gone = await ticketsGone(this.#queue!, new Set(open.map(({ ticket }) => ticket!)));
      for (const wanted of open) wanted.missed = gone.has(wanted.ticket!) ? wanted.missed + 1 : 0;
      const lost = open.filter(({ missed }) => missed >= 2);
      if (lost.length > 0) this.#again(lost);
    };
    void look()
      .catch(() => {})
      .then(() => (this.#isLooking = false));
  }

  async #publish(policy: Policy): Promise<void> {
    const queue = this.#queue!;
    const learner = { run: this.#run, life: this.#life, configuration: this.#configuration, setup: this.#setupObject };
    await this.#policies.publish(this.#link, queue, policy, learner);
    const needed = new Set(this.#requests.open.map(({ version }) => version));
    const { manager, weights, names } = queue;
    for (const object of this.#policies.prune(policy.version, needed))
      this.#later(() => removeObject(manager, weights, names.weights, object));
  }

  #trim(): void {
    this.#delete(this.#ledger.excess());
  }

  #delete(sequences: readonly number[]): void {
    for (const sequence of sequences) this.#ledger.remove(sequence);
    const isFirst = this.#doomed.length === 0;
    this.#doomed.push(...sequences);
    if (isFirst && sequences.length > 0) this.#later(() => deleteEpisodes(this.#queue!, this.#doomed));
  }

  /** Runs something that the run does not wait for. If it fails, only storage is wasted until the run ends. */
  #later(work: () => Promise<unknown>): void {
    this.#cleaning = this.#cleaning.then(async () => {
      if (this.#queue && !this.#link.connection.isClosed()) await work().catch(() => {});
    });
  }
}
