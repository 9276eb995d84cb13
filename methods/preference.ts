/** Preference learning from pairs of answers: rows, metrics and the training loop. */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/index.ts";
import { checkKeys } from "../engine/options.ts";
import { number, options, type OptionsOf } from "../engine/optionTable.ts";
import { type Model, trainableOf } from "../nn/index.ts";
import { mean } from "../rl/episode/groups.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { policyMask, type Trajectory, tokensIn } from "../rl/episode/stream.ts";
import { checkReference } from "../rl/train/checks.ts";
import { TRAINER_KEYS } from "../rl/train/loop.ts";
import { lossIn, type StepReport } from "../rl/train/report.ts";
import { tokenStatistics } from "../rl/train/score.ts";
import { optimizerStep, packingOf, type TrainerOptions } from "../rl/train/step.ts";
import { checkCount, checkTrainer } from "../rl/train/trainerChecks.ts";
import { rowOf, type TokenRow, withColumns } from "../rl/objective/columns.ts";
import type { PolicyLoss } from "../rl/objective/policyLoss.ts";
import { checkPolicyLoss } from "../rl/objective/objective.ts";
import type { PerToken } from "../rl/objective/tokenStatistics.ts";

/** Two answers to the same task, the first of which was preferred. */
export interface PreferencePair {
  readonly chosen: Trajectory;
  readonly rejected: Trajectory;
}

export const PREFERENCE_ROWS = options("preferenceRows", {
  /**
   * A mean over the tokens and over the pairs. A preference loss also falls when both answers become improbable, as
   * long as the rejected one does so more; this weight holds the chosen answer up (RPO, Pang et al. 2024, arXiv
   * 2404.19733; TRL's `rpo_alpha`).
   */
  imitation: number(0, "weight of −lp of the chosen answer beside the preference loss", { min: 0 }),
});
/** Options of `preferenceRows` and `trainPreference` for what is learnt beside the preference loss. */
export type PreferenceRowOptions = OptionsOf<typeof PREFERENCE_ROWS>;

/**
 * The rows of a preference loss: the advantage column holds the side (+1 chosen, −1 rejected), the two rows of a pair
 * are one segment, and the weights of a pair's tokens sum to 1/pairs, because the loss gives each of them the whole
 * loss of the pair.
 */
export function preferenceRows(pairs: readonly PreferencePair[], given?: PreferenceRowOptions): TokenRow[] {
  const { imitation } = PREFERENCE_ROWS.read(given);
  check(pairs.length > 0, () => "preferenceRows: the list of pairs is empty");
  return pairs.flatMap(({ chosen, rejected }, segment) => {
    const masks = [chosen, rejected].map(policyMask);
    const [n, m] = masks.map((mask) => mask.filter(Boolean).length) as [number, number];
    check(n > 0 && m > 0, () => `preferenceRows: pair ${segment} has ${n} chosen and ${m} rejected tokens to train`);
    return [chosen, rejected].map((trajectory, side) => {
      const mask = Float64Array.from(masks[side]!, Number);
      const columns = {
        mask,
        advantages: mask.map((own) => (own ? 1 - 2 * side : 0)),
        wPolicy: mask.map((own) => (own ? 1 / (pairs.length * (n + m)) : 0)),
        wWorld: mask.map((own) => (own && side === 0 ? imitation / (pairs.length * n) : 0)),
      };
      return rowOf(trajectory, columns, segment);
    });
  });
}

/**
 * Metrics of an update on preference pairs. Chosen and rejected rows alternate, as `preferenceRows` lays them out. The
 * reward of an answer is β(lp − ref) summed over its tokens, whichever loss is used.
 */
export function preferenceMetrics(rows: readonly TokenRow[], logProbs: PerToken, beta: number): Metrics {
  const sums = rows.map(({ mask, refLogProbs }, i) => {
    const tokens = [...mask].flatMap((own, t) => (own ? [t] : []));
    return {
      logp: tokens.reduce((sum, t) => sum + logProbs[i]![t]!, 0),
      reward: beta * tokens.reduce((sum, t) => sum + logProbs[i]![t]! - refLogProbs[t]!, 0),
    };
  });
  const [chosen, rejected] = [sums.filter((_, i) => i % 2 === 0), sums.filter((_, i) => i % 2 === 1)];
  const margins = chosen.map(({ reward }, k) => reward - rejected[k]!.reward);
  return {
    "rewards/chosen": mean(chosen.map(({ reward }) => reward)),
    "rewards/rejected": mean(rejected.map(({ reward }) => reward)),
    "rewards/margins": mean(margins),
    "rewards/accuracies": mean(margins.map((margin) => Number(margin > 0))),
    "logps/chosen": mean(chosen.map(({ logp }) => logp)),
    "logps/rejected": mean(rejected.map(({ logp }) => logp)),
  };
}

/**
 * Options of `trainPreference`: the pairs, of which `batchSize` are drawn in each step, with replacement, their loss,
 * and the steps from `startStep` (default 0) up to `steps`.
 */
export interface PreferenceOptions extends TrainerOptions, PreferenceRowOptions {
  /** Two answers to the same task each, of which one was preferred. */
  readonly pairs: readonly PreferencePair[];
  /** One of the pair losses: `dpo({ loss: "sigmoid" | "ipo" | "hinge" })`. */
  readonly policyLoss: PolicyLoss;
  /** The policy that the log-ratios refer to, frozen. Default for a model with an adapter: the model without it. */
  readonly reference?: Model;
  /** Pairs in a step. */
  readonly batchSize: number;
  /** The step at which training ends; the last one is `steps` − 1. */
  readonly steps: number;
  /** The first step, above 0 in a resumed run. Default 0. */
  readonly startStep?: number;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

const PREFERENCE_KEYS = [...TRAINER_KEYS, "pairs", "policyLoss", "reference", "batchSize", "imitation"] as const;

/** Preference optimisation (DPO and its relatives): a fresh random batch of pairs each step. */
export async function* trainPreference(options: PreferenceOptions): AsyncGenerator<StepReport, void, void> {
  checkKeys("trainPreference", options, PREFERENCE_KEYS);
  checkTrainer("trainPreference", options);
  const { model, optimizer, lr, pairs, policyLoss, batchSize, steps, startStep = 0, rng } = options;
  const { reference = trainableOf(model).base } = options;
  check(pairs.length > 0, () => "trainPreference: there are no pairs");
  checkCount("trainPreference", "batchSize", batchSize);
  checkPolicyLoss("trainPreference", policyLoss);
  const { beta } = policyLoss;
  check(beta !== undefined, () => `trainPreference: "${policyLoss.name}" is no loss over pairs; use dpo()`);
  check(reference !== undefined, () => "trainPreference: needs a reference model");
  checkReference(model, reference);
  const packing = packingOf(options);
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(pairs));
    const unscored = preferenceRows(batch, { imitation: options.imitation });
    const trajectories = unscored.map((row) => row.trajectory);
    const { refLogProbs } = await tokenStatistics({ model, reference }, ["refLogProbs"], trajectories, packing);
    const rows = withColumns(unscored, { refLogProbs: refLogProbs! });
    const result = await optimizerStep(
      model,
      optimizer,
      rows,
      { policyLoss },
      { ...packing, lr: lr(step), dropout: draw.split("dropout") },
    );
    const metrics = {
      loss: lossIn(result),
      ...preferenceMetrics(rows, result.logProbs, beta),
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      step_tokens: tokensIn(trajectories),
    };
    yield { step, metrics, rows, scores: result };
  }
}
