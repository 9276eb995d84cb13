/**
 * What a task family is: the contract between the families (tasks-*.ts) and the code that makes tasks of them
 * (tasks.ts).
 */
import type { FamilyInfo } from "../environment.ts";
import type { World } from "./world.ts";

/** Paths relative to home → text, null for a directory. */
export type Tree = Map<string, string | null>;

/** What a family returns: either an answer or a change. The world around it may still get unimportant files. */
export type Draft = {
  /** Ways to word the task; one is drawn. */
  readonly texts: readonly string[];
  /** The expert's commands, without the one that ends the episode. */
  readonly plan: readonly string[];
  /** A directory that gets no unimportant files. */
  readonly keepClear?: string;
} & ({ readonly answer: string } | { readonly change: (tree: Tree) => void });

export interface Family extends FamilyInfo {
  readonly draft: (world: World) => Draft;
}
