/**
 * `web`: small generated web pages as text, in the setting of WebGUM and MiniWoB. The agent says `click REF`, `type REF
 * "TEXT"`, `select REF OPTION`, `scroll down`, `scroll up` and `back`. An episode ends on a final page, and its end
 * state is judged. Read it in this order: episode.ts (pages), rules.ts (answers, tasks, scripted players).
 * docs/worlds.md shows episodes, and says what is not modelled.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, WEB, type WebOptions } from "./episode.ts";

export type { WebOptions } from "./episode.ts";

/**
 * Small generated web pages as text, after WebGUM (Furuta et al. 2023, arXiv 2305.11854) and MiniWoB: `click REF`,
 * `type REF "TEXT"`, `select REF OPTION`, `scroll`, `back`. The reward is 1 if the end state is what was asked for.
 */
export const web: EnvironmentSpec<WebOptions> = defineGame(
  {
    name: "web",
    description: "click, type and select on small web pages until what was asked for is sent",
    source: "after WebGUM, arXiv 2305.11854",
    families: FAMILIES,
    options: WEB,
    expert: true,
    novice: true,
    achieved: true,
  },
  () => import("./rules.ts"),
);
