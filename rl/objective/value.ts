/** The critic's loss. */
import { named, where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";

/**
 * ½·max((v − R)², (clip(v, v_old ± ε) − R)²) on trained tokens, 0 elsewhere (PPO's clipped value loss, Schulman et al.
 * 2017, as in the OpenAI baselines).
 */
export const clippedValueLoss: Pointwise<Tensor> = fuse("clippedValue", (value, old, target, mask, epsilon) => {
  const [v, before, R] = [where(mask, value, 0), where(mask, old, 0), where(mask, target, 0)];
  const bound = named("ε", epsilon);
  const clipped = v.clamp(before.sub(bound), before.add(bound));
  return v.sub(R).square().max(clipped.sub(R).square()).mul(0.5);
});
