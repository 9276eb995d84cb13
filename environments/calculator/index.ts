/**
 * `calculator`: word problems with numbers too large for mental arithmetic, and a calculator. The agent says `calc
 * EXPR` and is told the value, exactly, as an integer or a fraction; `answer N` ends the episode. From level 3 on
 * problems have several steps; in `gap` the next step depends on what the calculator said. Read it in this order:
 * rational.ts and expression.ts (the calculator), problems.ts (what is asked), this file (the episode).
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * gain (level 1): a sum
 *     Tom has 641095 cards and gets 37744 more. How many now?
 *     $ calc 641095+37744
 *     678839
 *     $ answer 678839
 *
 * loss (level 1): a difference
 *     Tom has 641095 cards and loses 37744. How many are left?
 *     $ calc 641095-37744
 *     603351
 *     $ answer 603351
 *
 * boxes (level 2): a product
 *     How many tiles are in 2402 boxes of 295?
 *     $ calc 2402*295
 *     708590
 *     $ answer 708590
 *
 * packs (level 2): a quotient, rounded down
 *     146402 tiles go into packs of 295. How many packs get full?
 *     $ calc 146402//295
 *     496
 *     $ answer 496
 *
 * rest (level 2): a remainder
 *     What remains of 146402 tiles in packs of 295?
 *     $ calc 146402%295
 *     82
 *     $ answer 82
 *
 * percent (level 3): a percentage of a product, often no whole number
 *     A field is 602 by 295. How large is 44 percent of it?
 *     $ calc 602*295
 *     177590
 *     $ calc 177590*44/100
 *     390698/5
 *     $ answer 390698/5
 *
 * share (level 3): a sum in equal parts, often no whole number
 *     12 people share 56402 and 11095 tiles. How many each?
 *     $ calc 56402+11095
 *     67497
 *     $ calc 67497/12
 *     22499/4
 *     $ answer 22499/4
 *
 * bill (level 3): the sum of two products
 *     602 shells at 295 and 844 books at 840: how much is that?
 *     $ calc 602*295
 *     177590
 *     $ calc 844*840
 *     708960
 *     $ calc 177590+708960
 *     886550
 *     $ answer 886550
 *
 * gap (level 4): the difference of two products, of which only the calculator tells the larger
 *     Tom has 415 bags of 264 nails, Eva 207 of 769. How many fewer has the poorer?
 *     $ calc 415*264
 *     109560
 *     $ calc 207*769
 *     159183
 *     $ calc 159183-109560
 *     49623
 *     $ answer 49623
 *
 * change (level 4): what remains of a sum after two products
 *     Mia pays 822 tiles at 231 and 323 beads at 842 out of 507653. What is left?
 *     $ calc 822*231
 *     189882
 *     $ calc 323*842
 *     271966
 *     $ calc 189882+271966
 *     461848
 *     $ calc 507653-461848
 *     45805
 *     $ answer 45805
 *
 * An answer must be a number, not an expression, and a fraction in lowest terms: what is left to be calculated is not
 * accepted as an answer, and costs a turn. The expert solves all problems, the random baseline none (0 of 1,000 in each
 * family).
 *
 * Held-out problems share no quantity of three or more digits with training problems (see problems.ts); the words are
 * the same.
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
  },
  () => import("./rules.ts"),
);
