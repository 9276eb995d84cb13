/**
 * From planned episodes to the arrays of a forward pass: rows of similar length are packed together, and of all positions only
 * those that carry a weight are listed, so that the output matrix is applied to nothing else.
 *
 * The role of a position is that of its *target*: the hidden state at t − 1 scores token t.
 */
import { check } from "../../engine/errors.ts";
import type { TokenPlan } from "../methods/objective.ts";

export interface MicroBatch {
  /** B rows of T ids, padded at the end. */
  readonly rows: number;
  readonly length: number;
  readonly ids: Int32Array;
  /** The N scored tokens: where their prediction is made (b·T + t − 1), and which token it is. */
  readonly index: Int32Array;
  readonly targets: Int32Array;
  /** Where each of the N came from: position in the list of episodes, and token. */
  readonly episode: Int32Array;
  readonly token: Int32Array;
  /** Which sequence (rollout or pair) of the micro-batch each of the N belongs to, and how many there are. */
  readonly segment: Int32Array;
  readonly segments: number;
  readonly columns: Columns;
}

/** One value per scored token; in f64, so that the reference executor sees a temperature of 0.8 and not its f32 neighbour. */
export interface Columns {
  readonly oldLogProbs: Float64Array;
  readonly refLogProbs: Float64Array;
  readonly temperatures: Float64Array;
  readonly advantages: Float64Array;
  /** 1 on tokens of the policy term. */
  readonly mask: Float64Array;
  /** 1 where the world term has a weight; the same for its clipped form. */
  readonly worldMask: Float64Array;
  readonly clippedMask: Float64Array;
  readonly wPolicy: Float64Array;
  readonly wWorld: Float64Array;
  readonly wClipped: Float64Array;
  readonly wKl: Float64Array;
  readonly wEntropy: Float64Array;
  readonly wValue: Float64Array;
  /** 1 where a value has a target. */
  readonly valueMask: Float64Array;
  readonly returns: Float64Array;
  readonly oldValues: Float64Array;
  /** What the policy loss prepared over the whole step. */
  readonly prepared: Float64Array;
}

export interface PackOptions {
  /** Padded tokens at most in one micro-batch (a longer row is alone); default 8192. */
  readonly maxTokens?: number;
  readonly padId: number;
  /** Which tokens to score; default: those with a weight. */
  readonly scored?: (plan: TokenPlan, token: number) => boolean;
  /** Recorded log-probabilities to use instead of the sampler's, per episode and token. */
  readonly oldLogProbs?: readonly Float64Array[];
  /** Log-probabilities of the reference policy, per episode and token. */
  readonly refLogProbs?: readonly Float64Array[];
  /** Values before the step, per episode and token. */
  readonly oldValues?: readonly Float64Array[];
  /** The policy loss's own column, per episode and token. */
  readonly prepared?: readonly Float64Array[];
}

const inPolicy = (plan: TokenPlan, t: number): boolean => plan.mask?.[t] ?? plan.wPolicy[t] !== 0;

const hasWeight = (plan: TokenPlan, t: number): boolean =>
  inPolicy(plan, t) ||
  plan.wWorld[t] !== 0 ||
  plan.wKl[t] !== 0 ||
  (plan.wClipped?.[t] ?? 0) !== 0 ||
  (plan.wEntropy?.[t] ?? 0) !== 0 ||
  (plan.wValue?.[t] ?? 0) !== 0;

/**
 * Packs episodes, longest first; episodes without a scored token are left out. Rows of one segment stay together, however many
 * tokens that makes. Each micro-batch is made when it is asked for: an executor can compute with one while the next is packed.
 */
export function* pack(episodes: readonly TokenPlan[], options: PackOptions): Generator<MicroBatch, void, undefined> {
  const { maxTokens = 8192, scored = hasWeight } = options;
  check(maxTokens >= 1, () => `pack: maxTokens must be ≥ 1, got ${maxTokens}`);
  const units = new Map<number | string, Unit>();
  for (const [i, plan] of episodes.entries()) {
    if (!hasScored(plan, scored)) continue;
    const key = plan.segment ?? `row ${i}`;
    const { rows, longest } = units.get(key) ?? { rows: [], longest: 0 };
    units.set(key, { rows: [...rows, i], longest: Math.max(longest, plan.trajectory.stream.ids.length) });
  }
  const order = [...units.values()].sort(longestFirst);
  for (let start = 0; start < order.length;) {
    const T = order[start]!.longest;
    let rows = 0;
    let end = start;
    do rows += order[end++]!.rows.length;
    while (end < order.length && (rows + order[end]!.rows.length) * T <= maxTokens);
    yield packRows(episodes, order.slice(start, end), T, scored, options);
    start = end;
  }
}

