/**
 * The training of the merges of byte-level BPE (Sennrich, Haddow, Birch 2016, algorithm 1) with incremental counts: the
 * text is reduced to its distinct pieces with their frequencies, each merge touches only the pieces that have the pair,
 * and a heap with lazily corrected counts yields the next pair: well under a second for a megabyte and 1,000 merges.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { DEFAULT_PATTERN, toAlphabet } from "./alphabet.ts";
import { BpeTokenizer, pairKey, piecesBy, specialTable, splitPieces } from "./bpe.ts";
import { Heap } from "./heap.ts";

/** Options of `trainBpe`. */
export interface TrainBpeOptions {
  /** The wanted number of ids: 256 bytes + special tokens + merges. */
  readonly vocabSize: number;
  /** Names of the special tokens; their ids follow the bytes, so they do not move when vocabSize changes. */
  readonly specials?: readonly string[];
  /** Pre-tokenisation: source of a regular expression (flag u) whose matches are never merged across. */
  readonly pattern?: string;
  /** The least count of a pair that is merged. Default 2. */
  readonly minFrequency?: number;
}

interface Piece {
  ids: number[];
  readonly frequency: number;
}

interface Candidate {
  readonly left: number;
  readonly right: number;
  readonly count: number;
}

/**
 * Trains a byte-level BPE tokenizer. Ids: bytes 0–255, special tokens, merges in the order learnt.
 *
 * The result depends only on the pieces' frequencies: of the pairs with the highest count the one with the smallest
 * left id is merged, then with the smallest right id. A pair whose result has the bytes of a token that exists already,
 * or the name of a special token, is passed over, so that no two tokens have the same name in tokenizer.json.
 *
 * @returns a tokenizer of at most `vocabSize` ids; fewer if the text has no more pairs of `minFrequency`
 * @throws WorldgradError if `vocabSize` has no room for bytes and special tokens, or the pattern is malformed
 *
 * @example
 * const tokenizer = trainBpe(["low lower lowest"], { vocabSize: 259, specials: ["<|end|>"] });
 * tokenizer.encode("lower").map((id) => tokenizer.decode([id])); // ["low", "e", "r"]
 */
export function trainBpe(texts: Iterable<string>, options: TrainBpeOptions): BpeTokenizer {
  checkKeys("trainBpe", options, ["vocabSize", "specials", "pattern", "minFrequency"]);
  const { vocabSize, specials = [], pattern = DEFAULT_PATTERN, minFrequency = 2 } = options;
  const least = 256 + specials.length;
  check(
    Number.isInteger(vocabSize) && vocabSize >= least,
    () =>
      `trainBpe: vocabSize is ${vocabSize}, expected an integer ≥ ${least} (256 bytes + ${specials.length} special)`,
  );
  check(
    Number.isInteger(minFrequency) && minFrequency >= 1,
    () => `trainBpe: minFrequency is ${minFrequency}, expected an integer ≥ 1`,
  );
  const base = specialTable(
    Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    specials,
  );
  const tokens = [...base.tokens];
  const names = new Set([...tokens.slice(0, 256).map(toAlphabet), ...specials]);
  const merges: [number, number, number][] = [];
  const pairs = new PairCounts(countPieces(texts, piecesBy(pattern)));

  while (tokens.length < vocabSize) {
    const best = pairs.takeBest();
    if (best === undefined || best.count < minFrequency) break;
    const bytes = concatenate(tokens[best.left]!, tokens[best.right]!);
    const name = toAlphabet(bytes);
    if (names.has(name)) continue;
    names.add(name);
    merges.push([best.left, best.right, tokens.length]);
    pairs.merge(best.left, best.right, tokens.length);
    tokens.push(bytes);
  }
  return new BpeTokenizer({ tokens, added: base.added, merges, pattern });
}

function concatenate(left: Uint8Array, right: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(left.length + right.length);
  bytes.set(left);
  bytes.set(right, left.length);
  return bytes;
}

function countPieces(texts: Iterable<string>, pattern: RegExp): Piece[] {
  const frequencies = new Map<string, number>();
  for (const text of texts) {
    for (const piece of splitPieces(text, pattern)) frequencies.set(piece, (frequencies.get(piece) ?? 0) + 1);
  }
  const encoder = new TextEncoder();
  return Array.from(frequencies, ([piece, frequency]) => ({ ids: [...encoder.encode(piece)], frequency }));
}

/** The count of each pair of neighbours, and the pieces that have it. */
class PairCounts {
  readonly #counts = new Map<number, number>();
  /** The pieces that once had each pair; some may have lost it since. */
  readonly #pieces = new Map<number, Set<Piece>>();
  readonly #heap = new Heap<Candidate>(
    (a, b) =>
      b.count - a.count < 0 || (a.count === b.count && (a.left < b.left || (a.left === b.left && a.right < b.right))),
  );

  constructor(pieces: readonly Piece[]) {
    for (const piece of pieces) this.#count(piece, piece.frequency);
    const seen = new Set<number>();
    for (const { ids } of pieces) for (let i = 0; i + 1 < ids.length; i++) this.#offer(ids[i]!, ids[i + 1]!, seen);
  }

  /**
   * Removes and returns the pair with the highest count (ties: smallest left id, then right), undefined if none is
   * left.
   */
  takeBest(): Candidate | undefined {
    for (;;) {
      const candidate = this.#heap.pop();
      if (candidate === undefined) return undefined;
      const count = this.#counts.get(pairKey(candidate.left, candidate.right)) ?? 0;
      if (count === candidate.count) return candidate;
      // Counts of known pairs only fall, so an outdated candidate stood too high and is put back with its count.
      if (count > 0) this.#heap.push({ ...candidate, count });
    }
  }

  /** Replaces every (left, right) by `result`, a new id, from left to right in each piece. */
  merge(left: number, right: number, result: number): void {
    const key = pairKey(left, right);
    const touched = this.#pieces.get(key) ?? new Set();
    for (const piece of touched) {
      this.#count(piece, -piece.frequency);
      const ids: number[] = [];
      for (let i = 0; i < piece.ids.length; i++) {
        const matches = piece.ids[i] === left && piece.ids[i + 1] === right;
        ids.push(matches ? result : piece.ids[i]!);
        if (matches) i++;
      }
      piece.ids = ids;
      this.#count(piece, piece.frequency);
    }
    this.#pieces.delete(key);
    const seen = new Set<number>();
    for (const { ids } of touched) {
      for (let i = 0; i + 1 < ids.length; i++) {
        if (ids[i] === result || ids[i + 1] === result) this.#offer(ids[i]!, ids[i + 1]!, seen);
      }
    }
  }

  #count(piece: Piece, change: number): void {
    const { ids } = piece;
    for (let i = 0; i + 1 < ids.length; i++) {
      const key = pairKey(ids[i]!, ids[i + 1]!);
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + change);
      if (change < 0) continue;
      const pieces = this.#pieces.get(key);
      if (pieces === undefined) this.#pieces.set(key, new Set([piece]));
      else pieces.add(piece);
    }
  }

  #offer(left: number, right: number, seen: Set<number>): void {
    const key = pairKey(left, right);
    if (seen.has(key)) return;
    seen.add(key);
    this.#heap.push({ left, right, count: this.#counts.get(key)! });
  }
}
