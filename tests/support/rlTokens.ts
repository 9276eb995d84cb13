/** Random sequences of tokens with everything that a loss looks at, and the loss of each with its gradient. */
import * as fc from "fast-check";
import type { Device } from "../../engine/device.ts";
import { grad, valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";
import type { LossRow, PlainTokens } from "./rlMethods.ts";

/** One token of a drawn sequence. */
export interface Drawn {
  readonly masked: boolean;
  readonly lp: number;
  readonly old: number;
  readonly advantage: number;
  readonly ref: number;
}

export const number = (min: number, max: number): fc.Arbitrary<number> => fc.double({ min, max, noNaN: true });
const tokenOf = (isPair: boolean): fc.Arbitrary<Drawn> =>
  fc
    .record({
      masked: fc.boolean(),
      lp: number(-3, -0.1),
      shift: number(0.02, 0.9),
      down: fc.boolean(),
      advantage: number(-2, 2),
      ref: number(-3, -0.1),
    })
    .map(({ shift, down, advantage, ...rest }) => ({
      ...rest,
      // Not at ρ = 1, where kl-cov has its kink.
      old: Math.min(-0.01, rest.lp + (down ? -shift : shift)),
      advantage: isPair ? Math.sign(advantage) || 1 : advantage,
    }));
export const sequences = (isPair: boolean): fc.Arbitrary<Drawn[][]> =>
  fc.array(fc.array(tokenOf(isPair), { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 });

export interface Run {
  readonly perToken: number[];
  readonly gradient: number[];
}

export function preparedColumn(loss: PolicyLoss, rows: readonly (readonly Drawn[])[]): Float64Array[] | undefined {
  const column = (of: (token: Drawn) => number): Float64Array[] => rows.map((row) => Float64Array.from(row, of));
  return loss.prepare?.({
    logProbs: column((t) => t.lp),
    oldLogProbs: column((t) => t.old),
    advantages: column((t) => t.advantage),
    masks: rows.map((row) => row.map((t) => !t.masked)),
    step: 5,
  });
}

/** A column of the tokens on a device. */
const columnOf = (device: Device, values: Iterable<number>): Tensor =>
  tensor(Float64Array.from(values), { device, dtype: device.float });

/** The loss of each token as a function of the log-probabilities, flat over all sequences. */
function tokenLossOf(
  device: Device,
  loss: PolicyLoss,
  rows: readonly (readonly Drawn[])[],
): (logProbs: Tensor) => Tensor {
  const flat = rows.flat();
  const column = (of: (token: Drawn) => number): Tensor => columnOf(device, flat.map(of));
  const prepared = preparedColumn(loss, rows);
  return (logProbs) =>
    loss.tokenLoss({
      logProbs,
      oldLogProbs: column((t) => t.old),
      advantages: column((t) => t.advantage),
      refLogProbs: column((t) => t.ref),
      mask: column((t) => Number(!t.masked)),
      segments: {
        ids: tensor(Int32Array.from(rows.flatMap((row, i) => row.map(() => i))), { device }),
        count: rows.length,
      },
      ...(prepared
        ? {
            prepared: columnOf(
              device,
              prepared.flatMap((row) => [...row]),
            ),
          }
        : {}),
    });
}

/** The loss of each token and the gradient of Σ weight·loss, flat over all sequences. */
export async function run(
  device: Device,
  loss: PolicyLoss,
  rows: readonly (readonly Drawn[])[],
  weight: (token: Drawn) => number = () => 0.3,
): Promise<Run> {
  const flat = rows.flat();
  const lossAt = tokenLossOf(device, loss, rows);
  const weights = flat.map((t) => (t.masked ? 0 : weight(t)));
  const { grads, aux } = valueAndGrad((logProbs: Tensor) => {
    const perToken = lossAt(logProbs);
    return [sum(mul(columnOf(device, weights), perToken)), perToken];
  })(
    columnOf(
      device,
      flat.map((t) => t.lp),
    ),
  );
  return { perToken: [...(await aux.read())], gradient: [...(await grads.read())] };
}

/** The second derivative of Σ loss in a direction: the gradient of ⟨along, ∇ Σ loss⟩, flat over all sequences. */
export async function curvature(
  device: Device,
  loss: PolicyLoss,
  rows: readonly (readonly Drawn[])[],
  along: readonly number[],
): Promise<number[]> {
  const lossAt = tokenLossOf(device, loss, rows);
  const slope = (logProbs: Tensor): Tensor =>
    sum(mul(columnOf(device, along), grad((x: Tensor) => sum(lossAt(x)))(logProbs)));
  return [
    ...(await grad(slope)(
      columnOf(
        device,
        rows.flat().map((t) => t.lp),
      ),
    ).read()),
  ];
}

/** What plain Math makes of a token: its loss, and of its sequence's loss the derivatives by its log-probability. */
export interface PlainAt {
  readonly value: number;
  readonly slope: number;
  /** Of the slope, in a direction. */
  readonly curvature: number;
}

/** One sequence by the plain formula, differentiated by differences; 0 for masked tokens. `along` has the direction. */
export function plainAt(
  plain: LossRow["plain"],
  row: readonly Drawn[],
  prepared: ArrayLike<number> | undefined,
  along: readonly number[] = row.map(() => 0),
): PlainAt[] {
  const kept = row.flatMap((t, k) => (t.masked ? [] : [k]));
  if (kept.length === 0) return row.map(() => ({ value: 0, slope: 0, curvature: 0 }));
  const of = (key: "lp" | "old" | "advantage" | "ref"): number[] => kept.map((k) => row[k]![key]);
  const tokens: PlainTokens = {
    lp: of("lp"),
    fixed: of("lp"), // only lp moves; what is fixed has no slope
    old: of("old"),
    advantage: of("advantage"),
    ref: of("ref"),
    prepared: kept.map((k) => prepared?.[k] ?? 0),
  };
  /** The sequence's loss with token n moved by h, and all by `far` in the direction. */
  const moved = (n: number, h: number, far = 0): number =>
    plain({ ...tokens, lp: tokens.lp.map((x, m) => x + far * along[kept[m]!]! + (m === n ? h : 0)) }).reduce(
      (a, b) => a + b,
      0,
    );
  const slope = (n: number, h: number, far = 0): number => (moved(n, h, far) - moved(n, -h, far)) / (2 * h);
  const values = plain(tokens);
  return row.map((_, k) => {
    const n = kept.indexOf(k);
    if (n < 0) return { value: 0, slope: 0, curvature: 0 };
    const bent = (slope(n, 1e-3, 1e-3) - slope(n, 1e-3, -1e-3)) / 2e-3;
    return { value: values[n]!, slope: slope(n, 1e-6), curvature: bent };
  });
}
