/**
 * The tokens of a vocabulary as a tree of their bytes, so that the tokens that may follow a text are found without
 * trying each: what no token may begin with is passed over at once.
 */
import type { Tokenizer } from "../../../nn/index.ts";
import { bytesOf, type Machine, type Sign, type TextState } from "./machine.ts";

/** Masks that are kept for each machine. */
const MOST_MASKS = 256;

/** The tokens of a vocabulary by their bytes. */
export class Vocabulary {
  /** Special tokens that may be part of a form: token 256 + i of the machine is the i-th. */
  readonly marks: readonly string[];
  readonly #tokenizer: Tokenizer;
  /** The nodes of the tree, each before those that continue it. */
  readonly #signs: Uint16Array;
  readonly #depths: Uint16Array;
  /** The node after those that continue a node. */
  readonly #ends: Uint32Array;
  /** A token that ends at a node, and the next one with the same bytes; −1: none. */
  readonly #tokens: Int32Array;
  readonly #others: Int32Array;
  readonly #deepest: number;
  readonly #masks = new WeakMap<Machine, Map<TextState, Uint32Array>>();

  /** @param marks names of special tokens; those that the tokenizer does not have are left out */
  constructor(tokenizer: Tokenizer, marks: readonly string[] = []) {
    this.#tokenizer = tokenizer;
    this.marks = marks.filter((name) => tokenizer.special[name] !== undefined);
    const size = tokenizer.vocabSize;
    const tokens = Array.from({ length: size }, (_, id) => ({ id, signs: this.signsOf(id) }))
      .filter(({ signs }) => signs.length > 0)
      .sort((a, b) => compare(a.signs, b.signs));
    const most = tokens.reduce((total, { signs }) => total + signs.length, 0);
    const [signs, depths, ends] = [new Uint16Array(most), new Uint16Array(most), new Uint32Array(most)];
    const ending = new Int32Array(most).fill(-1);
    this.#others = new Int32Array(size).fill(-1);
    const open: number[] = [];
    let [count, deepest] = [0, 0];
    let before: ArrayLike<Sign> = [];
    for (const { id, signs: own } of tokens) {
      let shared = 0;
      while (shared < own.length && own[shared] === before[shared]) shared++;
      while (open.length > shared) ends[open.pop()!] = count;
      for (let at = shared; at < own.length; at++) {
        [signs[count], depths[count]] = [own[at]!, at];
        open.push(count++);
      }
      deepest = Math.max(deepest, own.length);
      const node = open.at(-1)!;
      this.#others[id] = ending[node]!;
      ending[node] = id;
      before = own;
    }
    while (open.length > 0) ends[open.pop()!] = count;
    this.#signs = signs.slice(0, count);
    this.#depths = depths.slice(0, count);
    this.#ends = ends.slice(0, count);
    this.#tokens = ending.slice(0, count);
    this.#deepest = deepest;
  }

  /** The signs of a token: its bytes, its mark, or nothing if it is another special token. */
  signsOf(id: number): ArrayLike<Sign> {
    const mark = this.marks.findIndex((name) => this.#tokenizer.special[name] === id);
    return mark >= 0 ? [256 + mark] : this.#tokenizer.decodeBytes([id], { specials: "skip" });
  }

  /** The sign of a mark, or its bytes if it is no special token here. */
  markOf(name: string): ArrayLike<Sign> {
    const at = this.marks.indexOf(name);
    return at < 0 ? bytesOf(name) : [256 + at];
  }

  /** The tokens that may follow a text: bit id & 31 of word id >> 5. */
  maskOf(machine: Machine, state: TextState): Uint32Array {
    let masks = this.#masks.get(machine);
    if (masks === undefined) this.#masks.set(machine, (masks = new Map<TextState, Uint32Array>()));
    let mask = masks.get(state);
    if (mask !== undefined) return mask;
    mask = new Uint32Array(Math.ceil(this.#others.length / 32));
    const [signs, depths, ends, tokens, others] = [this.#signs, this.#depths, this.#ends, this.#tokens, this.#others];
    const states = new Array<TextState>(this.#deepest + 1);
    states[0] = state;
    for (let node = 0; node < signs.length;) {
      const depth = depths[node]!;
      const from = states[depth]!;
      const next = from.known[signs[node]!] ?? machine.next(from, signs[node]!);
      if (next === null) {
        node = ends[node]!;
        continue;
      }
      states[depth + 1] = next;
      for (let id = tokens[node]!; id >= 0; id = others[id]!) mask[id >> 5]! |= 1 << (id & 31);
      node++;
    }
    if (masks.size >= MOST_MASKS) masks.delete(masks.keys().next().value!);
    masks.set(state, mask);
    return mask;
  }
}

function compare(a: ArrayLike<Sign>, b: ArrayLike<Sign>): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}
