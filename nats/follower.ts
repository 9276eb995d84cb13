/**
 * A learner without a run of its own (`serveLearner`), which follows the learner that has the run. In each turn it
 * computes the gradients of its micro-batches, stores them, waits for the sum of all gradients, and makes the same step
 * as all learners.
 */
import { randomBytes } from "node:crypto";
import type { KV } from "@nats-io/kv";
import type { ObjectStore } from "@nats-io/obj";
import { check, fail } from "../engine/errors.ts";
import { type Device, device as makeDevice } from "../engine/index.ts";
import { Replica } from "../rl/learners/replica.ts";
import type { LossParts } from "../rl/train/loss.ts";
import { arraysFromBytes, arraysToBytes, floats } from "./arrays.ts";
import { type Link, lossOfServer, reasonOf, sha256 } from "./connection.ts";
import { toJson } from "./json.ts";
import {
  gradientToBytes,
  learnerNames,
  lossFacts,
  type Presence,
  presenceToJson,
  setupFromBytes,
  stateFromBytes,
  type Stored,
  type SumEntry,
  sumFromJson,
  type TurnEntry,
  turnFromJson,
  type Work,
  workFromBytes,
} from "./passes.ts";
import { objectOf } from "./queue.ts";

const PRESENCE_MS = 1000;

/** The learner's objective, or a function that makes it from the `settings` of `natsLearners`. */
export type LossOf = LossParts | ((settings: unknown) => LossParts);

/** How much a follower has done. */
export interface Followed {
  readonly steps: number;
  readonly microBatches: number;
}

/** The limits of a follower. */
export interface FollowerSettings {
  readonly name: string;
  /** The largest number of bytes of an object. */
  readonly largest: number;
  /** Threads of its executor; undefined: as many as the executor takes. */
  readonly threads?: number | undefined;
}

/** A replica on a device that is given back if it cannot be made. */
function replicaOn(device: Device, make: () => Replica): Replica {
  try {
    return make();
  } catch (error) {
    device.dispose();
    throw error;
  }
}

/** A replica, and the setup that it was made from. */
interface Session {
  readonly setup: Stored;
  readonly device: Device;
  readonly replica: Replica;
  readonly vocabSize: number;
  /** The life and the turn that its weights are for. */
  life: number;
  turn: number;
}

/** A follower, from the first look for a run to its end. */
export class Follower {
  readonly #link: Link;
  readonly #settings: FollowerSettings;
  readonly #lossOf: LossOf;
  readonly #note: (line: string) => void;
  readonly #id: string = randomBytes(6).toString("hex");
  #session: Session | undefined;
  #bucket: KV | undefined;
  #store: ObjectStore | undefined;
  #turn: TurnEntry | undefined;
  #sum: SumEntry | undefined;
  #word: Pick<Presence, "run" | "life" | "turn" | "done"> = { run: "", life: 0, turn: -1, done: [] };
  #stopped = false;
  #broken: Error | undefined;
  #wake: () => void = () => {};
  #counts = { steps: 0, microBatches: 0 };

  constructor(link: Link, settings: FollowerSettings, lossOf: LossOf, note: (line: string) => void) {
    this.#link = link;
    this.#settings = settings;
    this.#lossOf = lossOf;
    this.#note = note;
  }

