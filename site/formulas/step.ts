/**
 * The terms of a step's loss, token by token: what each adds to the loss, and the gradient that it sends back. Summed
 * over all tokens they are the loss that the step reported. Formula, value and gradient are the library's own, of the
 * terms of rl/train/loss.ts.
 */
import { constant, differentiate, evaluator } from "../../kernels/expr.ts";
import { mul, scope, sum, tensor, type Tensor, valueAndGrad } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import { isAgentToken } from "../../rl/episode/stream.ts";
import { type ColumnName, COLUMN_NAMES, type TokenRow } from "../../rl/objective/columns.ts";
import { type LossParts, termsOf } from "../../rl/train/loss.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { type Formula, formulaOf, type Numbers, numbersOf } from "./formula.ts";
import { Tracer } from "./trace.ts";

type Term = ReturnType<typeof termsOf>[number];
type Tokens = Parameters<Term["tokenLoss"]>[0];

/** The variables of a term's gradient: the token's log-probability, the entropy where it was drawn, a head's output. */
const MOVED = ["log p", "H", "v"] as const;

/** A term of the loss at a token; `value` is the loss of the token before its weight. */
export interface TokenTerm extends Numbers {
  readonly name: string;
  readonly weight: number;
  /** ∂ℓ/∂x and ∂L/∂x, where x is what the term moves; in the first, sums over the sequence are constants. */
  readonly slope: number;
  readonly gradient: number;
}

/** The formula of a term, and the variable of its gradient. */
export interface TermFormula {
  readonly formula: Formula;
  readonly moves: (typeof MOVED)[number];
  /** Number of its tokens in the step, if all have the same weight. */
  readonly even?: number;
}

export interface StepTerms {
  readonly formulas: Readonly<Record<string, TermFormula>>;
  /** By row and position. */
  readonly tokens: readonly (readonly TokenTerm[])[][];
}

interface Place {
  readonly row: number;
  readonly t: number;
}

/** The old log-probability in a token's ratio. With exact ratios it is the trained policy's own (rl/train/score.ts). */
export const oldLogProb = ({ rows, scores, ratios }: StepReport, { row, t }: Place): number =>
  (ratios === "exact" || ratios === undefined ? scores.logProbs[row]! : rows[row]!.oldLogProbs)[t]!;

export async function stepTerms(report: StepReport, objective: LossParts): Promise<StepTerms> {
  const tokens = report.rows.map(({ trajectory }) => trajectory.stream.ids.map((): TokenTerm[] => []));
  const formulas: Record<string, TermFormula> = {};
  for (const term of termsOf(objective)) {
    // Imitated tokens have their weights in the world model's column.
    for (const name of term.name === "world" ? ["world", "imitation"] : [term.name]) {
      const sequences = sequencesOf(report, term, name);
      if (sequences.length === 0) continue;
      const tracer = await Tracer.begin();
      formulas[name] = scope(() => addTerm(tracer, report, term, name, sequences, tokens));
      tracer.device.dispose();
    }
  }
  return { formulas, tokens };
}

/** The tokens that a term concerns, sequence by sequence. */
function sequencesOf({ rows, scores }: StepReport, term: Term, name: string): Place[][] {
  const sequences = new Map<number | string, Place[]>();
  for (const [i, row] of rows.entries()) {
    const key = row.segment ?? `row ${i}`;
    const places = row.trajectory.stream.ids.flatMap((_, t): Place[] =>
      t > 0 && concerns(term, name, row, t) && !Number.isNaN(scores.logProbs[i]![t]!) ? [{ row: i, t }] : [],
    );
    sequences.set(key, [...(sequences.get(key) ?? []), ...places]);
  }
  return [...sequences.values()].filter((places) => places.length > 0);
}

