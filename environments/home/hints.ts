/**
 * The kinds of facts that a home has, and how its error messages put them. What a message says of a fact is in
 * ../facts/hints.ts.
 */
import type { Fact, Wording } from "../facts/hints.ts";

export type HomeFactKind = "directory" | "program" | "owner" | "alias";

/** An alias is no file: its `tried` is the directory in which the agent looked for it. */
export type HomeFact = Fact<HomeFactKind>;

export const WORDS: Readonly<Record<HomeFactKind, Wording>> = {
  directory: { statement: "is in", reverse: "has", ofTried: "has" },
  program: { statement: "opens with", reverse: "opens", ofTried: "opens" },
  owner: { statement: "belongs to", reverse: "owns", ofTried: "owns" },
  alias: { statement: "stands for", reverse: "is called", ofTried: "has" },
};
