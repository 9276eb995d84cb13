/**
 * The policy losses as formulas, each beside what it means. Options are those of the library's own tables; the source
 * of each is in POLICY_LOSSES (methods/losses). A loss that is missing here fails tests/site/formulas.test.ts, which
 * compares each formula with the loss and its gradient, over random tokens and options.
 */
import { expr, type Expr, where } from "../../kernels/expr.ts";
import type { OptionTable } from "../../engine/optionTable.ts";
import { PPO_CLIP } from "../../rl/objective/clipped.ts";
import { SAPO } from "../../methods/losses/sapo.ts";
import { CLIP_COV, KL_COV } from "../../methods/losses/covariance.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { DPO, type PreferenceLoss } from "../../methods/losses/preference.ts";
import { GMPO, GSPO, VESPO, WEBRL } from "../../methods/losses/sequence.ts";
import { CISPO, DPPO, DRO, PRIME_RL } from "../../methods/losses/weighted.ts";
import { entryByName } from "../../rl/objective/names.ts";
import { type Draft, Formula } from "./language.ts";

interface PolicyFormula {
  /** What the loss does, in one sentence. */
  readonly about: string;
  /** @param options with their defaults; @param given as they were given */
  readonly write: (draft: Draft, options: object, given: object) => Expr;
}

const loss = <T extends OptionTable>(
  about: string,
  write: (draft: Draft, options: ReturnType<T["read"]>, given: Partial<ReturnType<T["read"]>>) => Expr,
): PolicyFormula => ({ about, write: write as PolicyFormula["write"] });
/** A loss without options. */
const plain = (about: string, write: (draft: Draft) => Expr): PolicyFormula => ({ about, write });

const one = expr(1);
const ratio = ({ part, token: { lp, old } }: Draft): Expr => part("ρ", lp.sub(old).exp());
/** max(−ρA, −clip(ρ)A) */
const clipped = (rho: Expr, clip: Expr, A: Expr): Expr => rho.mul(A).neg().max(clip.mul(A).neg());
/** The value of `level`, a constant, with the derivative of `x`. */
const tokenForm = (x: Expr, level: Expr): Expr => x.sub(x.stopGradient()).add(level);
/** 1 where both comparisons hold. */
const both = (a: Expr, b: Expr): Expr => a.mul(b);

const ppo: PolicyFormula = loss<typeof PPO_CLIP>(
  "PPO's clip: a token is no longer pushed once its ratio has left the bounds on the side that A pushes to.",
  (f, { epsilon, epsilonHigh = epsilon, dualClip, delta }) => {
    const { A } = f.token;
    const rho = ratio(f);
    const clip = rho.clamp(one.sub(f.option("ε_low", epsilon)), one.add(f.option("ε_high", epsilonHigh)));
    const bounded = clipped(delta === undefined ? rho : rho.min(f.option("δ", delta)), clip, A);
    if (dualClip === undefined) return bounded;
    const own = f.part("ℓ_clip", bounded);
    return where(A.lt(0), own.min(f.option("c", dualClip).mul(A).neg()), own);
  },
);

/** 1, or 0 once the policy has moved further than ε towards the sign of A. */
function kept(f: Draft, distance: Expr, low: Expr, high: Expr, sameBound: boolean): Expr {
  const { lp, old, A } = f.token;
  const bound = sameBound ? high : f.part("ε_A", where(A.gt(0), high, low));
  const towards = A.mul(lp.exp().sub(old.exp())).gt(0);
  return f.part("m", where(both(towards, distance.gt(bound)), 0, 1));
}
const movedBy = ({ token: { lp, old } }: Draft): Expr => lp.exp().sub(old.exp()).abs();

const dppo = (about: string, distance: (f: Draft) => Expr): PolicyFormula =>
  loss<typeof DPPO>(about, (f, { epsilon, epsilonHigh }) => {
    const { A, lp } = f.token;
    const rho = ratio(f);
    const D = f.part("D", distance(f));
    const m = kept(f, D, f.option("ε_low", epsilon), f.option("ε_high", epsilonHigh), false);
    return m.mul(rho).stopGradient().mul(A).mul(lp).neg();
  });

