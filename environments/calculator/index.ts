/**
 * `calculator`: word problems with numbers too large for mental arithmetic. The agent says `calc EXPR` and is told the
 * value, exactly; `answer N` ends the episode. Read it in this order: rational.ts and expression.ts (the calculator),
 * problems.ts (what is asked), rules.ts (the episode). docs/worlds.md shows episodes.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { CALCULATOR, FAMILIES } from "./episode.ts";

export type { CalculatorOptions } from "./episode.ts";

/**
 * Word problems whose numbers are too large for mental arithmetic, and an exact calculator, after GSM8K with its
 * calculator (arXiv 2110.14168): `calc EXPR` tells a value, `answer N` ends the episode with reward 1 or 0.
 */
export const calculator: EnvironmentSpec = defineGame(
  {
    name: "calculator",
    description: "solve word problems whose numbers are too large for mental arithmetic, with a calculator",
    source: "after GSM8K with its calculator, arXiv 2110.14168",
    families: FAMILIES,
    options: CALCULATOR,
    expert: true,
  },
  () => import("./rules.ts"),
);
