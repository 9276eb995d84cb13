/** Losses that ignore rewards: cross-entropy, its probability-weighted form, and PaW's clipped absolute error. */
import { where } from "../../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../../engine/index.ts";
import { noOptions } from "../../../engine/optionTable.ts";
import type { Table } from "../names.ts";
import type { PolicyLoss } from "./policyLoss.ts";

/** −lp on tokens with weight ≠ 0: supervised fine-tuning, and the world model's cross-entropy. */
export const crossEntropyLoss: Pointwise<Tensor> = fuse("tokenCrossEntropy", (lp, mask) => where(mask, lp.neg(), 0));

/** −sg(p)·lp: likely tokens count more, as under a reward of 1 for the demonstrated token (DFT, Wu et al. 2025). */
const dftLoss: Pointwise<Tensor> = fuse("dft", (lp, mask) => {
  const masked = where(mask, lp, 0);
  return masked.exp().stopGradient().mul(masked).neg();
});

/**
 * 1[p ≤ ρ]·(1 − p), with the indicator as a constant. The error is bounded, and 0 for a token that is already likely,
 * so that noise in the environment's answers cannot dominate (PaW, arXiv 2606.02388). 1 − p is computed as −expm1(lp).
 */
export const clippedErrorLoss: Pointwise<Tensor> = fuse("clippedError", (lp, mask, rho) => {
  const masked = where(mask, lp, 0);
  return where(mask, where(masked.exp().le(rho), masked.expm1().neg(), 0), 0);
});

const SFT = noOptions("sft");
const DFT = noOptions("dft");

/** −lp as a policy loss; the advantage is ignored. */
export function sft(given?: object): PolicyLoss {
  SFT.read(given);
  return { name: "sft", clip: null, tokenLoss: ({ logProbs, mask }) => crossEntropyLoss(logProbs, mask) };
}

/** −sg(p)·lp as a policy loss; the advantage is ignored. */
export function dft(given?: object): PolicyLoss {
  DFT.read(given);
  return { name: "dft", clip: null, tokenLoss: ({ logProbs, mask }) => dftLoss(logProbs, mask) };
}

export const SUPERVISED: Table<PolicyLoss> = {
  sft: { options: SFT, make: sft, formula: "−lp", source: "cross-entropy" },
  dft: { options: DFT, make: dft, formula: "−sg(p)·lp", source: "DFT, arXiv 2508.05629" },
};
