/** A case: a task with its name, its cost on paper, and how its results are checked. */
import type { Contender } from "../contenders/index.ts";
import type { Task } from "./task.ts";

export interface Case {
  /** `family/details`; the words after `npm run bench --` are beginnings of it. */
  readonly name: string;
  readonly task: Task;
  /**
   * Floating-point operations that the mathematics needs; a multiplication and an addition are two. No recomputation.
   */
  readonly flops: number;
  /** Bytes that must move if every operand is read once and every result written once. 0: not counted. */
  readonly bytes: number;
  /** What a call does, for a rate: 256 tokens, for example. Without it the rate is in GFLOP/s. */
  readonly work?: { readonly amount: number; readonly unit: string };
  /** How to get the expected samples: from a task in f64, or from the first contender where that would take minutes. */
  readonly expected: "first" | { readonly reference: Task } | (() => readonly number[]);
  /** The largest relative error that is accepted (`relativeError`). */
  readonly tolerance: number;
  /** Whether `contender` takes part. */
  readonly asks: (contender: Contender) => boolean;
  /** Whether each contender gets a process of its own, so that its memory is that of this case. */
  readonly alone: boolean;
}

export const everybody = (): boolean => true;
export const ours = (contender: Contender): boolean => contender.engine === "worldgrad";

/**
 * Whether `word` on the command line means the case `name`: its beginning, up to a `/` unless the word contains one.
 */
export const isMeant = (name: string, word: string): boolean =>
  name === word || name.startsWith(`${word}/`) || (word.includes("/") && name.startsWith(word));

/** The cases that one of `words` means; all, if there are none. */
export function chooseCases(cases: readonly Case[], words: readonly string[]): Case[] {
  return cases.filter(({ name }) => words.length === 0 || words.some((word) => isMeant(name, word)));
}