/** Episodes that stay together, and the tokens of the longest. */
interface Unit {
  readonly rows: readonly number[];
  readonly longest: number;
}

const longestFirst = (a: Unit, b: Unit): number => b.longest - a.longest || a.rows[0]! - b.rows[0]!;

type IsScored = (plan: TokenPlan, token: number) => boolean;

/** Whether `pack` would make a micro-batch of this episode, without making it. */
export function hasScored(plan: TokenPlan, scored: IsScored = hasWeight): boolean {
  const { length } = plan.trajectory.stream.ids;
  for (let t = 1; t < length; t++) if (scored(plan, t)) return true;
  return false;
}

/** What of `options` a column may be made of. */
type Recorded = Pick<PackOptions, "oldLogProbs" | "refLogProbs" | "oldValues" | "prepared">;

/**
 * How each column is made: token `t` of episode `i`. Functions of the module, and not of a call: an engine compiles a function that is
 * made anew in every step anew in every step.
 */
const COLUMNS: {
  readonly [K in keyof Columns]: (plan: TokenPlan, t: number, i: number, recorded: Recorded) => number;
} = {
  oldLogProbs: ({ trajectory }, t, i, { oldLogProbs }) => oldLogProbs?.[i]![t] ?? trajectory.stream.oldLogProbs[t]!,
  refLogProbs: (_, t, i, { refLogProbs }) => refLogProbs?.[i]![t] ?? 0,
  temperatures: ({ trajectory }, t) => trajectory.stream.temperatures[t]!,
  advantages: (plan, t) => plan.advantages[t]!,
  mask: (plan, t) => Number(inPolicy(plan, t)),
  worldMask: (plan, t) => Number(plan.wWorld[t] !== 0),
  clippedMask: (plan, t) => Number((plan.wClipped?.[t] ?? 0) !== 0),
  wPolicy: (plan, t) => plan.wPolicy[t]!,
  wWorld: (plan, t) => plan.wWorld[t]!,
  wClipped: (plan, t) => plan.wClipped?.[t] ?? 0,
  wKl: (plan, t) => plan.wKl[t]!,
  wEntropy: (plan, t) => plan.wEntropy?.[t] ?? 0,
  wValue: (plan, t) => plan.wValue?.[t] ?? 0,
  valueMask: (plan, t) => Number((plan.wValue?.[t] ?? 0) !== 0),
  returns: (plan, t) => plan.returns?.[t] ?? 0,
  oldValues: (_, t, i, { oldValues }) => oldValues?.[i]![t] ?? 0,
  prepared: (_, t, i, { prepared }) => prepared?.[i]![t] ?? 0,
};

function packRows(
  episodes: readonly TokenPlan[],
  units: readonly Unit[],
  T: number,
  scored: IsScored,
  { padId, ...recorded }: PackOptions,
): MicroBatch {
  const ids = new Int32Array(units.reduce((n, { rows }) => n + rows.length, 0) * T).fill(padId);
  // Thousands of tokens in every step: plain loops over arrays of numbers, as objects and iterators cost ten times as much.
  const [index, targets, segment] = [
    new Int32Array(ids.length),
    new Int32Array(ids.length),
    new Int32Array(ids.length),
  ];
  const [episode, token] = [new Int32Array(ids.length), new Int32Array(ids.length)];
  let [row, count] = [0, 0];
  for (const [unit, { rows }] of units.entries()) {
    for (const i of rows) {
      const plan = episodes[i]!;
      const { stream } = plan.trajectory;
      ids.set(stream.ids, row * T);
      for (let t = 1; t < stream.ids.length; t++) {
        if (!scored(plan, t)) continue;
        index[count] = row * T + t - 1;
        targets[count] = stream.ids[t]!;
        segment[count] = unit;
        episode[count] = i;
        token[count++] = t;
      }
      row++;
    }
  }
  const columns: Partial<Record<keyof Columns, Float64Array>> = {};
  for (const name of Object.keys(COLUMNS) as (keyof Columns)[]) {
    const value = COLUMNS[name];
    const column = new Float64Array(count);
    for (let n = 0; n < count; n++) column[n] = value(episodes[episode[n]!]!, token[n]!, episode[n]!, recorded);
    columns[name] = column;
  }
  return {
    rows: row,
    length: T,
    ids,
    index: index.slice(0, count),
    targets: targets.slice(0, count),
    episode: episode.slice(0, count),
    token: token.slice(0, count),
    segment: segment.slice(0, count),
    segments: units.length,
    columns: columns as Columns,
  };
}
