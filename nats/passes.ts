/**
 * The messages between learners, which go through a NATS server. A turn is one pass over the rows of a step. As
 * everywhere in this folder, nothing that arrives is trusted: it is checked before it is used.
 *
 *     KV `turn`        {run, life, turn, configuration, setup, before, state, others}: who computes, from which weights
 *     KV `sum`         {run, life, turn, object, sha256}: the sum of the gradients, with which all make the same step
 *     store            setup, state (weights and moments, for those that join), micro-batches, gradients, sums
 *     subject          the others say once a second that they are there, and which gradients they have stored
 */
import { check } from "../engine/errors.ts";
import type { RngState } from "../engine/index.ts";
import type { FrozenWeights } from "../rl/async/frozen.ts";
import type { MicroGradient } from "../rl/learners/messages.ts";
import type { ReplicaPlan, ReplicaState } from "../rl/learners/replica.ts";
import { COLUMN_NAMES, type ColumnName, type Columns } from "../rl/methods/columns.ts";
import { clipOf, CRITIC } from "../rl/methods/objective.ts";
import type { PassSettings } from "../rl/train/learners.ts";
import { type LossParts, TERMS } from "../rl/train/loss.ts";
import type { MicroBatch } from "../rl/train/pack.ts";
import { arraysFromBytes, arraysToBytes, floats, jsonFromArray, jsonToArray, type Sent } from "./arrays.ts";
import { Fields, fromJson, isRecord, toJson } from "./json.ts";
import { checkVersions, LIBRARY, modelFrom, PROTOCOL, setupBytes, setupParts } from "./protocol.ts";

/** The names of a queue's bucket, store and subject. */
export const learnerNames = (queue: string) =>
  ({ bucket: `${queue}_learners`, store: `${queue}_gradients`, presence: `${queue}.learners` }) as const;

/** An object and its hash. */
export interface Stored {
  readonly object: string;
  readonly sha256: string;
}
const storedFrom = (where: string, value: unknown): Stored => {
  const fields = new Fields(where, value);
  return { object: fields.text("object"), sha256: fields.hash("sha256") };
};

/** The entry `turn`. */
export interface TurnEntry {
  readonly run: string;
  readonly life: number;
  readonly turn: number;
  /** The setup, whose hash is the configuration. */
  readonly setup: Stored;
  /** The hash of the weights that the turn begins with. */
  readonly before: string;
  /** Weights and moments, for learners that have not made the step before. */
  readonly state: Stored | undefined;
  /** Who computes which micro-batches. */
  readonly others: readonly (Stored & { readonly id: string })[];
}

export const turnToJson = (entry: TurnEntry): string =>
  toJson({ protocol: PROTOCOL, library: LIBRARY, ...entry, state: entry.state ?? null });

/** @throws if it is no entry, or of another version */
export function turnFromJson(text: string): TurnEntry {
  const fields = new Fields("turn", fromJson("turn", text));
  checkVersions("the learner", fields);
  const state = fields.any("state");
  return {
    run: fields.text("run"),
    life: fields.integer("life"),
    turn: fields.integer("turn"),
    setup: storedFrom("turn: setup", fields.any("setup")),
    before: fields.hash("before"),
    state: state === null ? undefined : storedFrom("turn: state", state),
    others: fields.list("others", 1024).map((value) => {
      const id = new Fields("turn: others", value).text("id", 32);
      return { id, ...storedFrom("turn: others", value) };
    }),
  };
}

/** The entry `sum`. */
export interface SumEntry extends Stored {
  readonly run: string;
  readonly life: number;
  readonly turn: number;
}

/** @throws if it is none */
export function sumFromJson(text: string): SumEntry {
  const fields = new Fields("sum", fromJson("sum", text));
  const { object, sha256 } = storedFrom("sum", fields.any("sum"));
  return { run: fields.text("run"), life: fields.integer("life"), turn: fields.integer("turn"), object, sha256 };
}

export const sumToJson = ({ object, sha256, ...entry }: SumEntry): string =>
  toJson({ ...entry, sum: { object, sha256 } });

/** The message that another learner sends about once a second. */
export interface Presence {
  readonly kind: "here" | "left" | "refused";
  readonly id: string;
  readonly name: string;
  readonly run: string;
  readonly life: number;
  readonly turn: number;
  /** The gradients of this turn that are stored: micro-batch and hash. */
  readonly done: readonly (readonly [n: number, sha256: string])[];
  /** Why it takes no part in this turn. */
  readonly why: string;
}

