/**
 * Predict first, be rewarded later: before the step that an objective names nothing of a reward reaches the loss; from
 * then on all of it.
 */
import { expect, test } from "vitest";
import type { Objective } from "../../rl/objective/objective.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { madeUpSignals, randomBatch, weighStep } from "../support/rlBatches.ts";

const isZero = (row: ArrayLike<number>): boolean => Array.from(row).every((x) => x === 0);

test.each(["grpo+echo", "dapo+echo", "rft+echo", "vapo+echo", "grpo+echo+actfocus"])(
  "%s: before the step there are no advantages, imitated successes or values; after it there is no difference",
  (method) => {
    const batch = randomBatch(4);
    const signals = madeUpSignals(batch);
    const plain = objectiveOf({ method });
    const late = objectiveOf({ method, rewardFrom: 3 });
    const before = weighStep(late, batch, 2, signals);
    const rewarded = weighStep(plain, batch, 2, signals);
    expect(rewarded.some(({ advantages }) => !isZero(advantages))).toBe(true);
    before.forEach((row, i) => {
      const own = rewarded[i]!;
      expect(isZero(row.advantages)).toBe(true);
      expect(isZero(row.wValue)).toBe(true);
      row.wWorld.forEach((w, t) => {
        const isAnswer = own.trajectory.stream.roles[t] === "observation";
        expect(w).toBe(isAnswer ? own.wWorld[t] : 0);
      });
      // Where the policy is looked at is as it was: entropy and the mismatch are of the same tokens.
      expect(row.wPolicy).toEqual(own.wPolicy);
    });
    const share = (objective: Objective): number => advantagesOf(objective, batch, 2, signals).fracRewardZeroStd;
    expect(share(late)).toBe(share(plain));
    expect(weighStep(late, batch, 3, signals)).toEqual(weighStep(plain, batch, 3, signals));
  },
);

test("0, the default, is no option at all; a fraction is one clear line", () => {
  expect("rewardFrom" in objectiveOf({ method: "grpo", rewardFrom: 0 })).toBe(false);
  expect(() => objectiveOf({ method: "grpo", rewardFrom: 1.5 })).toThrow(
    "method: rewardFrom must be an integer ≥ 0, got 1.5",
  );
});
