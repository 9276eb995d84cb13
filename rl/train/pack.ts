/**
 * From weighted episodes to the arrays of a forward pass. Rows of similar length are packed together. Only positions
 * that carry a weight are listed, so that the output matrix is applied to nothing else.
 *
 * A position is listed for the token that it predicts: the hidden state at t − 1 scores token t.
 *
 * An episode takes a line of the batch. Where the model has read something else than all that came before
 * (`TokenStream.contexts`), the episode goes on in another line, behind what the model has read.
 */
import { check } from "../../engine/errors.ts";
import { longestRead, readParts } from "../episode/stream.ts";
import {
  COLUMN_NAMES,
  type ColumnName,
  type Columns,
  type TermColumnsByName,
  type TokenRow,
} from "../objective/columns.ts";

export interface MicroBatch {
  /** B lines of T ids, padded at the end: a row has one, or one for each context that it was read with. */
  readonly rows: number;
  readonly length: number;
  readonly ids: Int32Array;
  /** The N scored tokens: the position of their prediction (b·T + t − 1), and the token's id. */
  readonly index: Int32Array;
  readonly targets: Int32Array;
  /** The source of each of the N: its row's position in the list, and its token's in the row. */
  readonly episode: Int32Array;
  readonly token: Int32Array;
  /** The sequence (rollout or pair) of the micro-batch that each of the N belongs to, and the number of sequences. */
  readonly segment: Int32Array;
  readonly segments: number;
  /**
   * One value per scored token; in f64, so that the reference executor sees a temperature of 0.8 and not its f32
   * neighbour.
   */
  readonly columns: Columns & TermColumnsByName;
}

/** Whether a token is to be scored. */
export type IsScored = (row: TokenRow, token: number) => boolean;

export interface PackOptions {
  /** The largest number of tokens, padding included, in a micro-batch (a longer row is alone); default 8192. */
  readonly maxTokens?: number;
  readonly padId: number;
  /** The tokens to score; default: those of the policy term, and those with a weight. */
  readonly scored?: IsScored;
}

function hasWeight({ mask, wWorld, wKl, wEntropy, wValue, weights }: TokenRow, t: number): boolean {
  if (mask[t] !== 0 || wWorld[t] !== 0 || wKl[t] !== 0 || wEntropy[t] !== 0 || wValue[t] !== 0) return true;
  for (const term in weights) if (weights[term]![t] !== 0) return true;
  return false;
}

/** Rows that stay together, as positions in the list, their lines, and the tokens of the longest line. */
interface Unit {
  readonly rows: readonly number[];
  readonly lines: number;
  readonly longest: number;
}

const longestFirst = (a: Unit, b: Unit): number => b.longest - a.longest || a.rows[0]! - b.rows[0]!;

/**
 * Packs rows, longest first; rows without a scored token are left out. Rows of one segment stay together, however many
 * tokens they have. Each micro-batch is made on demand: an executor can compute with one while the next is packed.
 */
export function* pack(rows: readonly TokenRow[], options: PackOptions): Generator<MicroBatch, void, undefined> {
  const { maxTokens = 8192, scored = hasWeight, padId } = options;
  check(maxTokens >= 1, () => `pack: maxTokens must be ≥ 1, got ${maxTokens}`);
  const units = new Map<number | string, Unit>();
  for (const [i, row] of rows.entries()) {
    if (!hasScored(row, scored)) continue;
    const key = row.segment ?? `row ${i}`;
    const { rows: others, lines, longest } = units.get(key) ?? { rows: [], lines: 0, longest: 0 };
    const { stream } = row.trajectory;
    units.set(key, {
      rows: [...others, i],
      lines: lines + readParts(stream).length,
      longest: Math.max(longest, longestRead(stream)),
    });
  }
  const order = [...units.values()].sort(longestFirst);
  for (let start = 0; start < order.length;) {
    const T = order[start]!.longest;
    let count = 0;
    let end = start;
    do count += order[end++]!.lines;
    while (end < order.length && (count + order[end]!.lines) * T <= maxTokens);
    yield packUnits(rows, order.slice(start, end), T, scored, padId);
    start = end;
  }
}

/** Whether `pack` would make a micro-batch of this row, without making it. */
export function hasScored(row: TokenRow, scored: IsScored = hasWeight): boolean {
  const { length } = row.trajectory.stream.ids;
  for (let t = 1; t < length; t++) if (scored(row, t)) return true;
  return false;
}

function packUnits(
  rows: readonly TokenRow[],
  units: readonly Unit[],
  T: number,
  scored: IsScored,
  padId: number,
): MicroBatch {
  const lines = units.reduce((n, unit) => n + unit.lines, 0);
  const ids = new Int32Array(lines * T).fill(padId);
  // These are plain loops over arrays of numbers: a step has thousands of tokens, and objects and iterators cost ten
  // times as much.
  const perToken = (): Int32Array => new Int32Array(ids.length);
  const [index, targets, episode, token, segment] = [perToken(), perToken(), perToken(), perToken(), perToken()];
  const spans: { readonly row: TokenRow; readonly start: number; readonly end: number }[] = [];
  let count = 0;
  let line = 0;
  for (const [unit, { rows: members }] of units.entries()) {
    for (const i of members) {
      const row = rows[i]!;
      const { stream } = row.trajectory;
      const start = count;
      for (const { ids: before, from, to } of readParts(stream)) {
        const first = line++ * T;
        ids.set(before, first);
        ids.set(stream.ids.slice(from, to), first + before.length);
        // Nothing predicts the first token of an episode.
        for (let t = Math.max(1, from); t < to; t++) {
          if (!scored(row, t)) continue;
          index[count] = first + before.length + t - from - 1;
          targets[count] = stream.ids[t]!;
          segment[count] = unit;
          episode[count] = i;
          token[count++] = t;
        }
      }
      spans.push({ row, start, end: count });
    }
  }
  const column = (of: (row: TokenRow) => Float64Array | undefined): Float64Array => {
    const packed = new Float64Array(count);
    for (const { row, start, end } of spans) {
      const values = of(row);
      if (values) for (let n = start; n < end; n++) packed[n] = values[token[n]!]!;
    }
    return packed;
  };
  const columns: Partial<Record<ColumnName, Float64Array>> = {};
  for (const name of COLUMN_NAMES) columns[name] = column((row) => row[name]);
  const ofTerms = (part: keyof TermColumnsByName): Record<string, Float64Array> => {
    const names = new Set(spans.flatMap(({ row }) => Object.keys(row[part])));
    return Object.fromEntries([...names].map((name) => [name, column((row) => row[part][name])]));
  };
  return {
    rows: lines,
    length: T,
    ids,
    index: index.slice(0, count),
    targets: targets.slice(0, count),
    episode: episode.slice(0, count),
    token: token.slice(0, count),
    segment: segment.slice(0, count),
    segments: units.length,
    columns: { ...(columns as Columns), weights: ofTerms("weights"), more: ofTerms("more") },
  };
}
