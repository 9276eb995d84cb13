/**
 * Mutants that no test can kill because they compute the same numbers. Each says why. `npm run mutate` tries them all
 * the same and fails if a test does kill one; tests/scripts/mutate.test.ts fails if one of them is no longer in the
 * sources.
 */
import type { Mutant } from "./mutants.ts";

export interface Equivalent {
  readonly file: string;
  /**
   * A part of the line in which it begins and the line after; « stands before it where the line alone does not tell.
   */
  readonly context: string;
  /** `before → after`, as the table prints it. */
  readonly edits: readonly string[];
  readonly why: string;
}

/** The mutants of each file. */
type Listed = Readonly<Record<string, readonly Entry[]>>;
type Entry = readonly [context: string, edits: readonly string[], why: string];

const OTHER_FACTOR = "the other factor is 0 outside the mask";
const OUTER_MASK = "masked once more by the `where` around it; this one keeps NaN out of what is computed there";
const ONE_IS = "the numbers are written behind the mask, where one of the two is enough";
const OVERWRITTEN = "every element is overwritten";
const MEAN_ONLY = "only the mean is used, which has no ddof";
const NOBODY = "no token is there to have the advantage";
const SAME_THERE = "both sides are equal on the boundary";
const COST = "costs time or memory, changes no number";
const BEHIND = "behind the end nothing is true or counts, and what is written there into a typed array is dropped";
const FIRST = "the first token has no prediction, and no weight";

/** The call in clipped.ts, as the mutant's text has it. */
const BOUNDED =
  "boundedClipLoss( logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh, dualClip ?? 1e30, delta ?? 1e30, )";

/** What the three loops over the weights of a row in weights.ts do with each. */
const BODIES = ["result[t] = row[t]! * factor", "if (row[t] !== 0)", "into[i]![t]!"];

