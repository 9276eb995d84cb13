/**
 * What goes through a whole model in the properties `split` and `fork`: one objective for every loss, estimator, world
 * model, …
 */
import { grpo } from "../../rl/objective/grpo.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { echo } from "../../rl/objective/echo.ts";
import { actFocus, UNCERTAINTIES, topEntropy } from "../../methods/tokenWeights.ts";
import { KL_ESTIMATORS } from "../../rl/objective/kl.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { reinforce } from "../../methods/losses/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { paw } from "../../methods/paw.ts";
import { ADVANTAGE_ROWS, LOSS_ROWS } from "./rlMethods.ts";

const plain: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
export const OBJECTIVES: Readonly<Record<string, Objective>> = {
  ...Object.fromEntries(
    Object.keys(LOSS_ROWS)
      .filter((n) => !LOSS_ROWS[n]!.exceptions?.split)
      .map((n): [string, Objective] => [`loss ${n}`, { ...plain, policyLoss: LOSS_ROWS[n]!.make(), world: echo() }]),
  ),
  ...Object.fromEntries(
    Object.entries(ADVANTAGE_ROWS).map(([n, { make }]): [string, Objective] => {
      const advantage = make();
      const critic = advantage.needs?.includes("values") ? { critic: { coefficient: 0.5 } } : {};
      return [`advantage ${n}`, { ...plain, advantage, ...critic, world: echo() }];
    }),
  ),
  ...Object.fromEntries(
    KL_ESTIMATORS.map((estimator): [string, Objective] => [
      `kl ${estimator}`,
      { ...plain, kl: { beta: 0.2, estimator } },
    ]),
  ),
  "kl in the reward": { ...plain, kl: { beta: 0.2, estimator: "k1", in: "reward" } },
  "kl times the ratio": { ...plain, kl: { beta: 0.2, estimator: "k3", importance: true } },
  "entropy bonus": { ...plain, entropy: 0.1 },
  "world echo": { ...plain, world: echo({ lambda: 0.5 }) },
  "world paw": { ...plain, world: paw({ rewardMax: 4 }) },
  "world paw, sampled entropy, cross-entropy": {
    ...plain,
    world: paw({ entropy: "sampled", loss: "cross-entropy", weight: "constant" }),
  },
  "world echo and paw": { ...plain, world: [echo({ lambda: 0.5 }), paw({ rewardMax: 4 })] },
  ...Object.fromEntries(
    UNCERTAINTIES.map((uncertainty): [string, Objective] => [
      `weights actfocus ${uncertainty}`,
      { ...plain, tokenWeights: actFocus({ uncertainty }) },
    ]),
  ),
  "focus top_entropy": { ...plain, tokenWeights: topEntropy({ share: 0.5 }) },
  "echo, paw and actfocus": {
    ...plain,
    world: [echo(), paw({ rewardMax: 4 })],
    tokenWeights: actFocus(),
    policyLoss: reinforce(),
  },
  "correction tis": { ...plain, importanceCorrection: importanceCorrection({ max: 1.2 }) },
  "correction icepop, by sequence": {
    ...plain,
    importanceCorrection: importanceCorrection({ level: "sequence", mode: "mask", max: 3 }),
  },
  ...Object.fromEntries(
    (
      [
        "token-sum",
        "seq-mean-token-sum",
        "seq-mean-token-sum-norm",
        "seq-mean-token-mean",
        "prompt-mean-token-mean",
      ] as const
    ).map((aggregation): [string, Objective] => [
      aggregation,
      { ...plain, aggregation, maxLength: 20, tokenWeights: actFocus() },
    ]),
  ),
};
