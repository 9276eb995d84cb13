/**
 * Estimators with a critic: generalised advantage estimation (GAE) and its relatives, and V-trace. All of them run over
 * the agent's tokens only: the next value after a token is the value at the *agent's* next token, whatever the
 * environment wrote in between.
 */
import { check } from "../../engine/errors.ts";
import { flag, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { statistic } from "../../rl/objective/tokenStatistics.ts";
import { rewardsOfTokens, type Rollout, type Trajectory } from "../../rl/episode/stream.ts";
import { type AdvantageEstimator, tokenEstimator } from "../../rl/objective/estimator.ts";

/** Generalised advantages A_t = δ_t + γλA_{t+1}, δ_t = r_t + γV_{t+1} − V_t, with V = A = 0 after the end. */
export function generalizedAdvantages(
  rewards: readonly number[],
  values: readonly number[],
  gamma: number,
  lambda: number,
): number[] {
  const advantages = new Array<number>(rewards.length).fill(0);
  let [next, nextValue] = [0, 0];
  for (let k = rewards.length - 1; k >= 0; k--) {
    next = rewards[k]! + gamma * nextValue - values[k]! + gamma * lambda * next;
    nextValue = values[k]!;
    advantages[k] = next;
  }
  return advantages;
}

const plus = (a: readonly number[], b: readonly number[]): number[] => a.map((x, k) => x + b[k]!);
const valuesOf = ({ tokens }: Rollout, values: readonly Float64Array[]): number[] =>
  tokens.map(({ row, t }) => values[row]![t]!);

const LENGTH_ADAPTIVE = {
  gamma: number(1, "γ per token, or per turn at level `step`", { min: 0, max: 1 }),
  alpha: number(
    undefined,
    "α of VAPO's λ = 1 − 1/(α·length), within [0, 1], which replaces `lambda`; the paper has 0.05",
    {
      above: 0,
    },
  ),
  level: oneOf(["token", "step"], "token", "whether values and advantages are per token, or one per turn (`step`)"),
  whiten: flag(true, "whether advantages are scaled to mean 0 and deviation 1 over the tokens of the batch"),
};

export const GAE = options("gae", {
  ...LENGTH_ADAPTIVE,
  lambda: number(undefined, "λ of the advantages; by default 0.95", { min: 0, max: 1 }),
  lambdaValue: number(undefined, "λ of the critic's targets; by default `lambda`", { min: 0, max: 1 }),
});
/**
 * Options of `gae`: by default γ 1 and λ 0.95, one value per token, whitened advantages (docs/methods.md, `gae.…`).
 * `alpha` replaces `lambda`; both together are an error.
 */
export type GaeOptions = OptionsOf<typeof GAE>;

/** GAE (Schulman et al. 2016, arXiv 1506.02438); length-adaptive λ: VAPO (Yue et al. 2025, arXiv 2504.05118). */
export function gae(given?: GaeOptions): AdvantageEstimator {
  const { gamma, alpha, level, whiten, ...lambdas } = GAE.read(given);
  check(alpha === undefined || lambdas.lambda === undefined, () => "gae: give lambda or alpha, not both");
  const { lambda = 0.95, lambdaValue = lambda } = lambdas;
  const lambdaOf = (length: number): number => (alpha === undefined ? lambda : Math.max(0, 1 - 1 / (alpha * length)));
  return tokenEstimator(
    "gae",
    ["values"],
    (rollout, trajectories, statistics) => {
      const values = valuesOf(rollout, statistic(statistics, "values", "gae"));
      const rewards = rewardsOfTokens(rollout, trajectories);
      if (level === "step") return ofTurns(rollout, rewards, values, gamma, lambdaOf, lambdaValue);
      const advantages = generalizedAdvantages(rewards, values, gamma, lambdaOf(values.length));
      return { advantages, returns: plus(generalizedAdvantages(rewards, values, gamma, lambdaValue), values) };
    },
    whiten,
  );
}

/** Positions of each turn's tokens among the rollout's tokens, turn by turn. */
function turnsOf({ tokens }: Rollout): number[][] {
  const turns: number[][] = [];
  tokens.forEach(({ turn }, k) => {
    if (k > 0 && tokens[k - 1]!.turn === turn) turns.at(-1)!.push(k);
    else turns.push([k]);
  });
  return turns;
}

/** GAE over turns: a turn has one value, that of its first token, and all its tokens share one advantage. */
function ofTurns(
  rollout: Rollout,
  rewards: readonly number[],
  values: readonly number[],
  gamma: number,
  lambdaOf: (length: number) => number,
  lambdaValue: number,
): { advantages: number[]; returns: number[] } {
  const turns = turnsOf(rollout);
  const turnRewards = turns.map((places) => places.reduce((sum, k) => sum + rewards[k]!, 0));
  const turnValues = turns.map((places) => values[places[0]!]!);
  const perTurn = generalizedAdvantages(turnRewards, turnValues, gamma, lambdaOf(turns.length));
  const targets = plus(generalizedAdvantages(turnRewards, turnValues, gamma, lambdaValue), turnValues);
  const advantages = turns.flatMap((places, n) => places.map(() => perTurn[n]!));
  return { advantages, returns: turns.flatMap((places, n) => places.map((_, k) => (k === 0 ? targets[n]! : NaN))) };
}

export const VAPO = options("vapo", {
  ...LENGTH_ADAPTIVE,
  alpha: number(
    0.05,
    "α of λ = 1 − 1/(α·length), within [0, 1]; up to a length of 1/α it is 0: a token learns of later rewards only " +
      "what the critic knows, and with a fresh one policies learn to babble where turns cost",
    { above: 0 },
  ),
});
export type VapoOptions = OptionsOf<typeof VAPO>;

/** GAE with λ = 1 for the critic's targets and λ = 1 − 1/(α·length) for the policy (VAPO, arXiv 2504.05118). */
export function vapo(given?: VapoOptions): AdvantageEstimator {
  return { ...gae({ lambdaValue: 1, ...VAPO.read(given) }), name: "vapo" };
}

export const BI_LEVEL_GAE = options("biLevelGae", {
  gammaTurn: number(0.95, "γ between turns", { min: 0, max: 1 }),
  gamma: number(1, "γ between the tokens of a turn", { min: 0, max: 1 }),
  lambda: number(1, "λ at both levels", { min: 0, max: 1 }),
  whiten: flag(true, "whether advantages are scaled to mean 0 and deviation 1 over the tokens of the batch"),
});
/**
 * Options of `biLevelGae`: by default γ 0.95 between turns, γ 1 within a turn, λ 1 and whitened advantages
 * (docs/methods.md, `bi_level_gae.…`).
 */
export type BiLevelOptions = OptionsOf<typeof BI_LEVEL_GAE>;

/**
 * GAE in two passes (RAGEN, Wang et al. 2025, arXiv 2504.20073). The first runs over turns, with the value of each
 * turn's last token. Its advantage plus that value is the reward at the end of the turn in the second pass, which runs
 * over the tokens of the turn. Turns are found by their number, not by their rewards, so a rollout without rewards
 * needs no special case.
 */
export function biLevelGae(given?: BiLevelOptions): AdvantageEstimator {
  const { gammaTurn, gamma, lambda, whiten } = BI_LEVEL_GAE.read(given);
  const ofRollout = (
    rollout: Rollout,
    rewards: readonly number[],
    values: readonly number[],
  ): { advantages: number[]; returns: number[] } => {
    const turns = turnsOf(rollout);
    const turnRewards = turns.map((places) => places.reduce((sum, k) => sum + rewards[k]!, 0));
    const lastValues = turns.map((places) => values[places.at(-1)!]!);
    const targets = plus(generalizedAdvantages(turnRewards, lastValues, gammaTurn, lambda), lastValues);
    const advantages = turns.flatMap((places, n) => {
      const inside = places.map((_, k) => (k === places.length - 1 ? targets[n]! : 0));
      const valuesInside = places.map((k) => values[k]!);
      return generalizedAdvantages(inside, valuesInside, gamma, lambda);
    });
    return { advantages, returns: plus(advantages, values) };
  };
  return tokenEstimator(
    "bi_level_gae",
    ["values"],
    (rollout, trajectories, statistics) =>
      ofRollout(
        rollout,
        rewardsOfTokens(rollout, trajectories),
        valuesOf(rollout, statistic(statistics, "values", "bi_level_gae")),
      ),
    whiten,
  );
}

export const VTRACE = options("vtrace", {
  gamma: number(1, "γ per token", { min: 0, max: 1 }),
  lambda: number(1, "λ", { min: 0, max: 1 }),
  rhoBar: number(1, "ρ̄, the largest weight of a token's own temporal difference", { above: 0 }),
  cBar: number(1, "c̄, the largest weight with which later temporal differences reach back", { above: 0 }),
});
/** Options of `vtrace`: γ, λ and the bounds ρ̄ and c̄, all 1 by default (docs/methods.md, `vtrace.…`). */
export type VtraceOptions = OptionsOf<typeof VTRACE>;

/**
 * V-trace, for rollouts of a policy μ that is older than the learner's π (Espeholt et al. 2018, arXiv 1802.01561,
 * §4.1). It goes with the reinforce loss:
 *
 *     ρ_t = min(ρ̄, π/μ),   c_t = λ·min(c̄, π/μ),   δ_t = ρ_t(r_t + γV_{t+1} − V_t)
 *     v_t = V_t + δ_t + γc_t(v_{t+1} − V_{t+1}),   A_t = ρ_t(r_t + γv_{t+1} − V_t)
 *
 * The critic's targets are v_t. μ is the probability that the sampler recorded.
 */
export function vtrace(given?: VtraceOptions): AdvantageEstimator {
  const { gamma, lambda, rhoBar, cBar } = VTRACE.read(given);
  const ofRollout = (
    rewards: readonly number[],
    V: readonly number[],
    ratios: readonly number[],
  ): { advantages: number[]; returns: number[] } => {
    const n = rewards.length;
    const [advantages, returns] = [new Array<number>(n).fill(0), new Array<number>(n).fill(0)];
    let [vNext, VNext] = [0, 0];
    for (let k = n - 1; k >= 0; k--) {
      const rho = Math.min(rhoBar, ratios[k]!);
      const c = lambda * Math.min(cBar, ratios[k]!);
      const delta = rho * (rewards[k]! + gamma * VNext - V[k]!);
      advantages[k] = rho * (rewards[k]! + gamma * vNext - V[k]!);
      vNext = V[k]! + delta + gamma * c * (vNext - VNext);
      VNext = V[k]!;
      returns[k] = vNext;
    }
    return { advantages, returns };
  };
  const estimator = tokenEstimator(
    "vtrace",
    ["values", "logProbs"],
    (rollout, trajectories: readonly Trajectory[], statistics) => {
      const logProbs = statistic(statistics, "logProbs", "vtrace");
      const ratios = rollout.tokens.map(({ row, t }) =>
        Math.exp(logProbs[row]![t]! - trajectories[row]!.stream.oldLogProbs[t]!),
      );
      return ofRollout(
        rewardsOfTokens(rollout, trajectories),
        valuesOf(rollout, statistic(statistics, "values", "vtrace")),
        ratios,
      );
    },
    false,
  );
  return { ...estimator, offPolicy: true };
}

export const CRITIC: Table<AdvantageEstimator> = {
  gae: {
    options: GAE,
    make: gae,
    formula: "A_t = δ_t + γλA_{t+1}; observation tokens skipped without decay; `level: step`: one value a turn",
    source: "GAE, arXiv 1506.02438",
  },
  vapo: {
    options: VAPO,
    make: vapo,
    formula: "gae; λ_value 1, λ_policy 1 − 1/(α·len), α = .05",
    source: "VAPO, arXiv 2504.05118",
  },
  bi_level_gae: {
    options: BI_LEVEL_GAE,
    make: biLevelGae,
    formula: "gae over turns (γ .95), then over the tokens of each turn",
    source: "RAGEN, arXiv 2504.20073",
  },
  vtrace: {
    options: VTRACE,
    make: vtrace,
    formula: "A_t = ρ_t(r_t + γv_{t+1} − V_t), ρ_t = min(ρ̄, π/μ), c_t = λ·min(c̄, π/μ)",
    source: "V-trace, arXiv 1802.01561",
  },
};
