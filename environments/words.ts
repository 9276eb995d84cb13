/**
 * The words of generated tasks: names of files and directories, keys and values are all drawn alike, so that a word
 * does not give away its role and has to be copied from where it stands. They are pronounceable and made of three
 * syllables (`lomika`, `tekaru`): 64,000 in all, too many to memorize, so that copying is the only policy that works.
 *
 * A quarter is held out, by the sum of the syllables' numbers: every pair of neighbouring syllables of a held-out word
 * is common in training words. Two syllables would not allow this, and a small model learns the pairs that never occur.
 */
import { fail } from "../engine/errors.ts";
import type { Rng } from "../engine/index.ts";

const SYLLABLES: readonly string[] = [..."bdfklmrt"].flatMap((consonant) =>
  [..."aeiou"].map((vowel) => consonant + vowel),
);

/** English words of task texts that happen to have the form of a generated one. */
const TAKEN: ReadonlySet<string> = new Set(["delete", "remote", "relate", "locate"]);

/** Whether a word is kept for held-out tasks; `undefined` for text that is no generated word. */
export function isHeldOut(word: string): boolean | undefined {
  const numbers = (word.match(/../g) ?? []).map((syllable) => SYLLABLES.indexOf(syllable));
  if (word.length !== 6 || numbers.includes(-1) || TAKEN.has(word)) return undefined;
  return numbers.reduce((a, b) => a + b) % 4 === 3;
}

/** A random word of a split. */
export function drawWord(rng: Rng, split: "train" | "heldout"): string {
  for (;;) {
    const word = rng.choice(SYLLABLES) + rng.choice(SYLLABLES) + rng.choice(SYLLABLES);
    if (isHeldOut(word) === (split === "heldout")) return word;
  }
}

/** Draws words of a split, none twice. */
export function nameMaker(rng: Rng, split: "train" | "heldout" = "train"): () => string {
  const used = new Set<string>();
  return () => {
    for (;;) {
      const name = drawWord(rng, split);
      if (used.has(name)) continue;
      used.add(name);
      return name;
    }
  };
}

const LETTERS = 6;
/** The entropies of the first 0, 1, … 6 letters of a word, by split. */
const entropies = new Map<string, readonly number[]>();

/**
 * Entropy of the first `letters` letters of a random word of a split, in nats; for all six it is the logarithm of the
 * number of words.
 */
export function wordEntropy(split: "train" | "heldout", letters: number = LETTERS): number {
  const known = entropies.get(split) ?? prefixEntropies(split);
  entropies.set(split, known);
  return known[letters]!;
}

function prefixEntropies(split: "train" | "heldout"): number[] {
  const words = SYLLABLES.flatMap((a) => SYLLABLES.flatMap((b) => SYLLABLES.map((c) => a + b + c))).filter(
    (word) => isHeldOut(word) === (split === "heldout"),
  );
  return Array.from({ length: LETTERS + 1 }, (_, letters) => {
    const counts = new Map<string, number>();
    for (const word of words) counts.set(word.slice(0, letters), (counts.get(word.slice(0, letters)) ?? 0) + 1);
    return [...counts.values()].reduce((sum, n) => sum - (n / words.length) * Math.log(n / words.length), 0);
  });
}

/** Names of things as they lie about in a house. */
export const THINGS: readonly string[] = (
  "apple book bowl bread cloth cup egg fork hat key kettle knife mug pan pen phone pillow plate pot soap spoon " +
  "towel vase jar"
).split(" ");

/** Short names of animals and trees, for whatever has a name of its own. */
export const NAMES: readonly string[] = (
  "ash bat bee cod crab crow deer dove duck eel elk elm emu fir fox frog goat gull hare hawk hen ibis lark lion lynx " +
  "mink mole moth newt oak otter owl pike puma ram rook seal stag swan toad trout tuna wasp wolf wren yak yew zebu"
).split(" ");

/** Draws words of a list, none twice. */
export function listed(rng: Rng, words: readonly string[]): () => string {
  const left = rng.shuffle([...words]);
  return () => left.pop() ?? fail("words: the list has no more words");
}

/** Endings of ordinary files; `.tmp` is kept for files that are to be deleted. */
export const EXTENSIONS: readonly string[] = ["txt", "log", "cfg"];
