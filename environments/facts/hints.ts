/**
 * What an answer says of the facts that a command needs, beside what went wrong. Real tools range from nothing ("No
 * such file or directory") to the words that would have been right ("did you mean …?", as git and npm have it). A fact
 * has a direction, too: who looks for a file knows its name and needs the directory, and a message that tells a
 * directory's files tells it the other way round.
 *
 * Not here: which facts a world has, and its words for them.
 */
import type { Rng } from "../../engine/index.ts";

/** They are in order: each says more than the one before. */
export const HINTS = ["none", "tried", "reverse", "statement", "suggestion"] as const;
export type Hints = (typeof HINTS)[number];

/** A fact: `right` goes with `known`, which the task or another fact names. */
export interface Fact<Kind extends string> {
  readonly kind: Kind;
  readonly known: string;
  readonly right: string;
  /** What the command has in place of `right`. */
  readonly tried: string;
  /** What goes with what was tried. */
  readonly goesWithTried: readonly string[];
  /** What stands before it in the command; nothing before what stands in place of the command's subject. */
  readonly word?: string;
}

/** How a world puts facts of a kind, in the order known → right and in the order right → known, and what was tried. */
export type Wording = Readonly<Record<"statement" | "reverse" | "ofTried", string>>;

/** How many members of a long list a hint names. */
const LISTED = 3;

/**
 * What follows the problem in an answer; empty for `none`, and if there are no facts.
 * @param facts all that the command needs, in its order, also those that it had right; the first is about what the
 * command names first
 */
function hintOf<Kind extends string>(
  hints: Hints,
  facts: readonly Fact<Kind>[],
  words: Readonly<Record<Kind, Wording>>,
): string {
  if (facts.length === 0) return "";
  const each = (of: (fact: Fact<Kind>) => string): string => `; ${facts.map(of).join(", ")}`;
  switch (hints) {
    case "none":
      return "";
    case "tried":
      return each(
        ({ kind, tried, goesWithTried }) =>
          `${tried} ${words[kind].ofTried} ${goesWithTried.slice(0, LISTED).join(" ") || "nothing"}`,
      );
    case "reverse":
      return each(({ kind, known, right }) => `${right} ${words[kind].reverse} ${known}`);
    case "statement":
      return each(({ kind, known, right }) => `${known} ${words[kind].statement} ${right}`);
    case "suggestion": {
      const rights = facts.map(({ word, right }) => (word === undefined ? right : `${word} ${right}`));
      return `; did you mean ${[...(facts[0]!.word === undefined ? [] : [facts[0]!.known]), ...rights].join(" ")}?`;
    }
  }
}

/** What is drawn from for each kind of fact where facts are random. */
export type Drawn<Kind extends string> = Readonly<
  Record<Kind, { readonly rights: readonly string[]; readonly ofTried: readonly string[] }>
>;

/**
 * Hints in the usual words about things drawn at random; only how many are listed is true. What one fact says is what
 * the next is about, where that is so in truth: else the second would tell what the first did not.
 */
function liesAbout<Kind extends string>(
  facts: readonly Fact<Kind>[],
  rng: Rng,
  drawn: Drawn<Kind>,
): readonly Fact<Kind>[] {
  const lies: Fact<Kind>[] = [];
  for (const [k, fact] of facts.entries()) {
    const { rights, ofTried } = drawn[fact.kind];
    const known = k > 0 && facts[k - 1]!.right === fact.known ? lies[k - 1]!.right : fact.known;
    const right = rng.choice(rights);
    lies.push({ ...fact, known, right, goesWithTried: rng.shuffle(ofTried).slice(0, fact.goesWithTried.length) });
  }
  return lies;
}

/** Entropy in nats of a hint that states what `liesAbout` drew. */
function hintEntropy<Kind extends string>(hints: Hints, facts: readonly Fact<Kind>[], drawn: Drawn<Kind>): number {
  if (hints === "none") return 0;
  return facts.reduce((sum, { kind, goesWithTried }) => {
    const { rights, ofTried } = drawn[kind];
    if (hints !== "tried") return sum + Math.log(rights.length);
    // They are listed in order, and none twice.
    const listed = ofTried.slice(0, Math.min(LISTED, goesWithTried.length));
    return listed.reduce((nats, _, i) => nats + Math.log(ofTried.length - i), sum);
  }, 0);
}

/** The keys under which a map has this value. */
export const keysOf = (map: ReadonlyMap<string, string>, value: string): string[] =>
  [...map].flatMap(([key, own]) => (own === value ? [key] : []));

/**
 * What follows the problem in an answer, and the entropy of that in nats.
 * @param facts all that the command needs, in its order, also those that it had right
 * @param lies where facts are random: what draws those that are stated instead, and from what
 */
export function hintAbout<Kind extends string>(
  hints: Hints,
  facts: readonly Fact<Kind>[],
  words: Readonly<Record<Kind, Wording>>,
  lies: { readonly liar: Rng; readonly drawn: Drawn<Kind> } | undefined,
): { readonly hint: string; readonly entropy: number } {
  if (!lies) return { hint: hintOf(hints, facts, words), entropy: 0 };
  const { liar, drawn } = lies;
  return { hint: hintOf(hints, liesAbout(facts, liar, drawn), words), entropy: hintEntropy(hints, facts, drawn) };
}

/**
 * What an answer repeats of a word of the agent's, however long and strange: its beginning, and no half of a surrogate
 * pair.
 */
export const quoted = (word: string, longest: number): string =>
  [...word]
    .slice(0, longest)
    .join("")
    .replace(/\p{Surrogate}/gu, "?");
