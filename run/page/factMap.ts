/**
 * The map of what agents know: a square for each fact of their world, with a stripe for each agent, which is the fuller
 * the more probable the agent finds the fact. Squares stand under the name that is right: files in their directory,
 * whose owner is a round mark beside its name. One of them is spelt out: that of the page, or the one last pointed at.
 * Runs in the browser.
 */
import type { WorldFact } from "../../environments/index.ts";
import { formatPercent } from "../figures/format.ts";
import { isKnown } from "../knownFacts.ts";
import type { KnownFact } from "../records.ts";
import { element } from "./dom.ts";

/** An agent, and what it knows; null: it has not been asked. */
export interface Knower {
  readonly label: string;
  /** A remark behind the label. */
  readonly about?: string;
  readonly facts: readonly KnownFact[] | null;
}

/** Shades of a stripe, from nothing to all. */
const SHADES = 10;

export class FactMap {
  readonly view: HTMLElement = element("div", { class: "fact-map" });
  #squares: readonly { readonly fact: WorldFact; readonly view: HTMLElement }[] = [];
  readonly #counts: HTMLElement = element("p", { class: "fact-counts" });
  readonly #example: HTMLElement = element("p", { class: "fact-example" });
  /** The fact that is spelt out. */
  #spelt = 0;
  #agents: readonly Knower[] = [];
  readonly #first: string | undefined;

  /** @param first the fact that is spelt out until somebody points at another; default: the first one */
  constructor(first?: string) {
    this.#first = first;
  }

  /** Shows what these agents know, all of the same facts. */
  show(agents: readonly Knower[]): void {
    const facts = agents.flatMap(({ facts }) => facts ?? []);
    if (this.#squares.length === 0 && facts.length > 0)
      this.#build([...new Map(facts.map((f) => [f.says, f])).values()]);
    const known = agents.map(({ facts }) => facts && new Map(facts.map(({ says, p }) => [says, p])));
    this.#agents = agents;
    this.#counts.replaceChildren(...agents.map(countView));
    for (const { fact, view } of this.#squares) {
      const shares = known.map((of) => of?.get(fact.says) ?? null);
      // The stripes stay, so that a change of shade is seen as one.
      if (view.children.length !== shares.length) view.replaceChildren(...shares.map(() => element("i")));
      shares.forEach((p, i) => (view.children[i]!.className = stripeClass(p, i)));
      view.title = [fact.says, ...shares.map((p, i) => `${agents[i]!.label}: ${shareText(p)}`)].join("\n");
    }
    this.#spell(this.#spelt);
    const said = agents.map(({ label, facts }) => `${label} knows ${knownIn(facts)}`);
    this.view.setAttribute("role", "img");
    this.view.setAttribute("aria-label", `Facts of the world: ${said.join("; ")}`);
  }

  /** Shows a square again, larger, with its fact in words. */
  #spell(index: number): void {
    const square = this.#squares[index];
    if (square === undefined) return;
    this.#squares[this.#spelt]!.view.classList.remove("spelt");
    this.#spelt = index;
    square.view.classList.add("spelt");
    const sure = this.#agents.map(({ label, facts }) => {
      const p = facts?.find(({ says }) => says === square.fact.says)?.p;
      return p === undefined ? `${label} not asked yet` : `${label} ${Math.round(100 * p)}\u00a0% sure`;
    });
    this.#example.replaceChildren(
      square.view.cloneNode(true),
      element("strong", {}, `${square.fact.says}:`),
      ` ${sure.join(", ")}`,
    );
  }

  #build(facts: readonly WorldFact[]): void {
    const squares = facts.map((fact) => ({ fact, view: element("span", { class: "fact" }) }));
    squares.forEach(({ view }, i) => view.addEventListener("pointerenter", () => this.#spell(i)));
    const viewOf = new Map(squares.map(({ fact, view }) => [fact, view]));
    const sections = sectionsOf(facts).map(({ kind, round, groups }) =>
      element(
        "div",
        { class: "fact-kind" },
        element("h3", {}, round === undefined ? kind : `${kind} (round marks: ${round})`),
        element(
          "div",
          { class: "fact-groups" },
          ...groups.map(({ name, beside, inside }) =>
            element(
              "div",
              { class: inside.length + beside.length === 1 ? "fact-group single" : "fact-group" },
              element("span", { class: "fact-name" }, name, ...beside.map((fact) => viewOf.get(fact)!)),
              element("span", { class: "fact-row" }, ...inside.map((fact) => viewOf.get(fact)!)),
            ),
          ),
        ),
      ),
    );
    this.#squares = squares;
    this.#spelt = Math.max(
      0,
      facts.findIndex(({ says }) => says === this.#first),
    );
    this.view.replaceChildren(this.#counts, this.#example, ...sections);
  }
}

/** Facts of one kind, by their right name; beside a name are the facts about it. */
interface FactSection {
  readonly kind: string;
  /** The kind of the facts beside names, if there are any. */
  readonly round: string | undefined;
  readonly groups: readonly {
    readonly name: string;
    readonly beside: readonly WorldFact[];
    readonly inside: readonly WorldFact[];
  }[];
}

function sectionsOf(facts: readonly WorldFact[]): readonly FactSection[] {
  const rights = new Map(facts.map(({ right, kind }) => [right, kind]));
  // A fact about what is another's right name stands beside that name.
  const isBeside = ({ known, kind }: WorldFact): boolean => rights.has(known) && rights.get(known) !== kind;
  const own = facts.filter((fact) => !isBeside(fact));
  return [...new Set(own.map(({ kind }) => kind))].map((kind) => {
    const ofKind = own.filter((fact) => fact.kind === kind);
    const names = [...new Set(ofKind.map(({ right }) => right))].toSorted();
    const groups = names.map((right) => {
      const inside = ofKind.filter((fact) => fact.right === right);
      const beside = facts.filter((fact) => fact.known === right && isBeside(fact));
      // A name with one fact has room for both sides of it.
      const name = inside.length === 1 && beside.length === 0 ? `${inside[0]!.known} ${right}` : right;
      return { name, beside, inside };
    });
    return { kind, round: groups.flatMap(({ beside }) => beside)[0]?.kind, groups };
  });
}

const stripeClass = (p: number | null, agent: number): string =>
  `agent-${1 + (agent % 8)} p${p === null ? 0 : Math.round(SHADES * p)}`;

const shareText = (p: number | null): string => (p === null ? "not asked yet" : formatPercent(p));

const knownIn = (facts: Knower["facts"]): string =>
  facts === null ? "what it has not been asked yet" : `${facts.filter(isKnown).length} of ${facts.length}`;

const countView = ({ label, about, facts }: Knower, agent: number): HTMLElement =>
  element(
    "span",
    { class: "fact-count" },
    element("i", { class: stripeClass(1, agent) }),
    facts === null ? `${label}: not asked yet` : `${label} knows ${knownIn(facts)}`,
    ...(about === undefined ? [] : [element("small", { class: "muted" }, ` ${about}`)]),
  );
