/** The families of `screen`, its options, and what an episode knows: windows, what is in them, and the goal. */
import { oneOf } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";
import { type OptionsWith, SHAPED } from "../options.ts";

/** All families, easiest first. */
export const FAMILIES = [
  { name: "press", level: 1, description: "one of eight buttons" },
  { name: "type", level: 1, description: "one of two fields, and the button" },
  { name: "tick", level: 2, description: "boxes, of which some are to be ticked" },
  { name: "correct", level: 2, description: "a field that holds another word" },
  { name: "pick", level: 3, description: "an item of a list that shows three at a time" },
  { name: "windows", level: 3, description: "a button that may be under another window" },
  { name: "all", level: 4, description: "a field and a list, under another window" },
] as const satisfies readonly FamilyInfo[];
export type ScreenFamily = (typeof FAMILIES)[number];

export const SCREEN = {
  ...SHAPED,
  answer: oneOf(["rows", "screen"], "rows", "what an action is answered with: the rows that changed, or the screen"),
  coordinates: oneOf(["cells", "bins"], "cells", "cells from 0, or OpenVLA's bins, 1 to 256 over the screen"),
};
/** Options of `screen`, beside `EnvironmentOptions`; `SCREEN` says what each does, and its default. */
export type ScreenOptions = OptionsWith<typeof SCREEN>;

export const WIDTH = 12;
export const HEIGHT = 5;
/** Rows that a list shows, and the letters of an item and of a field. */
export const LIST_ROWS = 3;
export const LETTERS = 6;

/** A widget in a window, at these cells of the screen. */
export type Widget = { readonly x: number; readonly y: number } & (
  | { readonly kind: "button"; readonly text: string; readonly does: "end" | "close" }
  | { readonly kind: "field"; readonly text: string }
  | { readonly kind: "box"; readonly text: string }
  | { readonly kind: "list"; readonly items: readonly string[] }
);

/** A window, which covers everything under its rows and columns. */
export interface Window {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly widgets: readonly Widget[];
}

/** The values that were entered. */
export interface Entered {
  /** The values of fields, by name. */
  readonly fields: Readonly<Record<string, string>>;
  readonly ticked: readonly string[];
  readonly picked: string;
}

export interface ScreenTask extends GameTask {
  /** The windows; the first is under the others. */
  readonly windows: readonly Window[];
  readonly before: Entered;
  /** The values to be entered, and the button to be pressed then. */
  readonly goal: Entered & { readonly button: string };
}

export interface ScreenState extends Entered {
  /** Windows that are open, by number, the uppermost last. */
  readonly open: readonly number[];
  /** The field that has the keyboard. */
  readonly focus: string;
  /** The number of list items above those that are shown. */
  readonly above: number;
}

export type ScreenEpisode = Episode<typeof SCREEN, ScreenTask, ScreenState>;

/** The width of a widget in columns. */
export function widthOf(widget: Widget): number {
  if (widget.kind === "button") return widget.does === "close" ? 1 : widget.text.length + 2;
  if (widget.kind === "field") return widget.text.length + 2 + LETTERS;
  return widget.kind === "box" ? widget.text.length + 3 : LETTERS + 1;
}

export const heightOf = (widget: Widget): number => (widget.kind === "list" ? LIST_ROWS : 1);

export const startOf = ({ windows, before }: Pick<ScreenTask, "windows" | "before">): ScreenState => ({
  ...before,
  open: [...windows.keys()],
  focus: "",
  above: 0,
});
