/**
 * Tasks of `web`: drawing sites. Tasks ask for generated words of their split. The place of an element on its page is
 * random, so that its ref has to be read there.
 */
import type { Rng } from "../../engine/index.ts";
import type { Split } from "../selection.ts";
import { nameMaker } from "../words.ts";
import { HOME, type Page, type PageElement, type WebFamily, type WebTask } from "./episode.ts";
import { render } from "./play.ts";

/** A drawn site and goal, and the words from which the task's text is made. */
type Draft = Omit<WebTask, "text"> & { readonly says: string };

const FIELDS = ["name", "city", "team", "role", "club"];
const LISTS = ["size", "kind", "day", "room"];
const BUTTONS = ["send", "save", "join"];

const LAST = "sent";
const sent: Page = { elements: [{ tag: "p", text: "sent" }], isLast: true };
const link = (text: string): PageElement => ({ tag: "a", text, to: text });
const input = (text: string): PageElement => ({ tag: "input", text });
const select = (text: string, options: readonly string[]): PageElement => ({ tag: "select", text, options });
const button = (text: string): PageElement => ({ tag: "button", text, to: LAST });

/** Links to pages of their names, one of which is to be clicked. */
function oneOfLinks(rng: Rng, word: () => string, count: number): Draft {
  const names = Array.from({ length: count }, word);
  const name = rng.choice(names);
  const ends = names.map((text): [string, Page] => [text, { elements: [{ tag: "p", text }], isLast: true }]);
  const site = { [HOME]: { elements: names.map(link) }, ...Object.fromEntries(ends) };
  const says = `${rng.choice(["Click", "Open", "Go to"])} ${name}`;
  return { says, site, goal: { page: name, values: {} }, visits: [] };
}

/** A form on the first page, with its elements in any order and the button last. */
function oneForm(
  rng: Rng,
  says: string,
  fields: readonly PageElement[],
  values: Readonly<Record<string, string>>,
): Draft {
  const elements = [...rng.shuffle([...fields]), button(rng.choice(BUTTONS))];
  const site = { [HOME]: { elements, required: Object.keys(values) }, [LAST]: sent };
  return { says, site, goal: { page: LAST, values: { [HOME]: values } }, visits: [] };
}

/** A text for "the field holds the value". */
const says = (rng: Rng, field: string, value: string): string =>
  rng.choice([`Enter ${value} as ${field}`, `Set ${field} to ${value}`]);

/** How the sites of a family are drawn. */
const DRAFTS: Readonly<Record<WebFamily["name"], (rng: Rng, word: () => string) => Draft>> = {
  click: (rng, word) => oneOfLinks(rng, word, 6),
  scroll: (rng, word) => oneOfLinks(rng, word, 9),
  enter(rng, word) {
    const [field, other] = rng.shuffle([...FIELDS]) as [string, string];
    const value = word();
    return oneForm(rng, says(rng, field, value), [input(field), input(other)], { [field]: value });
  },
  choose(rng, word) {
    const [field, other] = rng.shuffle([...LISTS]) as [string, string];
    const [options, others] = [
      [word(), word()],
      [word(), word()],
    ];
    const value = rng.choice(options);
    return oneForm(rng, says(rng, field, value), [select(field, options), select(other, others)], { [field]: value });
  },
  form(rng, word) {
    const [field, list] = [rng.choice(FIELDS), rng.choice(LISTS)];
    const options = [word(), word()];
    const values = { [field]: word(), [list]: rng.choice(options) };
    const asked = rng.shuffle(Object.entries(values)).map(([name, value]) => `${name} to ${value}`);
    return oneForm(rng, `Set ${asked.join(", ")}`, [input(field), select(list, options)], values);
  },
  retry(rng, word) {
    const isTaken = rng.int(2) === 0;
    const isRefused = rng.int(2) === 0;
    if (isTaken) {
      const [field, other] = rng.shuffle([...FIELDS]) as [string, string];
      const [wanted, taken, free] = [word(), word(), word()];
      const rule = { kind: "taken", name: isRefused ? wanted : taken, free } as const;
      const fields = [{ ...input(field), rule } as PageElement, input(other)];
      const draft = oneForm(rng, says(rng, field, wanted), fields, { [field]: isRefused ? free : wanted });
      return { ...draft, asked: { [HOME]: { [field]: wanted } } };
    }
    const [thing, other, wanted] = [word(), word(), 20 + rng.int(79)];
    const most = isRefused ? 2 + rng.int(wanted - 2) : wanted + rng.int(99);
    const fields = [thing, other].map((text) => ({ ...input(text), rule: { kind: "most", most } }) as PageElement);
    const draft = oneForm(rng, `Get ${wanted} ${thing}`, fields, { [thing]: String(Math.min(wanted, most)) });
    return { ...draft, asked: { [HOME]: { [thing]: String(wanted) } } };
  },
  lookup(rng, word) {
    const [wanted, other, code, wrong] = [word(), word(), word(), word()];
    const field = rng.choice(FIELDS);
    const site = {
      [HOME]: { elements: rng.shuffle([link(wanted), link(other), link("form")]) },
      [wanted]: { elements: [{ tag: "p", text: `${field} ${code}` }] },
      [other]: { elements: [{ tag: "p", text: `${field} ${wrong}` }] },
      form: { elements: [input(field), button(rng.choice(BUTTONS))], required: [field] },
      [LAST]: sent,
    } as const;
    const goal = { page: LAST, values: { form: { [field]: code } } };
    return { says: `Enter the ${field} of ${wanted}`, site, goal, visits: [wanted, "form"] };
  },
  order(rng, word) {
    const names = [word(), word(), word()];
    const thing = rng.choice(names);
    const [list, field, value, options] = [rng.choice(LISTS), rng.choice(FIELDS), word(), [word(), word()]];
    const chosen = rng.choice(options);
    const product: Page = {
      elements: [select(list, options), { tag: "button", text: "next", to: "form" }],
      required: [list],
    };
    const site = {
      [HOME]: { elements: names.map(link) },
      ...Object.fromEntries(names.map((name) => [name, product])),
      form: { elements: [input(field), button(rng.choice(BUTTONS))], required: [field] },
      [LAST]: sent,
    };
    const goal = { page: LAST, values: { [thing]: { [list]: chosen }, form: { [field]: value } } };
    return { says: `Order ${thing}, ${list} ${chosen}, ${field} ${value}`, site, goal, visits: [thing, "form"] };
  },
};

export function makeTask(rng: Rng, { name }: WebFamily, { split }: { readonly split: Split }): WebTask {
  const { says: asks, ...draft } = DRAFTS[name](rng, nameMaker(rng, split));
  return { ...draft, text: `${asks}\n${render(draft.site[HOME]!)}` };
}
