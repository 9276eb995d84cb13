/** The data of a chapter's page for its script; scripts/book writes it into the page as JSON. */
import type { Change, Modules } from "./program.ts";

export interface PageData {
  /** Name of the chapter, as `FIGURES` has it: `05-grpo`. */
  readonly chapter: string;
  /** The library's modules, for programs and for exercises. */
  readonly modules: Modules;
  /** The output of each cell, as CI checked it. */
  readonly outputs: readonly string[];
  /** The changes of "Break it", and the output with them; "" if the chapter has none. */
  readonly changes: readonly Change[];
  readonly broken: string;
  /** The text of the exercises' file before and after what the student edits. */
  readonly exercises: readonly { readonly number: number; readonly before: string; readonly after: string }[];
}

/** The id of the element that holds the data. */
export const DATA_ID = "chapter-data";
