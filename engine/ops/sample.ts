/**
 * Tokens drawn on the device, so that logits need not come to the host: one token per row by inversion of its
 * distribution function at one counter-based random number, and its log-probability.
 */
import type { SampleSpec } from "../../kernels/specs.ts";
import { check } from "../errors.ts";
import { apply, type Call, type NoParams, type OpDef, type SampleInput } from "../op.ts";
import { threefry2x32 } from "../random.ts";
import { integers, normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, checkInt, checkSameDtype, sameShape, showType, type TensorType } from "../types.ts";

function specOf({ inputs: [logits] }: Call<NoParams>): SampleSpec {
  const [rows, vocab] = logits!.shape as [number, number];
  return { rows, vocab };
}

/**
 * Inputs logits [R, V], invTemperature [R], keys i32 [R, 2], counters i32 [R] → id i32 [R], logProb [R], plainLogProb
 * [R].
 */
export const sampleOp: OpDef = {
  name: "sample",
  infer(inputs) {
    const [logits, invTemperature, keys, counters] = inputs as [TensorType, TensorType, TensorType, TensorType];
    const rows = logits.shape[0]!;
    [logits, invTemperature].forEach((x) => checkFloat("sample", x));
    [keys, counters].forEach((x) => checkInt("sample", x));
    checkSameDtype("sample", [logits, invTemperature]);
    check(logits.shape.length === 2, () => `sample: expected logits [R, V], got ${showType(logits)}`);
    for (const [x, shape] of [
      [invTemperature, [rows]],
      [keys, [rows, 2]],
      [counters, [rows]],
    ] as const) {
      check(
        sameShape(x.shape, shape),
        () => `sample: ${rows} rows need inverse temperatures [R], keys [R, 2] and counters [R], got ${showType(x)}`,
      );
    }
    const perRow = { shape: [rows], dtype: logits.dtype };
    return [{ shape: [rows], dtype: "i32" }, perRow, perRow];
  },
  reference([logits, invTemperature, keys, counters], [id, logProb, plainLogProb], call) {
    const { rows, vocab } = specOf(call);
    for (let r = 0; r < rows; r++) {
      const row = Array.from({ length: vocab }, (_, v) => logits![r * vocab + v]!);
      const wrong = row.findIndex((x) => !Number.isFinite(x));
      if (wrong >= 0) {
        id![r] = -1 - wrong;
        logProb![r] = plainLogProb![r] = row[wrong]!;
        continue;
      }
      const top = row.reduce((a, b) => Math.max(a, b));
      const weights = (scale: number): number[] => row.map((x) => Math.exp((x - top) * scale));
      const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
      const scale = invTemperature![r]!;
      const plain = Math.log(sum(weights(1)));
      let drawn = row.indexOf(top);
      let logSum = plain;
      if (scale !== 0) {
        const e = weights(scale);
        logSum = Math.log(sum(e));
        const word = threefry2x32(keys![2 * r]!, keys![2 * r + 1]!, counters![r]!, 0)[0];
        const goal = (word >>> 8) * 2 ** -24 * sum(e);
        let reached = 0;
        drawn = e.findIndex((w) => (reached += w) > goal);
      }
      id![r] = drawn;
      plainLogProb![r] = row[drawn]! - top - plain;
      logProb![r] = (row[drawn]! - top) * (scale === 0 ? 1 : scale) - logSum;
    }
  },
  kernel: (call) => ({ family: "sample", spec: specOf(call) }),
  vjp: () => [null, null, null, null],
  samples: (rng) =>
    [
      [3, 5],
      [1, 1],
      [6, 67],
      [4, 352],
      [2, 1030],
    ].map((shape) => {
      const [rows] = shape as [number, number];
      const scale: SampleInput = {
        shape: [rows],
        dtype: "f32",
        data: Array.from({ length: rows }, (_, r) => [0.5, 1, 2, 0][r % 4]!),
      };
      return {
        inputs: [normal(rng, shape), scale, integers(rng, [rows, 2], 2 ** 31), integers(rng, [rows], 1000)],
        params: {},
        differentiable: [false, false],
      };
    }),
};

/** The result of `sampleTokens`: three tensors with one value per row. */
export interface Sampled {
  /** i32 [R]. Where a logit is not finite: −1 − (its column). */
  readonly ids: Tensor;
  /**
   * [R], ln of the drawn tokens' probabilities under softmax(logits / temperature); at temperature 0 under
   * softmax(logits).
   */
  readonly logProbs: Tensor;
  /** [R], under softmax(logits). */
  readonly plainLogProbs: Tensor;
}

/**
 * One token for each row of logits, drawn from softmax(logits · invTemperature). Not differentiable.
 * @param logits [R, V]
 * @param invTemperature [R], 1/temperature; 0 is greedy (the lowest of the most probable)
 * @param keys i32 [R, 2], the key of each row's stream of random numbers: `rng.key`
 * @param counters i32 [R], the position in the stream of each row's random number; a row and a counter always give the
 *   same one
 * @throws if shapes or element types do not fit
 */
export function sampleTokens(logits: Tensor, invTemperature: Tensor, keys: Tensor, counters: Tensor): Sampled {
  const [ids, logProbs, plainLogProbs] = apply(sampleOp, [logits, invTemperature, keys, counters], {});
  return { ids: ids!, logProbs: logProbs!, plainLogProbs: plainLogProbs! };
}