/** @throws if it is none */
export function presenceFromJson(text: string): Presence {
  const fields = new Fields("presence", fromJson("presence", text));
  const kind = fields.any("kind");
  check(kind === "here" || kind === "left" || kind === "refused", () => `presence: of no known kind: ${toJson(kind)}`);
  return {
    kind,
    id: fields.text("id", 32),
    name: fields.text("name"),
    run: fields.text("run"),
    life: fields.integer("life"),
    turn: fields.integer("turn", -1),
    why: fields.text("why", 1024),
    done: fields.list("done", 65_536).map((pair) => {
      const own = new Fields("presence: done", isRecord(pair) ? pair : { pair });
      return [own.integer("n"), own.hash("sha256")] as const;
    }),
  };
}

export const presenceToJson = ({ done, ...rest }: Presence): string =>
  toJson({ ...rest, done: done.map(([n, sha256]) => ({ n, sha256 })) });

/** The parts of an objective that are data. Learners whose data differ refuse each other. */
export function lossFacts(objective: LossParts): Readonly<Record<string, unknown>> {
  const { policyLoss, kl, critic } = objective;
  const { name, clip, beta } = policyLoss;
  const { estimator, clamp, importance, in: place = "loss" } = kl ?? {};
  return {
    policyLoss: { name, clip, beta: beta ?? null },
    clip: clipOf(objective) ?? null,
    kl: kl ? { estimator, in: place, clamp: clamp ?? null, importance: importance ?? false } : null,
    critic: critic ? CRITIC.read(critic) : null,
  };
}

/** Everything that another learner needs before it can compute. */
export interface LearnerSetup {
  readonly plan: ReplicaPlan;
  readonly loss: Readonly<Record<string, unknown>>;
  /** Data from which a program makes the same objective. */
  readonly settings: unknown;
  readonly frozen: FrozenWeights;
}

export const setupToBytes = ({ frozen, ...facts }: LearnerSetup): Uint8Array =>
  setupBytes({ protocol: PROTOCOL, library: LIBRARY, ...facts }, frozen);

/**
 * Its hash is that of the entry, so whoever may write entries has written it. Settings of optimisers and adapter are
 * checked by those who read them.
 * @param most the largest number of bytes of weights
 * @throws if it is none, or of another version
 */
export function setupFromBytes(bytes: Uint8Array, most: number): LearnerSetup {
  const { fields, frozen } = setupParts(bytes);
  const plan = new Fields("plan", fields.object("plan"));
  const [adapter, critic] = (["adapter", "critic"] as const).map((name) =>
    plan.any(name) === undefined ? undefined : plan.object(name),
  );
  return {
    plan: {
      ...modelFrom("plan", plan, adapter === undefined ? most : Infinity), // frozen weights came with these bytes
      optimizer: plan.object("optimizer") as ReplicaPlan["optimizer"],
      ...(adapter ? { adapter: adapter as ReplicaPlan["adapter"] & object } : {}),
      ...(critic ? { critic: critic as ReplicaPlan["optimizer"] } : {}),
    },
    loss: fields.object("loss") as LearnerSetup["loss"],
    settings: fields.any("settings"),
    frozen,
  };
}

export const stateToBytes = ({ arrays, steps }: ReplicaState): Uint8Array =>
  arraysToBytes([jsonToArray({ steps }), ...arrays]);

/** @throws if it is none; whether it fits a model shows when it is used */
export function stateFromBytes(bytes: Uint8Array): ReplicaState {
  const [facts, ...arrays] = arraysFromBytes("state", bytes);
  const steps = new Fields("state", jsonFromArray("state", facts)).list("steps", 2) as readonly number[];
  return { steps, arrays: arrays.map((x, i) => floats("state", x, i + 1)) };
}

/** Micro-batches to compute, with their numbers. */
export interface Work {
  readonly how: PassSettings;
  readonly batches: readonly { readonly n: number; readonly batch: MicroBatch }[];
}

