/**
 * How the weight of a token in a term came about, as a formula: the denominators of the step
 * (rl/objective/aggregation.ts), ActFocus (methods/tokenWeights.ts), λ of the world model (rl/objective/echo.ts).
 * A test compares each with the column that the loss was told. PaW's weight is shown as a number: it depends on which
 * transitions were selected.
 */
import { expr, type Expr } from "../../kernels/expr.ts";
import { isAgentToken, rolloutRows, type Trajectory } from "../../rl/episode/stream.ts";
import type { Aggregation } from "../../rl/objective/aggregation.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import { type Objective, worldsOf } from "../../rl/objective/objective.ts";
import { ACT_FOCUS } from "../../methods/tokenWeights.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import { ECHO, type EchoNormalization, observations } from "../../rl/objective/echo.ts";
import { type Draft, Formula } from "./language.ts";
import { type TermName, TERMS } from "./terms.ts";

/** What the denominators of a step count. Tokens count as their token weight says, if that is normalised. */
interface Counts {
  /** All trained tokens. */
  readonly N: number;
  /** Sequences with a trained token. */
  readonly S: number;
  /** Tokens of the token's own sequence. */
  readonly own: number;
  /** Tasks with a trained token, and tokens of the token's own task. */
  readonly tasks: number;
  readonly ofTask: number;
  readonly maxLength: number;
}

/** ActFocus at a token: α on a thought, 1 + β·σ((E − μ)/σ_E) on an action. */
type Focus =
  | { readonly alpha: number }
  | { readonly beta: number; readonly E: number; readonly mean: number; readonly deviation: number };

/** A weight as plain data. */
export type WeightForm =
  | {
      readonly kind: "aggregated";
      readonly aggregation: Aggregation;
      readonly counts: Counts;
      /** β of the KL penalty, the coefficient of the entropy bonus. */
      readonly factor?: readonly [symbol: string, value: number];
      /** The token's own weight, and what it is made of, if it is ActFocus's. */
      readonly token?: { readonly value: number; readonly focus?: Focus };
      /** An importance correction. */
      readonly correction?: number;
    }
  | {
      readonly kind: "echo";
      readonly normalization: EchoNormalization;
      readonly lambda: number;
      readonly episodes: number;
      readonly tokens: number;
    }
  | { readonly kind: "mean"; readonly symbol: string; readonly value: number; readonly count: number };

/** The weight of a token in a term. */
export interface WeightNote {
  readonly name: TermName;
  readonly form: WeightForm;
}

/** The share of a token in the number that the losses of all tokens become. */
const AGGREGATED: Readonly<Record<Aggregation, (f: Draft, counts: Counts) => Expr>> = {
  "token-mean": (f, { N }) => expr(1).div(f.option("N", N)),
  "token-sum": () => expr(1),
  "seq-mean-token-sum": (f, { S }) => expr(1).div(f.option("S", S)),
  "seq-mean-token-sum-norm": (f, { S, maxLength }) => expr(1).div(f.option("S", S).mul(f.option("L_max", maxLength))),
  "seq-mean-token-mean": (f, { S, own }) => expr(1).div(f.option("S", S).mul(f.option("N_sequence", own))),
  "prompt-mean-token-mean": (f, { tasks, ofTask }) => expr(1).div(f.option("G", tasks).mul(f.option("N_task", ofTask))),
};

/** What the symbols of the weights mean. */
export const WEIGHT_SYMBOLS: Readonly<Record<string, string>> = {
  N: "trained tokens of the step",
  S: "episodes with a trained token",
  L_max: "the longest completion",
  N_sequence: "trained tokens of this episode",
  G: "tasks with a trained token",
  N_task: "trained tokens of this task",
  u: "the token's own weight",
  c: "importance correction",
  E: "the reference's uncertainty at this token",
  λ: "weight of the world model",
  "|O|": "observation tokens of this episode",
  "|O_trained|": "observation tokens that are trained",
};

