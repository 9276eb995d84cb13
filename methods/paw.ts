/**
 * PaW: a world-model loss on selected transitions (arXiv 2606.02388). It makes three changes to plain next-observation
 * prediction, and each can be switched off: transitions are selected by the entropy of their action; the loss of a
 * token is bounded, and is 0 where the token is already likely; groups that already succeed get a smaller weight.
 *    L = E_groups[ L_RL(g) + λ_g · mean over selected transitions of ℓ ]
 *     ℓ = Σ_i 1[p_i ≤ ρ]·(1 − p_i) / |o|,   λ_g = 1 − R̄_g/R_max
 */
import { named, where } from "../kernels/expr.ts";
import { bounds, number, oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import { fuse, type Pointwise, Rng, type Tensor } from "../engine/index.ts";
import { groupBy } from "../rl/episode/groups.ts";
import { observations, type WorldObjective } from "../rl/objective/echo.ts";
import type { Table } from "../rl/objective/names.ts";
import { statistic, type TokenStatistics } from "../rl/objective/tokenStatistics.ts";
import { isAgentToken, type Rollout, rolloutsOf, type Trajectory } from "../rl/episode/stream.ts";

/**
 * 1[p ≤ ρ]·(1 − p), with the indicator as a constant. The error is bounded, and 0 for a token that is already likely,
 * so that noise in the environment's answers cannot dominate (PaW, arXiv 2606.02388). 1 − p is computed as −expm1(lp).
 */
export const clippedErrorLoss: Pointwise<Tensor> = fuse("clippedError", (lp, mask, rho) => {
  const masked = where(mask, lp, 0);
  return where(named("p", masked.exp()).le(named("ρ_PaW", rho)), masked.expm1().neg(), 0); // 1 − 1 outside the mask
});

export const PAW = options("paw", {
  alpha: number(0.75, "share of the update's transitions that are trained on", { min: 0, max: 1 }),
  selection: oneOf(
    ["entropy", "random", "all"],
    "entropy",
    "which transitions are trained on: those of highest action entropy, a random share, or all",
  ),
  entropy: oneOf(
    ["full", "sampled"],
    "full",
    "how action entropy is measured: over the whole vocabulary, as the paper's text says, which costs a scoring " +
      "pass, " +
      "or as −q·log q of the sampled token, as the paper's formula says",
  ),
  loss: oneOf(["clipped", "cross-entropy"], "clipped", "the loss of a token: 1[p ≤ ρ]·(1 − p), or −log p"),
  rho: number(0.2, "ρ of the clipped loss", { min: 0, max: 1 }),
  weight: oneOf(["adaptive", "constant"], "adaptive", "λ_g, the weight of a group: 1 − R̄_g/R_max, or 1"),
  rewardMax: number(1, "R_max, the largest possible reward", { above: 0 }),
  clamp: bounds([0, 1], "bounds of λ_g; the paper states none"),
  coefficient: number(1, "factor on the whole world loss", { min: 0 }),
  seed: number(0, "seed of the selection `random`"),
});
/**
 * Options of `paw`: by default the 75 % of a step's transitions with the highest action entropy are trained with the
 * clipped error (ρ 0.2), and a group weighs 1 − R̄_g/R_max with R_max 1 (docs/methods.md, `paw.…`).
 */
export type PawOptions = OptionsOf<typeof PAW>;

/** An action and the observation that answered it. */
export interface Transition {
  readonly rollout: Rollout;
  readonly turn: number;
  /** Places of the action's tokens, and of the answer's targets. */
  readonly action: readonly (readonly [row: number, t: number])[];
  readonly targets: readonly (readonly [row: number, t: number])[];
  /** |o|: all tokens of the answer, warnings included. */
  readonly length: number;
}

/** All transitions whose answer has targets to predict, in order. */
export function transitionsOf(trajectories: readonly Trajectory[]): Transition[] {
  const observed = observations(trajectories);
  return rolloutsOf(trajectories).flatMap((rollout) => {
    const places = rollout.rows.flatMap((row) => trajectories[row]!.stream.ids.map((_, t) => [row, t] as const));
    const turnOf = ([row, t]: readonly [number, number]): number => trajectories[row]!.stream.turns[t]!;
    return groupBy(places, turnOf).flatMap((members): Transition[] => {
      const roleOf = ([row, t]: readonly [number, number]): string => trajectories[row]!.stream.roles[t]!;
      const sampled = members.filter(([row, t]) => t > 0 && isAgentToken(trajectories[row]!.stream.roles[t]!));
      const actions = sampled.filter((place) => roleOf(place) === "action");
      const targets = members.filter(([row, t]) => observed[row]!.targets[t]);
      const length = members.filter((place) => roleOf(place) === "observation").length;
      if (sampled.length === 0 || targets.length === 0) return [];
      return [{ rollout, turn: turnOf(members[0]!), action: actions.length > 0 ? actions : sampled, targets, length }];
    });
  });
}

/** λ_g, the weight of a group. @param rewards the rewards of the group's scorable rollouts */
export function pawLambda(
  rewards: readonly number[],
  rewardMax: number,
  clamp: readonly [number, number] | null,
): number {
  if (rewards.length === 0) return 0;
  const lambda = 1 - rewards.reduce((a, b) => a + b, 0) / rewards.length / rewardMax;
  return clamp === null ? lambda : Math.min(clamp[1], Math.max(clamp[0], lambda));
}

/** The action entropy H of a transition: the mean over the action's tokens. */
export function actionEntropy(
  { action }: Pick<Transition, "action">,
  kind: "full" | "sampled",
  trajectories: readonly Trajectory[],
  statistics: TokenStatistics,
): number {
  const full = kind === "full" ? statistic(statistics, "entropy", "paw") : undefined;
  const of = ([row, t]: readonly [number, number]): number => {
    if (full) return full[row]![t]!;
    const lp = trajectories[row]!.stream.oldLogProbs[t]!;
    return -Math.exp(lp) * lp;
  };
  return action.reduce((sum, place) => sum + of(place), 0) / action.length;
}

/** The PaW objective. */
export function paw(given?: PawOptions): WorldObjective {
  const { alpha, selection, entropy, loss, rho, weight, rewardMax, clamp, coefficient, seed } = PAW.read(given);

  const select = (
    transitions: readonly Transition[],
    trajectories: readonly Trajectory[],
    step: number,
    statistics: TokenStatistics,
  ): ReadonlySet<Transition> => {
    const count = Math.ceil(alpha * transitions.length - 1e-9);
    if (selection === "all") return new Set(transitions);
    if (selection === "random") {
      const rng = new Rng(seed).split("paw").split(step);
      return new Set(rng.shuffle([...transitions]).slice(0, count));
    }
    const withEntropy = transitions.map((t) => ({ t, H: actionEntropy(t, entropy, trajectories, statistics) }));
    const ranked = withEntropy.toSorted((a, b) => b.H - a.H);
    return new Set(ranked.slice(0, count).map(({ t }) => t));
  };

  return {
    name: "paw",
    ...(selection === "entropy" && entropy === "full" ? { needs: ["entropy"] as const } : {}),
    ...(loss === "clipped" ? { tokenLoss: ({ logProbs, weighted }) => clippedErrorLoss(logProbs, weighted, rho) } : {}),
    ...(weight === "adaptive" && clamp !== null ? { rewardMax } : {}),
    weights(trajectories, step, statistics = {}) {
      const weights = trajectories.map(({ stream }) => new Float64Array(stream.ids.length));
      const transitions = transitionsOf(trajectories);
      const selected = select(transitions, trajectories, step, statistics);
      const groups = groupBy(rolloutsOf(trajectories), (r) => r.group);
      for (const members of groups) {
        const group = members[0]!.group;
        const own = transitions.filter((t) => selected.has(t) && t.rollout.group === group);
        const rewards = members.filter((r) => r.scorable).map((r) => r.reward);
        const lambda = weight === "adaptive" ? pawLambda(rewards, rewardMax, clamp) : 1;
        for (const { targets, length } of own) {
          const w = (coefficient * lambda) / (groups.length * own.length * length);
          for (const [row, t] of targets) weights[row]![t] = w;
        }
      }
      return weights;
    },
  };
}

/** PaW in the table of world models. */
export const PAW_WORLD: Table<WorldObjective> = {
  paw: {
    options: PAW,
    make: paw,
    formula: "λ_g·mean over the top-α transitions by action entropy of Σ 1[p≤ρ]·(1−p)/|o|, λ_g = 1 − R̄_g/R_max",
    source: "PaW, arXiv 2606.02388",
  },
};