/** KL of the choice "this token or another", under the old and the new policy; 1 − p is at least 1e-8. */
function binaryKl({ token: { lp, old } }: Draft): Expr {
  const rest = (x: Expr): Expr => one.sub(x.exp()).max(1e-8);
  return old
    .exp()
    .mul(old.sub(lp))
    .add(rest(old).mul(rest(old).log().sub(rest(lp).log())));
}

/** A loss of a pair of answers, of which A says which one a token belongs to: 1 the better, −1 the worse. */
const pair = (about: string, form?: PreferenceLoss): PolicyFormula =>
  loss<typeof DPO>(about, (f, { beta: given, loss: chosen, average }) => {
    const { lp, ref, A, sideLength } = f.token;
    const beta = f.option("β", given);
    const own = A.mul(lp.sub(ref));
    const h = f.level("h", "sum", average ? own.div(sideLength) : own, false);
    const kind = form ?? chosen;
    if (kind === "ipo") return h.sub(one.div(expr(2).mul(beta))).square();
    if (kind === "hinge") return expr(0).max(one.sub(beta.mul(h)));
    return one.add(beta.mul(h).neg().exp()).log();
  });

export const POLICY_FORMULAS: Readonly<Record<string, PolicyFormula>> = {
  ppo,
  dual_clip: {
    ...ppo,
    about: "PPO's clip; where A < 0 the loss is at most −cA, so that a huge ratio cannot dominate.",
  },
  sapo: loss<typeof SAPO>(
    "A smooth gate in the place of the clip: the further the ratio has moved, the smaller the push.",
    (f, { temperaturePositive, temperatureNegative }) => {
      const { A } = f.token;
      const rho = ratio(f);
      const [positive, negative] = [f.option("τ_+", temperaturePositive), f.option("τ_−", temperatureNegative)];
      const tau = f.part("τ", where(A.gt(0), positive, negative));
      return expr(4)
        .div(tau)
        .mul(tau.mul(rho.sub(1)).sigmoid())
        .mul(A)
        .neg();
    },
  ),
  reinforce: plain(
    "The policy gradient itself: likelier if A is above 0, less likely if below.",
    ({ token: { A, lp } }) => A.mul(lp).neg(),
  ),
  importance_sampling: plain("The policy gradient, weighed by the ratio, so that older samples count right.", (f) =>
    ratio(f).mul(f.token.A).neg(),
  ),
  cispo: loss<typeof CISPO>(
    "The clipped ratio is a weight without a gradient, so that every token keeps its own.",
    (f, { cap, epsilon = 0.2, epsilonHigh = cap === "offset" ? 0.28 : 5 }) => {
      const { A, lp } = f.token;
      const rho = ratio(f);
      const high = f.option("ε_high", epsilonHigh);
      const bounded = cap === "offset" ? rho.clamp(one.sub(f.option("ε_low", epsilon)), one.add(high)) : rho.min(high);
      return bounded.stopGradient().mul(A).mul(lp).neg();
    },
  ),
  dro: loss<typeof DRO>(
    "Regression: the log-ratio is drawn towards the advantage over β; right for old samples, too.",
    (f, { beta }) => {
      const { lp, old, A } = f.token;
      return expr(0.5).mul(f.option("β", beta)).mul(lp.sub(old).square()).sub(A.mul(lp));
    },
  ),
  dppo_tv: dppo("The policy gradient, until the token's probability has moved by more than ε towards A.", movedBy),
  dppo_kl: dppo("The same, with the KL of “this token or another” as the distance.", binaryKl),
  prime_rl: loss<typeof PRIME_RL>(
    "The weighed policy gradient on tokens whose probability has not moved far, and a pull back on all.",
    (f, { threshold, klTau, symmetric }) => {
      const { lp, old, A } = f.token;
      const rho = ratio(f);
      const bound = f.option("ε", threshold);
      const distance = f.part("D", movedBy(f));
      const m = symmetric ? f.part("m", where(distance.gt(bound), 0, 1)) : kept(f, distance, bound, bound, true);
      return f.option("τ", klTau).mul(lp.sub(old).square()).sub(m.mul(rho).mul(A));
    },
  ),
  kl_cov: loss<typeof KL_COV>(
    "The weighed policy gradient; the few tokens that cost most entropy (M = 1) are held back.",
    (f, { coefficient }) => {
      const { lp, old, A, chosen } = f.token;
      return chosen.mul(f.option("κ", coefficient)).mul(lp.sub(old).abs()).sub(ratio(f).mul(A));
    },
  ),
  clip_cov: loss<typeof CLIP_COV>(
    "PPO's clip; some of the tokens that cost most entropy are left out (M = 0).",
    (f, { epsilon, epsilonHigh = epsilon }) => {
      const rho = ratio(f);
      const clip = rho.clamp(one.sub(f.option("ε_low", epsilon)), one.add(f.option("ε_high", epsilonHigh)));
      return f.token.chosen.mul(clipped(rho, clip, f.token.A));
    },
  ),
  m2po: plain("The weighed policy gradient without the tokens whose ratio has moved most (M = 0).", (f) =>
    f.token.chosen.mul(ratio(f)).mul(f.token.A).neg(),
  ),
  gspo: loss<typeof GSPO>(
    "PPO's clip of the sequence's ratio s; each token has the derivative of its own log p.",
    (f, { epsilon, epsilonHigh }, given) => {
      const { lp, old, A } = f.token;
      const level = f.level("ln s", "mean", lp.sub(old), true);
      const s = f.part("s_t", tokenForm(lp, level.min(10)).exp());
      const high = f.option("ε_high", epsilonHigh ?? given.epsilon ?? 4e-4);
      return clipped(s, s.clamp(one.sub(f.option("ε_low", epsilon)), one.add(high)), A);
    },
  ),
  gmpo: loss<typeof GMPO>(
    "One ratio per sequence, the geometric mean of its tokens' ratios, each clipped on the side that A pushes to.",
    (f, { epsilon, epsilonHigh = epsilon }) => {
      const { lp, old, A } = f.token;
      const [x, sign] = [lp.sub(old), A.sign()];
      const clip = x.clamp(f.option("ε_low", epsilon).neg(), f.option("ε_high", epsilonHigh));
      const pulled = f.part("x", sign.mul(sign.mul(x).min(sign.mul(clip))));
      const level = f.level("ln s", "mean", pulled, true);
      return tokenForm(pulled, level).exp().mul(A).neg();
    },
  ),
  vespo: loss<typeof VESPO>(
    "The policy gradient, weighed by a smooth function φ of the ratio of the whole sequence.",
    (f, { kPos, kNeg, lambdaPos, lambdaNeg, detached }) => {
      const { lp, old, A } = f.token;
      const level = f.level("ln w", "sum", lp.sub(old), detached);
      const x = f.part("x", level.clamp(Math.log(1e-8), 20));
      const k = f.part("k", where(A.ge(0), f.option("k_+", kPos), f.option("k_−", kNeg)));
      const lambda = f.part("λ", where(A.ge(0), f.option("λ_+", lambdaPos), f.option("λ_−", lambdaNeg)));
      const phi = f.part("φ", lambda.add(k.mul(x)).sub(lambda.mul(x.exp())).exp());
      return phi.mul(A).mul(lp).neg();
    },
  ),
  webrl: loss<typeof WEBRL>(
    "Regression: the log-ratio of the whole sequence to the reference is drawn to the advantage over β.",
    (f, { beta }) => {
      const { lp, ref, A } = f.token;
      const level = f.level("h", "sum", lp.sub(ref), false);
      return f.option("β", beta).mul(level).sub(A).square();
    },
  ),
  sft: plain("Imitation: every token is made likelier.", ({ token: { lp } }) => lp.neg()),
  dft: plain("Imitation in which likely tokens count more, as under a reward of 1 for the shown token.", (f) =>
    f.part("p", f.token.lp.exp()).stopGradient().mul(f.token.lp).neg(),
  ),
  dpo: pair("Of two answers the better one is made likelier than the worse one; h is by how much it is already."),
  dpo_ipo: pair("The difference of the two answers is drawn to 1/(2β), and no further.", "ipo"),
  dpo_hinge: pair("Of two answers the better one is made likelier until h is 1/β.", "hinge"),
};

/** The formula of a policy loss with these options. @throws if the loss or an option is unknown */
export function policyFormula(name: string, given: object): Formula {
  const { write } = entryByName("formula", POLICY_FORMULAS, name);
  const options = entryByName("policy loss", POLICY_LOSSES, name).options.read({ ...given });
  return new Formula((draft) => write(draft, options, given));
}
