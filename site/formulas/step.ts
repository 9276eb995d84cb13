/**
 * The terms of a step's loss, token by token: what each adds to the loss, and the gradient that it sends back. Summed
 * over all tokens they are the loss that the step reported.
 */
import { isAgentToken } from "../../rl/episode/stream.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import type { StepReport } from "../../rl/train/report.ts";
import type { Formula, TokenNumbers } from "./language.ts";
import { type LossForm, TERM_NAMES, type TermName, TERMS } from "./terms.ts";

/** A term of the loss at a token. */
export interface TokenTerm {
  readonly name: TermName;
  readonly weight: number;
  /** The loss of the token, before its weight. */
  readonly value: number;
  /** ∂L/∂log p; of the entropy bonus ∂L/∂H, of the critic's loss and of return prediction ∂L/∂v. */
  readonly gradient: number;
  /** The formula's means and sums over the sequence. */
  readonly levels: readonly number[];
  /** What it reads in the place of the token's numbers. */
  readonly own: Partial<TokenNumbers>;
}

interface Place {
  readonly row: number;
  readonly t: number;
}

/** What a loss is told of a token: the numbers of the first pass over the step's episodes. */
export function tokenNumbers({ rows, scores, ratios }: StepReport, { row, t }: Place): TokenNumbers {
  const columns = rows[row]!;
  const lp = scores.logProbs[row]![t]!;
  return {
    lp,
    // With exact ratios the policy that played is the one that is trained (rl/train/score.ts).
    old: ratios === "exact" || ratios === undefined ? lp : columns.oldLogProbs[t]!,
    ref: columns.refLogProbs[t]!,
    A: columns.advantages[t]!,
    chosen: columns.prepared[t]!,
    H: scores.entropy[row]![t]!,
    value: columns.oldValues[t]!,
    oldValue: columns.oldValues[t]!,
    target: columns.returns[t]!,
    sideLength: 1,
  };
}

/** The terms of each token, by row and position. */
export function stepTerms(report: StepReport, form: LossForm): TokenTerm[][][] {
  const { rows } = report;
  const found = rows.map(({ trajectory }) => trajectory.stream.ids.map((): TokenTerm[] => []));
  for (const name of TERM_NAMES) {
    const formula = TERMS[name].formula(form);
    if (formula === undefined) continue;
    for (const places of sequencesOf(report, name)) addTerm(report, name, formula, places, found);
  }
  return found;
}

function addTerm(
  report: StepReport,
  name: TermName,
  formula: Formula,
  places: readonly Place[],
  into: readonly TokenTerm[][][],
): void {
  const weights = places.map(({ row, t }) => TERMS[name].weightAt(report.rows[row]!, t));
  const own = places.map(({ row, t }) => TERMS[name].own?.(report, row, t) ?? {});
  const { levels, tokens, gradients } = formula.over(
    places.map((place, i) => ({ ...tokenNumbers(report, place), ...own[i] })),
    weights,
  );
  places.forEach(({ row, t }, i) =>
    into[row]![t]!.push({
      name,
      weight: weights[i]!,
      value: tokens[i]!.value,
      gradient: gradients[i]!,
      levels,
      own: own[i]!,
    }),
  );
}

/** The tokens that a term concerns, sequence by sequence. */
function sequencesOf({ rows, scores }: StepReport, name: TermName): Place[][] {
  const sequences = new Map<number | string, Place[]>();
  for (const [i, row] of rows.entries()) {
    const key = row.segment ?? `row ${i}`;
    const places = row.trajectory.stream.ids.flatMap((_, t): Place[] =>
      t > 0 && concerns(name, row, t) && !Number.isNaN(scores.logProbs[i]![t]!) ? [{ row: i, t }] : [],
    );
    sequences.set(key, [...(sequences.get(key) ?? []), ...places]);
  }
  return [...sequences.values()].filter((places) => places.length > 0);
}

/** A sequence's ratio is over all tokens of the mask, also over those without a weight. */
function concerns(name: TermName, row: TokenRow, t: number): boolean {
  if (name === "policy") return row.mask[t] !== 0;
  if (TERMS[name].weightAt(row, t) === 0) return false;
  const isOwn = isAgentToken(row.trajectory.stream.roles[t]!);
  return name === "world" ? !isOwn : name === "imitation" ? isOwn : true;
}
