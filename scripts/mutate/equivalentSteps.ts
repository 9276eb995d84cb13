/** Equivalent mutants of weights, packing, passes and rewards; equivalent.ts says what that is. */
import type { Entry, Listed } from "./equivalentMethods.ts";

const SAME_THERE = "both sides are equal on the boundary";
const COST = "costs time or memory, changes no number";
const BEHIND = "behind the end nothing is true or counts, and what is written there into a typed array is dropped";
const FIRST = "the first token has no prediction, and no weight";
/** What the three loops over the weights of a row in weights.ts do with each. */
const BODIES = ["result[t] = row[t]! * factor", "if (row[t] !== 0)", "into[i]![t]!"];

export const PLANS: Listed = {
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
  "rl/train/advantages.ts": [
    ["...(isRewarded && returns ?", ["isRewarded && returns → isRewarded"], "undefined returns are none"],
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
    [
      "if (imitation > 0 && step >= rewardFrom) addImitation",
      ["imitation > 0 → imitation >= 0", "imitation > 0 && step >= rewardFrom → step >= rewardFrom"],
      "it would add zeros",
    ],
    ["for (let t = «0; t < mask.length; t++) if (mask[t])", ["0 → 1"], FIRST],
    ["for (let t = 0; t < mask.length; t++) if (mask[t])", ["t < mask.length → t <= mask.length"], BEHIND],
    [
      "role, t) => t > 0 && !trajectory.masked &&",
      ["t > 0 && !trajectory.masked → !trajectory.masked", "t > 0 → t >= 0"],
      "an episode begins with its task, which neither the agent nor an answer wrote",
    ],
    [
      "for (let t = «1; t < result.length; t++) if (!isAgentToken",
      ["1 → 2"],
      "of the first two tokens neither answers an action: both have 0 if the second is not the agent's",
    ],
    ["for (let t = 1; t < result.length; t++) if (!isAgentToken", ["t < result.length → t <= result.length"], BEHIND],
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
  "rl/train/outcomeCritic.ts": [
    ["places[k % places.length]!", ["k % places.length → k % places.length + 1"], "any of them may be repeated"],
  ],
  "rl/train/reader.ts": [["const optimizer = new AdamW", ["0.01 → 0.02", "1 → 2"], "how fast it learns, not what"]],
  "rl/play/inverse.ts": [
    [
      "turns[stream.turns[«t]!]",
      ["t → t + 1"],
      "behind an action and behind an answer there is a scaffold, of the same turn",
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
    [
      "for (let n = start; n < end; n++) column[n]",
      ["n < end → n <= end"],
      "the next row writes its own first value there, and behind the last row a typed array drops it",
    ],
  ],
};

export const PASSES: Listed = {
  "rl/train/score.ts": [
    ["const loop =", ["signal && new EventLoop() → new EventLoop()"], COST],
    [
      "return names.length === 0 ? {} :",
      [
        "names.length === 0 ? {} : tokenStatistics(sources, names, trajectories, packing) → " +
          "tokenStatistics(sources, names, trajectories, packing)",
      ],
      `${COST}: without a name no model is run`,
    ],
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
      "if ((world === undefined && !gradShares) || gradEvery === 0",
      [
        "(world === undefined && !gradShares) || gradEvery === 0 || step % gradEvery !== 0 → step % gradEvery !== 0",
        "(world === undefined && !gradShares) || gradEvery === 0 → world === undefined && !gradShares",
        "(world === undefined && !gradShares) || gradEvery === 0 → gradEvery === 0",
      ],
      "without a world loss and without shares nothing is compared, and a remainder of division by 0 is not 0",
    ],
    [
      "...(parts.critic && head ? { head } : {})",
      [
        "parts.critic && head ? { head } : {} → { head }",
        "parts.critic && head → parts.critic",
        "parts.critic && head → head",
      ],
      `${COST}: of the gradient only the policy's part is used, and without a critic no loss reads the head`,
    ],
    [
      "const compared = world && w && p ?",
      ["world && w → w"],
      "without a world loss no answer has a weight, and w is none",
    ],
    ["...(probe ? {} : { world: w }),", ["probe ? {} : { world: w } → {}"], `${COST}: it is computed again`],
    [
      "const g = term in gradients ?",
      ["term in gradients ? gradients[term] : gradientOfTerm(term) → gradientOfTerm(term)"],
      `${COST}: it is computed again`,
    ],
    [
      "const [ww = 0, pp = 0, wp = 0]",
      ["0 → 1"],
      "all three are missing at once, and one 0 is enough to compare nothing",
    ],
    ["...(world ? { world } : {}) },", ["world ? { world } : {} → { world }"], "an undefined part of a loss is none"],
    ["...(kl ? { kl } : {}) },", ["kl ? { kl } : {} → { kl }"], "an undefined part of a loss is none"],
    [
      "...(critic ? { critic } : {}) }",
      ["critic ? { critic } : {} → { critic }"],
      "an undefined part of a loss is none",
    ],
    ["Math.max(-1, Math.min(«1,", ["1 → 2"], "by more than rounding no cosine leaves [−1, 1]"],
    [
      "...(wClipped ? { wClipped } : {})",
      ["wClipped ? { wClipped } : {} → { wClipped }"],
      "an undefined column is none",
    ],
    ["Math.max(-«1,", ["1 → 2"], "by more than rounding no cosine leaves [−1, 1]"],
  ],
};

export const REWARDS: Listed = {
  "rl/rewards/similarity.ts": [],
  "environments/program/likeness.ts": [
    ["let assigned = 0;", ["0 → 1"], "names may be numbered from any number that is not the input's"],
  ],
  "job/failures.ts": [["setTimeout(end, 1000", ["1000 → 1001"], "a thousandth of a pause"]],
  "job/inverse.ts": [
    [
      "if (made === null || signal",
      ["made === null || signal.aborted → signal.aborted"],
      "null if the run was stopped",
    ],
    ["const rng = new Rng(0);", ["0 → 1"], "at temperature 0 nothing is drawn"],
  ],
  "job/rewards.ts": [
    ["score > 0.5;", ["score > 0.5 → score >= 0.5"], "a probability, one half with probability 0"],
    ["cap === undefined ? {} : { cap }", ["cap === undefined ? {} : { cap } → { cap }"], "an undefined option is none"],
  ],
  "job/verification.ts": [["scores.map(() => 1)", ["1 → 2"], "votes of equal weight, whatever it is"]],
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
  ],
};
