/**
 * The other learners at a server, for the learner that has the run: it gives them micro-batches, adds the gradients,
 * and publishes the sum. rl/learners/ has the arithmetic; this file keeps the list of learners, stores objects, and
 * decides which gradients are trusted.
 *
 * A learner that joins gets weights and moments with its first micro-batches. The first gradient that it sends is
 * computed here as well. If the two differ in a bit (another executor, another method, or bad intent), the learner is
 * excluded. A learner that sends nothing for `silence` seconds longer than a micro-batch may take counts as gone, and
 * its micro-batches are computed here.
 */
import { randomBytes } from "node:crypto";
import type { KV } from "@nats-io/kv";
import type { ObjectStore } from "@nats-io/obj";
import { check, fail } from "../engine/errors.ts";
import { scope, treeLeaves } from "../engine/index.ts";
import { readWeights } from "../rl/async/messages.ts";
import { gradientToHost, type MicroGradient } from "../rl/learners/messages.ts";
import { frozenOf, gradientOfBatch, planOf, stateOf } from "../rl/learners/replica.ts";
import type { Shares } from "../rl/learners/shared.ts";
import { COLUMN_NAMES } from "../rl/methods/columns.ts";
import type { Pass } from "../rl/train/learners.ts";
import { arraysToBytes } from "./arrays.ts";
import { type Claim, claimQueue } from "./claim.ts";
import { type Link, publicAddress, reasonOf, sha256 } from "./connection.ts";
import { toJson } from "./json.ts";
import {
  gradientFromBytes,
  learnerNames,
  lossFacts,
  type Presence,
  presenceFromJson,
  setupToBytes,
  stateToBytes,
  type Stored,
  sumToJson,
  turnToJson,
  workToBytes,
} from "./passes.ts";
import { objectOf, removeObject } from "./queue.ts";
import { printable } from "./roster.ts";

const TICK_MS = 250;
/** How often a learner may refuse a turn or fall silent in one before it is excluded; a completed turn resets this. */
const MOST_FAILURES = 3;
/** The largest number of other learners. */
const MOST_LEARNERS = 256;

/** Another learner. */
interface Other {
  readonly id: string;
  readonly name: string;
  /** Ticks since its last message; they count only while this side can listen. */
  silent: number;
  /** The last turn whose step it was told to make; undefined if it has just joined. */
  turn: number | undefined;
  /** Gradients of the present turn, by micro-batch. */
  readonly done: Map<number, string>;
  /** The kinds of micro-batches (`kindsOf`) for which its gradient was compared with ours and was the same. */
  readonly compared: Set<string>;
  /** Whether it is excluded from the run. */
  isOut: boolean;
}

/** The settings of the hub. */
export interface HubSettings {
  readonly silence: number;
  readonly settings: unknown;
}

/** The other learners of a run. */
export class Hub {
  readonly #link: Link;
  readonly #how: HubSettings;
  readonly #note: (line: string) => void;
  readonly #others = new Map<string, Other>();
  readonly #failures = new Map<string, number>();
  readonly #run: string = randomBytes(8).toString("hex");
  #life = 0;
  #turn = -1;
  #bucket: KV | undefined;
  #store: ObjectStore | undefined;
  #remove: ((name: string) => Promise<void>) | undefined;
  #claim: Claim | undefined;
  #clock: ReturnType<typeof setInterval> | undefined;
  #setup: { readonly text: string; readonly stored: Stored } | undefined;
  #failure: string | undefined;
  #closed: Promise<void> | undefined;
  #wake: () => void = () => {};
  /** Milliseconds of the slowest micro-batch that was computed here. */
  #slowest = 0;
  /** The objects of this turn and of the one before. */
  #objects: [before: string[], now: string[]] = [[], []];

  constructor(link: Link, how: HubSettings, note: (line: string) => void) {
    this.#link = link;
    this.#how = how;
    this.#note = note;
  }

