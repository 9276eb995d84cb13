/**
 * Estimators that look at one rollout at a time: they compare it with earlier rollouts, or ask whether it succeeded.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import { filterRollouts, ROLLOUT_CHOICE, type FilterOptions } from "../filter.ts";
import type { Table } from "../../rl/objective/names.ts";
import { isCutShort, type Rollout, rolloutsOf } from "../../rl/episode/stream.ts";
import { fracWithoutSpread } from "../../rl/episode/groups.ts";
import { type AdvantageEstimator, boundBeside, toColumns } from "../../rl/objective/estimator.ts";

export const RAE = options("rae", {
  decay: number(0.95, "decay of the running mean per rollout: b ← decay·b + (1 − decay)·R", { min: 0, max: 1 }),
});
export type RaeOptions = OptionsOf<typeof RAE>;

/** Memory of an environment: b (`mean`), and the lowest return of an episode that came to an end, at most 0. */
interface Returns {
  readonly mean: number;
  readonly lowest: number;
}

/**
 * R − b, where b is a running mean of the returns in each environment: b ← decay·b + (1 − decay)·R, starting at 0. It
 * needs no group; one rollout of a task is enough (role-conditioned advantage estimation: SPIRAL, Liu et al. 2025,
 * arXiv 2506.24119, where each player of a game has a baseline of its own). A step uses the baseline from before the
 * step. b is part of a run's state. It estimates what the policy now reaches by itself, so replayed rollouts and
 * rollouts with help do not change it. Where all episodes of a step were cut short, twice the lowest return of earlier
 * ends, if negative, bounds theirs (`boundBeside`), and b does not change.
 */
export function rae(given?: RaeOptions): AdvantageEstimator {
  const { decay } = RAE.read(given);
  let memory = new Map<string, Returns>();
  const known = ({ first }: Rollout): Returns => memory.get(first.env) ?? { mean: 0, lowest: 0 };
  const boundOf = (rollout: Rollout): number | null | undefined => boundBeside(rollout, known(rollout).lowest);
  const advantageOf = (rollout: Rollout): number => {
    const bound = boundOf(rollout);
    return bound === null ? 0 : (bound ?? rollout.reward) - known(rollout).mean;
  };
  return {
    name: "rae",
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) =>
          rollout.scorable ? rollout.tokens.map(() => advantageOf(rollout)) : null,
        ),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
    observe(trajectories) {
      for (const rollout of rolloutsOf(trajectories)) {
        const { scorable, reward, first } = rollout;
        if (!scorable || boundOf(rollout) !== undefined) continue;
        const { mean, lowest } = known(rollout);
        memory.set(first.env, {
          mean: decay * mean + (1 - decay) * reward,
          lowest: isCutShort(first) && !first.scoredAtEnd ? lowest : Math.min(lowest, reward),
        });
      }
    },
    state: () => Object.fromEntries(memory),
    restore(state) {
      const entries = Object.entries((state ?? {}) as Record<string, Returns>);
      const isOwn = entries.every(([, said]) => [said?.mean, said?.lowest].every((x) => typeof x === "number"));
      check(isOwn, () => `rae.restore: expected { mean, lowest } for each environment, got ${showValue(state)}`);
      memory = new Map(entries);
    },
  };
}

/**
 * 1 for the rollouts that `filterRollouts` keeps (the successes, the shortest `perTask` of each task, no duplicates), 0
 * for the rest. With the reinforce loss this is supervised fine-tuning on the policy's own filtered rollouts in every
 * step (RAFT, Dong et al. 2023, arXiv 2304.06767).
 */
export function rft(given?: FilterOptions): AdvantageEstimator {
  ROLLOUT_CHOICE.read(given); // so that a bad option is an error now and not in the first step
  return {
    name: "rft",
    readsReturn: false, // it reads whether the episode succeeded
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const chosen = new Set(filterRollouts(trajectories, given));
      return {
        perToken: toColumns(trajectories, rollouts, ({ first, tokens }) =>
          chosen.has(first) ? tokens.map(() => 1) : null,
        ),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
  };
}

export const OUTCOME: Table<AdvantageEstimator> = {
  rae: {
    options: RAE,
    make: rae,
    formula: "R − b, b a running mean per environment, decay .95, from before the step",
    source: "SPIRAL, arXiv 2506.24119",
  },
  rft: {
    options: ROLLOUT_CHOICE,
    make: rft,
    formula: "1 for the successes, the shortest `perTask` (4) of each task; else 0",
    source: "RAFT, arXiv 2304.06767",
  },
};