/** Whether a term concerns a token. The policy's concerns the whole mask: a sequence's ratio is over all its tokens. */
function concerns(term: Term, name: string, row: TokenRow, t: number): boolean {
  if (name === "policy") return row.mask[t] !== 0;
  if ((term.weight(row)?.[t] ?? 0) === 0) return false;
  const isOwn = isAgentToken(row.trajectory.stream.roles[t]!);
  return name === "world" ? !isOwn : name === "imitation" ? isOwn : true;
}

/** The printed symbols of columns. */
const SYMBOLS: Partial<Record<ColumnName, string>> = {
  oldLogProbs: "log p_old",
  refLogProbs: "log p_ref",
  advantages: "A",
  prepared: "M",
  returns: "R",
  oldValues: "v_old",
};

function addTerm(
  tracer: Tracer,
  report: StepReport,
  term: Term,
  name: string,
  sequences: readonly (readonly Place[])[],
  into: readonly TokenTerm[][][],
): TermFormula {
  const { rows, scores } = report;
  const places = sequences.flat();
  const { device } = tracer;
  const read = (of: (row: TokenRow, at: Place) => number): number[] => places.map((at) => of(rows[at.row]!, at));
  const column = (symbol: string, of: (row: TokenRow, at: Place) => number): Tensor => tracer.column(symbol, read(of));
  const weights = read((row, { t }) => term.weight(row)![t]!);
  const predicted = name === "value" ? rows.map((row) => row.oldValues) : scores.predictions?.[name];
  const of = [scores.logProbs, scores.entropy, predicted];
  const moved = MOVED.map((symbol, k) => column(symbol, (_, { row, t }) => of[k]?.[row]![t] ?? NaN));
  const numberOf = (which: ColumnName, row: TokenRow, at: Place): number =>
    which === "oldLogProbs" ? oldLogProb(report, at) : row[which][at.t]!;
  const columns = COLUMN_NAMES.map((which): [string, Tensor] => [
    which,
    column(SYMBOLS[which] ?? which, (row, at) => numberOf(which, row, at)),
  ]);
  // A term is traced over the tokens that it concerns.
  const ones = tracer.ones(places.length);
  const ids = Int32Array.from(sequences.flatMap((list, i) => list.map(() => i)));
  const tokens = {
    ...Object.fromEntries(columns),
    mask: ones,
    weighted: ones,
    segments: { ids: tensor(ids, { device }), count: sequences.length },
    column: (own: string): Tensor => column(own, ({ more }, { t }) => more[`${name}.${own}`]![t]!),
  };
  const { grads, aux } = valueAndGrad((leaves: Tensor[]) => {
    leaves.forEach((leaf, k) => tracer.is(leaf, tracer.of(moved[k]!)!));
    const [logProbs, entropy, predictions] = leaves;
    const loss = term.tokenLoss({ ...tokens, logProbs, entropy, predictions } as unknown as Tokens);
    return [sum(mul(loss, tensor(weights, { device, dtype: device.float }))), loss];
  })(moved);

  const result = tracer.of(aux);
  check(result !== undefined, () => `the term "${name}" is computed by an op that has no formula`);
  const formula = formulaOf(result, tracer.inputs);
  const slopes = differentiate([result], [constant(1)], [0, 1, 2]);
  const isMoved = MOVED.map((_, k) => slopes[k]!.op !== "const" || slopes[k]!.value !== 0);
  const by = Math.max(0, isMoved.indexOf(true));
  const [evaluate, slopeOf] = [numbersOf(formula), evaluator([slopes[by]!])];
  const gradients = grads[by]!.readSync();
  places.forEach(({ row, t }, i) => {
    const numbers = evaluate(tracer.values.map((values) => values[values.length === 1 ? 0 : i]!));
    const slope: number[] = [];
    slopeOf(numbers.inputs, slope);
    into[row]![t]!.push({ ...numbers, name, weight: weights[i]!, slope: slope[0]!, gradient: gradients[i]! });
  });
  const isEven = weights.every((weight) => weight === weights[0]);
  return { formula, moves: MOVED[by]!, ...(isEven ? { even: weights.length } : {}) };
}
