/**
 * Tasks of `screen`: drawing screens. Words are generated words of the split; labels are their first four letters. A
 * task is also held out by a hash of its text and its screen.
 */
import type { Rng } from "../../engine/index.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { nameMaker } from "../words.ts";
import {
  type Entered,
  HEIGHT,
  type ScreenFamily,
  type ScreenTask,
  startOf,
  type Widget,
  WIDTH,
  type Window,
} from "./episode.ts";
import { draw } from "./play.ts";

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

/** Widgets in the upper rows, `ok` below, and what is entered when it is pressed. */
const form = (rng: Rng, says: string, widgets: readonly Widget[], before: Entered, entered: Entered): Draft => ({
  says,
  windows: [full([...widgets, ...buttons(rng, HEIGHT - 1)])],
  before,
  goal: { ...entered, button: "ok" },
});

/** How each family draws its screens. */
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
    return form(rng, `Change ${wrong} to ${right}`, widgets, before!, after!);
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

export function makeTask(rng: Rng, { name }: ScreenFamily, { split }: { readonly split: Split }): ScreenTask {
  return drawUntil("screen", () => {
    const { says, ...draft } = DRAFTS[name](rng, nameMaker(rng, split));
    const text = [says, ...draw(draft, startOf(draft))].join("\n");
    if (isHeldOut(text) !== (split === "heldout")) return undefined;
    // Four letters may be those of two words.
    const labels = draft.windows[0]!.widgets.flatMap((widget) => ("text" in widget ? [widget.text] : []));
    return new Set(labels).size < labels.length ? undefined : { ...draft, text };
  });
}
