/**
 * The answers of `web` to actions: pages as text, forms and what they refuse. It is loaded when somebody plays, so it
 * imports nothing that imports the engine.
 */
import type { Move } from "../game.ts";
import { HOME, LONG, type Page, SHOWN, type Values, type WebEpisode, type WebState, withRefs } from "./episode.ts";

const USE = 'use click REF, type REF "TEXT", select REF OPTION, scroll up, scroll down or back';
/** The longest text that a field takes. */
const MOST_CHARACTERS = 24;

/** A page as compact HTML, with a line for each element that is shown; `...` stands for the others. */
export function render(page: Page, values: Values[string] = {}, above = 0): string {
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

/** Why the server refuses the form of a page; undefined if it accepts it. */
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
