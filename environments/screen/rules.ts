/**
 * The answers of `screen` (it draws windows into cells, and finds what a click hits), its tasks and its scripted
 * players. It is loaded when somebody plays, so it imports nothing that imports the engine.
 *
 * Words are generated words of the split; labels are their first four letters. A task is also held out by a hash of its
 * text and its screen.
 */
import type { Rng } from "../../engine/index.ts";
import type { NoviceMove } from "../../rl/environment.ts";
import type { GameRules, Move } from "../game.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { nameMaker } from "../words.ts";
import { binOfCell, cellOfBin } from "./bins.ts";
import {
  type Entered,
  HEIGHT,
  heightOf,
  LETTERS,
  LIST_ROWS,
  type SCREEN,
  type ScreenEpisode,
  type ScreenFamily,
  type ScreenState,
  type ScreenTask,
  startOf,
  type Widget,
  WIDTH,
  widthOf,
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
function draw({ windows }: Pick<ScreenTask, "windows">, state: ScreenState): string[] {
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

function play(episode: ScreenEpisode, action: string): Move<ScreenState> {
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

type Draft = Omit<ScreenTask, "text"> & { readonly says: string };

const NAMES = ["name", "city", "team", "role", "plan"];
const NOTHING: Entered = { fields: {}, ticked: [], picked: "" };
const LABEL = 4;

const full = (widgets: readonly Widget[]): Window => ({ x: 0, y: 0, width: WIDTH, height: HEIGHT, widgets });
const field = (text: string, y: number): Widget => ({ kind: "field", text, x: 0, y });
const button = (text: string, x: number, y: number): Widget => ({ kind: "button", text, does: "end", x, y });

/** `ok` and `no`, in any order, somewhere in a row. */
function buttons(rng: Rng, y: number): Widget[] {
  const [first, second] = rng.shuffle(["ok", "no"]) as [string, string];
  const x = rng.int(3);
  return [button(first, x, y), button(second, x + 4 + rng.int(WIDTH - 7 - x), y)];
}

/** A small window with only a title and a button that closes it. */
function dialog(rng: Rng): Window {
  const [width, height] = [7 + rng.int(3), 2 + rng.int(2)];
  const [x, y] = [rng.int(WIDTH - width + 1), rng.int(HEIGHT - height + 1)];
  return { x, y, width, height, widgets: [{ kind: "button", text: "x", does: "close", x: x + width - 1, y }] };
}

function eightButtons(rng: Rng, word: () => string): Draft {
  const labels = Array.from({ length: 8 }, () => word().slice(0, LABEL));
  const from = rng.int(2);
  const widgets = labels.map((label, i) => button(label, 6 * (i % 2), from + Math.floor(i / 2)));
  const label = rng.choice(labels);
  const says = `${rng.choice(["Press", "Click"])} ${label}`;
  return { says, windows: [full(widgets)], before: NOTHING, goal: { ...NOTHING, button: label } };
}

/** A screen with widgets in the upper rows and `ok` below; `entered` is the goal for when `ok` is pressed. */
const form = (rng: Rng, says: string, widgets: readonly Widget[], before: Entered, entered: Entered): Draft => ({
  says,
  windows: [full([...widgets, ...buttons(rng, HEIGHT - 1)])],
  before,
  goal: { ...entered, button: "ok" },
});

/** The generator of each family's screens. */
const DRAFTS: Readonly<Record<ScreenFamily["name"], (rng: Rng, word: () => string) => Draft>> = {
  press: eightButtons,
  type(rng, word) {
    const [name, other] = rng.shuffle([...NAMES]) as [string, string];
    const [value, rows] = [word(), rng.shuffle([0, 1, 2])];
    const widgets = [field(name, rows[0]!), field(other, rows[1]!)];
    const says = rng.choice([`Enter ${value} as ${name}`, `Set ${name} to ${value}`]);
    return form(rng, says, widgets, NOTHING, { ...NOTHING, fields: { [name]: value } });
  },
  tick(rng, word) {
    const labels = Array.from({ length: 4 }, () => word().slice(0, LABEL));
    const ticked = rng.shuffle([...labels]).slice(0, 1 + rng.int(2));
    const before = labels.filter(() => rng.int(3) === 0);
    const widgets = labels.map((text, y): Widget => ({ kind: "box", text, x: rng.int(6), y }));
    const says = `Tick only ${ticked.join(", ")}`;
    return form(rng, says, widgets, { ...NOTHING, ticked: before }, { ...NOTHING, ticked });
  },
  correct(rng, word) {
    const [name, other] = rng.shuffle([...NAMES]) as [string, string];
    const [wrong, right, kept, rows] = [word(), word(), word(), rng.shuffle([0, 1, 2])];
    const widgets = [field(name, rows[0]!), field(other, rows[1]!)];
    const [before, after] = [wrong, right].map((value) => ({ ...NOTHING, fields: { [name]: value, [other]: kept } }));
    return form(rng, `Set ${name} to ${right}`, widgets, before!, after!);
  },
  pick(rng, word) {
    const items = Array.from({ length: 8 }, word);
    const picked = rng.choice(items);
    const list: Widget = { kind: "list", items, x: rng.int(6), y: rng.int(2) };
    return form(rng, `Pick ${picked}`, [list], NOTHING, { ...NOTHING, picked });
  },
  windows(rng, word) {
    const draft = eightButtons(rng, word);
    return { ...draft, windows: [...draft.windows, dialog(rng)] };
  },
  all(rng, word) {
    const [name, value, items] = [rng.choice(NAMES), word(), Array.from({ length: 6 }, word)];
    const picked = rng.choice(items);
    const widgets: Widget[] = [field(name, 0), { kind: "list", items, x: rng.int(6), y: 1 }];
    const entered = { ...NOTHING, fields: { [name]: value }, picked };
    const draft = form(rng, `Set ${name} to ${value}, ${picked}`, widgets, NOTHING, entered);
    return { ...draft, windows: [...draft.windows, dialog(rng)] };
  },
};

function makeTask(rng: Rng, { name }: ScreenFamily, { split }: { readonly split: Split }): ScreenTask {
  return drawUntil("screen", () => {
    const { says, ...draft } = DRAFTS[name](rng, nameMaker(rng, split));
    const text = [says, ...draw(draft, startOf(draft))].join("\n");
    if (isHeldOut(text) !== (split === "heldout")) return undefined;
    // Two words may begin with the same four letters.
    const labels = draft.windows[0]!.widgets.flatMap((widget) => ("text" in widget ? [widget.text] : []));
    return new Set(labels).size < labels.length ? undefined : { ...draft, text };
  });
}

type Coordinates = ScreenEpisode["options"]["coordinates"];

const clickAt = (x: number, y: number, coordinates: Coordinates): string =>
  coordinates === "bins" ? `click ${binOfCell(x, WIDTH)} ${binOfCell(y, HEIGHT)}` : `click ${x} ${y}`;

/**
 * The expert: closes windows on top, fills, ticks, scrolls and picks, and presses the button.
 * @param isCareless takes any filled field, and any picked item, for right
 */
function move({ task: { windows, goal }, state, options }: ScreenEpisode, isCareless: boolean): string {
  const { widgets } = windows[state.open.at(-1)!]!;
  const closes = widgets.find((widget) => widget.kind === "button" && widget.does === "close");
  const on = (x: number, y: number): string => clickAt(x, y, options.coordinates);
  if (closes) return on(closes.x, closes.y);
  for (const widget of widgets) {
    const { x, y, kind } = widget;
    const middle = x + (widthOf(widget) >> 1);
    if (kind === "field") {
      const [has, wants] = [state.fields[widget.text] ?? "", goal.fields[widget.text] ?? ""];
      if (has === wants || (isCareless && has !== "" && wants.startsWith(has[0]!))) continue;
      if (state.focus !== widget.text) return on(middle, y);
      return has === "" ? `type ${wants}` : "key delete";
    }
    if (kind === "box" && state.ticked.includes(widget.text) !== goal.ticked.includes(widget.text))
      return on(middle, y);
    if (kind === "list" && state.picked !== goal.picked && !(isCareless && state.picked !== "")) {
      const row = widget.items.indexOf(goal.picked) - state.above;
      if (row >= 0 && row < LIST_ROWS) return on(middle, y + row);
      return row < 0 ? "scroll up" : "scroll down";
    }
  }
  const press = widgets.find((widget) => widget.kind === "button" && widget.text === goal.button)!;
  return on(press.x + (widthOf(press) >> 1), press.y);
}

const expert = (episode: ScreenEpisode): string => move(episode, false);

/** A random action: a click anywhere, a word of the task, or a key. */
function random(rng: Rng, task = "", { coordinates }: { readonly coordinates: Coordinates }): string {
  const [asks = ""] = task.split("\n", 1);
  const words = asks.match(/\b[a-z]{6}\b/g) ?? [nameMaker(rng)()];
  const click = (): string => clickAt(rng.int(WIDTH), rng.int(HEIGHT), coordinates);
  const key = (): string => rng.choice(["scroll down", "key delete", "key tab"]);
  return rng.choice<() => string>([click, click, () => `type ${rng.choice(words)}`, key])();
}

/** The novice: a third of its actions are a row off or with a wrong word, and it does not check what it has entered. */
function novice(episode: ScreenEpisode, rng: Rng): NoviceMove {
  const action = move(episode, true);
  const [isRight, by, word] = [rng.int(3) > 0, rng.choice([-1, 1]), nameMaker(rng, episode.options.split)()];
  const [, x, y] = /^click (\d+) (\d+)$/.exec(action) ?? [];
  if (isRight || (x === undefined && !action.startsWith("type"))) return { action, isGuess: false };
  if (x === undefined) return { action: `type ${word}`, isGuess: true };
  const beside = episode.options.coordinates === "bins" ? by * (256 / HEIGHT) : by;
  return { action: `click ${x} ${Math.max(1, Math.round(Number(y) + beside))}`, isGuess: true };
}

/** The subgoals: each field, each box and the picked item that are as they should be. */
function subgoals({ task: { goal }, state }: ScreenEpisode): string[] {
  const fields = Object.entries(goal.fields).filter(([name, wants]) => state.fields[name] === wants);
  const boxes = goal.ticked.filter((text) => state.ticked.includes(text));
  const isPicked = goal.picked !== "" && state.picked === goal.picked;
  return [
    ...fields.map(([name]) => `field ${name}`),
    ...boxes.map((text) => `box ${text}`),
    ...(isPicked ? ["item"] : []),
  ];
}

export const rules: GameRules<typeof SCREEN, ScreenFamily, ScreenTask, ScreenState> = {
  makeTask,
  start: startOf,
  play,
  expert,
  random,
  novice,
  subgoals,
};