const LOSSES: Listed = {
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

const ADVANTAGES: Listed = {
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

const PLANS: Listed = {
  "rl/methods/importanceCorrection.ts": [
    ["const isFar =", ["offPolicyMask !== undefined && isBad → isBad"], "nothing is greater than undefined"],
    [
      "const scale = normalize && all.length > 0 ?",
      ["normalize && all.length > 0 → normalize", "all.length > 0 → all.length >= 0"],
      "without a token there is nothing to scale",
    ],
  ],
  "rl/methods/aggregation.ts": [
    ["for (let t = 0; t < mask.length; t++) weights", ["t < mask.length → t <= mask.length"], BEHIND],
    ["for (let t = 0; t < mask.length; t++) sum", ["t < mask.length → t <= mask.length"], BEHIND],
  ],
  "rl/methods/world/echo.ts": [
    ["for (let t = firstAction + 1; t < roles.length", ["t < roles.length → t <= roles.length"], BEHIND],
    ["for (let t = 0; t < targets.length", ["t < targets.length → t <= targets.length"], BEHIND],
    ["for (let t = «0; t < targets.length", ["0 → 1"], FIRST],
  ],
  "rl/methods/world/paw.ts": [
    ["turn: turnOf(members[«0]!)", ["0 → 1"], "all members are of one turn, and there are at least two"],
    [
      "const count = Math.ceil(alpha * transitions.length - 1e-9);",
      ["1e-9 → 2e-9"],
      "any number between a rounding and a transition will do",
    ],
  ],
  "rl/methods/tokenWeights.ts": [
    ["(): number => «0;", ["0 → 1"], "with β 0 the weights are 1 + 0·σ, whatever the signal"],
    [
      "if (values.length === 0) return NaN;",
      ["values.length === 0 → false"],
      "NaN comes out of the undefined elements, too",
    ],
  ],
  "rl/train/weights.ts": [
    [
      "maxLength === undefined ? {} : { maxLength }",
      ["maxLength === undefined ? {} : { maxLength } → { maxLength }"],
      "an undefined option is none",
    ],
    [
      "const wValue = critic && returns ?",
      ["critic && returns → returns"],
      "checkObjective: no values without a critic",
    ],
    ...BODIES.flatMap((body): Entry[] => [
      [`for (let t = «0; t < row.length; t++) ${body}`, ["0 → 1"], FIRST],
      [`for (let t = 0; t < row.length; t++) ${body}`, ["t < row.length → t <= row.length"], BEHIND],
    ]),
    ["if (imitation > 0 && step >= rewardFrom) addImitation", ["imitation > 0 → imitation >= 0"], "it would add zeros"],
  ],
  "rl/episode/stream.ts": [
    [
      "rollout === undefined ? undefined : known.get(rollout)",
      ["rollout === undefined ? undefined : known.get(rollout) → known.get(rollout)"],
      "undefined is never a key",
    ],
    ["for (let t = «0; t < mask.length", ["0 → 1"], FIRST],
    ["for (let t = 0; t < mask.length", ["t < mask.length → t <= mask.length"], BEHIND],
    [
      "if (Math.abs(rest) > 1e-12",
      [
        "Math.abs(rest) > 1e-12 * Math.max(1, Math.abs(reward)) → " +
          "Math.abs(rest) >= 1e-12 * Math.max(1, Math.abs(reward))",
      ],
      "a bound on rounding, of any size near it",
    ],
  ],
  "rl/train/pack.ts": [
    ["{ rows: [], longest: «0 }", ["0 → 1"], "a row with a scored token has at least two tokens"],
    [
      "b.longest - a.longest ||",
      [
        "b.longest - a.longest || a.rows[0]! - b.rows[0]! → b.longest - a.longest",
        "a.rows[0]! - b.rows[0]! → a.rows[0]! + b.rows[0]!",
        "0 → 1",
      ],
      "units come in the order of their first rows, and sorting is stable",
    ],
  ],
};

const PASSES: Listed = {
  "rl/train/score.ts": [
    [
      "const ofModel = wanted.filter",
      ["wanted.filter((name) => !isOfReference(name)) → wanted"],
      `${COST}: the reference's pass overwrites them`,
    ],
    [
      "return mul(sampled().logProbs, 1);",
      ["mul(sampled().logProbs, 1) → sampled().logProbs"],
      "no two statistics of today are one tensor",
    ],
    [
      "return mul(sampled().entropy, 1);",
      ["mul(sampled().entropy, 1) → sampled().entropy"],
      "no two statistics of today are one tensor",
    ],
    [
      "return mul(plain().entropy, 1);",
      ["mul(plain().entropy, 1) → plain().entropy"],
      "no two statistics of today are one tensor",
    ],
    ["sum(mul(hidden_NC, rows_NC), { axis: -1 })", ["-1 → 1"], "of two axes the last is axis 1"],
  ],
  "rl/train/loss.ts": [
    ["loss = add(loss, terms.klLoss)", ['kl && kl.in !== "reward" → kl'], "with the KL in the reward this term is 0"],
    [
      "logProbs: stopGradient(logProbs), entropy: stopGradient(entropy)",
      ["stopGradient(logProbs) → logProbs", "stopGradient(entropy) → entropy"],
      "what is returned beside the loss is not differentiated",
    ],
  ],
  "rl/train/update.ts": [
    [
      "if (gradient !== undefined) for (const g of",
      ["gradient !== undefined → false"],
      `${COST}: gradients live until the end of the scope`,
    ],
  ],
  "rl/train/gradients.ts": [
    ["export const GRAD_EVERY", ["64 → 65"], "how often, not what"],
    [
      "if (world === undefined || gradEvery === 0",
      [
        "world === undefined || gradEvery === 0 || step % gradEvery !== 0 → step % gradEvery !== 0",
        "world === undefined || gradEvery === 0 → world === undefined",
        "world === undefined || gradEvery === 0 → gradEvery === 0",
      ],
      "without a world loss nothing has a weight, and a remainder of division by 0 is not 0",
    ],
    ["Math.max(-1, Math.min(«1,", ["1 → 2"], "by more than rounding no cosine leaves [−1, 1]"],
    ["Math.max(-«1,", ["1 → 2"], "by more than rounding no cosine leaves [−1, 1]"],
  ],
};

const REWARDS: Listed = {
  "rl/rewards/behaviour.ts": [
    ['!text.includes("<think>", 1)', ["1 → 2"], "no second tag can begin at the second character of the first"],
    [
      "i > 0 && call === calls[i - 1]",
      ["i > 0 && call === calls[i - 1] → call === calls[i - 1]", "i > 0 → i >= 0"],
      "before the first call is undefined, which no call equals",
    ],
    ['action.split(" ", 1)[0]', ["1 → 2"], "of the parts only the first is used"],
    ["if (total <= 0) return 0;", ["total <= 0 → total < 0"], "of no n-gram all are distinct: 0"],
    ["if (total <= «0) return 0;", ["0 → 1"], "of one n-gram all are distinct: 0"],
  ],
  "rl/rewards/judge.ts": [
    [
      'result.status === "fulfilled" ?',
      ['result.status === "fulfilled" ? result.value : undefined → result.value'],
      "a rejected one has no value",
    ],
    ["verdict: decided ? yes > no", ["yes > no → yes >= no"], "a tie is not decided"],
    [
      "verdict === undefined ? NaN",
      ["verdict === undefined ? NaN : Number(verdict) → Number(verdict)"],
      "Number(undefined) is NaN",
    ],
    [
      "forward === undefined || backward === undefined",
      ["forward === undefined || backward === undefined → backward === undefined"],
      "then `forward`, which is undefined, is what is returned",
    ],
  ],
  "rl/rewards/length.ts": [
    ["if (length <= max - cache) return 0;", ["length <= max - cache → length < max - cache"], SAME_THERE],
    ["return length > max ? -1", ["length > max → length >= max"], SAME_THERE],
  ],
  "rl/rewards/turns.ts": [
    ["?? «-1;", ["-1 → 1"], "turns without a token of the agent are left out in the end"],
    ["?? -«1;", ["1 → 2"], "no turn, or less"],
    ["length: last + «1", ["1 → 2"], "turns without a token of the agent are left out in the end"],
    [
      'stream.roles[t] === "observation" && stream.targets[t]!',
      ['stream.roles[t] === "observation" && stream.targets[t]! → stream.targets[t]!'],
      "only observations can be targets",
    ],
  ],
};

export const EQUIVALENT: readonly Equivalent[] = [LOSSES, ADVANTAGES, PLANS, PASSES, REWARDS].flatMap((listed) =>
  Object.entries(listed).flatMap(([file, entries]) =>
    entries.map(([context, edits, why]): Equivalent => ({ file, context, edits, why })),
  ),
);

export const editOf = ({ from, to }: Pick<Mutant, "from" | "to">): string => `${from} → ${to}`;

const isHere = ({ context }: Mutant, part: string): boolean =>
  part.includes("«") ? context.includes(part) : context.replace("«", "").includes(part);

/** The entry that this mutant is one of. */
export const equivalentOf = (mutant: Mutant): Equivalent | undefined =>
  EQUIVALENT.find(
    ({ file, context, edits }) => file === mutant.file && isHere(mutant, context) && edits.includes(editOf(mutant)),
  );
