/** Messages between the page and its worker. */
import type { Figures, ParameterShare } from "./figures.ts";
import type { Sample, StateFacts } from "./laboratory.ts";
import type { Settings } from "./settings.ts";

/** The page asks for everything about some settings; a newer question replaces an older one. */
export interface Asked {
  readonly question: number;
  readonly settings: Settings;
}

/** Answers come one by one. */
export type Answer =
  | { readonly kind: "facts"; readonly facts: StateFacts }
  | { readonly kind: "sample"; readonly sample: Sample; readonly shares: readonly ParameterShare[] }
  | { readonly kind: "figures"; readonly method: string; readonly group: number; readonly figures: Figures }
  /** Pieces done, of all. */
  | { readonly kind: "progress"; readonly done: number; readonly all: number }
  | { readonly kind: "failed"; readonly message: string };

/** An answer and the number of its question. */
export type Answered = Answer & { readonly question: number };
