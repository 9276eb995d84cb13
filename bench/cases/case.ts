/** A case: a task with its name, its cost on paper, and how its results are checked. */
import type { Contender } from "../contenders/index.ts";
import type { Task } from "./task.ts";

export interface Case {
  /** `family/details`. The words after `npm run bench --` are prefixes of it. */
  readonly name: string;
  readonly task: Task;
  /** Floating-point operations that the mathematics needs, without recomputation; a multiply-add is two. */
  readonly flops: number;
  /** Bytes that must move if every operand is read once and every result written once; 0 if not counted. */
  readonly bytes: number;
  /** Work of one call, such as 256 tokens, for a rate. Without it the rate is in GFLOP/s. */
  readonly work?: { readonly amount: number; readonly unit: string };
  /**
   * Source of the expected samples: a task for the f64 reference executor, a function, or the first contender where
   * both would take minutes.
   */
  readonly expected: "first" | { readonly reference: Task } | (() => readonly number[]);
  /** Largest relative error that is accepted (`relativeError`). */
  readonly tolerance: number;
  /** Whether `contender` takes part. */
  readonly asks: (contender: Contender) => boolean;
  /** Whether each contender gets a process of its own, whose memory is that of this case. */
  readonly alone: boolean;
}

export const everybody = (): boolean => true;
export const ours = (contender: Contender): boolean => contender.engine === "worldgrad";

/** Whether `word` of the command line selects the case `name`: a prefix, up to a `/` unless the word contains one. */
export const isMeant = (name: string, word: string): boolean =>
  name === word || name.startsWith(`${word}/`) || (word.includes("/") && name.startsWith(word));

/** Cases that one of `words` selects; all if there are no words. */
export function chooseCases(cases: readonly Case[], words: readonly string[]): Case[] {
  return cases.filter(({ name }) => words.length === 0 || words.some((word) => isMeant(name, word)));
}
