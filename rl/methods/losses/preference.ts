/**
 * Losses over pairs: one answer was preferred to another. A pair is a segment; the advantage column says which side a token is on
 * (+1 chosen, −1 rejected), and h = β Σ ±(lp − ref) over the pair's trained tokens is all that the losses look at.
 */
import { expr, type Expr, where } from "../../../kernels/expr.ts";
import { check } from "../../../engine/errors.ts";
import { fuse, type Pointwise, type Tensor } from "../../../engine/index.ts";
import { flag, number, oneOf, options, type OptionsOf } from "../../../engine/optionTable.ts";
import type { Table } from "../names.ts";
import { maskedLogRatio, type PolicyLoss, segmentSum } from "./policyLoss.ts";

/** ±(lp − ref), 0 outside the mask. */
const signedLogRatio: Pointwise<Tensor> = fuse("signedLogRatio", (lp, ref, side, mask) =>
  maskedLogRatio(lp, ref, mask).mul(where(mask, side, 0)),
);

/** ±1/n of a token's own side of its pair: a sum becomes a mean. */
const shareOfSide: Pointwise<Tensor> = fuse("shareOfSide", (side, mask, chosen, rejected) =>
  where(mask, side.div(where(side.gt(0), chosen, rejected)), 0),
);
const isChosen: Pointwise<Tensor> = fuse("isChosen", (side, mask) => where(mask, where(side.gt(0), 1, 0), 0));
const isRejected: Pointwise<Tensor> = fuse("isRejected", (side, mask) => where(mask, where(side.lt(0), 1, 0), 0));

/** ln(1 + e^x), without overflow. */
const softplus = (x: Expr): Expr => where(x.gt(0), x, 0).add(x.abs().neg().exp().log1p());

export const PREFERENCE_LOSSES = ["sigmoid", "ipo", "hinge"] as const;
export type PreferenceLoss = (typeof PREFERENCE_LOSSES)[number];

/** Each in terms of h before β. */
const PAIR_LOSSES: Readonly<Record<PreferenceLoss, Pointwise<Tensor>>> = {
  /** −log σ(βh) (DPO, Rafailov et al. 2023, arXiv 2305.18290, eq. 7) */
  sigmoid: fuse("dpoSigmoid", (h, mask, beta) => where(mask, softplus(h.mul(beta).neg()), 0)),
  /** (h − 1/(2β))² (IPO, Azar et al. 2023, arXiv 2310.12036, eq. 17) */
  ipo: fuse("dpoIpo", (h, mask, beta) => where(mask, h.sub(expr(0.5).div(beta)).square(), 0)),
  /** max(0, 1 − βh) (SLiC-HF, Zhao et al. 2023, arXiv 2305.10425) */
  hinge: fuse("dpoHinge", (h, mask, beta) => {
    const slack = h.mul(beta).neg().add(1);
    return where(mask, where(slack.gt(0), slack, 0), 0);
  }),
};

/** TRL has `average` in its `ipo` and says that the paper's results were obtained so; its `sigmoid_norm` is `sigmoid` with it. */
export const DPO = options("dpo", {
  beta: number(0.1, "strength of the tie to the reference", { above: 0 }),
  loss: oneOf(PREFERENCE_LOSSES, "sigmoid", "the loss of a pair"),
  average: flag(false, "the mean over each answer's tokens in the place of their sum: β does not depend on the length"),
});
export type DpoOptions = OptionsOf<typeof DPO>;

/** The same options for a loss whose name says which it is. */
const { loss: _, ...NAMED } = DPO.fields;
const DPO_IPO = options("dpo_ipo", NAMED);
const DPO_HINGE = options("dpo_hinge", NAMED);

/**
 * The loss of a pair, on each of its tokens; `preferenceRows` gives the tokens of a pair weights that sum to 1/pairs. The sums are
 * differentiated through, so a token's gradient is its side's share of the pair's.
 */
export function dpo(given?: DpoOptions): PolicyLoss {
  const { beta, loss, average } = DPO.read(given);
  return {
    name: `dpo_${loss}`,
    clip: null,
    beta,
    needs: ["refLogProbs"],
    tokenLoss({ logProbs, refLogProbs, advantages, mask, segments }) {
      check(refLogProbs !== undefined, () => "dpo: needs log-probabilities of a reference model");
      const count = (isOf: Pointwise<Tensor>): Tensor => segmentSum(isOf(advantages, mask), segments);
      const sides = average ? shareOfSide(advantages, mask, count(isChosen), count(isRejected)) : advantages;
      const h = segmentSum(signedLogRatio(logProbs, refLogProbs, sides, mask), segments);
      return PAIR_LOSSES[loss](h, mask, beta);
    },
  };
}

export const PREFERENCE: Table<PolicyLoss> = {
  dpo: {
    options: DPO,
    make: dpo,
    formula: "−log σ(β[(lp_w − ref_w) − (lp_l − ref_l)]) over masked sums",
    source: "DPO, arXiv 2305.18290",
  },
  dpo_ipo: {
    options: DPO_IPO,
    make: (given?: OptionsOf<typeof DPO_IPO>) => dpo({ ...DPO_IPO.read(given), loss: "ipo" }),
    formula: "(h − 1/(2β))², h = (lp_w − ref_w) − (lp_l − ref_l)",
    source: "IPO, arXiv 2310.12036",
  },
  dpo_hinge: {
    options: DPO_HINGE,
    make: (given?: OptionsOf<typeof DPO_HINGE>) => dpo({ ...DPO_HINGE.read(given), loss: "hinge" }),
    formula: "max(0, 1 − βh)",
    source: "SLiC, arXiv 2305.10425",
  },
};
