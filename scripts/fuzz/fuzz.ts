/**
 * Fuzzing: reads valid documents with random changes (values of other kinds, extreme numbers, keys that are removed,
 * doubled or named like members of every object, flipped bytes). fast-check draws the changes and shrinks failures; a
 * seed repeats a run.
 */
import fc from "fast-check";
import { WorldgradError } from "../../engine/errors.ts";
import { UsageError } from "../../run/usage.ts";
import type { Json, Target } from "./target.ts";

type Change =
  | { readonly kind: "value"; readonly at: Place; readonly value: Json }
  | { readonly kind: "drop" | "double"; readonly at: Place }
  | { readonly kind: "add"; readonly at: Place; readonly key: string; readonly value: Json };

/** A path into a document: at each level the number of an entry, or of the end of the path. */
type Place = readonly number[];

const hostile: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, "", "NaN", "__proto__", "\ud800", [], {}, [[]], -1, 0, 0.5),
  fc.constantFrom<Json>(2 ** 31, 2 ** 32, 2 ** 53, 1e300, -1e300, 5e-324, -0, 1e9, 4096, 65536),
  fc.integer(),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constant("a".repeat(10_000)),
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>,
);
const at = fc.array(fc.nat({ max: 5_000 }), { minLength: 1, maxLength: 6 });
const key = fc.constantFrom("__proto__", "constructor", "toString", "", "length", "type", "0");
const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("value" as const), at, value: hostile }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("drop" as const, "double" as const), at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("add" as const), at, key, value: hostile }) },
);

/**
 * The keys of a place in this document. All levels are equally likely, so that a list of ten thousand words does not
 * attract all changes.
 */
function pathAt(document: Json, [first, ...rest]: Place): string[] {
  if (first === undefined || typeof document !== "object" || document === null) return [];
  const entries = Object.entries(document);
  const entry = entries[first % (entries.length + 1)];
  return entry === undefined ? [] : [entry[0], ...pathAt(entry[1], rest)];
}

/** The document with one change. The original stays; what is not on the path is shared. */
function changed(document: Json, path: readonly string[], edit: Change): Json {
  const [first, ...rest] = path;
  if (first === undefined)
    return edit.kind === "value" ? edit.value : edit.kind === "add" ? added(document, edit) : document;
  const entries: [string, Json][] = Object.entries(document as object).flatMap(([name, value]): [string, Json][] => {
    if (name !== first) return [[name, value as Json]];
    if (rest.length === 0 && edit.kind === "drop") return [];
    const next: [string, Json] = [name, changed(value as Json, rest, edit)];
    return rest.length === 0 && edit.kind === "double" ? [next, [`${name} `, next[1]]] : [next];
  });
  return Array.isArray(document) ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

const added = (document: Json, { key: name, value }: { readonly key: string; readonly value: Json }): Json =>
  typeof document !== "object" || document === null || Array.isArray(document)
    ? value
    : Object.fromEntries([...Object.entries(document), [name, value]]);

/** A valid document after its changes, as a file would hold it. */
function documentOf(valid: Json, changes: readonly Change[]): Json {
  const document = changes.reduce((now, edit) => changed(now, pathAt(now, edit.at), edit), valid);
  return JSON.parse(JSON.stringify(document)) as Json; // drops what no file can hold
}

/** Reads one document. @returns processor milliseconds @throws Error for all but a refusal in a sentence */
async function timed(what: string, read: () => unknown): Promise<{ ms: number; isAccepted: boolean }> {
  const before = process.cpuUsage();
  let isAccepted = true;
  try {
    await read();
  } catch (error) {
    const isSentence = error instanceof WorldgradError || error instanceof UsageError;
    if (!isSentence) throw new Error(`${what}: ${String(error)}`, { cause: error });
    isAccepted = false;
  }
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1_000, isAccepted };
}

export interface Outcome {
  readonly target: string;
  readonly tried: number;
  readonly accepted: number;
  readonly refused: number;
  /** The first failure, shrunk as far as time allowed; undefined if there is none. */
  readonly failure: string | undefined;
  /** The document that failed. */
  readonly document?: Json;
}

/**
 * Reads changed documents.
 * @param how `ms` the total time, `runs` the most documents, `limitMs` the processor time allowed for one document
 * @param on called with each document, as JSON, before it is read
 */
export async function fuzz(
  target: Target,
  { seed, ms, runs, limitMs = 1_000 }: { seed: number; ms: number; runs: number; limitMs?: number },
  on: (document: string) => void = () => undefined,
): Promise<Outcome> {
  let [tried, accepted, refused] = [0, 0, 0];
  const attempt = async (what: string, read: () => unknown): Promise<void> => {
    tried++;
    const first = await timed(what, read);
    if (first.isAccepted) accepted++;
    else refused++;
    if (first.ms <= limitMs) return;
    // Processor time includes the garbage collector and the compiler: an excess counts only if it repeats.
    const { ms: again } = await timed(what, read);
    if (again > limitMs) throw new Error(`${what}: took ${first.ms} ms, and ${again} ms when read again`);
  };
  const flip = fc.record({ at: fc.nat({ max: 100_000 }), bit: fc.nat({ max: 7 }) });
  const flips = fc.array(flip, { maxLength: target.bytesOf ? 3 : 0 });
  const property = fc.asyncProperty(
    target.documents,
    fc.array(change, { maxLength: 3 }),
    flips,
    async (valid, changes, flipped) => {
      const document = documentOf(valid, changes);
      on(JSON.stringify(document));
      await attempt(target.name, () => target.read(document));
      const bytes = target.bytesOf?.(document);
      if (bytes === undefined || flipped.length === 0) return;
      for (const { at: i, bit } of flipped) bytes[i % bytes.length]! ^= 1 << bit;
      await attempt(`${target.name}, bytes`, () => target.readBytes!(bytes));
    },
  );
  const result = await fc.check(property, { seed, numRuns: runs, interruptAfterTimeLimit: ms });
  const counts = { target: target.name, tried, accepted, refused };
  // A run that reaches its time limit is `interrupted`, with or without a failure.
  if (result.counterexample === null) return { ...counts, failure: undefined };
  const [valid, changes] = result.counterexample;
  const failure = `${String(result.errorInstance)}\n${fc.defaultReportMessage(result)}`;
  return { ...counts, failure, document: documentOf(valid, changes) };
}
