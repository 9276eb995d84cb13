/**
 * Hints: what an answer says of the facts that a command needs, after what went wrong. Real tools range from nothing
 * ("No such file or directory") to the words that would have been right ("did you mean …?", as in git and npm). A fact
 * has a direction: who looks for a file knows its name and needs the directory, and a message that lists a directory's
 * files tells it the other way round.
 *
 * Not here: the facts of an environment, and its words for them.
 */
import type { Rng } from "../../engine/index.ts";

/** The kinds of hint, in order: each says more than the one before. */
export const HINTS = ["none", "tried", "reverse", "statement", "suggestion"] as const;
export type Hints = (typeof HINTS)[number];

/** A fact: `right` goes with `known`, which the task or another fact names. */
export interface Fact<Kind extends string> {
  readonly kind: Kind;
  readonly known: string;
  readonly right: string;
  /** The name that the command has in place of `right`. */
  readonly tried: string;
  /** The names that go with `tried`. */
  readonly goesWithTried: readonly string[];
  /** The word before `right` in the command; none if `right` stands in place of the command's subject. */
  readonly word?: string;
}

/** Wordings of a kind of fact: in the order known → right, in the order right → known, and for what was tried. */
export type Wording = Readonly<Record<"statement" | "reverse" | "ofTried", string>>;

/** Most members of a list that a hint names. */
const LISTED = 3;

/**
 * The hint after the problem in an answer; empty for `none`, and if there are no facts.
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

/** The names from which each kind of fact is drawn, if facts are random. */
export type Drawn<Kind extends string> = Readonly<
  Record<Kind, { readonly rights: readonly string[]; readonly ofTried: readonly string[] }>
>;

/**
 * Random facts in place of the true ones; only the lengths of lists are true. If a fact is about the `right` of the one
 * before, so is its random counterpart: else the second would tell what the first did not.
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
 * The hint after the problem in an answer, and its entropy in nats.
 * @param facts all that the command needs, in its order, also those that it had right
 * @param lies if facts are random: the stream that draws the stated facts, and the names to draw from
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
 * The part of an agent's word that an answer repeats, however long and strange the word: its first `longest`
 * characters, with `?` for half a surrogate pair.
 */
export const quoted = (word: string, longest: number): string =>
  [...word]
    .slice(0, longest)
    .join("")
    .replace(/\p{Surrogate}/gu, "?");
