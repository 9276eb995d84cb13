/**
 * What an error message says of the fact that the agent had wrong. Real tools range from nothing ("No such file or directory") to the
 * words that would have been right ("did you mean …?", as git and npm have it). A fact has a direction, too: who looks for a file
 * knows its name and needs the directory, and a message that tells a directory's files tells it the other way round.
 */

/** From the least to the most. */
export const HINTS = ["none", "tried", "reverse", "statement", "suggestion"] as const;
export type Hints = (typeof HINTS)[number];

/** A fact: `known`, which the task or the command named, goes with `right`, and not with `tried`. */
export interface Fact {
  readonly kind: "directory" | "program" | "owner" | "alias";
  readonly known: string;
  readonly right: string;
  /** What the command has in its place; of an alias, which is no file: the directory in which it was looked for. */
  readonly tried: string;
  /** What goes with what was tried. */
  readonly goesWithTried: readonly string[];
}

/** Of a long list an error message names so many. */
const LISTED = 3;

/** What is said of a fact of this kind: in the order known → right, right → known, as a command has it, and of what was tried. */
const WORDS: Readonly<Record<Fact["kind"], Readonly<Record<"statement" | "reverse" | "command" | "tried", string>>>> = {
  directory: { statement: "is in", reverse: "has", command: "in", tried: "has" },
  program: { statement: "opens with", reverse: "opens", command: "with", tried: "opens" },
  owner: { statement: "belongs to", reverse: "owns", command: "as", tried: "owns" },
  alias: { statement: "stands for", reverse: "is called", command: "as", tried: "has" },
};

/** What follows the problem in an error message; empty for `none`. */
export function hintOf(hints: Hints, { kind, known, right, tried, goesWithTried }: Fact): string {
  const { statement, reverse, command, tried: ofTried } = WORDS[kind];
  switch (hints) {
    case "none":
      return "";
    case "tried":
      return `; ${tried} ${ofTried} ${goesWithTried.slice(0, LISTED).join(" ") || "nothing"}`;
    case "reverse":
      return `; ${right} ${reverse} ${known}`;
    case "statement":
      return `; ${known} ${statement} ${right}`;
    case "suggestion":
      return `; did you mean ${known} ${command} ${right}?`;
  }
}