export function weightFormula(form: WeightForm): Formula {
  return new Formula((f) => {
    if (form.kind === "mean") return f.option(form.symbol, form.value).div(f.option("n", form.count));
    if (form.kind === "echo") {
      const { normalization, lambda, episodes, tokens } = form;
      const count = f.option(normalization === "full-observation" ? "|O|" : "|O_trained|", tokens);
      const denominator = normalization === "token-mean" ? count : f.option("S", episodes).mul(count);
      return f.option("λ", lambda).div(denominator);
    }
    const share = AGGREGATED[form.aggregation](f, form.counts);
    const factors = [
      ...(form.factor ? [f.option(...form.factor)] : []),
      ...(form.token ? [tokenWeight(f, form.token)] : []),
      ...(form.correction === undefined ? [] : [f.option("c", form.correction)]),
    ];
    return factors.reduceRight((product, factor) => factor.mul(product), share);
  });
}

function tokenWeight(f: Draft, { value, focus }: { readonly value: number; readonly focus?: Focus }): Expr {
  if (focus === undefined) return f.option("u", value);
  if ("alpha" in focus) return f.part("u", f.option("α", focus.alpha));
  const { beta, E, mean, deviation } = focus;
  const unsure = f.option("E", E).sub(f.option("μ", mean)).div(f.option("σ_E", deviation));
  return f.part("u", expr(1).add(f.option("β", beta).mul(unsure.sigmoid())));
}

/** The step that weights are explained of. */
export interface WeighedStep {
  readonly objective: Objective;
  /** Options of the method's parts, as they were given. */
  readonly options: Readonly<Record<string, object>>;
  readonly rows: readonly TokenRow[];
  readonly statistics: TokenStatistics;
}

/** Makes the forms of a step's weights: `at(term, row, t)`, undefined where a weight is shown as a number. */
export function weightForms(step: WeighedStep): (name: TermName, row: number, t: number) => WeightForm | undefined {
  const { objective, rows, statistics } = step;
  const { tokenWeights, importanceCorrection, aggregation, maxLength = NaN } = objective;
  const trajectories = rows.map(({ trajectory }) => trajectory);
  const own = tokenWeights?.weights(trajectories, statistics);
  const advantages = rows.map((row) => row.advantages);
  const correction = importanceCorrection?.weights(trajectories, statistics, advantages);
  const focusAt = tokenWeights?.name === "actfocus" ? actFocusAt(step, trajectories) : undefined;
  const plain = countsOf(rows, trajectories, maxLength);
  const weighed = own && tokenWeights!.normalized ? countsOf(rows, trajectories, maxLength, own) : plain;
  const echoAt = echoWeights(step, trajectories);
  const targets = (of: (row: TokenRow, t: number) => boolean): number =>
    rows.reduce((n, row) => n + row.trajectory.stream.ids.filter((_, t) => of(row, t)).length, 0);
  const isImitated = ({ trajectory: { stream }, wWorld }: TokenRow, t: number): boolean =>
    wWorld[t] !== 0 && isAgentToken(stream.roles[t]!);

  return (name, row, t) => {
    const weight = TERMS[name].weightAt(rows[row]!, t);
    const aggregated = (counts: Counts): Extract<WeightForm, { kind: "aggregated" }> => ({
      kind: "aggregated",
      aggregation,
      counts,
    });
    switch (name) {
      case "policy": {
        const focus = focusAt?.(row, t);
        return {
          ...aggregated(weighed(row)),
          ...(own ? { token: { value: own[row]![t]!, ...(focus ? { focus } : {}) } } : {}),
          ...(correction ? { correction: correction[row]![t]! } : {}),
        };
      }
      case "kl":
      case "entropy": {
        const bare = aggregated(plain(row));
        const factor = weight / weightFormula(bare).at(NO_TOKEN).value;
        return { ...bare, factor: [name === "kl" ? "β" : "c_H", factor] };
      }
      case "world":
        return echoAt?.(row, weight);
      case "imitation": {
        const count = targets(isImitated);
        return { kind: "mean", symbol: "μ", value: weight * count, count };
      }
      case "value": {
        const count = targets(({ wValue }, t) => wValue[t] !== 0);
        return { kind: "mean", symbol: "c_V", value: weight * count, count };
      }
      case "return_prediction": {
        const count = targets(({ weights }, t) => (weights[name]?.[t] ?? 0) !== 0);
        return { kind: "mean", symbol: "c_R", value: weight * count, count };
      }
      case "paw":
        return undefined;
    }
  };
}

