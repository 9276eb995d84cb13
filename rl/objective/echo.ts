/**
 * ECHO: a world-model loss on the tokens of the environment's answers, from the same forward pass as the policy
 * gradient on the tokens that the agent wrote ("Environment Cross-entropy Hybrid Objective", arXiv 2605.24517).
 *
 *     L = L_policy(actions) + λ · L_Env(O′),   L_Env = mean over episodes of −(1/|O_i|) Σ_{t ∈ O′_i} lp_t
 *
 * The mean is over the episodes that have an observation and are not masked. The loss is plain cross-entropy: no ratio,
 * no clip, no advantage. RL with a constant positive advantage has the same gradient only at ρ = 1; through PPO's clip
 * its gradient is 0 once ρ > 1 + ε. Failed episodes are trained on too: their answers tell as much about the world.
 */
import { check } from "../../engine/errors.ts";
import { inCode, oneOf, options, type OptionsOf, schedule } from "../../engine/optionTable.ts";
import type { Tensor } from "../../engine/index.ts";
import type { Table } from "./names.ts";
import type { TermTokens } from "./terms.ts";
import type { TokenStatistic, TokenStatistics } from "./tokenStatistics.ts";
import { isAgentToken, rolloutRows, type Trajectory } from "../episode/stream.ts";

/** λ at an optimiser step (from 0). */
export type LambdaSchedule = (step: number) => number;

/** λ is `value` at every step. */
export const constantLambda =
  (value: number): LambdaSchedule =>
  (): number =>
    value;

/** λ goes linearly from `from` to `to` over `steps` steps and stays there. */
export function linearLambda(from: number, to: number, steps: number): LambdaSchedule {
  check(steps > 0, () => `linearLambda: steps must be > 0, got ${steps}`);
  return (step) => from + (to - from) * Math.min(1, step / steps);
}

/**
 * Piecewise constant: the value of the last entry whose step is reached. Entries are [step, value], ascending, the
 * first at 0.
 */
export function stepLambda(entries: readonly (readonly [step: number, value: number])[]): LambdaSchedule {
  check(
    entries[0]?.[0] === 0 && entries.every(([step], i) => i === 0 || step > entries[i - 1]![0]),
    () => `stepLambda: expected ascending [step, value] entries that start at step 0, got ${JSON.stringify(entries)}`,
  );
  return (step) => entries.findLast(([from]) => from <= step)![1];
}

/** The denominators of L_Env. */
export const ECHO_NORMALIZATIONS = ["full-observation", "selected", "token-mean"] as const;
/**
 * The denominator of L_Env of `echo`: all observation tokens of an episode (`full-observation`, the paper), its trained
 * ones (`selected`, verl's recipe), or all trained ones of the batch (`token-mean`; prime-rl, OpenEnv, TRL).
 */
export type EchoNormalization = (typeof ECHO_NORMALIZATIONS)[number];

export const ECHO = options("echo", {
  lambda: schedule(0.05, "λ, the weight of the world loss; the paper uses 0.01 to 0.05 and reports a collapse at 0.2", {
    min: 0,
  }),
  normalization: oneOf(
    ECHO_NORMALIZATIONS,
    "full-observation",
    "what L_Env divides by: all observation tokens of an episode, warnings included (the paper), its targets only " +
      "(verl's recipe), or all targets of the batch (prime-rl, OpenEnv, TRL); each needs a λ of its own",
  ),
  filter: inCode<(trajectory: Trajectory, token: number) => boolean>(
    "which of the targets are trained on; by default all",
    "a function of the trajectory and the token",
    (value) => typeof value === "function",
  ),
});
/**
 * Options of `echo`: λ (default 0.05; a number or a function of the step), the `normalization` (default
 * `full-observation`) and a `filter` of the targets (default: all) (docs/methods.md, `echo.…`).
 */
export type EchoOptions = OptionsOf<typeof ECHO>;

