/** What a chapter's page knows beside what it shows; scripts/book writes it into the page as JSON. */
import type { Change, Modules } from "./program.ts";

export interface PageData {
  /** Of the library, for programs and for exercises. */
  readonly modules: Modules;
  /** What each cell prints, as CI checked it. */
  readonly outputs: readonly string[];
  /** What "Break it" changes, and what the program prints then; "" if the chapter has none. */
  readonly changes: readonly Change[];
  readonly broken: string;
  /** The text of the exercises' file before and after what the student edits. */
  readonly exercises: readonly { readonly number: number; readonly before: string; readonly after: string }[];
}

/** The id of the element that holds it. */
export const DATA_ID = "chapter-data";
