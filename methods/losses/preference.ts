/**
 * Losses over preference pairs: two answers, one preferred to the other. A pair is a segment. The advantage column
 * holds the side of a token (+1 chosen, −1 rejected). The losses depend only on h = Σ ±(lp − ref) over the pair's
 * trained tokens.
 */
import { expr, named, where } from "../../kernels/expr.ts";
import { check } from "../../engine/errors.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";
import { flag, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { maskedLogRatio, type PolicyLoss, segmentSum } from "../../rl/objective/policyLoss.ts";

/** ±(lp − ref), 0 outside the mask. */
const signedLogRatio: Pointwise<Tensor> = fuse("signedLogRatio", (lp, ref, side, mask) =>
  maskedLogRatio(lp, ref, mask).mul(where(mask, side, 0)),
);

/** ±1/n, where n is the number of tokens of the token's own answer, so that a sum becomes a mean. */
const shareOfSide: Pointwise<Tensor> = fuse("shareOfSide", (side, mask, chosen, rejected) =>
  where(mask, side.div(where(side.gt(0), named("n_chosen", chosen), named("n_rejected", rejected))), 0),
);
const isChosen: Pointwise<Tensor> = fuse("isChosen", (side, mask) => where(mask, where(side.gt(0), 1, 0), 0));
const isRejected: Pointwise<Tensor> = fuse("isRejected", (side, mask) => where(mask, where(side.lt(0), 1, 0), 0));

/**
 * Losses of a preference pair, where h is the difference of the two log-ratios: `sigmoid` −log σ(βh) (DPO,
 * arXiv 2305.18290, eq. 7), `ipo` (h − 1/(2β))² (IPO, arXiv 2310.12036, eq. 17), `hinge` max(0, 1 − βh) (SLiC-HF,
 * arXiv 2305.10425).
 */
export const PREFERENCE_LOSSES = ["sigmoid", "ipo", "hinge"] as const;
/** The loss of a preference pair, for the option `loss` of `dpo`: one of `PREFERENCE_LOSSES`. */
export type PreferenceLoss = (typeof PREFERENCE_LOSSES)[number];

/** The losses of a pair as functions of h. */
const PAIR_LOSSES: Readonly<Record<PreferenceLoss, Pointwise<Tensor>>> = {
  /** −log σ(βh) (DPO, Rafailov et al. 2023, arXiv 2305.18290, eq. 7) */
  sigmoid: fuse("dpoSigmoid", (h, mask, beta) => where(mask, named("h", h).mul(named("β", beta)).neg().softplus(), 0)),
  /** (h − 1/(2β))² (IPO, Azar et al. 2023, arXiv 2310.12036, eq. 17) */
  ipo: fuse("dpoIpo", (h, mask, beta) =>
    where(
      mask,
      named("h", h)
        .sub(expr(0.5).div(named("β", beta)))
        .square(),
      0,
    ),
  ),
  /** max(0, 1 − βh) (SLiC-HF, Zhao et al. 2023, arXiv 2305.10425) */
  hinge: fuse("dpoHinge", (h, mask, beta) => {
    const slack = named("h", h).mul(named("β", beta)).neg().add(1);
    return where(mask, where(slack.gt(0), slack, 0), 0);
  }),
};

/**
 * TRL always averages in its `ipo` and says that the paper's results were obtained that way; its `sigmoid_norm` is
 * `sigmoid` with `average`.
 */
export const DPO = options("dpo", {
  beta: number(0.1, "β, how strongly the policy is kept near the reference", { above: 0 }),
  loss: oneOf(PREFERENCE_LOSSES, "sigmoid", "the loss of a pair"),
  average: flag(
    false,
    "whether h takes the mean over each answer's tokens instead of their sum, so that β does not depend on the length",
  ),
});
/**
 * Options of `dpo`: `beta` (default 0.1), the `loss` of a pair (default `sigmoid`), and whether log-ratios are averaged
 * over an answer's tokens and not summed (`average`, default false).
 */
export type DpoOptions = OptionsOf<typeof DPO>;

/** Options of `dpo` without `loss`, which the names `dpo_ipo` and `dpo_hinge` already give. */
const { loss: _, ...NAMED } = DPO.fields;
const DPO_IPO = options("dpo_ipo", NAMED);
const DPO_HINGE = options("dpo_hinge", NAMED);

/**
 * A loss over preference pairs. Each token of a pair gets the loss of the whole pair; `preferenceRows` gives the tokens
 * of a pair weights that sum to 1/pairs. The gradient flows through the sums, so each token gets its part of the pair's
 * gradient.
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