/** A loss on the environment's tokens. The loss of a token is −lp, unless it has a `tokenLoss`. */
export interface WorldObjective {
  readonly name: string;
  /** Signals that `weights` reads. */
  readonly needs?: readonly TokenStatistic[];
  /** The loss of each token, [N], in the place of −lp. */
  readonly tokenLoss?: (tokens: Pick<TermTokens, "logProbs" | "weighted">) => Tensor;
  /** The largest reward that the weights are made for: those of a group that earns more are cut off. */
  readonly rewardMax?: number;
  /** The weight of each token's loss, per row and token. It includes the denominators of all means. */
  weights(trajectories: readonly Trajectory[], step: number, statistics?: TokenStatistics): Float64Array[];
}

/**
 * The tokens that the environment wrote after the first action: the number of all of them (|O|, warnings included), and
 * which of them are targets (O′).
 * @param continues whether this is a later row of a rollout, so that the first action was in an earlier row
 */
export function observationTokens(
  trajectory: Trajectory,
  continues: boolean = false,
): { all: number; targets: boolean[] } {
  const { roles, targets } = trajectory.stream;
  const firstAction = continues ? 0 : roles.findIndex(isAgentToken);
  const found = { all: 0, targets: new Array<boolean>(roles.length).fill(false) };
  if (trajectory.masked || firstAction < 0) return found;
  // Position 0 has no prediction.
  for (let t = firstAction + 1; t < roles.length; t++) {
    if (roles[t] !== "observation") continue;
    found.all++;
    found.targets[t] = targets[t]!;
  }
  return found;
}

/** `observationTokens` of every row. */
export function observations(trajectories: readonly Trajectory[]): { all: number; targets: boolean[] }[] {
  const continued = new Set(rolloutRows(trajectories).flatMap((rows) => rows.slice(1)));
  return trajectories.map((trajectory, row) => observationTokens(trajectory, continued.has(row)));
}

/** What λ is divided by at the targets of each rollout: the product of these counts, over all rows of the rollout. */
export function echoCounts(
  trajectories: readonly Trajectory[],
  { normalization, filter }: Pick<ReturnType<typeof ECHO.read>, "normalization" | "filter">,
): { rows: readonly number[]; targets: readonly boolean[][]; counts: readonly number[] }[] {
  const found = observations(trajectories);
  const isTrained = (row: number, t: number): boolean => filter?.(trajectories[row]!, t) ?? true;
  const rollouts = rolloutRows(trajectories).map((rows) => {
    const targets = rows.map((row) => found[row]!.targets.map((target, t) => target && isTrained(row, t)));
    const all = rows.reduce((sum, row) => sum + found[row]!.all, 0);
    return { rows, targets, all, selected: targets.flat().filter(Boolean).length };
  });
  const episodes = rollouts.filter((r) => r.all > 0).length;
  const total = rollouts.reduce((sum, r) => sum + r.selected, 0);
  return rollouts.map(({ rows, targets, all, selected }) => {
    const own = normalization === "selected" ? selected : all;
    return { rows, targets, counts: normalization === "token-mean" ? [total] : [episodes, own] };
  });
}

/** The ECHO objective. */
export function echo(given?: EchoOptions): WorldObjective {
  const { lambda, ...options } = ECHO.read(given);
  const lambdaAt: LambdaSchedule = typeof lambda === "number" ? constantLambda(lambda) : lambda;
  return {
    name: "echo",
    weights(trajectories, step) {
      const value = lambdaAt(step);
      check(
        Number.isFinite(value) && value >= 0,
        () => `echo: lambda at step ${step} is ${value}, expected a number ≥ 0`,
      );
      const weights = trajectories.map(({ stream }) => new Float64Array(stream.ids.length));
      for (const { rows, targets, counts } of echoCounts(trajectories, options)) {
        const weight = value / counts.reduce((product, count) => product * count, 1);
        rows.forEach((row, k) => targets[k]!.forEach((isTarget, t) => isTarget && (weights[row]![t] = weight)));
      }
      return weights;
    },
  };
}

/** By name. */
export const ECHO_WORLD: Table<WorldObjective> = {
  echo: {
    options: ECHO,
    make: echo,
    formula: "λ·mean over episodes of −(1/|O|)Σ lp on the environment's tokens",
    source: "ECHO, arXiv 2605.24517",
  },
};
