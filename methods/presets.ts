/** All methods by name, with all parts; choice.ts makes an objective from a name. */
import { ADVANTAGES } from "./advantages/index.ts";
import { AGGREGATION_FORMULAS, AGGREGATIONS } from "../rl/objective/aggregation.ts";
import { type MethodChoice, type MethodParts, METHODS, objectiveFrom } from "./choice.ts";
import { POLICY_LOSSES } from "./losses/index.ts";
import { mergeTables, type Table } from "../rl/objective/names.ts";
import type { Objective } from "../rl/objective/objective.ts";
import { ACT_FOCUS, actFocus, OUTCOME_CRITIC, outcomeCritic, TOP_ENTROPY, topEntropy } from "./tokenWeights.ts";
import { RETURN_PREDICTION_TERM } from "./returnPrediction.ts";
import type { LossTerm } from "../rl/objective/terms.ts";
import type { TokenWeighting } from "../rl/objective/weighting.ts";
import { ECHO_WORLD, type WorldObjective } from "../rl/objective/echo.ts";
import { PAW_WORLD } from "./paw.ts";

/** World models: losses on the environment's tokens, by name. */
export const WORLD: Table<WorldObjective> = mergeTables(ECHO_WORLD, PAW_WORLD);

/** Weights of the agent's tokens in the policy term, by name. */
export const TOKEN_WEIGHTS: Table<TokenWeighting> = {
  actfocus: {
    options: ACT_FOCUS,
    make: actFocus,
    formula: "α on thoughts, 1 + β·sigmoid((E − μ)/σ) on actions, E = −logsumexp of the reference's logits",
    source: "ActFocus, arXiv 2605.14558",
  },
  top_entropy: {
    options: TOP_ENTROPY,
    make: topEntropy,
    formula: "1 on the share of tokens of highest entropy, 0 below",
    source: "Beyond the 80/20 rule, arXiv 2506.01939",
  },
  outcome_critic: {
    options: OUTCOME_CRITIC,
    make: outcomeCritic,
    formula: "softmax(critic's logits at the token)[what became of the program]",
    source: "CodeRL, arXiv 2207.01780",
  },
};

/** Further terms of the loss. */
export const TERMS: Table<LossTerm> = RETURN_PREDICTION_TERM;

/** All parts. */
export const ALL_PARTS: MethodParts = {
  advantages: ADVANTAGES,
  losses: POLICY_LOSSES,
  worlds: WORLD,
  tokenWeights: TOKEN_WEIGHTS,
  terms: TERMS,
};

/** The objective that the names and numbers describe. @throws if the parts do not fit together */
export const objectiveOf = (given: MethodChoice): Objective => objectiveFrom(ALL_PARTS, given);

/** The text of `--list`: a line per method, add-on, loss, advantage and aggregation, with name, formula and source. */
export function listMethods(): string {
  const width = 24;
  const line = (name: string, text: string, source: string): string => `  ${name.padEnd(width)}${text} (${source})`;
  const table = (title: string, rows: readonly string[]): string => [title, ...rows].join("\n");
  const ofTable = (
    entries: Readonly<Record<string, { readonly formula: string; readonly source: string }>>,
  ): string[] => Object.entries(entries).map(([name, { formula, source }]) => line(name, formula, source));
  return [
    table(
      "Methods (--method; add-ons with +, as in dapo+echo+actfocus)",
      Object.entries(METHODS).map(([name, m]) => line(name, m.description, m.source)),
    ),
    table("World models (add-ons)", ofTable(WORLD)),
    table("Token weightings (add-ons)", ofTable(TOKEN_WEIGHTS)),
    table("Further terms (add-ons)", ofTable(TERMS)),
    table("Policy losses (--loss)", ofTable(POLICY_LOSSES)),
    table("Advantages (--advantage)", ofTable(ADVANTAGES)),
    table(
      "Aggregations (--aggregation)",
      AGGREGATIONS.map((name) => line(name, AGGREGATION_FORMULAS[name], "verl")),
    ),
  ].join("\n\n");
}
