/**
 * Terms of the loss. A term is Σ weight · loss over the tokens of a step, and the loss of a step is the sum of its
 * terms:
 *
 *     L = Σ wPolicy·ℓ_policy + Σ wWorld·(−lp) + Σ wKl·k − Σ wEntropy·H + Σ wValue·ℓ_value + …
 *
 * These five belong to every objective (rl/train/loss.ts). Any other term of a method is a `LossTerm` of
 * `Objective.terms`, and may have its own head on the hidden states.
 */
import type { Tensor } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { TokenColumns } from "./policyLoss.ts";
import type { PerToken, TokenStatistic, TokenStatistics } from "./tokenStatistics.ts";

/** A step whose tokens get their weights, before it is split into micro-batches. */
export interface WeighedStep {
  readonly trajectories: readonly Trajectory[];
  /** The number of the step, from 0, for schedules. */
  readonly step: number;
  /** The statistics that the parts of the objective need. */
  readonly statistics: TokenStatistics;
  /** The mask of the policy term, per row and token. */
  readonly masks: readonly (readonly boolean[])[];
  /** The weights that the aggregation alone gives these tokens; their sum is 1, unless it defines another. */
  readonly aggregated: readonly Float64Array[];
}

/** The columns of a term: a number for each row and token. */
export interface TermColumns {
  /** The weight of each token's loss, all denominators included. */
  readonly weight: PerToken;
  /** Further columns that `tokenLoss` reads, by name; 0 where a row has none. */
  readonly columns?: Readonly<Record<string, PerToken>>;
}

/** The N tokens of a micro-batch, as a term sees them: each column [N]. */
export interface TermTokens extends TokenColumns {
  /** Entropy of the policy where the token was drawn, in nats. The gradient flows through it. */
  readonly entropy: Tensor;
  /** 1 where the term has a weight, else 0. */
  readonly weighted: Tensor;
  /** The prediction of the term's head at each token. @throws if the term has none */
  readonly predictions: Tensor;
  /** A column that the term has made. @throws if it has made none of this name */
  readonly column: (name: string) => Tensor;
}

/** The training of a term's head. */
export interface HeadTraining {
  /** Whether its loss also trains the transformer under it. Default true. */
  readonly trunk?: boolean;
  /** Its learning rate, as a multiple of the policy's. Default 1. */
  readonly rate?: number;
}

/** A term of the loss beside those that every objective has. */
export interface LossTerm {
  /** The name in the metrics `NAME_loss` and `grad_share/NAME`, and that of its head among the learner's `heads`. */
  readonly name: string;
  /** Statistics that `weigh` reads. */
  readonly needs?: readonly TokenStatistic[];
  /** A linear head on the hidden states, one number per token, which is trained along with the policy. */
  readonly head?: HeadTraining;
  /** Weights of a step's tokens, which may only be > 0 where a token is predicted (not at position 0). */
  weigh(step: WeighedStep): TermColumns;
  /** The loss of each token, [N]. Must be finite where the weight is 0. */
  tokenLoss(tokens: TermTokens): Tensor;
}

/** The terms that every objective has; no other term may have such a name. */
export const OWN_TERMS = ["policy", "world", "imitation", "kl", "entropy", "value"] as const;

/** @throws if two terms have one name, or a name that a term of every objective has */
export function checkTerms(names: readonly string[]): void {
  const all: readonly string[] = [...OWN_TERMS, ...names];
  const twice = names.find((name) => all.indexOf(name) !== all.lastIndexOf(name));
  check(twice === undefined, () => `objective: two terms of the loss are called "${twice}"`);
}
