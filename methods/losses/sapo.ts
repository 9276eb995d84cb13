/** SAPO: a smooth gate in the place of PPO's clip. */
import { named, where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { maskedRatio, type PolicyLoss } from "../../rl/objective/policyLoss.ts";

const sapoLoss: Pointwise<Tensor> = fuse("sapo", (lp, old, advantage, mask, positive, negative) => {
  const temperature = named("τ", where(advantage.gt(0), named("τ_+", positive), named("τ_−", negative)));
  const gate = maskedRatio(lp, old, mask).sub(1).mul(temperature).sigmoid();
  return where(mask, gate.mul(4).div(temperature).mul(advantage).neg(), 0);
});

export const SAPO = options("sapo", {
  temperaturePositive: number(1, "τ where A > 0", { above: 0 }),
  temperatureNegative: number(1.05, "τ where A ≤ 0; larger than for A > 0, so that the gate closes sooner", {
    above: 0,
  }),
});
/** Options of `sapo`: the temperature τ of the gate, by default 1 where A > 0 and 1.05 elsewhere. */
export type SapoOptions = OptionsOf<typeof SAPO>;

/** −A·σ(τ(ρ − 1))·4/τ: a smooth gate in place of the clip (SAPO, Gao et al. 2025, arXiv 2511.20347). */
export function sapo(given?: SapoOptions): PolicyLoss {
  const { temperaturePositive, temperatureNegative } = SAPO.read(given);
  return {
    name: "sapo",
    clip: null,
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      sapoLoss(logProbs, oldLogProbs, advantages, mask, temperaturePositive, temperatureNegative),
  };
}

export const SAPO_LOSS: Table<PolicyLoss> = {
  sapo: {
    options: SAPO,
    make: sapo,
    formula: "−A·σ(τ(ρ−1))·4/τ, τ = 1 (A > 0), 1.05 (else)",
    source: "SAPO, arXiv 2511.20347",
  },
};
