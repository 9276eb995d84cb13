/**
 * What an error message says of the facts that a command needs. Real tools range from nothing ("No such file or directory") to the
 * words that would have been right ("did you mean …?", as git and npm have it). A fact has a direction, too: who looks for a file
 * knows its name and needs the directory, and a message that tells a directory's files tells it the other way round.
 */

/** From the least to the most. */
export const HINTS = ["none", "tried", "reverse", "statement", "suggestion"] as const;
export type Hints = (typeof HINTS)[number];

/** A fact: `known`, which the task or another fact names, goes with `right`. */
export interface Fact {
  readonly kind: "directory" | "program" | "owner" | "alias";
  readonly known: string;
  readonly right: string;
  /** What the command has in its place; of an alias, which is no file: the directory in which it was looked for. */
  readonly tried: string;
  /** What goes with what was tried. */
  readonly goesWithTried: readonly string[];
  /** What stands before it in the command; nothing before the file that an alias stands for. */
  readonly word?: string;
}

/** Of a long list an error message names so many. */
const LISTED = 3;

/** What is said of a fact, in the order known → right and in the order right → known, and of what was tried. */
const WORDS: Readonly<Record<Fact["kind"], Readonly<Record<"statement" | "reverse" | "ofTried", string>>>> = {
  directory: { statement: "is in", reverse: "has", ofTried: "has" },
  program: { statement: "opens with", reverse: "opens", ofTried: "opens" },
  owner: { statement: "belongs to", reverse: "owns", ofTried: "owns" },
  alias: { statement: "stands for", reverse: "is called", ofTried: "has" },
};

/**
 * What follows the problem in an error message; empty for `none`.
 * @param file the file that the command names
 * @param facts all that the command needs, in its order, also those that it had right; at least one
 */
export function hintOf(hints: Hints, file: string, facts: readonly Fact[]): string {
  const each = (of: (fact: Fact) => string): string => `; ${facts.map(of).join(", ")}`;
  switch (hints) {
    case "none":
      return "";
    case "tried":
      return each(({ kind, tried, goesWithTried }) => `${tried} ${WORDS[kind].ofTried} ${goesWithTried.slice(0, LISTED).join(" ") || "nothing"}`); // prettier-ignore
    case "reverse":
      return each(({ kind, known, right }) => `${right} ${WORDS[kind].reverse} ${known}`);
    case "statement":
      return each(({ kind, known, right }) => `${known} ${WORDS[kind].statement} ${right}`);
    case "suggestion": {
      const words = facts.map(({ word, right }) => (word === undefined ? right : `${word} ${right}`));
      return `; did you mean ${[...(facts[0]!.word === undefined ? [] : [file]), ...words].join(" ")}?`;
    }
  }
}
