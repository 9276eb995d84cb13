/**
 * `screen`: a small text-mode screen of 12 × 5 cells with windows, buttons, fields, boxes and a list that scrolls, in the
 * setting of agents that use a computer. The agent says `click X Y` (cells from 0, at the upper left), `type TEXT`,
 * `scroll up`, `scroll down`, `key delete` and `key tab`, and sees the rows that have changed, each after its number
 * (`answer=screen`: the whole screen). A dot is an empty cell, `=` a window on top of another, and `<` and `>` around a
 * field say that it has the keyboard. An episode ends when a button in brackets is pressed, and what is judged is which,
 * and what was entered. Read it in this order: episode.ts (what a screen is), tasks.ts (which are drawn), play.ts (what
 * is answered), bins.ts, this file.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * press (level 1): one of eight buttons
 *     Press tame
 *     0[tame][boto]
 *     1[beki][ruru]
 *     2[doru][tufa]
 *     3[bife][mule]
 *     4............
 *     $ click 3 0
 *
 * type (level 1): one of two fields, and the button
 *     Set role to rekeru
 *     0city[......]
 *     1............
 *     2role[......]
 *     3............
 *     4[no].[ok]...
 *     $ click 6 2
 *     2role<......>
 *     $ type rekeru
 *     2role<rekeru>
 *     $ click 7 4
 *
 * tick (level 2): boxes, of which some are to be ticked
 *     Tick only lemu, tare
 *     0...[x]tare..
 *     1...[x]rubi..
 *     2[.]turi.....
 *     3..[x]lemu...
 *     4.[ok]..[no].
 *     $ click 6 1
 *     1...[.]rubi..
 *     $ click 3 4
 *
 * correct (level 2): a field that holds another word
 *     Change baraka to meduru
 *     0team[baraka]
 *     1plan[tufabo]
 *     2............
 *     3............
 *     4..[ok][no]..
 *     $ click 6 0
 *     0team<baraka>
 *     $ key delete
 *     0team<......>
 *     $ type meduru
 *     0team<meduru>
 *     $ click 4 4
 *
 * pick (level 3): an item of a list that shows three at a time
 *     Pick rubiri
 *     0..-tareke...
 *     1..-rubiri...
 *     2..-turiko...
 *     3............
 *     4.[ok].[no]..
 *     $ click 5 1
 *     1..>rubiri...
 *     $ click 3 4
 *
 * windows (level 3): a button that may be under another window
 *     Press tare
 *     0............
 *     1[tare][rubi]
 *     2[========xu]
 *     3[=========u]
 *     4[lelo][tula]
 *     $ click 9 2
 *     2[turi][lemu]
 *     3[toka][kumu]
 *     $ click 3 1
 *
 * all (level 4): a field and a list, under another window
 *     Set plan to rekeru, lolema
 *     0plan[......]
 *     1....-biritu.
 *     2....-mudito.
 *     3========xku.
 *     4=========o].
 *     $ click 8 3
 *     3....-kalaku.
 *     4.[ok]..[no].
 *     $ click 6 0
 *     0plan<......>
 *     $ type rekeru
 *     0plan<rekeru>
 *     $ scroll down
 *     1....-mudole.
 *     2....-lolema.
 *     3....-baraka.
 *     $ click 7 2
 *     0plan[rekeru]
 *     2....>lolema.
 *     $ click 3 4
 *
 * With `coordinates=bins` a coordinate is one of 256 bins over the screen, as OpenVLA has its actions (bins.ts): the
 * click of `press` is then `click 75 26`. What a list holds is only seen by scrolling, and what is under a window by
 * closing it; all else follows from what has been shown. Not modelled: pixels, drags, windows that are moved, a pointer.
 */
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentSpec, NoviceMove } from "../environment.ts";
import { defineGame } from "../game.ts";
import { nameMaker } from "../words.ts";
import { binOfCell } from "./bins.ts";
import {
  FAMILIES,
  HEIGHT,
  LIST_ROWS,
  SCREEN,
  type ScreenEpisode,
  type ScreenFamily,
  type ScreenOptions,
  type ScreenState,
  type ScreenTask,
  startOf,
  widthOf,
  WIDTH,
} from "./episode.ts";

export type { ScreenOptions } from "./episode.ts";

type Coordinates = ScreenEpisode["options"]["coordinates"];

const clickAt = (x: number, y: number, coordinates: Coordinates): string =>
  coordinates === "bins" ? `click ${binOfCell(x, WIDTH)} ${binOfCell(y, HEIGHT)}` : `click ${x} ${y}`;

/**
 * Closes what is on top, fills, ticks, scrolls and picks, and presses the button.
 * @param isCareless takes a field that holds something, and a list from which something was picked, for right
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

/** A click anywhere, a word of the task, a key. */
function random(rng: Rng, task = "", { coordinates }: { readonly coordinates: Coordinates }): string {
  const [asks = ""] = task.split("\n", 1);
  const words = asks.match(/\b[a-z]{6}\b/g) ?? [nameMaker(rng)()];
  const click = (): string => clickAt(rng.int(WIDTH), rng.int(HEIGHT), coordinates);
  const key = (): string => rng.choice(["scroll down", "key delete", "key tab"]);
  return rng.choice<() => string>([click, click, () => `type ${rng.choice(words)}`, key])();
}

/** Does a third of what it does a row beside it, or with another word, and does not look at what it has entered. */
function novice(episode: ScreenEpisode, rng: Rng): NoviceMove {
  const action = move(episode, true);
  const [isRight, by, word] = [rng.int(3) > 0, rng.choice([-1, 1]), nameMaker(rng, episode.options.split)()];
  const [, x, y] = /^click (\d+) (\d+)$/.exec(action) ?? [];
  if (isRight || (x === undefined && !action.startsWith("type"))) return { action, isGuess: false };
  if (x === undefined) return { action: `type ${word}`, isGuess: true };
  const beside = episode.options.coordinates === "bins" ? by * (256 / HEIGHT) : by;
  return { action: `click ${x} ${Math.max(1, Math.round(Number(y) + beside))}`, isGuess: true };
}

/**
 * A small screen of cells with windows, after agents that use a computer: `click X Y`, `type TEXT`, `scroll`, `key`.
 * The reward is 1 if the right button is pressed with everything entered as asked.
 */
export const screen: EnvironmentSpec<ScreenOptions> = defineGame<typeof SCREEN, ScreenFamily, ScreenTask, ScreenState>({
  name: "screen",
  description: "click, type and scroll on a small screen of cells until what was asked for is entered",
  source: "the setting of computer use; binned actions after OpenVLA, arXiv 2406.09246",
  families: FAMILIES,
  options: SCREEN,
  makeTask: async (...drawn) => (await import("./tasks.ts")).makeTask(...drawn),
  start: startOf,
  play: async (episode, action) => (await import("./play.ts")).play(episode, action),
  expert,
  random,
  novice,
});