export function workToBytes({ how, batches }: Work): Uint8Array {
  const sizes = batches.map(({ n, batch: { rows, length, segments } }) => ({ n, rows, length, segments }));
  const arrays = batches.flatMap(({ batch }): Sent[] => [
    batch.ids,
    batch.index,
    batch.targets,
    batch.segment,
    ...COLUMN_NAMES.map((name) => batch.columns[name]),
  ]);
  return arraysToBytes([jsonToArray({ how, sizes }), ...arrays]);
}

/** @throws if an array does not fit: lengths, places, ids, segments */
export function workFromBytes(bytes: Uint8Array, vocabSize: number): Work {
  const [facts, ...arrays] = arraysFromBytes("work", bytes);
  const fields = new Fields("work", jsonFromArray("work", facts));
  const how = new Fields("work: how", fields.any("how"));
  const ratios = how.any("ratios");
  check(
    ratios === "exact" || ratios === "before" || ratios === "recorded",
    () => `work: ratios are of no known kind: ${toJson(ratios)}`,
  );
  const each = 4 + COLUMN_NAMES.length;
  const batches = fields.list("sizes", 65_536).map((value, k) => {
    const size = new Fields("work: sizes", value);
    const [rows, length, segments] = [size.integer("rows", 1), size.integer("length", 1), size.integer("segments", 1)];
    const own = arrays.slice(k * each, (k + 1) * each);
    const [ids, index, targets, segment] = own.slice(0, 4).map((x, i) => {
      check(x instanceof Int32Array, () => `work: array ${i} of micro-batch ${k} has no integers`);
      return x;
    }) as [Int32Array, Int32Array, Int32Array, Int32Array];
    const inside = (name: string, x: Int32Array, end: number): void =>
      check(
        x.every((v) => v >= 0 && v < end),
        () => `work: ${name} of micro-batch ${k} must be in [0, ${end})`,
      );
    const count = index.length;
    check(ids.length === rows * length, () => `work: ${ids.length} ids for ${rows} rows of ${length}`);
    inside("ids", ids, vocabSize);
    inside("places", index, rows * length);
    inside("targets", targets, vocabSize);
    inside("segments", segment, segments);
    const columns: Partial<Record<ColumnName, Float64Array>> = {};
    COLUMN_NAMES.forEach((name, i) => {
      const column = own[4 + i];
      const fits = column instanceof Float64Array && column.length === count;
      check(fits && targets.length === count && segment.length === count, () => `work: "${name}" has not ${count}`);
      columns[name] = column;
    });
    const none = new Int32Array(0); // only the learner needs to know where the tokens came from
    const places = { episode: none, token: none };
    const batch = { rows, length, segments, ids, index, targets, segment, ...places, columns: columns as Columns };
    return { n: size.integer("n"), batch };
  });
  check(arrays.length === batches.length * each, () => `work: ${arrays.length} arrays for ${batches.length} batches`);
  const dropout = how.any("dropout") as RngState | undefined;
  const gradientCheckpointing = how.flag("gradientCheckpointing");
  return { how: { lr: how.number("lr"), ratios, dropout, gradientCheckpointing }, batches };
}

export const gradientToBytes = (
  turn: number,
  n: number,
  { gradient, logProbs, entropy, terms }: MicroGradient,
): Uint8Array =>
  arraysToBytes([jsonToArray({ turn, n, terms: terms.map((term) => term ?? null) }), logProbs, entropy, ...gradient]);

/** @throws unless it is the gradient of this micro-batch, with so many scored tokens */
export function gradientFromBytes(bytes: Uint8Array, turn: number, n: number, count: number): MicroGradient {
  const [facts, ...arrays] = arraysFromBytes("gradient", bytes);
  const fields = new Fields("gradient", jsonFromArray("gradient", facts));
  const isIt = fields.integer("turn") === turn && fields.integer("n") === n;
  check(isIt, () => `gradient: of another micro-batch than ${n} of turn ${turn}`);
  const terms = fields.list("terms", TERMS.length);
  check(
    terms.length === TERMS.length && terms.every((x) => x === null || typeof x === "number"),
    () => `gradient: expected ${TERMS.length} terms`,
  );
  const [logProbs, entropy, ...gradient] = arrays.map((x, i) => floats("gradient", x, i + 1));
  check(
    logProbs?.length === count && entropy?.length === count,
    () => `gradient: expected log-probabilities and entropies of ${count} tokens`,
  );
  return {
    gradient,
    logProbs,
    entropy,
    terms: terms.map((x) => x ?? undefined),
  };
}
