/** Group advantages: the returns of one group are compared, and each rollout gets one number. */
import { check } from "../../engine/errors.ts";
import { noOptions, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "./names.ts";
import { rolloutsOf } from "../episode/stream.ts";
import { moments } from "../episode/groups.ts";
import { type AdvantageEstimator, groupEstimator } from "./estimator.ts";

/** Options of the standard deviation by which advantages are divided. */
export const STD = {
  ddof: number(1, "what the sum of squares is divided by: 1 for n − 1, as in TRL and verl, 0 for n", {
    integer: true,
    min: 0,
    max: 1,
  }),
  eps: number(1e-4, "number added to the standard deviation; TRL has 1e-4, verl 1e-6", { min: 0 }),
};

export const GRPO = options("grpo", {
  ...STD,
  scale: oneOf(
    ["group", "batch"],
    "group",
    "whether to divide by the standard deviation of the group or of the whole batch (TRL's `scale_rewards`)",
  ),
  singleton: oneOf(
    ["zero", "raw"],
    "zero",
    "advantage of a rollout that is alone in its group: 0, or R/(1 + eps) as in verl, which is REINFORCE without a " +
      "baseline",
  ),
});
/**
 * Options of `grpo`: whose standard deviation divides (`scale`, default `group`), its `ddof` (1) and `eps` (1e-4, as in
 * TRL), and the advantage of a rollout without peers (`singleton`, default 0) (docs/methods.md, `grpo.…`).
 */
export type GrpoOptions = OptionsOf<typeof GRPO>;

const CENTRED = noOptions("centred");
const NONE = noOptions("none");

/** (R − mean)/(std + eps) within the group (DeepSeekMath, Shao et al. 2024, arXiv 2402.03300, §4.1.2). */
export function grpo(given?: GrpoOptions): AdvantageEstimator {
  const { ddof, eps, scale, singleton } = GRPO.read(given);
  check(singleton === "zero" || scale === "group", () => 'grpo: singleton "raw" is for scale "group"');
  if (scale === "batch") return scaledByBatch("grpo", (rewards) => 1 / (moments(rewards, ddof).std + eps));
  const ofGroup = (rewards: readonly number[]): number[] => {
    const { mean, std } = rewards.length === 1 ? { mean: 0, std: 1 } : moments(rewards, ddof);
    return rewards.map((r) => (r - mean) / (std + eps));
  };
  return groupEstimator("grpo", ofGroup, { singles: singleton === "raw" });
}

/** R − mean of the group, times one factor that is computed from the rewards of the whole batch. */
export function scaledByBatch(name: string, factor: (rewards: readonly number[]) => number): AdvantageEstimator {
  const plain = centred();
  return {
    name,
    comparesGroup: true,
    estimate(trajectories) {
      const { perToken, fracRewardZeroStd } = plain.estimate(trajectories);
      const rewards = rolloutsOf(trajectories).flatMap((r) => (r.scorable ? [r.reward] : []));
      const scale = factor(rewards); // infinite if eps and the spread are 0, but then every advantage is 0
      return { perToken: perToken.map((row) => row.map((a) => (a === 0 ? 0 : a * scale))), fracRewardZeroStd };
    },
  };
}

/**
 * R − mean within the group, without the division by the deviation, which favours tasks of little spread (Dr. GRPO,
 * Liu et al. 2025, arXiv 2503.20783).
 */
export function centred(given?: object): AdvantageEstimator {
  CENTRED.read(given);
  return groupEstimator("centred", (rewards) => {
    const { mean } = moments(rewards, 1);
    return rewards.map((r) => r - mean);
  });
}

/** 0 for every rollout. No reward is read, and with ECHO only the world model learns (ECHO's verifier-free mode). */
export function none(given?: object): AdvantageEstimator {
  NONE.read(given);
  const zero = groupEstimator("none", (rewards) => rewards.map(() => 0));
  return { ...zero, comparesGroup: false, readsReturn: false };
}

/** GRPO, GRPO without its division, and no advantage at all. */
export const GRPO_ADVANTAGES: Table<AdvantageEstimator> = {
  grpo: {
    options: GRPO,
    make: grpo,
    formula: "(R − mean)/(std + eps), ddof 1, eps 1e-4",
    source: "GRPO, arXiv 2402.03300",
  },
  centred: { options: CENTRED, make: centred, formula: "R − mean", source: "Dr. GRPO, arXiv 2503.20783" },
  none: { options: NONE, make: none, formula: "0", source: "ECHO's verifier-free mode, arXiv 2605.24517" },
};
