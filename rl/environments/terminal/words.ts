/**
 * The words of generated tasks: names of files and directories, keys and values all come from one list, so that a word does
 * not give away its part and has to be copied from where it stands. A quarter is held out. The held-out words are chosen so
 * that each pair of neighbouring letters in them (also at the start and the end) occurs in a training word: a model that has
 * read only training tasks has seen their pieces, and never the words.
 */

export const TRAIN_WORDS: readonly string[] = (
  "ant ape axe bat bed bell bin bird boat bolt book bun cart clay coat coin cone cook crab cup dart den dish dog dome door " +
  "drum duck dust egg farm fern fin flag flax fox frog game gem goat gold gull ham hat hawk hen hill hive horn ice ink iron " +
  "jam jet kite lake lamb lamp land leaf lime lion lock mast mint mole moon moss moth nail nest oak oven owl pan park pig pin " +
  "pine plum pond rain rat ring road rock rope ruby sand seal ship silk snow soap star sun tent tin toad tree tuna vase " +
  "well wind wolf wood worm yarn zinc"
).split(" ");

export const HELD_OUT_WORDS: readonly string[] = (
  "arm bag ban bar bone boot box cake cane cap car card coal corn crow fan fish foam fog gate jar map milk mill net " +
  "oat pear pen pot rose salt seed sock van"
).split(" ");

/** Endings of ordinary files; `.tmp` is kept for files that are to be deleted. */
export const EXTENSIONS: readonly string[] = ["txt", "log", "cfg"];