  async run(): Promise<Followed> {
    const { connection, address } = this.#link;
    void lossOfServer(this.#link).then((error) => {
      if (!this.#stopped) this.#broken = error;
      this.#wake();
    });
    let pulse: ReturnType<typeof setInterval> | undefined;
    try {
      this.#note(`${this.#settings.name}: connected to ${address.server}, queue "${address.queue}"`);
      if (!(await this.#await())) return this.#counts;
      pulse = setInterval(() => this.#say("here"), PRESENCE_MS);
      this.#say("here");
      void this.#watch();
      let last: TurnEntry | undefined;
      while (!this.#isOver()) {
        const entry = this.#turn;
        if (entry === last || entry === undefined) await this.#change();
        else await this.#follow((last = entry));
      }
      if (this.#broken) throw this.#broken;
      return this.#counts;
    } finally {
      clearInterval(pulse);
      this.#stopped = true;
      this.#say("left");
      const late = new Promise<void>((resolve) => setTimeout(resolve, 2000).unref());
      if (!connection.isClosed()) await Promise.race([connection.drain().catch(() => {}), late]);
      this.#closeSession();
    }
  }

  /** Ends after the micro-batch that is being computed. */
  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  #isOver(): boolean {
    return this.#stopped || this.#broken !== undefined;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 500);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #closeSession(): void {
    this.#session?.replica.dispose();
    this.#session?.device.dispose();
    this.#session = undefined;
  }

  /** Waits until a learner has made the bucket. */
  async #await(): Promise<boolean> {
    const { connection, library, address } = this.#link;
    const names = learnerNames(address.queue);
    const open = async (): Promise<boolean> => {
      const manager = await library.jetstream.jetstreamManager(connection);
      for (const stream of [`KV_${names.bucket}`, `OBJ_${names.store}`]) {
        try {
          await manager.streams.info(stream);
        } catch (error) {
          if (error instanceof library.jetstream.JetStreamApiError && error.status === 404) return false;
          throw error;
        }
      }
      this.#bucket = await new library.kv.Kvm(connection).open(names.bucket);
      this.#store = await new library.obj.Objm(connection).open(names.store, false);
      return true;
    };
    for (let looks = 0; !this.#isOver(); looks++) {
      if (await this.#link.insist("the learner's bucket", open, () => this.#isOver())) return true;
      if (looks === 0) this.#note("no learner has been here yet; waiting for one");
      await this.#change();
    }
    if (this.#broken) throw this.#broken;
    return false;
  }

  async #watch(): Promise<void> {
    while (!this.#isOver()) {
      try {
        // Watches all keys, because servers before 2.10 cannot watch two.
        for await (const entry of await this.#bucket!.watch()) {
          if (entry.operation !== "PUT" || !["turn", "sum"].includes(entry.key)) continue;
          try {
            if (entry.key === "sum") this.#sum = sumFromJson(entry.string());
            else this.#turn = turnFromJson(entry.string());
          } catch (error) {
            this.#note(`refuses: ${reasonOf(error)}`);
          }
          this.#wake();
        }
      } catch {
        // The server is away, or this learner ends.
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** Sends without waiting for an answer; everything important is sent again. */
  #say(kind: Presence["kind"], why = ""): void {
    const { connection, address } = this.#link;
    if (connection.isClosed() || connection.isDraining()) return;
    const who = { id: this.#id, name: this.#settings.name.slice(0, 100) };
    try {
      connection.publish(learnerNames(address.queue).presence, presenceToJson({ kind, ...who, ...this.#word, why }));
    } catch {
      // The next one will arrive.
    }
  }

  /** Makes a turn, if this learner has a part in it. An error is reported, and the next turn is awaited. */
  async #follow(entry: TurnEntry): Promise<void> {
    const own = entry.others.find(({ id }) => id === this.#id);
    if (own === undefined) return;
    const { run, life, turn } = entry;
    this.#word = { run, life, turn, done: [] };
    try {
      const session = await this.#sessionFor(entry);
      const work = workFromBytes(await this.#read("micro-batches", own), session.vocabSize);
      await this.#compute(session, entry, work);
      const sum = await this.#sumOf(entry);
      if (sum === undefined) return; // the learner has gone on, or this one ends
      const arrays = arraysFromBytes("sum", await this.#read("the sum", sum)).map((x, i) => floats("sum", x, i));
      session.replica.step(arrays, work.how.lr);
      session.turn = turn + 1;
      this.#counts.steps++;
    } catch (error) {
      if (this.#isOver()) return;
      const why = reasonOf(error);
      this.#note(`takes no part in turn ${turn}: ${why}`);
      if (this.#session) this.#session.turn = -1;
      this.#say("refused", why.slice(0, 1000));
    }
  }

  /** A replica with the weights that the turn begins with. @throws if they cannot be had */
  async #sessionFor(entry: TurnEntry): Promise<Session> {
    if (this.#session?.setup.sha256 !== entry.setup.sha256) {
      this.#closeSession();
      const { plan, loss, settings, frozen } = setupFromBytes(
        await this.#read("the setup", entry.setup),
        this.#settings.largest,
      );
      const objective = typeof this.#lossOf === "function" ? this.#lossOf(settings) : this.#lossOf;
      const [here, there] = [toJson(lossFacts(objective)), toJson(loss)];
      check(here === there, () => `this learner has another loss: ${here}, expected ${there}`);
      const { threads } = this.#settings;
      const { kind, precision } = plan.device;
      const device = await makeDevice(kind, { precision, ...(threads === undefined ? {} : { threads }) });
      const replica = replicaOn(device, () => new Replica(plan, objective, frozen, device));
      const { vocabSize } = plan.config;
      this.#session = { setup: entry.setup, device, replica, vocabSize, life: -1, turn: -1 };
      this.#note(`learns for run ${entry.run} on ${device.description}`);
    }
    const session = this.#session;
    if (session.life !== entry.life || session.turn !== entry.turn) {
      const state = entry.state ?? fail(`it missed the step before turn ${entry.turn}`);
      session.replica.restore(stateFromBytes(await this.#read("weights and moments", state)));
      [session.life, session.turn] = [entry.life, entry.turn];
    }
    const now = sha256(arraysToBytes([...(await session.replica.weights())]));
    check(now === entry.before, () => `its weights are not the learner's at turn ${entry.turn}`);
    return session;
  }

  async #compute({ replica }: Session, { run, life, turn }: TurnEntry, { how, batches }: Work): Promise<void> {
    for (const { n, batch } of batches) {
      if (this.#isOver() || this.#turn?.turn !== turn || this.#turn.life !== life) return;
      this.#say("here");
      await new Promise((resolve) => setImmediate(resolve)); // so that it is sent before the processor is busy
      const bytes = gradientToBytes(turn, n, await replica.gradient(how, batch, n));
      const name = `${run}.${life}.${turn}.gradient.${n}.${this.#id}`;
      await this.#insist("a gradient", () => this.#store!.putBlob({ name }, bytes));
      this.#word = { ...this.#word, done: [...this.#word.done, [n, sha256(bytes)]] };
      this.#say("here");
      this.#counts.microBatches++;
    }
  }

  /** The sum of the turn's gradients; undefined if it has been deleted. */
  async #sumOf({ life, turn }: TurnEntry): Promise<SumEntry | undefined> {
    for (;;) {
      if (this.#sum?.life === life && this.#sum.turn === turn) return this.#sum;
      if (this.#isOver() || this.#turn?.turn !== turn || this.#turn.life !== life) return undefined;
      await this.#change();
    }
  }

  #read(what: string, { object, sha256: hash }: Stored): Promise<Uint8Array> {
    const how = { most: this.#settings.largest, sha256: hash, hashOf: sha256 };
    return this.#insist(what, () => objectOf(this.#store!, object, how));
  }

  #insist<T>(what: string, work: () => Promise<T>): Promise<T> {
    return this.#link.insist(what, work, () => this.#isOver());
  }
}
