/** A case: a task with its name, what it costs on paper, and how its results are known to be right. */
import type { Contender } from "../contenders/index.ts";
import type { Task } from "./task.ts";

export interface Case {
  /** `family/details`; what is typed after `npm run bench --` is the beginning of it. */
  readonly name: string;
  readonly task: Task;
  /** Floating-point operations that the mathematics needs: a multiplication and an addition are two; recomputation does not count. */
  readonly flops: number;
  /** Bytes that must move if every operand is read once and every result written once. 0: not counted. */
  readonly bytes: number;
  /** What a call is worth, for a rate: 256 tokens, say. Without it the rate is in GFLOP/s. */
  readonly work?: { readonly amount: number; readonly unit: string };
  /** Sampled results in f64, or `first`: as the first contender, where the reference executor would take minutes. */
  readonly expected: "first" | { readonly reference: Task } | (() => readonly number[]);
  /** Largest relative error that counts as right (`relativeError`). */
  readonly tolerance: number;
  /** Whether `contender` is asked at all. */
  readonly asks: (contender: Contender) => boolean;
  /** A process of its own for each contender: its memory is that of this case. */
  readonly alone: boolean;
}

export const everybody = (): boolean => true;
export const ours = (contender: Contender): boolean => contender.engine === "worldgrad";

/** Whether `word` on the command line means the case `name`: its beginning, up to a `/` unless the word has one itself. */
export const isMeant = (name: string, word: string): boolean =>
  name === word || name.startsWith(`${word}/`) || (word.includes("/") && name.startsWith(word));

/** The cases that one of `words` means; all, if there are none. */
export function chooseCases(cases: readonly Case[], words: readonly string[]): Case[] {
  return cases.filter(({ name }) => words.length === 0 || words.some((word) => isMeant(name, word)));
}