/** A weight reads no number of the token itself. */
const NO_TOKEN = { lp: 0, old: 0, ref: 0, A: 0, chosen: 0, H: 0, value: 0, oldValue: 0, target: 0, sideLength: 1 };

/** @param importance how much each token counts; default 1 */
function countsOf(
  rows: readonly TokenRow[],
  trajectories: readonly Trajectory[],
  maxLength: number,
  importance?: readonly Float64Array[],
): (row: number) => Counts {
  const ofRow = rows.map(({ mask }, i) =>
    mask.reduce((sum, m, t) => sum + (m === 0 ? 0 : (importance?.[i]![t] ?? 1)), 0),
  );
  const sum = (list: readonly number[]): number => list.reduce((total, row) => total + ofRow[row]!, 0);
  const isTrained = (list: readonly number[]): boolean => list.some((row) => rows[row]!.mask.some((m) => m !== 0));
  const sequences = rolloutRows(trajectories);
  const groupOf = (row: number): number => trajectories[row]!.group;
  const trained = sequences.filter(isTrained);
  const tasks = new Set(trained.map(([row]) => groupOf(row!))).size;
  const N = sum(rows.map((_, i) => i));
  return (row) => ({
    N,
    S: trained.length,
    own: sum(sequences.find((list) => list.includes(row))!),
    tasks,
    ofTask: sum(rows.flatMap((_, i) => (groupOf(i) === groupOf(row) ? [i] : []))),
    maxLength,
  });
}

/** ActFocus's own numbers (arXiv 2605.14558): mean and variance are over all trained action tokens of the step. */
function actFocusAt(
  { rows, options, statistics }: WeighedStep,
  trajectories: readonly Trajectory[],
): (row: number, t: number) => Focus {
  const { alpha, beta, uncertainty } = ACT_FOCUS.read({ ...options["actfocus"] });
  const isAction = (row: number, t: number): boolean => trajectories[row]!.stream.roles[t] === "action";
  const uncertaintyAt = (row: number, t: number): number => {
    const of = (name: keyof TokenStatistics): number => statistics[name]![row]![t]!;
    if (uncertainty === "energy") return of("refEnergy");
    if (uncertainty === "entropy") return of("refEntropy");
    if (uncertainty === "nll") return of("refNll");
    const d = of("refLogProbs") - of("logProbs");
    return Math.expm1(d) - d;
  };
  if (beta === 0) return (row, t) => ({ alpha: isAction(row, t) ? 1 : alpha });
  const values = rows.flatMap(({ trajectory: { stream, masked } }, row) =>
    masked ? [] : stream.ids.flatMap((_, t) => (t > 0 && isAction(row, t) ? [uncertaintyAt(row, t)] : [])),
  );
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length;
  const deviation = Math.sqrt(variance + 1e-8);
  return (row, t) => (isAction(row, t) ? { beta, E: uncertaintyAt(row, t), mean, deviation } : { alpha });
}

/** ECHO's weight, if it is the only world model. */
function echoWeights(
  { objective, options, rows }: WeighedStep,
  trajectories: readonly Trajectory[],
): ((row: number, weight: number) => WeightForm) | undefined {
  const worlds = worldsOf(objective);
  if (worlds.length !== 1 || worlds[0]!.name !== "echo") return undefined;
  const { normalization } = ECHO.read({ ...options["echo"], lambda: 1 });
  const found = observations(trajectories);
  const all = (row: number): number => found[row]!.all;
  const selected = (row: number): number => found[row]!.targets.filter(Boolean).length;
  const sequences = rolloutRows(trajectories);
  const sum = (list: readonly number[], of: (row: number) => number): number => list.reduce((n, row) => n + of(row), 0);
  const episodes = sequences.filter((list) => sum(list, all) > 0).length;
  const total = sum([...rows.keys()], selected);
  return (row, weight) => {
    const own = sequences.find((list) => list.includes(row))!;
    const tokens = normalization === "token-mean" ? total : sum(own, normalization === "selected" ? selected : all);
    const lambda = weight * tokens * (normalization === "token-mean" ? 1 : episodes);
    return { kind: "echo", normalization, lambda, episodes, tokens };
  };
}
