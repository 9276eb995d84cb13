/**
 * Texts of a given form, read byte by byte: which bytes may come next, and whether the text is complete. A form is a
 * tree of nodes, which may refer to itself, so texts may nest. All readings of a text are followed at once; equal ones
 * are one object, so that each step is computed once.
 */
import { check } from "../../../engine/errors.ts";

/** A step of a text: a byte, or from 256 on a special token that is part of the form. */
export type Sign = number;

/** A part of a text without parts of its own: an automaton over signs. */
export interface Leaf {
  readonly kind: "leaf";
  /** The state before the first sign. States are equal if they are the same number or text. */
  readonly start: number | string;
  /** The state after a sign; undefined: the sign cannot stand here. */
  readonly step: (state: never, sign: Sign) => number | string | undefined;
  /** Whether the part may end in this state. */
  readonly mayEnd: (state: never) => boolean;
}

/** A form of texts. */
export type Node =
  | Leaf
  | { readonly kind: "sequence"; readonly parts: readonly Node[] }
  | { readonly kind: "choice"; readonly options: () => readonly Node[] }
  /** A part that is entered only if so many levels are left; `opens`: it is one of them. */
  | { readonly kind: "nested"; readonly levels: number; readonly opens: boolean; readonly body: Node };

/** The most levels of brackets in a text. */
export const MOST_LEVELS = 64;
/** The most readings of a text that are followed at once. */
const MOST_READINGS = 10_000;

export const sequence = (...parts: readonly Node[]): Node => ({ kind: "sequence", parts });

/** One of some nodes, which are asked for once, when the text comes there. */
export function choice(options: () => readonly Node[]): Node {
  let known: readonly Node[] | undefined;
  return { kind: "choice", options: () => (known ??= options()) };
}

/** A fixed text. */
export function literal(signs: ArrayLike<Sign>): Leaf {
  return {
    kind: "leaf",
    start: 0,
    step: (at: number, sign) => (at < signs.length && signs[at] === sign ? at + 1 : undefined),
    mayEnd: (at: number) => at === signs.length,
  };
}

const UTF8 = new TextEncoder();
export const bytesOf = (text: string): Uint8Array => UTF8.encode(text);
export const word = (text: string): Leaf => literal(bytesOf(text));

/** One of some fixed texts, of which one may begin with another. */
export function words(texts: readonly string[]): Leaf {
  const trie: { readonly next: Map<Sign, number>; isEnd: boolean }[] = [{ next: new Map(), isEnd: false }];
  for (const text of texts) {
    let at = 0;
    for (const byte of bytesOf(text)) {
      const known = trie[at]!.next.get(byte);
      if (known === undefined) {
        trie[at]!.next.set(byte, trie.length);
        trie.push({ next: new Map(), isEnd: false });
      }
      at = known ?? trie.length - 1;
    }
    trie[at]!.isEnd = true;
  }
  return {
    kind: "leaf",
    start: 0,
    step: (at: number, sign) => trie[at]!.next.get(sign),
    mayEnd: (at: number) => trie[at]!.isEnd,
  };
}

/** Any text up to a mark, which is its end. @param also a special token that stands for the mark */
export function upTo(mark: string, also?: Sign): Leaf {
  const signs = bytesOf(mark);
  /** Knuth, Morris, Pratt: the length of the longest start of the mark that ends the text. */
  const after = (matched: number, sign: Sign): number => {
    for (let length = matched + 1; length > 0; length--) {
      const begun = [...signs.subarray(0, matched), sign].slice(matched + 1 - length);
      if (begun.every((each, i) => each === signs[i])) return length;
    }
    return 0;
  };
  return {
    kind: "leaf",
    start: 0,
    step: (at: number, sign) =>
      at === signs.length ? undefined : sign === also ? signs.length : sign < 256 ? after(at, sign) : undefined,
    mayEnd: (at: number) => at === signs.length,
  };
}

/** What follows a node that is being read. */
interface Frame {
  readonly node: Node;
  readonly next: Frame | undefined;
  readonly level: number;
  readonly owned: Owned;
}

/** Frames and readings that belong to one frame, or to the end of the text. */
interface Owned {
  readonly frames: Map<Node, Frame>;
  readonly readings: Map<Leaf, Map<number | string, Reading>>;
}

/** One way to read a text: the automaton that reads its end, its state, and what follows it. */
interface Reading {
  readonly id: number;
  readonly leaf: Leaf;
  readonly state: number | string;
  readonly next: Frame | undefined;
}

