/**
 * The terms of the loss as formulas, one beside what each means:
 *
 *     L = Σ wPolicy·ℓ_policy + Σ wWorld·(−log p) + Σ wPaW·ℓ_PaW + Σ wKl·k − Σ wEntropy·H + Σ wValue·ℓ_value
 *         + Σ wReturn·½(v − R)²
 *
 * as in rl/objective/objective.ts. What a token's term moves is its log-probability; of the entropy bonus it is the
 * whole distribution at its place, of the critic's loss and of return prediction the predicted value.
 */
import { expr, type Expr, where } from "../../kernels/expr.ts";
import type { KlClamp, KlEstimator } from "../../rl/objective/kl.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { type Draft, Formula, type TokenNumbers } from "./language.ts";
import { POLICY_FORMULAS, policyFormula } from "./policy.ts";

/** A penalty on moving away from the reference, as it stands in the loss. */
export interface KlForm {
  readonly estimator: KlEstimator;
  readonly clamp?: KlClamp;
  readonly importance: boolean;
}

/** What the loss of a step is made of, as plain data. A part that is missing is no part of it. */
export interface LossForm {
  readonly policy?: { readonly name: string; readonly options: object };
  readonly kl?: KlForm;
  /** ρ of PaW's clipped error. */
  readonly worldClip?: number;
  /** ε of the critic's loss. */
  readonly valueClip?: number;
  /** Whether returns are predicted. */
  readonly isReturnPredicted?: boolean;
}

export const TERM_NAMES = [
  "policy",
  "world",
  "imitation",
  "paw",
  "kl",
  "entropy",
  "value",
  "return_prediction",
] as const;
export type TermName = (typeof TERM_NAMES)[number];

interface Term {
  readonly title: string;
  readonly about: (form: LossForm) => string;
  /** Its weight at a token, and the weight's symbol. */
  readonly weightAt: (row: TokenRow, t: number) => number;
  readonly weight: string;
  /** What its gradient is taken of. */
  readonly moves: "log p" | "H" | "v";
  /** What it reads in the place of the token's numbers. */
  readonly own?: (report: StepReport, row: number, t: number) => Partial<TokenNumbers>;
  /** undefined: the loss has no such term. */
  readonly formula: (form: LossForm) => Formula | undefined;
}

const k2 = (d: Expr): Expr => expr(0.5).mul(d.square());
const k3 = (d: Expr): Expr => d.exp().sub(d).sub(1);
/** The estimators of the KL in terms of d = log p_ref − log p, and what each is. */
export const KL_FORMULAS: Readonly<Record<KlEstimator, { readonly about: string; readonly of: (d: Expr) => Expr }>> = {
  k1: { about: "Right on average, of either sign at a single token.", of: (d) => d.neg() },
  k2: { about: "Never negative; its value is biased, its gradient is right.", of: k2 },
  k3: { about: "Never negative and right on average; its gradient is that of the other KL.", of: k3 },
  abs: { about: "How far apart the two log-probabilities are.", of: (d) => d.abs() },
  "k3+": {
    about: "The value of k3 with the gradient of k2: both are right.",
    of: (d) => k2(d).add(k3(d).sub(k2(d)).stopGradient()),
  },
};

/** @param given the penalty, if it is in the loss */
export function klFormula({ estimator, clamp, importance }: KlForm): Formula {
  return new Formula((f) => {
    const { lp, old, ref } = f.token;
    const plain = ref.sub(lp);
    const bounded = (x: Expr, symbol: string, bound: number): Expr => {
      const limit = f.option(symbol, bound);
      return x.clamp(limit.neg(), limit);
    };
    const d = f.part("d", clamp ? bounded(plain, "c_in", clamp.logRatio) : plain);
    const estimate = KL_FORMULAS[estimator].of(d);
    const k = clamp ? bounded(f.part("k", estimate), "c_out", clamp.value) : estimate;
    return importance ? f.part("ρ", lp.sub(old).exp()).mul(k) : k;
  });
}

const surprise = ({ token: { lp } }: Draft): Expr => lp.neg();

export const TERMS: Readonly<Record<TermName, Term>> = {
  policy: {
    title: "policy",
    about: ({ policy }) => (policy ? (POLICY_FORMULAS[policy.name]?.about ?? "") : ""),
    weightAt: ({ wPolicy }, t) => wPolicy[t]!,
    weight: "w_policy",
    moves: "log p",
    formula: ({ policy }) => policy && policyFormula(policy.name, policy.options),
  },
  world: {
    title: "world model",
    about: () => "What the environment wrote is made likelier: the agent learns to predict it.",
    weightAt: ({ wWorld }, t) => wWorld[t]!,
    weight: "w_world",
    moves: "log p",
    formula: () => new Formula(surprise),
  },
  imitation: {
    title: "imitation",
    about: () => "The token is made likelier, because it is part of a success or a demonstration.",
    weightAt: ({ wWorld }, t) => wWorld[t]!,
    weight: "w_imitation",
    moves: "log p",
    formula: () => new Formula(surprise),
  },
  paw: {
    title: "world model (PaW)",
    about: () => "The error of a token that the agent did not expect; 0 once its probability is above the bound.",
    weightAt: ({ weights }, t) => weights["paw"]?.[t] ?? 0,
    weight: "w_world",
    moves: "log p",
    formula: ({ worldClip }) =>
      worldClip === undefined
        ? undefined
        : new Formula((f) => {
            const p = f.part("p", f.token.lp.exp());
            return where(p.le(f.option("ρ_PaW", worldClip)), expr(1).sub(p), 0);
          }),
  },
  kl: {
    title: "KL penalty",
    about: ({ kl }) => (kl ? `Keeps the policy near the reference. ${KL_FORMULAS[kl.estimator].about}` : ""),
    weightAt: ({ wKl }, t) => wKl[t]!,
    weight: "w_KL",
    moves: "log p",
    formula: ({ kl }) => kl && klFormula(kl),
  },
  entropy: {
    title: "entropy bonus",
    about: () => "Rewards an even distribution at this place, whichever token was drawn.",
    weightAt: ({ wEntropy }, t) => wEntropy[t]!,
    weight: "w_H",
    moves: "H",
    formula: () => new Formula((f) => f.token.H.neg(), "H"),
  },
  value: {
    title: "critic",
    about: () => "The critic's error, of the value or of the value that has moved by ε at most, whichever is larger.",
    weightAt: ({ wValue }, t) => wValue[t]!,
    weight: "w_value",
    moves: "v",
    formula: ({ valueClip }) =>
      valueClip === undefined
        ? undefined
        : new Formula((f) => {
            const { value, oldValue, target } = f.token;
            const epsilon = f.option("ε", valueClip);
            const clipped = value.clamp(oldValue.sub(epsilon), oldValue.add(epsilon));
            return expr(0.5).mul(value.sub(target).square().max(clipped.sub(target).square()));
          }, "value"),
  },
  return_prediction: {
    title: "return prediction",
    about: () => "The error of a head that predicts what the episode will have earned; the advantages do not read it.",
    weightAt: ({ weights }, t) => weights["return_prediction"]?.[t] ?? 0,
    weight: "w_return",
    moves: "v",
    own: ({ rows, scores }, row, t) => ({
      value: scores.predictions?.["return_prediction"]?.[row]![t] ?? NaN,
      target: rows[row]!.more["return_prediction.return"]?.[t] ?? NaN,
    }),
    formula: ({ isReturnPredicted }) =>
      isReturnPredicted
        ? new Formula(({ token: { value, target } }) => expr(0.5).mul(value.sub(target).square()), "value")
        : undefined,
  },
};
