/**
 * From planned episodes to the arrays of a forward pass: rows of similar length are packed together, and of all positions only
 * those that carry a weight are listed, so that the output matrix is applied to nothing else.
 *
 * The role of a position is that of its *target*: the hidden state at t − 1 scores token t.
 */
import { check } from "../engine/errors.ts";
import type { TokenPlan } from "./objective.ts";

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
 * tokens that makes.
 */
export function pack(episodes: readonly TokenPlan[], options: PackOptions): MicroBatch[] {
  const { maxTokens = 8192, scored = hasWeight } = options;
  check(maxTokens >= 1, () => `pack: maxTokens must be ≥ 1, got ${maxTokens}`);
  const lengthOf = (i: number): number => episodes[i]!.trajectory.stream.ids.length;
  const units = new Map<number | string, number[]>();
  episodes.forEach((plan, i) => {
    if (!plan.trajectory.stream.ids.some((_, t) => t > 0 && scored(plan, t))) return;
    const key = plan.segment ?? `row ${i}`;
    units.set(key, [...(units.get(key) ?? []), i]);
  });
  const longest = (rows: readonly number[]): number => rows.reduce((n, i) => Math.max(n, lengthOf(i)), 0);
  const order = [...units.values()].sort((a, b) => longest(b) - longest(a) || a[0]! - b[0]!);
  const batches: MicroBatch[] = [];
  for (let start = 0; start < order.length;) {
    const T = longest(order[start]!);
    let rows = 0;
    let end = start;
    do rows += order[end++]!.length;
    while (end < order.length && (rows + order[end]!.length) * T <= maxTokens);
    batches.push(packRows(episodes, order.slice(start, end), T, scored, options));
    start = end;
  }
  return batches;
}

function packRows(
  episodes: readonly TokenPlan[],
  units: readonly (readonly number[])[],
  T: number,
  scored: (plan: TokenPlan, token: number) => boolean,
  { padId, oldLogProbs, refLogProbs, oldValues, prepared }: PackOptions,
): MicroBatch {
  const rows = units.flat();
  const segments = units.flatMap((members, segment) => members.map(() => segment));
  const ids = new Int32Array(rows.length * T).fill(padId);
  // Thousands of tokens in every step: plain loops over arrays of numbers, as objects and iterators cost ten times as much.
  const [episode, token, row] = [new Int32Array(ids.length), new Int32Array(ids.length), new Int32Array(ids.length)];
  let count = 0;
  rows.forEach((i, b) => {
    const { stream } = episodes[i]!.trajectory;
    ids.set(stream.ids, b * T);
    for (let t = 1; t < stream.ids.length; t++) {
      if (!scored(episodes[i]!, t)) continue;
      episode[count] = i;
      token[count] = t;
      row[count++] = b;
    }
  });
  type Value = (plan: TokenPlan, t: number, i: number) => number;
  const fill = <A extends Int32Array | Float64Array>(values: A, value: Value): A => {
    for (let n = 0; n < count; n++) values[n] = value(episodes[episode[n]!]!, token[n]!, episode[n]!);
    return values;
  };
  const column = (value: Value): Float64Array => fill(new Float64Array(count), value);
  return {
    rows: rows.length,
    length: T,
    ids,
    index: row.slice(0, count).map((b, n) => b * T + token[n]! - 1),
    targets: fill(new Int32Array(count), ({ trajectory }, t) => trajectory.stream.ids[t]!),
    episode: episode.slice(0, count),
    token: token.slice(0, count),
    segment: row.slice(0, count).map((b) => segments[b]!),
    segments: units.length,
    columns: {
      oldLogProbs: column(({ trajectory }, t, i) => oldLogProbs?.[i]![t] ?? trajectory.stream.oldLogProbs[t]!),
      refLogProbs: column((_, t, i) => refLogProbs?.[i]![t] ?? 0),
      temperatures: column(({ trajectory }, t) => trajectory.stream.temperatures[t]!),
      advantages: column((plan, t) => plan.advantages[t]!),
      mask: column((plan, t) => Number(inPolicy(plan, t))),
      worldMask: column((plan, t) => Number(plan.wWorld[t] !== 0)),
      clippedMask: column((plan, t) => Number((plan.wClipped?.[t] ?? 0) !== 0)),
      wPolicy: column((plan, t) => plan.wPolicy[t]!),
      wWorld: column((plan, t) => plan.wWorld[t]!),
      wClipped: column((plan, t) => plan.wClipped?.[t] ?? 0),
      wKl: column((plan, t) => plan.wKl[t]!),
      wEntropy: column((plan, t) => plan.wEntropy?.[t] ?? 0),
      wValue: column((plan, t) => plan.wValue?.[t] ?? 0),
      valueMask: column((plan, t) => Number((plan.wValue?.[t] ?? 0) !== 0)),
      returns: column((plan, t) => plan.returns?.[t] ?? 0),
      oldValues: column((_, t, i) => oldValues?.[i]![t] ?? 0),
      prepared: column((_, t, i) => prepared?.[i]![t] ?? 0),
    },
  };
}
