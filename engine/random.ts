/**
 * Counter-based random numbers: Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011). The n-th number of a stream is a pure function of (key, n): the same bits on every
 * executor and in any order of evaluation. Threefry and not Philox, because WGSL has no 32×32→64 multiply.
 *
 * This file is the host side; `engine/ops/create.ts` makes the same bits on a device. Not cryptographic.
 */
import { check } from "./errors.ts";
import { showValue } from "./options.ts";

const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const;

/** One block: two 32-bit words from a key of two words and a counter of two words. */
export function threefry2x32(key0: number, key1: number, counter0: number, counter1: number): [number, number] {
  const keys = [key0, key1, 0x1bd11bda ^ key0 ^ key1];
  let x0 = (counter0 + key0) | 0;
  let x1 = (counter1 + key1) | 0;
  for (let group = 0; group < 5; group++) {
    for (let round = 0; round < 4; round++) {
      const rotation = ROTATIONS[(group % 2) * 4 + round]!;
      x0 = (x0 + x1) | 0;
      x1 = (x1 << rotation) | (x1 >>> (32 - rotation));
      x1 ^= x0;
    }
    x0 = (x0 + keys[(group + 1) % 3]!) | 0;
    x1 = (x1 + keys[(group + 2) % 3]! + group + 1) | 0;
  }
  return [x0 >>> 0, x1 >>> 0];
}

/** FNV-1a over UTF-16 code units: turns a stream's label into a word. */
function hashLabel(label: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < label.length; i++) hash = Math.imul(hash ^ label.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** The state from which a stream continues where it stopped; JSON-safe. */
export interface RngState {
  readonly key: readonly [number, number];
  readonly counter: number;
  /** Whether the second word of the block before `counter` comes next; absent: it does not. */
  readonly half?: true;
}

function isState(state: unknown): state is RngState {
  const { key, counter } = (state ?? {}) as { readonly key?: unknown; readonly counter?: unknown };
  const isWord = (word: unknown): boolean => word === (word as number) >>> 0;
  return Array.isArray(key) && key.length === 2 && key.every(isWord) && Number.isSafeInteger(counter);
}

/**
 * A stream of random numbers on the host.
 *
 * @example
 * const rng = new Rng(0);
 * const init = rng.split("init");      // independent of everything else drawn from `rng`
 * init.normal();                       // same value on every machine
 */
export class Rng {
  readonly key: readonly [number, number];
  #counter: number;
  #spareWord: number | undefined;

  /**
   * @param seed an integer in [0, 2^53), or a saved state
   * @throws if it is neither
   */
  constructor(seed: number | RngState) {
    if (typeof seed === "number") {
      check(
        Number.isSafeInteger(seed) && seed >= 0,
        () => `Rng: seed must be an integer in [0, 2^53), got ${showValue(seed)}`,
      );
      this.key = [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0];
      this.#counter = 0;
    } else {
      check(
        isState(seed),
        () =>
          `Rng: expected a seed, an integer in [0, 2^53), or a saved state { key, counter }, got ${showValue(seed)}`,
      );
      this.key = seed.key;
      this.#counter = seed.counter;
      if (seed.half) {
        this.#counter--;
        this.bits();
      }
    }
  }

  /** The state to save; `new Rng(state)` continues with the same numbers. Reading it draws nothing. */
  get state(): RngState {
    return { key: this.key, counter: this.#counter, ...(this.#spareWord === undefined ? {} : { half: true as const }) };
  }

  /**
   * An independent stream named by `label`. Does not advance this one: the same label gives the same stream.
   * @throws if the label is a number, but no integer in [0, 2⁵³)
   */
  split(label: string | number): Rng {
    check(
      typeof label === "string" || (Number.isSafeInteger(label) && label >= 0),
      () => `Rng.split: a label must be a text or an integer in [0, 2^53), got ${String(label)}`,
    );
    const [word, tag] = typeof label === "number" ? [label >>> 0, 0x6e756d62] : [hashLabel(label), 0x73747274];
    const key = threefry2x32(this.key[0], this.key[1], word, tag);
    const high = typeof label === "number" ? Math.floor(label / 2 ** 32) : 0;
    return new Rng({ key: high === 0 ? key : threefry2x32(...key, high, 0x68696768), counter: 0 });
  }

  /** 32 random bits as an unsigned integer. */
  bits(): number {
    if (this.#spareWord !== undefined) {
      const word = this.#spareWord;
      this.#spareWord = undefined;
      return word;
    }
    const n = this.#counter++;
    const [word, spare] = threefry2x32(this.key[0], this.key[1], n >>> 0, Math.floor(n / 2 ** 32));
    this.#spareWord = spare;
    return word;
  }

  /** Uniform in [0, 1), 32 bits of resolution. */
  uniform(): number {
    return this.bits() * 2 ** -32;
  }

  /** Uniform integer in [0, n), without modulo bias. */
  int(n: number): number {
    check(Number.isInteger(n) && n > 0 && n <= 2 ** 32, () => `Rng.int: n must be an integer in [1, 2^32], got ${n}`);
    const limit = 2 ** 32 - (2 ** 32 % n);
    for (;;) {
      const word = this.bits();
      if (word < limit) return word % n;
    }
  }

  /** Standard normal by Box–Muller; one value for two words, so that a stream's position does not depend on parity. */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log((this.bits() + 1) * 2 ** -32));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }

  /** One element of a non-empty list. */
  choice<T>(items: readonly T[]): T {
    check(items.length > 0, () => "Rng.choice: the list is empty");
    return items[this.int(items.length)]!;
  }

  /** A shuffled copy (Fisher–Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const result = [...items];
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.int(i + 1);
      [result[i], result[j]] = [result[j]!, result[i]!];
    }
    return result;
  }
}

/** @throws `dropout: rng must be a stream of random numbers, new Rng(0), got missing` */
export function checkRng(where: string, rng: unknown): asserts rng is Rng {
  const expected = "a stream of random numbers, new Rng(0)";
  check(rng instanceof Rng, () => `${where}: rng must be ${expected}, got ${showValue(rng)}`);
}
