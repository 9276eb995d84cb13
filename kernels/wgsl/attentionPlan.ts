/**
 * Plans of the passes of attention: what an owner (a query, or a key) keeps and adds up (`Walk`), and how a schedule
 * divides that between threads, registers and workgroup memory (`Plan`). attentionWalk.ts makes the text from a plan.
 */
import type { AdapterProfile } from "../kernel.ts";
import type { AttentionSpec } from "../specs.ts";
import { chooseSchedule } from "./attentionTable.ts";
import { type Bindings, independentThreads, vectorWidth } from "./rows.ts";

/** A sum of an owner: `weight` times the first (0) or second (1) vector of every other that it sees. */
interface Sum {
  readonly output: string;
  readonly weight: "weight" | "ds";
  readonly of: 0 | 1;
}

/** A pass: what an owner keeps, and what it adds up. */
export interface Walk {
  readonly name: string;
  readonly own: "query" | "key";
  readonly bindings: Bindings;
  /** The owner's vectors: the first is multiplied with the first of the others' for scores, the second likewise. */
  readonly mine: readonly string[];
  readonly others: readonly [string, string];
  readonly sums: readonly Sum[];
  /** Probabilities from the running maximum and sum, or again from lse and D in `stats`. */
  readonly softmax: "online" | "recomputed";
}

/** The most parts of a head for which loops are unrolled: Mesa's LLVM compiles ten times as slowly as SwiftShader. */
function longestUnrolled({ schedule, adapter }: AdapterProfile): number {
  return schedule === "gpu" ? 32 : adapter === "swiftshader" ? 16 : 4;
}

/** A pass with everything that its texts depend on. */
export interface Plan extends Walk {
  readonly spec: AttentionSpec;
  /** Owners of a head, and heads with owners of their own. */
  readonly owners: number;
  readonly ownHeads: number;
  /** The schedule `thread`. */
  readonly alone: boolean;
  /** The parts of a head (`V` each), and those of one thread. */
  readonly parts: number;
  readonly ownParts: number;
  readonly unrolled: boolean;
  readonly threads: number;
  readonly splits: number;
  readonly lanes: number;
  readonly rows: number;
  readonly chunk: number;
  /** Others in a tile of workgroup memory. */
  readonly tile: number;
  /** The parts that threads exchange at a time when the sums of splits are added. */
  readonly exchanged: number;
}

/** The workgroup memory that every adapter has. */
const WORKGROUP_BYTES = 16384;
const LONGEST_TILE = 32;
const GROUP_THREADS = 64;

export function planFor(spec: AttentionSpec, walk: Walk, profile: AdapterProfile): Plan {
  const owners = walk.own === "query" ? spec.queries : spec.keys;
  const ownHeads = walk.own === "query" ? spec.heads : spec.kvHeads;
  const { headDim } = spec;
  const pass = walk.softmax === "online" ? "forward" : "backward";
  const schedule = chooseSchedule(pass, { count: spec.batch * owners * ownHeads, owners, headDim }, profile);
  const width = vectorWidth(headDim);
  const parts = headDim / width;
  const alone = schedule.kind === "thread";
  const threads = alone ? independentThreads(profile) : GROUP_THREADS;
  const { splits = 1, rows = 1, chunk: asked = 1, lanes: shared = 1 } = alone ? {} : schedule;
  // A head that cannot be divided is one thread's.
  const lanes = parts % shared === 0 ? shared : 1;
  if (lanes > 1 && !(profile.features ?? []).includes("subgroups"))
    throw new Error(`attention: this schedule needs "subgroups", which the adapter lacks`);
  const ownParts = parts / lanes;
  const exchanged = Math.min(ownParts, 16 / width);
  const kept = splits === 1 ? 0 : threads * (4 * width * exchanged + 8 * rows);
  const row = 4 * width * 2 * lanes * (ownParts + 1) + 8;
  const most = Math.min(LONGEST_TILE, Math.floor((WORKGROUP_BYTES - kept) / row));
  // A whole number of turns, if one fits.
  const chunk = Math.max(1, Math.min(asked, Math.floor(most / splits)));
  const turn = splits * chunk;
  const tile = most < turn ? most : most - (most % turn);
  if (!alone && tile < 1) throw new Error(`attention: no tile fits into workgroup memory at head size ${headDim}`);
  const unrolled = ownParts <= longestUnrolled(profile);
  const division = { threads, splits, lanes, rows, chunk, tile, exchanged };
  return { ...walk, spec, owners, ownHeads, alone, parts, ownParts, unrolled, ...division };
}

/** The names of the owners' and the others' places. */
export const sides = {
  query: { other: "key", owners: "queries", ownHeads: "heads", others: "keys", otherHeads: "kvHeads" },
  key: { other: "query", owners: "keys", ownHeads: "kvHeads", others: "queries", otherHeads: "heads" },
} as const;
