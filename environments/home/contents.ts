/**
 * The contents of a task's file. They are drawn anew in each episode, so they are no fact of the home, and nobody who
 * knows all facts can predict them. The entropy of an answer about them depends on what the episode has told already.
 */
import type { Rng } from "../../engine/index.ts";
import type { Split } from "../selection.ts";
import { drawWord, wordEntropy } from "../words.ts";

/** The most lines that `read` shows. */
export const SHOWN = 4;

/** The fewest and the most lines or letters, where a task counts these; nobody guesses one of so many numbers. */
const [FEWEST, MOST] = [2, 98];
const NUMBERS = Array.from({ length: MOST - FEWEST + 1 }, (_, i) => FEWEST + i);

/** The parts of the file that the episode has told. */
export interface Told {
  /** It has told how many lines or letters there are, where their number is drawn. */
  readonly isCounted: boolean;
  /** It has told what `read` shows. */
  readonly isShown: boolean;
}

/** The part of a task that decides what its file says. */
interface Contents {
  readonly family: { readonly name: string };
  readonly split: Split;
  readonly lines: readonly string[];
}

const hasLines = (name: string): boolean => name === "count" || name === "tally";

/** The lines of a file: one word, or, where a task counts lines or letters, a random number of them. */
export function drawLines(rng: Rng, name: string, split: Split): readonly string[] {
  const words = (count: number): readonly string[] => Array.from({ length: count }, () => drawWord(rng, split));
  if (hasLines(name)) return words(rng.choice(NUMBERS));
  if (name !== "size") return words(1);
  const letters = rng.choice(NUMBERS);
  return [words(17).join("").slice(0, letters)];
}

/** The parts that are known after an answer to this command. */
export const toldBy = (verb: string, { family }: Contents, { isCounted, isShown }: Told): Told => ({
  isCounted: isCounted || verb === "size" || (verb === "count" && hasLines(family.name)),
  isShown: isShown || verb === "read",
});

/** Entropy in nats of the answer to `read`, `count` or `size` of the file, given the home and what has been told. */
export function contentsEntropy(verb: string, { family: { name }, split, lines }: Contents, told: Told): number {
  const { isCounted, isShown } = told;
  const isRead = verb === "read";
  if (isRead && isShown) return 0;
  if (hasLines(name)) {
    const isMore = isShown && lines.length > SHOWN;
    if (!isRead) return isCounted || (isShown && !isMore) ? 0 : Math.log(isMore ? MOST - SHOWN : NUMBERS.length);
    const words = (count: number): number => Math.min(count, SHOWN) * wordEntropy(split);
    if (isCounted) return words(lines.length);
    // `read` shows how many lines the file has, if they are few, and else only that there are more.
    const share = 1 / NUMBERS.length;
    const few = NUMBERS.filter((count) => count <= SHOWN).length;
    const many = 1 - few * share;
    return average(words) - few * share * Math.log(share) - many * Math.log(many);
  }
  if (name !== "size") return isRead ? wordEntropy(split) : 0;
  const number = isCounted || isShown ? 0 : Math.log(NUMBERS.length);
  const text = (letters: number): number =>
    Math.floor(letters / 6) * wordEntropy(split) + wordEntropy(split, letters % 6);
  if (isRead) return number + (isCounted ? text(lines[0]!.length) : average(text));
  return verb === "size" ? number : 0;
}

/** The mean over the numbers of lines or letters. */
const average = (of: (count: number) => number): number =>
  NUMBERS.reduce((sum, count) => sum + of(count), 0) / NUMBERS.length;