  /** Gives micro-batches to the other learners; undefined if there are none. */
  async share(pass: Pass): Promise<Shares | undefined> {
    if (this.#bucket === undefined) await this.#open();
    await new Promise((resolve) => setImmediate(resolve)); // who has said something meanwhile
    this.#checkWell();
    const turn = ++this.#turn;
    const others = [...this.#others.values()].filter(({ isOut }) => !isOut).sort((a, b) => (a.id < b.id ? -1 : 1));
    if (others.length === 0) return undefined;
    for (const { done } of others) done.clear();
    this.#clean();
    const setup = await this.#setupOf(pass);
    const before = sha256(arraysToBytes(await readWeights(pass.trained)));
    const isNew = others.some((other) => other.turn !== turn - 1);
    const state = isNew ? await this.#put("state", stateToBytes(await stateOf(pass))) : undefined;
    const count = pass.batches.length;
    const learners = others.length + 1;
    const ownerOf = (n: number): Other | undefined => others[Math.floor((n * learners) / count) - 1];
    pass.batches.forEach((_, n) => {
      const owner = ownerOf(n);
      if (owner) this.#objects[1].push(this.#nameOf(turn, `gradient.${n}`, owner.id));
    });
    const given = others.map(async (other) => {
      const batches = pass.batches.flatMap((batch, n) => (ownerOf(n) === other ? [{ n, batch }] : []));
      return { id: other.id, ...(await this.#put(`work.${other.id}`, workToBytes({ how: pass.how, batches }))) };
    });
    const name = { run: this.#run, life: this.#life, turn };
    await this.#write("turn", turnToJson({ ...name, setup, before, state, others: await Promise.all(given) }));
    for (const other of others) other.turn = turn;
    let began = Infinity; // when this side began with the micro-batch before
    return {
      gradient: async (n) => {
        this.#slowest = Math.max(this.#slowest, performance.now() - began);
        const owner = ownerOf(n);
        const theirs = owner && (await this.#gradientOf(owner, pass, turn, n));
        // Handles messages between two micro-batches.
        if (owner === undefined) await new Promise((resolve) => setImmediate(resolve));
        began = theirs ? Infinity : performance.now();
        return theirs;
      },
      sum: async (gradient) => {
        if (others.every(({ isOut }) => isOut)) return;
        const stored = await this.#put("sum", arraysToBytes(await readWeights(gradient)));
        await this.#write("sum", sumToJson({ ...name, ...stored }));
      },
    };
  }

  /** Ends this side. The others wait for another learner. */
  close(): Promise<void> {
    this.#closed ??= this.#shut();
    return this.#closed;
  }

  async #shut(): Promise<void> {
    clearInterval(this.#clock);
    this.#claim?.stop();
    const { connection } = this.#link;
    if (connection.isClosed()) return;
    const late = new Promise<void>((resolve) => setTimeout(resolve, 2000).unref());
    const last = async (): Promise<void> => {
      // The others may still be reading what is of the last turn; the next run deletes it.
      for (const name of this.#objects[0]) await this.#remove?.(name);
      await this.#claim?.release();
    };
    await Promise.race([last().catch(() => {}), late]);
    await Promise.race([connection.close().catch(() => {}), late]);
  }

  #checkWell(): void {
    const { connection, address, patience } = this.#link;
    check(this.#failure === undefined, () => this.#failure!);
    check(!connection.isClosed(), () => `nats: ${address.server} did not come back within ${patience} s`);
  }

  async #open(): Promise<void> {
    const { address, connection, library } = this.#link;
    const names = learnerNames(address.queue);
    const bucket = await this.#link.insist(`bucket ${names.bucket}`, () =>
      new library.kv.Kvm(connection).create(names.bucket, {
        history: 1,
        storage: library.jetstream.StorageType.File,
      }),
    );
    const lost = (why: string): void => void (this.#failure = why);
    this.#claim = await claimQueue(this.#link, bucket, this.#run, { note: this.#note, lost });
    this.#life = this.#claim.life;
    const store = await this.#link.insist(`object store ${names.store}`, () =>
      new library.obj.Objm(connection).create(names.store, { storage: library.jetstream.StorageType.File }),
    );
    const manager = await library.jetstream.jetstreamManager(connection);
    const remove = (this.#remove = (name) => removeObject(manager, store, names.store, name));
    for (const { name } of await store.list()) await remove(name);
    connection.subscribe(names.presence, {
      callback: (error, message) => {
        if (error !== null) return;
        try {
          this.#hear(presenceFromJson(message.string()));
        } catch {
          // The message is not from a learner.
        }
      },
    });
    this.#clock = setInterval(() => this.#tick(), TICK_MS);
    const where = publicAddress(`${address.server}/${address.queue}`);
    this.#note(`other learners may join at any time: npm run worker -- --learn --server ${where}`);
    this.#bucket = bucket;
    this.#store = store;
    // Who is there already says so within a second; later ones join at a later pass.
    await this.#change(1200, () => this.#others.size > 0);
  }

  #hear({ kind, id, name, run, life, turn, done, why }: Presence): void {
    const known = this.#others.get(id);
    const shown = printable(name);
    if (kind === "left") {
      if (known && !known.isOut) this.#drop(known, "has left");
    } else if (known === undefined) {
      if (this.#others.size >= MOST_LEARNERS || kind !== "here") return;
      this.#others.set(id, {
        id,
        name: shown,
        silent: 0,
        turn: undefined,
        done: new Map(),
        compared: new Set(),
        isOut: false,
      });
      this.#note(`learner ${shown} is here`);
    } else {
      known.silent = 0;
      const isNow = run === this.#run && life === this.#life && turn === this.#turn;
      // Given the weights anew, it may take part again; but not for ever.
      if (isNow && kind === "refused" && !known.isOut) this.#fails(known, `refuses: ${printable(why)}`);
      if (isNow) for (const [n, hash] of done) known.done.set(n, hash);
    }
    this.#wake();
  }

  /** Counts a failure of a learner. It may take part again with new weights, but is excluded after several failures. */
  #fails(other: Other, why: string): void {
    const count = (this.#failures.get(other.id) ?? 0) + 1;
    this.#failures.set(other.id, count);
    this.#drop(other, why, count >= MOST_FAILURES);
  }

  /** @param stays whether it is remembered as excluded, so that it is never asked again */
  #drop(other: Other, why: string, stays = false): void {
    other.isOut = true;
    if (!stays) this.#others.delete(other.id);
    this.#note(`learner ${other.name} ${why}`);
    this.#wake();
  }

  #tick(): void {
    const limit = (1000 * this.#how.silence + 4 * this.#slowest) / TICK_MS;
    for (const other of this.#others.values())
      if (++other.silent > limit && !other.isOut) this.#fails(other, "is gone; its micro-batches are computed here");
    this.#wake();
  }

  /** Resolves when something has happened that makes `isEnough` true; after so many milliseconds in any case. */
  async #change(ms: number, isEnough: () => boolean): Promise<void> {
    const until = performance.now() + ms;
    while (!isEnough() && performance.now() < until && this.#failure === undefined) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, TICK_MS);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** A gradient of another learner; undefined if it will not come. */
  async #gradientOf(other: Other, pass: Pass, turn: number, n: number): Promise<MicroGradient | undefined> {
    while (!other.isOut && !other.done.has(n)) {
      await this.#change(TICK_MS, () => other.isOut || other.done.has(n));
      this.#checkWell();
    }
    const hash = other.done.get(n);
    if (other.isOut || hash === undefined) return undefined;
    const sizes = treeLeaves(pass.trained).map(({ size }) => size);
    try {
      const name = this.#nameOf(turn, `gradient.${n}`, other.id);
      const most = 2 ** 16 + 8 * (2 * pass.batches[n]!.index.length + sizes.reduce((a, b) => a + b, 0));
      const how = { most, sha256: hash, hashOf: sha256 };
      const bytes = await this.#link.insist("a gradient", () => objectOf(this.#store!, name, how));
      const theirs = gradientFromBytes(bytes, turn, n, pass.batches[n]!.index.length);
      const fits = theirs.gradient.length === sizes.length && theirs.gradient.every((x, i) => x.length === sizes[i]);
      check(fits, () => `gradient: its sizes are not those of the ${sizes.length} tensors that are trained`);
      this.#failures.delete(other.id);
      const news = kindsOf(pass, turn, n).filter((kind) => !other.compared.has(kind));
      if (news.length === 0) return theirs;
      const own = await gradientHere(pass, n);
      check(same(own, theirs), () => "gradient: it is not, to the last bit, what this learner computes");
      for (const kind of news) other.compared.add(kind);
      return theirs;
    } catch (error) {
      this.#checkWell();
      this.#drop(other, `takes no part any more: ${printable(reasonOf(error))}`, true);
      return undefined;
    }
  }

  #nameOf(turn: number, what: string, id = "first"): string {
    return `${this.#run}.${this.#life}.${turn}.${what}.${id}`;
  }

  async #put(what: string, bytes: Uint8Array): Promise<Stored> {
    const object = this.#nameOf(this.#turn, what);
    await this.#link.insist(what, () => this.#store!.putBlob({ name: object }, bytes));
    if (what !== "setup") this.#objects[1].push(object);
    return { object, sha256: sha256(bytes) };
  }

  #write(key: string, text: string): Promise<number> {
    return this.#link.insist(`the entry "${key}"`, () => this.#bucket!.put(key, text));
  }

  /** The setup is stored once, and again if it changes. */
  async #setupOf(pass: Pass): Promise<Stored> {
    const facts = { plan: planOf(pass), loss: lossFacts(pass.objective), settings: this.#how.settings ?? null };
    const text = toJson(facts);
    if (this.#setup?.text === text) return this.#setup.stored;
    const frozen = await frozenOf(pass.model);
    this.#setup = { text, stored: await this.#put("setup", setupToBytes({ ...facts, frozen })) };
    return this.#setup.stored;
  }

  /** Deletes the objects of the turn before the last one. */
  #clean(): void {
    const [old, recent] = this.#objects;
    this.#objects = [recent, []];
    for (const name of old) void this.#remove!(name).catch(() => {});
  }
}

/** The gradient of a micro-batch as it is computed here. */
function gradientHere(pass: Pass, n: number): Promise<MicroGradient> {
  const { grads, result } = scope(() => gradientOfBatch(pass, n), "gradient");
  return gradientToHost(grads, result);
}

/** Whether all bits are equal; all NaNs count as equal. */
function same(a: MicroGradient, b: MicroGradient): boolean {
  const lists = ({ gradient, logProbs, entropy, terms }: MicroGradient): ArrayLike<number | undefined>[] => [
    ...gradient,
    logProbs,
    entropy,
    terms,
  ];
  const others = lists(b);
  return lists(a).every((x, i) => {
    const y = others[i] ?? fail("gradient: a list is missing");
    for (let k = 0; k < x.length; k++) if (!Object.is(x[k], y[k])) return false;
    return x.length === y.length;
  });
}

/**
 * The kinds of a micro-batch: the terms of the loss that have a weight in it, on which its gradient depends. (Without
 * advantages, for example, two policy losses have the same gradient.) If ratios are not exact, the policy's term counts
 * as a new kind in every turn, because ratios of 1 do not show how a loss treats others.
 */
function kindsOf({ batches, how }: Pass, turn: number, n: number): string[] {
  const { columns } = batches[n]!;
  return COLUMN_NAMES.filter((name) => name.startsWith("w")).flatMap((name) => {
    const isThere = columns[name].some((w, i) => w !== 0 && (name !== "wPolicy" || columns.advantages[i] !== 0));
    if (!isThere) return [];
    return [name === "wPolicy" && how.ratios !== "exact" ? `${name} of turn ${turn}` : name];
  });
}
