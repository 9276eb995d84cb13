/**
 * `screen`: a small text-mode screen of 12 × 5 cells with windows, buttons, fields, boxes and a list that scrolls, in
 * the setting of agents that use a computer. The agent says `click X Y` (cells from 0, at the upper left), `type TEXT`,
 * `scroll up`, `scroll down`, `key delete` and `key tab`, and sees the rows that have changed, each after its number
 * (`answer=screen`: the whole screen). A dot is an empty cell, `=` a window on top of another, and `<` and `>` around a
 * field mean that it has the keyboard. An episode ends when a button in brackets is pressed; which one, and what was
 * entered, decides the reward. Read it in this order: episode.ts (screens), tasks.ts (drawing them), play.ts (answers),
 * bins.ts, rules.ts (scripted players).
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
 * With `coordinates=bins` a coordinate is one of 256 bins over the screen, as in OpenVLA's actions (bins.ts): the click
 * of `press` is then `click 75 26`. Only scrolling shows all items of a list, and only closing a window shows what is
 * under it; all else follows from what has been shown. Not modelled: pixels, drags, moved windows, a pointer.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, SCREEN, type ScreenOptions } from "./episode.ts";

export type { ScreenOptions } from "./episode.ts";

/**
 * A small screen of cells with windows, after agents that use a computer: `click X Y`, `type TEXT`, `scroll`, `key`.
 * The reward is 1 if the right button is pressed with everything entered as asked.
 */
export const screen: EnvironmentSpec<ScreenOptions> = defineGame(
  {
    name: "screen",
    description: "click, type and scroll on a small screen of cells until what was asked for is entered",
    source: "the setting of computer use; binned actions after OpenVLA, arXiv 2406.09246",
    families: FAMILIES,
    options: SCREEN,
    novice: true,
  },
  () => import("./rules.ts"),
);
