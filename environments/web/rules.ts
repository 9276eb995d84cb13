/**
 * The answers of `web` (pages as text, forms and what they refuse), its tasks and its scripted players. It is loaded
 * when somebody plays, so it imports nothing that imports the engine.
 *
 * Tasks ask for generated words of their split. The place of an element on its page is random, so that its ref has to
 * be read there.
 */
import type { Rng } from "../../engine/index.ts";
import type { NoviceMove } from "../../rl/environment.ts";
import type { GameRules, Move } from "../game.ts";
import type { Split } from "../selection.ts";
import { nameMaker } from "../words.ts";
import {
  HOME,
  LONG,
  type Page,
  type PageElement,
  SHOWN,
  type Values,
  type WEB,
  type WebEpisode,
  type WebFamily,
  type WebState,
  type WebTask,
  withRefs,
} from "./episode.ts";
import { achieved } from "./hindsight.ts";

const USE = 'use click REF, type REF "TEXT", select REF OPTION, scroll up, scroll down or back';
/** The longest text that a field takes. */
const MOST_CHARACTERS = 24;

/** A page as compact HTML, with a line for each element that is shown; `...` stands for the others. */
function render(page: Page, values: Values[string] = {}, above = 0): string {
  const isLong = page.elements.length >= LONG;
  const lines = lineOfEach(page, values);
  const shown = isLong ? lines.slice(above, above + SHOWN) : lines;
  const isMore = isLong && above + SHOWN < lines.length;
  return [...(above > 0 ? ["..."] : []), ...shown, ...(isMore ? ["..."] : [])].join("\n");
}

function lineOfEach(page: Page, values: Values[string]): string[] {
  let ref = 0;
  return page.elements.map((element) => {
    const { tag, text } = element;
    if (tag === "p") return `<p ${text}>`;
    const value = Object.hasOwn(values, text) ? `=${values[text]!}` : "";
    const options = tag === "select" ? `: ${element.options.join(" ")}` : "";
    return `<${tag} ${++ref} ${text}${value}${options}>`;
  });
}

export function play({ task, state, options }: WebEpisode, action: string): Move<WebState> {
  const failed = (observation: string): Move<WebState> => ({ observation, failed: true });
  const name = state.path.at(-1) ?? HOME;
  const page = task.site[name]!;
  const own = state.values[name] ?? {};
  const show = (to: WebState): Move<WebState> => {
    const open = to.path.at(-1) ?? HOME;
    return { observation: render(task.site[open]!, to.values[open], to.above), state: to };
  };
  const [verb = "", first = "", rest = ""] = /^\s*(\w+)\s*(\S*)\s*([^]*?)\s*$/.exec(action)?.slice(1) ?? [];
  if (verb === "back" && first === "") {
    if (state.path.length === 0) return failed("this is the first page");
    return show({ ...state, path: state.path.slice(0, -1), above: 0 });
  }
  if (verb === "scroll" && (first === "up" || first === "down") && rest === "") {
    const last = page.elements.length >= LONG ? page.elements.length - SHOWN : 0;
    const above = Math.max(0, Math.min(last, state.above + (first === "up" ? -SHOWN : SHOWN)));
    return show({ ...state, above });
  }
  if (!["click", "type", "select"].includes(verb) || (verb === "click" && rest !== "")) return failed(USE);
  const element = /^[1-9]$/.test(first) ? withRefs(page)[Number(first) - 1] : undefined;
  if (!element) return failed("no such element");
  const at = page.elements.indexOf(element);
  const isShown = page.elements.length < LONG || (at >= state.above && at < state.above + SHOWN);
  if (!isShown) return failed("not shown; scroll to it");
  const filled = (value: string): Move<WebState> => {
    const { [element.text]: _, ...others } = own;
    const values = value === "" ? others : { ...own, [element.text]: value };
    const next = { ...state, values: { ...state.values, [name]: values } };
    if (options.answer === "page") return show(next);
    return { observation: lineOfEach(page, values)[at]!, state: next };
  };
  if (verb === "type") {
    if (element.tag !== "input") return failed("no field");
    const text = /^"([^"\p{C}]*)"$/u.exec(rest)?.[1];
    if (text === undefined) return failed('use type REF "TEXT"');
    return text.length > MOST_CHARACTERS ? failed("too long") : filled(text.trim());
  }
  if (verb === "select") {
    if (element.tag !== "select") return failed("no drop-down");
    return element.options.includes(rest) ? filled(rest) : failed("no such option");
  }
  if (element.tag === "input" || element.tag === "select") return { observation: lineOfEach(page, own)[at]! };
  const refusal = element.tag === "button" ? refusalOf(page, own) : undefined;
  if (refusal !== undefined) return { observation: `<p ${refusal}>`, state: { ...state, isRefused: true } };
  const path = [...state.path, element.to];
  const move = show({ ...state, path, seen: [...state.seen, element.to], above: 0 });
  if (!task.site[element.to]!.isLast) return move;
  return { ...move, ending: { kind: "end", score: isGoal(task.goal, move.state!) ? 1 : 0 } };
}

