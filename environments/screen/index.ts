/**
 * `screen`: a text-mode screen of 12 × 5 cells with windows, buttons, fields, boxes and a list, in the setting of
 * agents that use a computer. The agent says `click X Y`, `type TEXT`, `scroll up`, `scroll down`, `key delete` and
 * `key tab`, and sees the rows that have changed. Read it in this order: episode.ts (screens), bins.ts, rules.ts
 * (answers, tasks, scripted players). docs/worlds.md shows episodes, and says what is not modelled.
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
    expert: true,
    novice: true,
  },
  () => import("./rules.ts"),
);
