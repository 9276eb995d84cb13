/** Which facts count as known, for tables, pages and metrics; knowledge.ts measures what a model knows. */
import type { KnownFact } from "./records.ts";

/** A fact is known if the model says its name more often than all others together. */
export const isKnown = ({ p }: Pick<KnownFact, "p">): boolean => p > 0.5;

/** What the word means, for those who see an agent solve a task whose facts it does not "know". */
export const KNOWS = "“Knows” means more than half sure. A task takes several facts, or a lucky guess.";
