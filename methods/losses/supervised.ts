/** Policy losses that ignore rewards: cross-entropy, and its probability-weighted form. */
import { named, where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";
import { noOptions } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { crossEntropyLoss } from "../../rl/objective/crossEntropy.ts";
import type { PolicyLoss } from "../../rl/objective/policyLoss.ts";

/** −sg(p)·lp: likely tokens count more, as under a reward of 1 for the demonstrated token (DFT, Wu et al. 2025). */
const dftLoss: Pointwise<Tensor> = fuse("dft", (lp, mask) => {
  const masked = where(mask, lp, 0);
  return named("p", masked.exp()).stopGradient().mul(masked).neg();
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
