/**
 * M2PO, second-moment trust policy optimisation (Zheng et al. 2025, arXiv 2510.01161): for samples of a policy that is
 * many updates old. A clip judges each token by itself and clips many. M2PO bounds the mean of (ln ρ)² over the tokens
 * of the whole step, and leaves out only as many tokens as that takes. (ln ρ)² is never negative, so tokens cannot
 * cancel each other as in a mean of ln ρ.
 *
 * Differs from the paper: ln ρ is taken from the policy at the beginning of each pass, once for the whole step and not
 * per micro-batch. On-policy every ln ρ is 0 and no token is left out.
 */
import { where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { maskedRatio, type PolicyLoss } from "../../rl/objective/policyLoss.ts";

/** `kept` is 0 outside the mask, too. */
const m2poLoss: Pointwise<Tensor> = fuse("m2po", (lp, old, advantage, kept) =>
  where(kept, maskedRatio(lp, old, kept).mul(advantage).neg(), 0),
);

/**
 * Mask of the tokens that are kept. Tokens are dropped in order of decreasing second moment until the mean of the rest
 * is below the threshold; at least one is kept (as in AReaL). Among equal moments the last is dropped first.
 * @param moments (ln ρ)² of each token
 */
export function secondMomentMask(moments: readonly number[], threshold: number): boolean[] {
  const smallestFirst = moments.map((_, k) => k).toSorted((a, b) => moments[a]! - moments[b]!);
  const kept = moments.map(() => false);
  let sum = 0;
  for (const [n, k] of smallestFirst.entries()) {
    sum += moments[k]!;
    // The mean of the n + 1 smallest moments never decreases with n.
    if (n > 0 && !(sum / (n + 1) < threshold)) break;
    kept[k] = true;
  }
  return kept;
}

export const M2PO = options("m2po", {
  threshold: number(0.04, "τ: the mean of (ln ρ)² stays below it; the paper has 0.04 in all runs", { above: 0 }),
});
/**
 * Options of `m2po`: τ, the upper bound of the mean of (ln ρ)² over a step's kept tokens; default 0.04, the paper's.
 */
export type M2poOptions = OptionsOf<typeof M2PO>;

/** −M·ρA, where M is 0 on the tokens of largest (ln ρ)² and 1 elsewhere; the denominators still count all tokens. */
export function m2po(given?: M2poOptions): PolicyLoss {
  const { threshold } = M2PO.read(given);
  return {
    name: "m2po",
    clip: null,
    prepare({ logProbs, oldLogProbs, masks }) {
      const places = masks.flatMap((mask, row) => mask.flatMap((trained, t) => (trained ? [{ row, t }] : [])));
      const moments = places.map(({ row, t }) => (logProbs[row]![t]! - oldLogProbs[row]![t]!) ** 2);
      const kept = secondMomentMask(moments, threshold);
      const columns = masks.map((mask) => new Float64Array(mask.length));
      places.forEach(({ row, t }, k) => (columns[row]![t] = Number(kept[k])));
      return columns;
    },
    tokenLoss: ({ logProbs, oldLogProbs, advantages, prepared }) =>
      m2poLoss(logProbs, oldLogProbs, advantages, prepared!),
  };
}

export const SECOND_MOMENT: Table<PolicyLoss> = {
  m2po: {
    options: M2PO,
    make: m2po,
    formula: "−M·ρA; M = 0 on the tokens of largest (ln ρ)², until the mean of the rest is below τ = .04",
    source: "M2PO, arXiv 2510.01161",
  },
};