/** The state of a text: all ways to read it. */
export interface TextState {
  readonly readings: readonly Reading[];
  /** Whether the text is complete. */
  readonly isComplete: boolean;
  /** The states after signs, as far as they are known; null: the sign cannot follow. */
  readonly known: (TextState | null | undefined)[];
}

const owned = (): Owned => ({ frames: new Map(), readings: new Map() });

/** The states of texts of a form. */
export class Machine {
  readonly #end = owned();
  readonly #states = new Map<string, TextState>();
  #readings = 0;
  /** The state before the first sign. */
  readonly start: TextState;

  constructor(form: Node) {
    const readings = new Set<Reading>();
    const isComplete = this.#enter(form, undefined, 0, readings, new Map());
    this.start = this.#stateOf(readings, isComplete);
  }

  /** The state after a sign; null: it cannot follow. */
  next(state: TextState, sign: Sign): TextState | null {
    const known = state.known[sign];
    if (known !== undefined) return known;
    const readings = new Set<Reading>();
    const seen = new Map<Node, Set<Frame | undefined>>();
    let isComplete = false;
    for (const { leaf, state: before, next } of state.readings) {
      const after = leaf.step(before as never, sign);
      if (after === undefined) continue;
      readings.add(this.#reading(leaf, after, next));
      if (leaf.mayEnd(after as never) && this.#leave(next, readings, seen)) isComplete = true;
    }
    const isDead = readings.size === 0 && !isComplete;
    return (state.known[sign] = isDead ? null : this.#stateOf(readings, isComplete));
  }

  #stateOf(readings: ReadonlySet<Reading>, isComplete: boolean): TextState {
    check(
      readings.size <= MOST_READINGS,
      () => `the form of the answer is too ambiguous: a text can be read in more than ${MOST_READINGS} ways`,
    );
    const list = [...readings].sort((a, b) => a.id - b.id);
    const key = `${isComplete} ${list.map(({ id }) => id).join()}`;
    let state = this.#states.get(key);
    if (state === undefined) this.#states.set(key, (state = { readings: list, isComplete, known: [] }));
    return state;
  }

  /** Adds the readings of a text that goes on with a node. @returns whether the text may also end here */
  #enter(
    node: Node,
    next: Frame | undefined,
    level: number,
    readings: Set<Reading>,
    seen: Map<Node, Set<Frame | undefined>>,
  ): boolean {
    if (node.kind === "leaf") {
      readings.add(this.#reading(node, node.start, next));
      return node.mayEnd(node.start as never) && this.#leave(next, readings, seen);
    }
    if (node.kind === "sequence") {
      let behind = next;
      for (let i = node.parts.length - 1; i > 0; i--) behind = this.#frame(node.parts[i]!, behind, level);
      return this.#enter(node.parts[0]!, behind, level, readings, seen);
    }
    if (node.kind === "nested") {
      if (level + node.levels > MOST_LEVELS) return false;
      return this.#enter(node.body, next, node.opens ? level + 1 : level, readings, seen);
    }
    // A choice that refers to itself without a sign in between is entered once.
    const before = seen.get(node) ?? new Set();
    if (before.has(next)) return false;
    seen.set(node, before.add(next));
    let mayEnd = false;
    for (const option of node.options()) if (this.#enter(option, next, level, readings, seen)) mayEnd = true;
    return mayEnd;
  }

  #leave(frame: Frame | undefined, readings: Set<Reading>, seen: Map<Node, Set<Frame | undefined>>): boolean {
    return frame === undefined || this.#enter(frame.node, frame.next, frame.level, readings, seen);
  }

  #frame(node: Node, next: Frame | undefined, level: number): Frame {
    const { frames } = next?.owned ?? this.#end;
    const known = frames.get(node);
    if (known?.level === level) return known;
    const frame = { node, next, level, owned: owned() };
    frames.set(node, frame);
    return frame;
  }

  #reading(leaf: Leaf, state: number | string, next: Frame | undefined): Reading {
    const { readings } = next?.owned ?? this.#end;
    let ofLeaf = readings.get(leaf);
    if (ofLeaf === undefined) readings.set(leaf, (ofLeaf = new Map<number | string, Reading>()));
    let reading = ofLeaf.get(state);
    if (reading === undefined) ofLeaf.set(state, (reading = { id: this.#readings++, leaf, state, next }));
    return reading;
  }
}
