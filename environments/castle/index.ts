/**
 * `castle`: a place of unknown facts that stays the same for a whole run, in which an action changes where the agent
 * is. The agent says `go`, `send`, `open`, `seal`, `take`, `clean` and `done`. Read it in this order: facts.ts (what a
 * castle is), ../facts/hints.ts (what answers say of it), episode.ts (families, options, and what an episode knows),
 * rules.ts (what is asked, which pairs are held out, the actions, and who plays). docs/worlds.md shows episodes, and
 * says what is not modelled.
 */
import type { FactWorld } from "../facts/questions.ts";
import { defineGame } from "../game.ts";
import { settleOptions } from "../options.ts";
import { selectFamilies } from "../selection.ts";
import { CASTLE, type CastleOptions, FAMILIES } from "./episode.ts";

export type { CastleOptions } from "./episode.ts";

/**
 * A castle whose rules the agent does not know and that stays the same for a whole run: only its answers tell which
 * word leads where and which key opens what. An action changes where the agent is, so whoever predicts an answer
 * predicts a transition. Made for this project; the setting is ECHO's, arXiv 2605.24517.
 */
export const castle: FactWorld<CastleOptions> = {
  ...defineGame(
    {
      name: "castle",
      description:
        "a castle that the agent does not know: which word leads where, and which key opens what, its answers tell",
      source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
      families: FAMILIES,
      options: CASTLE,
      expert: true,
      novice: true,
    },
    () => import("./rules.ts"),
  ),
  facts: async (given = {}) => {
    const options = settleOptions("castle", CASTLE, given);
    const families = selectFamilies("castle", FAMILIES, options);
    return (await import("./questions.ts")).questionsAbout(options, families);
  },
};
