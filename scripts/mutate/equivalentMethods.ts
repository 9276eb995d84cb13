/** Equivalent mutants of losses and advantages; equivalent.ts says what that is. */

/** Mutants of one line with their reason, as `Equivalent` has them. */
export type Entry = readonly [context: string, edits: readonly string[], why: string];
/** The equivalent mutants of each file. */
export type Listed = Readonly<Record<string, readonly Entry[]>>;

const OTHER_FACTOR = "the other factor is 0 outside the mask";
const OUTER_MASK = "masked once more by the `where` around it; this one keeps NaN out of what is computed there";
const ONE_IS = "the numbers are written behind the mask, where one of the two is enough";
const OVERWRITTEN = "every element is overwritten";
const MEAN_ONLY = "only the mean is used, which has no ddof";
const NOBODY = "no token is there to have the advantage";
/** The call in clipped.ts, as the mutant's text has it. */
const BOUNDED =
  "boundedClipLoss( logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh, dualClip ?? 1e30, delta ?? 1e30, )";

export const LOSSES: Listed = {
  "rl/methods/losses/clipped.ts": [
    [
      "isPlain",
      [
        "isPlain ? ppoClipLoss(logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh) : " +
          `${BOUNDED} → ${BOUNDED}`,
      ],
      "with bounds of 1e30 the general kernel is the plain one, with two more operations",
    ],
  ],
  "rl/methods/losses/kl.ts": [
    [
      "return Math.abs(d) < 0.03 ?",
      ["Math.abs(d) < 0.03 → Math.abs(d) <= 0.03"],
      "at .03 series and formula agree to 5e-7",
    ],
  ],
  "rl/methods/losses/policyLoss.ts": [
    ["const gain = where(mask, weight.stopGradient().mul(advantage), 0);", ["0 → 1"], OTHER_FACTOR],
    ["return gain.mul(where(mask, lp, 0)).neg();", ["0 → 1"], OTHER_FACTOR],
  ],
  "rl/methods/losses/preference.ts": [
    ["maskedLogRatio(lp, ref, mask).mul(where(mask, side, 0))", ["0 → 1"], OTHER_FACTOR],
    [
      "where(mask, side.div(where(side.gt(0), chosen, rejected)), 0)",
      ["where(mask, side.div(where(side.gt(0), chosen, rejected)), 0) → side.div(where(side.gt(0), chosen, rejected))"],
      "signedLogRatio, where it goes, masks it again",
    ],
    ["chosen, rejected)), «0)", ["0 → 1"], "signedLogRatio, where it goes, masks it again"],
    ["where(mask, where(side.lt(«0)", ["0 → 1"], "side < 1 and side < 0 say the same of sides, which are 1 and −1"],
  ],
  "rl/methods/losses/sequence.ts": [
    ["const tokenForm =", ["0 → 1"], OUTER_MASK],
    [".sub(where(mask, advantage, 0))", ["0 → 1"], OUTER_MASK],
    ["const sign = where(mask, advantage, 0).sign();", ["0 → 1"], OTHER_FACTOR],
    [
      "const level = where(mask, logW, 0).clamp(Math.log(1e-8), 20);",
      ["where(mask, logW, 0) → logW", "0 → 1"],
      OUTER_MASK,
    ],
    [
      "const level = where(mask, logW, 0).clamp(Math.log(1e-8), 20);",
      ["20 → 21"],
      "from ln w = 8 on φ is e^(−e^8) and less: 0 in f64",
    ],
    ["return where(mask, phi.mul(advantage), 0)", ["0 → 1"], OTHER_FACTOR],
    [".mul(where(mask, lp, 0))", ["0 → 1"], OTHER_FACTOR],
  ],
  "rl/methods/losses/supervised.ts": [
    ["const masked = where(mask, lp, «0); return where(mask,", ["0 → 1"], OUTER_MASK],
    [
      "return where(mask, where(masked.exp().le(rho), masked.expm1().neg(), 0), 0);",
      [
        "where(mask, where(masked.exp().le(rho), masked.expm1().neg(), 0), 0) → " +
          "where(masked.exp().le(rho), masked.expm1().neg(), 0)",
      ],
      "lp is 0 outside the mask: p = 1, and 1 − p = 0 whatever ρ is",
    ],
  ],
  "rl/methods/losses/weighted.ts": [
    ["where(mask, advantage, 0)", ["0 → 1"], OTHER_FACTOR],
    [".mul(where(mask, lp, 0))", ["0 → 1"], OTHER_FACTOR],
    [
      "const [x, y] = [where(mask, lp, -1), where(mask, old, -1)];",
      ["where(mask, lp, -1) → lp", "where(mask, old, -1) → old", "-1 → 1", "1 → 2"],
      `${ONE_IS}: weightedLogProb, or the last line, masks, and no gradient flows through x and y`,
    ],
  ],
  "rl/methods/losses/entropy.ts": [
    [
      "this.#last !== undefined && this.#last > this.#target",
      ["this.#last !== undefined && this.#last > this.#target → this.#last > this.#target"],
      "undefined is greater than nothing",
    ],
  ],
  "rl/methods/losses/secondMoment.ts": [
    [
      "const kept = where(mask, chosen, 0);",
      ["where(mask, chosen, 0) → chosen"],
      "what `prepare` gives is 0 outside the mask",
    ],
  ],
};

export const ADVANTAGES: Listed = {
  "rl/methods/advantages/components.ts": [
    [
      "if (isWithoutSpread(values)) return () => 0;",
      ["isWithoutSpread(values) → false"],
      "sums that are all equal are all 0: each group's are centred",
    ],
  ],
  "rl/methods/advantages/critic.ts": [
    ["const advantages = new Array<number>(rewards.length).fill(0);", ["0 → 1"], OVERWRITTEN],
    ["new Array<number>(n).fill(0)", ["0 → 1"], OVERWRITTEN],
    ["Math.min(«1, Math.max(0, 1 - 1 / (alpha * length)))", ["1 → 2"], "1 − 1/x is below 1 for every x > 0"],
  ],
  "rl/methods/advantages/group.ts": [
    ["const { mean } = moments(rewards, 1);", ["1 → 2"], MEAN_ONLY],
    [
      "const baseline = total > 0 ?",
      [
        "total > 0 ? rewards.reduce((sum, r, i) => sum + lengths[i]! * r, 0) / total : 0 → " +
          "rewards.reduce((sum, r, i) => sum + lengths[i]! * r, 0) / total",
        "total > 0 → total >= 0",
      ],
      `${NOBODY} if all lengths are 0`,
    ],
    ["/ total : «0;", ["0 → 1"], `${NOBODY} if all lengths are 0`],
  ],
  "rl/methods/advantages/steps.ts": [
    [
      "const earned = end === undefined ? 0",
      ["end === undefined ? 0 : (rollout.first.stepRewards[end] ?? 0) → rollout.first.stepRewards[end] ?? 0", "0 → 1"],
      "the next line does not look at `earned` without an `end`, and a milestone without a step's reward earns 1",
    ],
  ],
};
