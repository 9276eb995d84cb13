/**
 * The limits of a running template. It is a program by the makers of the checkpoint, and could otherwise run for ever
 * or fill the memory.
 */
import { fail } from "../../../engine/errors.ts";

/** Steps for any conversation, and for each letter of it. A step takes 0.1 to 0.3 µs. */
const [STEPS, STEPS_PER_LETTER] = [3_000_000, 20];
/** Letters that may be made for any conversation, and for each letter of it. */
const [LETTERS, LETTERS_PER_LETTER] = [10_000_000, 50];

/** Counts steps and letters, and ends the program that takes too many. */
export class Budget {
  #steps: number;
  #letters: number;

  /** @param size letters of the conversation */
  constructor(size: number) {
    this.#steps = STEPS + STEPS_PER_LETTER * size;
    this.#letters = LETTERS + LETTERS_PER_LETTER * size;
  }

  /** Pays for steps. */
  step(count = 1): void {
    this.#steps -= count;
    if (!(this.#steps >= 0)) fail("it takes too many steps");
  }

  /** Pays for letters that are about to be made. */
  letters(count: number): void {
    this.#letters -= count;
    if (!(this.#letters >= 0)) fail("it makes too much text");
  }

  /** Pays for reading a text once: a step for eight letters. */
  reading(text: string): void {
    this.step(text.length >> 3);
  }

  /** Pays for a search, which may compare a long part at every place. */
  searching(text: string, part: string): void {
    this.step((text.length >> 3) + (part.length > 64 ? (text.length * part.length) / 1024 : 0));
  }

  /** Pays for a text. */
  made(text: string): string {
    this.letters(text.length);
    return text;
  }
}
