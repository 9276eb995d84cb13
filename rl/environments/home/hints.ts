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
  /** What the command had instead, or it again. */
  readonly tried: string;
  /** What goes with what was tried. */
  readonly goesWithTried: readonly string[];
  /** The word before it in the command. */
  readonly word: string;
}

/** Of a long list an error message names so many. */
const LISTED = 3;

/** What is said of a fact, in the order known → right and in the order right → known. */
const WORDS: Readonly<Record<Fact["kind"], readonly [statement: string, reverse: string]>> = {
  directory: ["is in", "has"],
  program: ["opens with", "opens"],
  owner: ["belongs to", "owns"],
  alias: ["stands for", "is called"],
};

/**
 * What follows the problem in an error message; empty for `none`.
 * @param first what stands before the facts in the command: the file
 */
export function hintOf(hints: Hints, first: string, facts: readonly Fact[]): string {
  const each = (of: (fact: Fact, words: readonly [string, string]) => string): string =>
    `; ${facts.map((fact) => of(fact, WORDS[fact.kind])).join(", ")}`;
  switch (hints) {
    case "none":
      return "";
    case "tried":
      return each(({ tried, goesWithTried }, [, reverse]) => `${tried} ${reverse} ${goesWithTried.slice(0, LISTED).join(" ") || "nothing"}`); // prettier-ignore
    case "reverse":
      return each(({ known, right }, [, reverse]) => `${right} ${reverse} ${known}`);
    case "statement":
      return each(({ known, right }, [statement]) => `${known} ${statement} ${right}`);
    case "suggestion":
      return `; did you mean ${[first, ...facts.map(({ word, right }) => `${word} ${right}`)].join(" ")}?`;
  }
}
