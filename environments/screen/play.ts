/**
 * The answers of `screen` to actions: it draws windows into cells, and finds what a click hits. It is loaded when
 * somebody plays, so it imports nothing that imports the engine.
 */
import type { Move } from "../game.ts";
import { cellOfBin } from "./bins.ts";
import {
  HEIGHT,
  heightOf,
  LETTERS,
  LIST_ROWS,
  type ScreenEpisode,
  type ScreenState,
  type ScreenTask,
  type Widget,
  widthOf,
  WIDTH,
  type Window,
} from "./episode.ts";

const USE = "use click X Y, type TEXT, scroll up, scroll down, key delete or key tab";

/** The lines of a widget. */
function linesOf(widget: Widget, state: ScreenState): string[] {
  if (widget.kind === "button") return [widget.does === "close" ? "x" : `[${widget.text}]`];
  if (widget.kind === "box") return [`[${state.ticked.includes(widget.text) ? "x" : "."}]${widget.text}`];
  if (widget.kind === "field") {
    const value = state.fields[widget.text] ?? "";
    const [left, right] = state.focus === widget.text ? "<>" : "[]";
    return [`${widget.text}${left}${value.padEnd(LETTERS, ".")}${right}`];
  }
  const shown = widget.items.slice(state.above, state.above + LIST_ROWS);
  return shown.map((item) => `${item === state.picked ? ">" : "-"}${item}`);
}

/** The rows of the screen, each after its number; an empty cell is a dot. */
export function draw({ windows }: Pick<ScreenTask, "windows">, state: ScreenState): string[] {
  const cells = Array.from({ length: HEIGHT }, () => new Array<string>(WIDTH).fill("."));
  const put = (x: number, y: number, text: string): void => [...text].forEach((c, i) => (cells[y]![x + i] = c));
  for (const { x, y, width, height, widgets } of state.open.map((at) => windows[at]!)) {
    for (let row = 0; row < height; row++) put(x, y + row, (width < WIDTH ? "=" : ".").repeat(width));
    for (const widget of widgets) linesOf(widget, state).forEach((line, row) => put(widget.x, widget.y + row, line));
  }
  return cells.map((row, y) => `${y}${row.join("")}`);
}

const isIn = (x: number, y: number, box: Omit<Window, "widgets">): boolean =>
  x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;

export function play(episode: ScreenEpisode, action: string): Move<ScreenState> {
  const { task, state, options } = episode;
  const failed = (observation: string): Move<ScreenState> => ({ observation, failed: true });
  const shows = (next: ScreenState): Move<ScreenState> => {
    const [old, now] = [draw(task, state), draw(task, next)];
    const rows = options.answer === "screen" ? now : now.filter((row, y) => row !== old[y]);
    return { observation: rows.join("\n"), state: next };
  };
  const [verb = "", rest = ""] = /^(\w+)\s*([^]*)$/.exec(action.trim())?.slice(1) ?? [];
  if (verb === "click") {
    const [, first, second] = /^(\d{1,3}) (\d{1,3})$/.exec(rest) ?? [];
    if (first === undefined) return failed(USE);
    const cell = (text: string, cells: number): number =>
      options.coordinates === "bins" ? cellOfBin(Number(text), cells) : Number(text);
    const isBin = options.coordinates === "cells" || [first, second].every((n) => Number(n) >= 1 && Number(n) <= 256);
    const [x, y] = [cell(first, WIDTH), cell(second!, HEIGHT)];
    if (!isBin || x >= WIDTH || y >= HEIGHT) return failed("not on the screen");
    return click(episode, x, y, shows);
  }
  if (verb === "scroll" && (rest === "up" || rest === "down")) {
    const list = listOf(task, state);
    if (!list) return failed("nothing to scroll");
    const last = Math.max(0, list.items.length - LIST_ROWS);
    const above = Math.max(0, Math.min(last, state.above + (rest === "up" ? -LIST_ROWS : LIST_ROWS)));
    return shows({ ...state, above });
  }
  if (verb === "type") {
    if (state.focus === "") return failed("no field has the keyboard");
    if (!/^[\w ]+$/.test(rest)) return failed("type letters and digits");
    const value = `${state.fields[state.focus] ?? ""}${rest}`.slice(0, LETTERS);
    return shows({ ...state, fields: { ...state.fields, [state.focus]: value } });
  }
  if (verb === "key" && rest === "delete") {
    if (state.focus === "") return failed("no field has the keyboard");
    return shows({ ...state, fields: { ...state.fields, [state.focus]: "" } });
  }
  const upper = uppermost(task, state).widgets;
  if (verb === "key" && rest === "tab") {
    const fields = upper.flatMap((widget) => (widget.kind === "field" ? [widget.text] : []));
    if (fields.length === 0) return failed("no field here");
    return shows({ ...state, focus: fields[(fields.indexOf(state.focus) + 1) % fields.length]! });
  }
  return failed(USE);
}

const uppermost = ({ windows }: ScreenTask, { open }: ScreenState): Window => windows[open.at(-1)!]!;

const listOf = (task: ScreenTask, state: ScreenState): Extract<Widget, { kind: "list" }> | undefined =>
  uppermost(task, state).widgets.find((widget) => widget.kind === "list");

function click(
  { task, state }: ScreenEpisode,
  x: number,
  y: number,
  shows: (state: ScreenState) => Move<ScreenState>,
): Move<ScreenState> {
  const at = state.open.findLast((number) => isIn(x, y, task.windows[number]!))!;
  const raised = { ...state, open: [...state.open.filter((number) => number !== at), at] };
  // The first click on a window that is not the uppermost brings it up, and does nothing else.
  if (at !== state.open.at(-1)) return shows({ ...raised, focus: "" });
  const widget = task.windows[at]!.widgets.find((one) =>
    isIn(x, y, { x: one.x, y: one.y, width: widthOf(one), height: heightOf(one) }),
  );
  if (!widget) return shows({ ...state, focus: "" });
  switch (widget.kind) {
    case "field":
      return shows({ ...state, focus: widget.text });
    case "box": {
      const others = state.ticked.filter((text) => text !== widget.text);
      return shows({
        ...state,
        focus: "",
        ticked: others.length < state.ticked.length ? others : [...others, widget.text],
      });
    }
    case "list":
      return shows({ ...state, focus: "", picked: widget.items[state.above + y - widget.y] ?? state.picked });
    case "button":
      if (widget.does === "end") return pressed(task, state, widget.text);
      return shows({ ...state, focus: "", open: state.open.filter((number) => number !== at) });
  }
}

/** The verifier: whether the right button was pressed, and everything was entered as asked. */
function pressed({ goal }: ScreenTask, { fields, ticked, picked }: ScreenState, button: string): Move<ScreenState> {
  const names = Object.keys({ ...fields, ...goal.fields });
  const isRight =
    button === goal.button &&
    picked === goal.picked &&
    ticked.length === goal.ticked.length &&
    goal.ticked.every((text) => ticked.includes(text)) &&
    names.every((name) => (fields[name] ?? "") === (goal.fields[name] ?? ""));
  return { observation: "", ending: { kind: "press", score: isRight ? 1 : 0 } };
}
