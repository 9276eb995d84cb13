/**
 * The words of generated tasks: names of files and directories, keys and values all come from one list, so that a word does
 * not give away its part and has to be copied from where it stands. They are pronounceable and made of two syllables
 * (`lomi`, `teka`): 4,900 in all, so that knowing them by heart is no way out and copying is the only policy that works.
 *
 * A quarter is held out. Every syllable of a held-out word occurs at the same place in many training words: a model that has read
 * only training tasks knows the pieces, and has never seen the words.
 */

const CONSONANTS = [..."bdfgklmnprstvz"];
const VOWELS = [..."aeiou"];
const SYLLABLES: readonly string[] = CONSONANTS.flatMap((c) => VOWELS.map((v) => c + v));

/** Words of task texts and of the shell that happen to have this form. */
const TAKEN: ReadonlySet<string> = new Set(["done", "move", "make", "name", "file", "line", "read", "rule", "sudo"]);

/** Syllable numbers decide the split: each first syllable and each second one is held out in a quarter of its words. */
const isHeldOut = (first: number, second: number): boolean => (first + second) % 4 === 3;

function words(heldOut: boolean): string[] {
  return SYLLABLES.flatMap((a, i) => SYLLABLES.flatMap((b, j) => (isHeldOut(i, j) === heldOut ? [a + b] : []))).filter(
    (word) => !TAKEN.has(word),
  );
}

export const TRAIN_WORDS: readonly string[] = words(false);
export const HELD_OUT_WORDS: readonly string[] = words(true);

/** Endings of ordinary files; `.tmp` is kept for files that are to be deleted. */
export const EXTENSIONS: readonly string[] = ["txt", "log", "cfg"];
