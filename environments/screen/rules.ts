/** The rules and the scripted players of `screen`. */
import type { Rng } from "../../engine/index.ts";
import type { NoviceMove } from "../../rl/environment.ts";
import type { GameRules } from "../game.ts";
import { nameMaker } from "../words.ts";
import { binOfCell } from "./bins.ts";
import {
  HEIGHT,
  LIST_ROWS,
  type SCREEN,
  type ScreenEpisode,
  type ScreenFamily,
  type ScreenState,
  type ScreenTask,
  startOf,
  widthOf,
  WIDTH,
} from "./episode.ts";
import { play } from "./play.ts";
import { makeTask } from "./tasks.ts";

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

/** What is entered as it should be: each field, each box, and the item that is picked. */
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
