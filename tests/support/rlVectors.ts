/** What tests of published numbers share: the losses of one sequence's tokens, and comparison element by element. */
import { expect } from "vitest";
import type { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import type { Tensor } from "../../engine/tensor.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";

/** Expects as many elements as there are, each equal to `digits` decimals. */
export function expectNear(actual: ArrayLike<number>, expected: readonly number[], digits = 9): void {
  expect(actual.length).toBe(expected.length);
  expected.forEach((x, i) => expect(actual[i]!).toBeCloseTo(x, digits));
}

export const sumOf = (values: ArrayLike<number>): number => Array.from(values).reduce((a, b) => a + b, 0);

/** The loss of each token of one sequence. Tokens are in the policy term where the mask is 1, by default all. */
export async function tokenLosses(
  device: Device,
  loss: PolicyLoss,
  logProbs: readonly number[],
  oldLogProbs: readonly number[],
  advantages: readonly number[],
  mask: readonly number[] = logProbs.map(() => 1),
  refLogProbs: readonly number[] = logProbs,
): Promise<ArrayLike<number>> {
  const column = (values: readonly number[]): Tensor => tensor([...values], { device });
  const terms = loss.tokenLoss({
    logProbs: column(logProbs),
    oldLogProbs: column(oldLogProbs),
    advantages: column(advantages),
    mask: column(mask),
    refLogProbs: column(refLogProbs),
    segments: { ids: tensor(new Int32Array(logProbs.length), { device }), count: 1 },
  });
  return terms.read();
}
