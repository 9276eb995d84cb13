/**
 * `household`: a text adventure after ALFWorld. The agent types `go PLACE`, `open PLACE`, `close PLACE`, `take THING`,
 * `put THING`, `heat THING`, `cool THING`, `wash THING`, `use lamp`, `look` and `hand`, until the goal holds. Read it
 * in this order: house.ts (houses and actions), tasks.ts (the goals), rules.ts (the episode and the expert).
 * docs/worlds.md shows episodes, and says what is not modelled.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, HOUSEHOLD, type HouseholdOptions } from "./episode.ts";

export type { HouseholdOptions } from "./episode.ts";

/**
 * A text adventure after ALFWorld (Shridhar et al. 2021, arXiv 2010.03768): find things in rooms and closed places,
 * heat, cool or wash them, and put them where they belong. An episode ends with reward 1 as soon as the goal holds.
 */
export const household: EnvironmentSpec<HouseholdOptions> = defineGame(
  {
    name: "household",
    description: "find things in a house, heat, cool or wash them, and put them where they belong",
    source: "after ALFWorld, arXiv 2010.03768",
    families: FAMILIES,
    options: HOUSEHOLD,
    expert: true,
    achieved: true,
  },
  () => import("./rules.ts"),
);
