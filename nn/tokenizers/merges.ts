/**
 * The merges of byte-pair encoding, applied to one piece of text: neighbours are merged in the order in which the
 * merges were learnt, leftmost first, until none applies.
 *
 * A piece is cut between two symbols if no merge joins a token that ends in the first with one that begins with the
 * second: nothing is ever merged across. So a text which no pattern splits (SentencePiece) still falls into its words.
 * A short part is searched for its next merge from end to end; a long one has a heap over a linked list, O(n log n), so
 * that a megabyte without a space takes no longer than other text.
 */
import { Heap } from "./heap.ts";

/** [left, right, result], in order of rank. */
export type Merge = readonly [left: number, right: number, result: number];

/** The rank of a pair that is not merged itself, but across which other symbols may be. */
const CROSSED = 2 ** 31 - 1;
/** The number of symbols up to which a search from end to end is faster than a heap. */
const SHORT = 64;
/** The number of entries in a slot of the hash table: left, right, rank. */
const SLOT = 3;

/** The place of a pair in a table of 2ⁿ slots, or the empty slot for it. */
function placeOf(table: Int32Array, left: number, right: number): number {
  const mask = table.length / SLOT - 1;
  const hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
  let slot = (hash ^ (hash >>> 15)) & mask;
  while (table[SLOT * slot] !== -1 && (table[SLOT * slot] !== left || table[SLOT * slot + 1] !== right)) {
    slot = (slot + 1) & mask;
  }
  return SLOT * slot;
}

export class Merges {
  /**
   * The hash table (open addressing): a slot for each merge and each seam across which symbols merge, and free ones.
   */
  readonly #table: Int32Array;
  readonly #results: Int32Array;
  /** Whether a merge makes an id. */
  readonly #isResult: Uint8Array;
  readonly #canCut: boolean;
  readonly #ids = new Int32Array(SHORT);
  readonly #ranks = new Int32Array(SHORT);

  /** @param merges of a pair that is there twice, the later one counts @param vocabSize ids are below this */
  constructor(merges: readonly Merge[], vocabSize: number) {
    // A merge adds two pairs at most, so at least a third of the slots stays free.
    this.#table = new Int32Array(SLOT * 2 ** Math.ceil(Math.log2(3 * merges.length + 1))).fill(-1);
    this.#results = Int32Array.from(merges, ([, , result]) => result);
    this.#isResult = new Uint8Array(vocabSize);
    merges.forEach(([left, right], rank) => this.#set(left, right, rank));
    const lefts = new Int32Array(vocabSize).fill(-1);
    const rights = new Int32Array(vocabSize).fill(-1);
    for (const [left, right, result] of merges) {
      // A part is the whole where the other part is empty.
      if (left !== result) lefts[result] = left;
      if (right !== result) rights[result] = right;
      this.#isResult[result] = 1;
    }
    const end = (id: number, parts: Int32Array): number => {
      let symbol = id;
      while (parts[symbol] !== -1) symbol = parts[symbol]!;
      return symbol;
    };
    this.#canCut = merges.every(
      ([left, right, result]) => end(left, lefts) === end(result, lefts) && end(right, rights) === end(result, rights),
    );
    for (const [left, right] of merges) {
      const [before, behind] = [end(left, rights), end(right, lefts)];
      if (this.#rank(before, behind) === -1) this.#set(before, behind, CROSSED);
    }
  }

  #set(left: number, right: number, rank: number): void {
    const at = placeOf(this.#table, left, right);
    this.#table[at] = left;
    this.#table[at + 1] = right;
    this.#table[at + 2] = rank;
  }

  /** The rank of two symbols; −1: nothing is merged across them. */
  #rank(left: number, right: number): number {
    return this.#table[placeOf(this.#table, left, right) + 2]!;
  }

  /** The rank of neighbours; `CROSSED` if they are not merged. */
  #rankOf(left: number, right: number): number {
    const rank = this.#rank(left, right);
    return rank === -1 ? CROSSED : rank;
  }

  /** The ids of one piece after all merges of its symbols. */
  apply(symbols: readonly number[]): number[] {
    const ids: number[] = [];
    let start = 0;
    for (let end = 1; end <= symbols.length; end++) {
      if (end < symbols.length && !this.#isSeam(symbols[end - 1]!, symbols[end]!)) continue;
      if (end - start === 1) ids.push(symbols[start]!);
      else if (end - start <= SHORT) this.#mergeShort(symbols, start, end, ids);
      else this.#mergeLong(symbols.slice(start, end), ids);
      start = end;
    }
    return ids;
  }

  /**
   * Whether nothing is merged across two symbols. A symbol that is also a merge's result (a token such as `<0x0A>`,
   * spelt) is left to the search.
   */
  #isSeam(left: number, right: number): boolean {
    return this.#canCut && this.#rank(left, right) === -1 && this.#isResult[left] === 0 && this.#isResult[right] === 0;
  }

  #mergeShort(symbols: readonly number[], start: number, end: number, result: number[]): void {
    const [ids, ranks] = [this.#ids, this.#ranks];
    let last = end - start - 1;
    for (let i = 0; i <= last; i++) ids[i] = symbols[start + i]!;
    for (let i = 0; i < last; i++) ranks[i] = this.#rankOf(ids[i]!, ids[i + 1]!);
    for (;;) {
      let rank = CROSSED;
      let at = -1;
      for (let i = 0; i < last; i++) {
        if (ranks[i]! < rank) {
          rank = ranks[i]!;
          at = i;
        }
      }
      if (at === -1) break;
      ids[at] = this.#results[rank]!;
      last--;
      for (let i = at + 1; i <= last; i++) {
        ids[i] = ids[i + 1]!;
        ranks[i - 1] = ranks[i]!; // the pair at `at` is looked up below
      }
      if (at > 0) ranks[at - 1] = this.#rankOf(ids[at - 1]!, ids[at]!);
      if (at < last) ranks[at] = this.#rankOf(ids[at]!, ids[at + 1]!);
    }
    for (let i = 0; i <= last; i++) result.push(ids[i]!);
  }

  /** @param ids are consumed */
  #mergeLong(ids: number[], result: number[]): void {
    const count = ids.length;
    // A linked list: next[i] is the neighbour to the right (count: none), previous[i] to the left; −1 in ids: merged
    // away.
    const next = Int32Array.from(ids, (_, i) => i + 1);
    const previous = Int32Array.from(ids, (_, i) => i - 1);
    const rankAt = (i: number): number =>
      i >= 0 && next[i]! < count ? this.#rankOf(ids[i]!, ids[next[i]!]!) : CROSSED;
    // Candidates as rank · count + position: the smallest number is the lowest rank, leftmost.
    const heap = new Heap<number>((a, b) => a < b);
    const offer = (i: number): void => {
      const rank = rankAt(i);
      if (rank !== CROSSED) heap.push(rank * count + i);
    };
    for (let i = 0; i < count; i++) offer(i);
    for (let candidate = heap.pop(); candidate !== undefined; candidate = heap.pop()) {
      const i = candidate % count;
      const rank = (candidate - i) / count;
      if (ids[i] === -1 || rankAt(i) !== rank) continue; // outdated by a merge nearby
      const right = next[i]!;
      ids[i] = this.#results[rank]!;
      ids[right] = -1;
      next[i] = next[right]!;
      if (next[i] < count) previous[next[i]] = i;
      offer(previous[i]!);
      offer(i);
    }
    for (const id of ids) if (id !== -1) result.push(id);
  }
}