/** The server's reason to refuse the form of a page; undefined if it accepts the form. */
function refusalOf({ elements, required = [] }: Page, values: Values[string] & object): string | undefined {
  const empty = required.find((field) => !Object.hasOwn(values, field));
  if (empty !== undefined) return `${empty} is empty`;
  for (const element of elements) {
    if (element.tag !== "input" || !element.rule || !Object.hasOwn(values, element.text)) continue;
    const value = values[element.text]!;
    const { rule } = element;
    if (rule.kind === "taken" && value === rule.name) return `${value} is taken: ${rule.free}`;
    if (rule.kind === "most") {
      if (!/^\d{1,6}$/.test(value)) return `${element.text} is no number`;
      if (Number(value) > rule.most) return `at most ${rule.most}`;
    }
  }
  return undefined;
}

/** The verifier: whether this is the page to end on, and exactly the right values were sent on the way. */
function isGoal({ page, values }: WebEpisode["task"]["goal"], state: WebState): boolean {
  if (state.path.at(-1) !== page) return false;
  const sent = [HOME, ...state.path].filter((name) => Object.keys(state.values[name] ?? {}).length > 0);
  const wanted = Object.keys(values);
  if (sent.length !== wanted.length || !wanted.every((name) => sent.includes(name))) return false;
  return wanted.every((name) => {
    const [has, wants] = [state.values[name]!, values[name]!];
    const fields = Object.keys(wants);
    return fields.length === Object.keys(has).length && fields.every((field) => has[field] === wants[field]);
  });
}

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

/** The generator of each family's sites. */
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

function makeTask(rng: Rng, { name }: WebFamily, { split }: { readonly split: Split }): WebTask {
  const { says: asks, ...draft } = DRAFTS[name](rng, nameMaker(rng, split));
  return { ...draft, text: `${asks}\n${render(draft.site[HOME]!)}` };
}

/**
 * The expert: fills in what the task asks for, corrects what the server refuses, and goes from page to page. It uses
 * only what was shown.
 * @param isCareless takes any filled field for right until the server refuses it
 */
function move({ task: { site, goal, asked, visits }, state }: WebEpisode, isCareless: boolean): string {
  const open = state.path.at(-1) ?? HOME;
  const page = site[open]!;
  const elements = withRefs(page);
  const wanted = ((!state.isRefused && asked) || goal.values)[open] ?? {};
  for (const [i, { tag, text }] of elements.entries()) {
    const [has, wants = ""] = [state.values[open]?.[text] ?? "", wanted[text]];
    if (isCareless && has !== "" && !state.isRefused) continue;
    if (tag === "input" && has !== wants) return `type ${i + 1} "${wants}"`;
    if (tag === "select" && wants !== "" && has !== wants) return `select ${i + 1} ${wants}`;
  }
  const next = visits.find((name) => !state.seen.includes(name)) ?? goal.page;
  const refOf = (to: string | undefined): number =>
    elements.findIndex((element) => "to" in element && element.to === to);
  const direct = refOf(next);
  const at = direct < 0 && open === HOME ? refOf(visits[0]) : direct;
  if (at < 0) return "back";
  if (elements.length < LONG || (at >= state.above && at < state.above + SHOWN)) return `click ${at + 1}`;
  return at < state.above ? "scroll up" : "scroll down";
}

const expert = (episode: WebEpisode): string => move(episode, false);

/** A random action on an element that may exist, with a word or a number of the task. */
function random(rng: Rng, task = ""): string {
  const [asks = ""] = task.split("\n", 1);
  const words = asks.match(/\b[a-z]{6}\b|\d+/g) ?? [nameMaker(rng)()];
  const ref = 1 + rng.int(6);
  return rng.choice<() => string>([
    () => `click ${ref}`,
    () => `type ${ref} "${rng.choice(words)}"`,
    () => `select ${ref} ${rng.choice(words)}`,
    () => rng.choice(["scroll down", "back"]),
  ])();
}

/** The novice: half of its actions are on a wrong element or with a wrong word, and it does not check filled fields. */
function novice(episode: WebEpisode, rng: Rng): NoviceMove {
  const action = move(episode, true);
  const isRight = rng.int(2) > 0;
  const count = withRefs(episode.task.site[episode.state.path.at(-1) ?? HOME]!).length;
  const other = 1 + rng.int(Math.max(1, count));
  const text = nameMaker(rng, episode.options.split)();
  if (isRight || !/\d/.test(action)) return { action, isGuess: false };
  const isTyped = action.startsWith("type") && rng.int(2) === 0;
  const wrong = isTyped ? action.replace(/".*"/, `"${text}"`) : action.replace(/\d/, String(other));
  return { action: wrong, isGuess: wrong !== action };
}

/** The subgoals: fields that hold what they should, and pages on the way that have been open. */
function subgoals({ task: { goal, visits }, state }: WebEpisode): string[] {
  const fields = Object.entries(goal.values).flatMap(([page, values]) =>
    Object.entries(values).flatMap(([field, wants]) =>
      state.values[page]?.[field] === wants ? [`field ${page} ${field}`] : [],
    ),
  );
  return [...fields, ...visits.filter((page) => state.seen.includes(page)).map((page) => `page ${page}`)];
}

export const rules: GameRules<typeof WEB, WebFamily, WebTask, WebState> = {
  makeTask,
  start: () => ({ path: [], seen: [], values: {}, above: 0, isRefused: false }),
  play,
  expert,
  random,
  novice,
  subgoals,
  achieved,
};
