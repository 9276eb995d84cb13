/**
 * Formulas of a token's weight in a term: factors, divided by counts. Counts, and the expression of ActFocus, are the
 * library's own; a factor that is set by an option is the weight times the counts.
 */
import { constant, type Expr, named } from "../../kernels/expr.ts";
import { rolloutRows } from "../../rl/episode/stream.ts";
import { aggregationCounts, DENOMINATORS } from "../../rl/objective/aggregation.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import { ECHO, echoCounts } from "../../rl/objective/echo.ts";
import { type Objective, worldsOf } from "../../rl/objective/objective.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import { ACT_FOCUS, actionWeight, spread, uncertainActions } from "../../methods/tokenWeights.ts";
import { type Filled, filled } from "./formula.ts";
import type { TermFormula, TokenTerm } from "./step.ts";

/** The step whose weights are explained. */
export interface WeighedStep {
  readonly objective: Objective;
  /** Options of the method's parts, as they were given. */
  readonly options: Readonly<Record<string, object>>;
  readonly rows: readonly TokenRow[];
  readonly statistics: TokenStatistics;
  readonly formulas: Readonly<Record<string, TermFormula>>;
}

type Factors = (number: (symbol: string, value: number) => Expr) => readonly Expr[];
type Counts = readonly (readonly [symbol: string, value: number])[];

/** The product of the factors over that of the counts. */
const quotient = (factors: Factors, counts: Counts): Filled =>
  filled((number) => {
    const product = (all: readonly Expr[]): Expr => all.reduce((x, y) => x.mul(y), constant(1));
    return product(factors(number)).div(product(counts.map((count) => number(...count))));
  });
/** The weight of a token whose factor was set as an option. */
const shared = (symbol: string, weight: number, counts: Counts): Filled =>
  quotient(
    (number) => [
      number(
        symbol,
        counts.reduce((product, [, n]) => product * n, weight),
      ),
    ],
    counts,
  );

/** Explains the weights of a step; a weight without a common form is not explained. */
export function weightFormulas(step: WeighedStep): (term: TokenTerm, row: number, t: number) => Filled | undefined {
  const { objective, options, rows, statistics, formulas } = step;
  const { tokenWeights, importanceCorrection, aggregation, maxLength } = objective;
  const trajectories = rows.map(({ trajectory }) => trajectory);
  const advantages = rows.map((row) => row.advantages);
  const importance = tokenWeights?.weights(trajectories, statistics);
  const corrections = importanceCorrection?.weights(trajectories, statistics, advantages);
  const sequences = rolloutRows(trajectories);
  const groups = sequences.map(([first]) => trajectories[first!]!.group);
  const masks = rows.map(({ mask }) => Array.from(mask, Boolean));
  const counted = { sequences, groups, ...(maxLength === undefined ? {} : { maxLength }) };
  const plain = aggregationCounts(masks, counted);
  const weighed = importance && tokenWeights!.normalized ? aggregationCounts(masks, { ...counted, importance }) : plain;
  const aggregated = (counts: typeof plain, row: number): Counts => {
    const own = counts[sequences.findIndex((list) => list.includes(row))]!;
    return DENOMINATORS[aggregation].map((name) => [name, own[name]]);
  };
  const focus = ACT_FOCUS.read({ ...options["actfocus"] });
  const isFocused = tokenWeights?.name === "actfocus" && focus.beta > 0;
  const actions = isFocused ? uncertainActions(focus.uncertainty, trajectories, statistics) : [];
  const [mean, deviation] = spread(actions.map(({ E }) => E));
  const [world, other] = worldsOf(objective);
  const { tools, ...ofEcho } = { ...options["echo"] } as { readonly tools?: string };
  const echo = ECHO.read({ ...ofEcho, lambda: 1 });
  const echoed = world?.name === "echo" && other === undefined ? echoCounts(trajectories, echo) : [];

  return ({ name, weight }, row, t) => {
    if (name === "policy") {
      const action = actions.find((place) => place.row === row && place.t === t);
      const factors: Factors = (number) => {
        const of = (E: number): Expr =>
          actionWeight(number("E", E), number("μ", mean), number("σ_E", deviation), number("β", focus.beta));
        const u = importance && (action ? named("u", of(action.E)) : number("u", importance[row]![t]!));
        return [...(u ? [u] : []), ...(corrections ? [number("c", corrections[row]![t]!)] : [])];
      };
      return quotient(factors, aggregated(weighed, row));
    }
    if (name === "kl" || name === "entropy") return shared(COEFFICIENTS[name]!, weight, aggregated(plain, row));
    const counts = name === "world" ? echoed.find((rollout) => rollout.rows.includes(row))?.counts : undefined;
    if (counts) {
      const last = echo.normalization === "full-observation" ? "|O|" : "|O_trained|";
      return shared(
        tools === undefined ? "λ" : "λ·w",
        weight,
        counts.map((n, k) => [k === counts.length - 1 ? last : "S", n]),
      );
    }
    const { even } = formulas[name]!;
    return name === "world" || even === undefined
      ? undefined
      : shared(COEFFICIENTS[name] ?? "κ", weight, [["n", even]]);
  };
}

/** The symbols of the coefficients that options set. */
const COEFFICIENTS: Readonly<Record<string, string>> = {
  kl: "β",
  entropy: "c_H",
  imitation: "μ",
  value: "c_V",
  return_prediction: "c_R",
};
