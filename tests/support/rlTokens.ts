/** Random sequences of tokens with everything that a loss looks at, and the loss of each with its gradient. */
import * as fc from "fast-check";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import type { PolicyLoss } from "../../rl/methods/losses/index.ts";

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

/** The loss of each token and the gradient of Σ weight·loss, flat over all sequences. */
export async function run(
  device: Device,
  loss: PolicyLoss,
  rows: readonly (readonly Drawn[])[],
  weight: (token: Drawn) => number = () => 0.3,
): Promise<Run> {
  const flat = rows.flat();
  const floats = (values: Iterable<number>): Tensor =>
    tensor(Float64Array.from(values), { device, dtype: device.float });
  const prepared = preparedColumn(loss, rows);
  const { grads, aux } = valueAndGrad((logProbs: Tensor) => {
    const perToken = loss.tokenLoss({
      logProbs,
      oldLogProbs: floats(flat.map((t) => t.old)),
      advantages: floats(flat.map((t) => t.advantage)),
      refLogProbs: floats(flat.map((t) => t.ref)),
      mask: floats(flat.map((t) => Number(!t.masked))),
      segments: {
        ids: tensor(Int32Array.from(rows.flatMap((row, i) => row.map(() => i))), { device }),
        count: rows.length,
      },
      ...(prepared ? { prepared: floats(prepared.flatMap((row) => [...row])) } : {}),
    });
    return [sum(mul(floats(flat.map((t) => (t.masked ? 0 : weight(t)))), perToken)), perToken];
  })(floats(flat.map((t) => t.lp)));
  return { perToken: [...(await aux.read())], gradient: [...(await grads.read())] };
}
