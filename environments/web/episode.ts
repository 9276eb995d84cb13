/** The families of `web`, its options, and its types: a site of pages, their elements, the goal, and the state. */
import { oneOf } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";
import { type OptionsWith, SHAPED } from "../options.ts";

/** All families, easiest first. */
export const FAMILIES = [
  { name: "click", level: 1, description: "one of six links" },
  { name: "enter", level: 1, description: "one of two fields, and the button" },
  { name: "choose", level: 2, description: "one of two drop-downs, and the button" },
  { name: "form", level: 2, description: "a field and a drop-down" },
  { name: "scroll", level: 3, description: "a link in a list that shows four at a time" },
  { name: "retry", level: 3, description: "a form that may refuse what is entered, and says what it takes" },
  { name: "lookup", level: 4, description: "what one page says has to be entered on another" },
  { name: "order", level: 4, description: "a product's page, its drop-down, and a form behind it" },
] as const satisfies readonly FamilyInfo[];
export type WebFamily = (typeof FAMILIES)[number];

export const WEB = {
  ...SHAPED,
  answer: oneOf(["change", "page"], "change", "what a filled field is answered with: the field, or the whole page"),
};
/** Options of `web`, beside `EnvironmentOptions`; `WEB` says what each does, and its default. */
export type WebOptions = OptionsWith<typeof WEB>;

/** An element of a page. All but text have a ref: the element's number among those that have one. */
export type PageElement =
  | { readonly tag: "p"; readonly text: string }
  | { readonly tag: "a"; readonly text: string; readonly to: string }
  /** Goes on once all fields of the page are accepted. */
  | { readonly tag: "button"; readonly text: string; readonly to: string }
  | { readonly tag: "input"; readonly text: string; readonly rule?: Rule }
  | { readonly tag: "select"; readonly text: string; readonly options: readonly string[] };

/** The rule by which the server accepts the value of a field. */
export type Rule =
  /** The server refuses this value only, and names another that is free. */
  | { readonly kind: "taken"; readonly name: string; readonly free: string }
  | { readonly kind: "most"; readonly most: number };

export interface Page {
  readonly elements: readonly PageElement[];
  /** The fields that must not be empty. */
  readonly required?: readonly string[];
  /** The episode ends on this page. */
  readonly isLast?: boolean;
}

/** Values by page and field. */
export type Values = Readonly<Record<string, Readonly<Record<string, string>>>>;

export interface WebTask extends GameTask {
  /** The pages by name; the first is `home`. */
  readonly site: Readonly<Record<string, Page>>;
  /** The values that the fields must have at the end, and the page to end on. */
  readonly goal: { readonly page: string; readonly values: Values };
  /** Values that the task asks for and the server may refuse. */
  readonly asked?: Values;
  /** The pages that the expert visits before the last, in order. */
  readonly visits: readonly string[];
}

export interface WebState {
  /** The pages on the way from `home` to the open one, which is the last; empty at `home`. */
  readonly path: readonly string[];
  /** Every page that has been open. */
  readonly seen: readonly string[];
  readonly values: Values;
  /** The number of elements above those that are shown. */
  readonly above: number;
  /** Whether the server has refused something. */
  readonly isRefused: boolean;
}

export type WebEpisode = Episode<typeof WEB, WebTask, WebState>;

export const HOME = "home";
/** Elements of a long page that are shown at a time, and the least number of elements of a long page. */
export const SHOWN = 4;
export const LONG = 7;

/** The elements that have a ref. */
export const withRefs = ({ elements }: Page): Exclude<PageElement, { tag: "p" }>[] =>
  elements.filter((element) => element.tag !== "p");
