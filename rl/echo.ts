/**
 * ECHO: a world-model loss on the tokens that the environment answered, from the same forward pass as the policy gradient on the
 * tokens that the agent wrote ("Environment Cross-entropy Hybrid Objective", arXiv 2605.24517).
 *
 *     L = L_policy(actions) + λ · L_Env(O′),   L_Env = mean over episodes of −(1/|O_i|) Σ_{t ∈ O′_i} lp_t
 *
 * The mean is over the episodes that have an observation and are not masked.
 * It is plain cross-entropy: no ratio, no clip, no advantage. "RL with a constant positive advantage" has the same gradient only
 * at ρ = 1; through PPO's clip it is 0 once ρ > 1 + ε. Failed episodes are trained on too; that is the point.
 */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import type { Trajectory } from "./stream.ts";

/**
 * What L_Env divides by. λ is not portable between them.
 * `full-observation`: |O_i|, all observation tokens of an episode, warnings included (the paper);
 * `selected`: |O′_i|, its targets only (verl's recipe); `token-mean`: all targets of the batch (prime-rl, OpenEnv, TRL's demo).
 */
export const ECHO_NORMALIZATIONS = ["full-observation", "selected", "token-mean"] as const;
export type EchoNormalization = (typeof ECHO_NORMALIZATIONS)[number];

/** λ at an optimiser step (from 0). */
export type LambdaSchedule = (step: number) => number;

export const constantLambda =
  (value: number): LambdaSchedule =>
  (): number =>
    value;

/** From `from` to `to` over `steps`, then constant. */
export function linearLambda(from: number, to: number, steps: number): LambdaSchedule {
  check(steps > 0, () => `linearLambda: steps must be > 0, got ${steps}`);
  return (step) => from + (to - from) * Math.min(1, step / steps);
}

/** Piecewise constant: the value of the last entry whose step is reached. Entries are [step, value], ascending, the first at 0. */
export function stepLambda(entries: readonly (readonly [step: number, value: number])[]): LambdaSchedule {
  check(
    entries[0]?.[0] === 0 && entries.every(([step], i) => i === 0 || step > entries[i - 1]![0]),
    () => `stepLambda: expected ascending [step, value] entries that start at step 0, got ${JSON.stringify(entries)}`,
  );
  return (step) => entries.findLast(([from]) => from <= step)![1];
}

export interface EchoOptions {
  /** Default 0.05; productive .01–.05 with the paper's normalisation, collapse into easily predicted answers at .2. */
  readonly lambda?: number | LambdaSchedule;
  readonly normalization?: EchoNormalization;
  /** Further restricts the targets O′. */
  readonly filter?: (trajectory: Trajectory, token: number) => boolean;
}

/** A loss on environment tokens: weights of −lp per episode and token, denominators included. */
export interface WorldObjective {
  readonly name: string;
  weights(trajectories: readonly Trajectory[], step: number): Float64Array[];
}

/** Tokens that the environment wrote after the first action: O (with warnings) and, among them, the targets O′. */
export function observationTokens(trajectory: Trajectory): { all: number; targets: boolean[] } {
  const { roles, targets } = trajectory.stream;
  const firstAction = roles.findIndex((role) => role === "action" || role === "thought");
  const isObservation = (t: number): boolean =>
    !trajectory.masked && firstAction >= 0 && t > firstAction && roles[t] === "observation";
  return {
    all: roles.filter((_, t) => isObservation(t)).length,
    targets: roles.map((_, t) => isObservation(t) && targets[t]!),
  };
}

/** The ECHO objective. */
export function echo(options: EchoOptions = {}): WorldObjective {
  checkKeys("echo", options, ["lambda", "normalization", "filter"]);
  const { lambda = 0.05, normalization = "full-observation", filter } = options;
  const schedule = typeof lambda === "number" ? constantLambda(lambda) : lambda;
  check(
    ECHO_NORMALIZATIONS.includes(normalization),
    () => `echo: unknown normalization "${normalization}", expected ${ECHO_NORMALIZATIONS.join(", ")}`,
  );
  return {
    name: "echo",
    weights(trajectories, step) {
      const observed = trajectories.map((trajectory) => {
        const { all, targets } = observationTokens(trajectory);
        const selected = targets.map((target, t) => target && (filter?.(trajectory, t) ?? true));
        return { all, selected, count: selected.filter(Boolean).length };
      });
      const value = schedule(step);
      check(
        Number.isFinite(value) && value >= 0,
        () => `echo: lambda at step ${step} is ${value}, expected a number ≥ 0`,
      );
      const episodes = observed.filter((o) => o.all > 0).length;
      const total = observed.reduce((sum, o) => sum + o.count, 0);
      return observed.map(({ all, selected, count }) => {
        const denominator =
          normalization === "token-mean" ? total : episodes * (normalization === "selected" ? count : all);
        return Float64Array.from(selected, (target) => (target ? value / denominator : 0));
      });
    },
  };
}
