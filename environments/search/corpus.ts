/**
 * A small generated encyclopaedia: persons, towns, guilds and lands with one page each. A page states the kind of its
 * subject and names the things that it is related to, so that the pages are a graph and a question is a path in it.
 */
import type { Rng } from "../../engine/index.ts";
import { listed, nameMaker, NAMES } from "../words.ts";
import { Ranking } from "../ranking.ts";
import type { Split } from "../selection.ts";

export type Kind = "person" | "town" | "guild" | "land";

/** A column of a page. Each has one value: a name, or the year in which a person was born. */
export interface Relation {
  readonly name: string;
  readonly of: Kind;
  readonly to: Kind | "number";
}

export const RELATIONS: readonly Relation[] = [
  { name: "birthplace", of: "person", to: "town" },
  { name: "guild", of: "person", to: "guild" },
  { name: "teacher", of: "person", to: "person" },
  { name: "year", of: "person", to: "number" },
  { name: "land", of: "town", to: "land" },
  { name: "mayor", of: "town", to: "person" },
  { name: "seat", of: "guild", to: "town" },
  { name: "head", of: "guild", to: "person" },
  { name: "capital", of: "land", to: "town" },
  { name: "ruler", of: "land", to: "person" },
];

export const relationsOf = (kind: Kind | "number"): Relation[] => RELATIONS.filter(({ of }) => of === kind);

export interface Page {
  readonly title: string;
  readonly kind: Kind;
  /** Name of a relation → name of the thing, or digits. */
  readonly facts: ReadonlyMap<string, string>;
}

/** The text that `open` shows. */
export function pageText({ title, kind, facts }: Page): string {
  return `${title} ${kind}: ${[...facts].map(([relation, value]) => `${relation} ${value}`).join(", ")}`;
}

export class Corpus {
  readonly pages: readonly Page[];
  readonly #ranking: Ranking;

  /** @param size 1: 6 persons, 4 towns, 2 guilds, 2 lands; each step adds 3, 2, 1 and 1 */
  constructor(rng: Rng, split: Split, size: number, everyday = false) {
    const newName = everyday ? listed(rng, NAMES) : nameMaker(rng, split);
    const names = (count: number): string[] => Array.from({ length: count }, newName);
    const things: Record<Kind, readonly string[]> = {
      person: names(3 + 3 * size),
      town: names(2 + 2 * size),
      guild: names(1 + size),
      land: names(1 + size),
    };
    const years = new Set<string>();
    while (years.size < things.person.length) years.add(String(100 + rng.int(900)));
    const unusedYears = [...years];
    const valueOf = (title: string, { to }: Relation): string =>
      to === "number" ? unusedYears.pop()! : rng.choice(things[to].filter((name) => name !== title));
    const pages = (Object.keys(things) as Kind[]).flatMap((kind) =>
      things[kind].map((title) => {
        const facts = relationsOf(kind).map((relation) => [relation.name, valueOf(title, relation)] as const);
        return { title, kind, facts: new Map(facts) };
      }),
    );
    this.pages = rng.shuffle(pages);
    // The title counts twice, so that a page is found by its name before the pages that mention it.
    this.#ranking = new Ranking(this.pages.map((page) => `${page.title} ${pageText(page)}`));
  }

  /** Titles of the pages that hold a word of the query, best first. */
  search(query: string): string[] {
    return this.#ranking.rank(query).map((at) => this.pages[at]!.title);
  }

  page(title: string): Page {
    return this.pages.find((page) => page.title === title)!;
  }

  /** The value of a relation of a thing. */
  value(title: string, relation: Relation): string {
    return this.page(title).facts.get(relation.name)!;
  }

  /** The things of which all of these facts are true. */
  having(...facts: readonly (readonly [Relation, string])[]): Page[] {
    return this.pages.filter(({ kind, title }) =>
      facts.every(([relation, value]) => relation.of === kind && this.value(title, relation) === value),
    );
  }
}
