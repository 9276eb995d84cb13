/**
 * Losses, gradients and advantages against what verl, TRL and prime-rl compute (tests/fixtures/rl_losses*.json): two batches with
 * interior observation gaps and wild values at masked positions, one near the policy and one far from it. Gradients are with
 * respect to the new log-probabilities. The fixtures hold nine decimals, some computed in f32: 1e-6 on f64, 1e-5 on f32.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { add, mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { centred, grpo } from "../../rl/advantages.ts";
import { aggregationByName, aggregationWeights } from "../../rl/aggregation.ts";
import { echo } from "../../rl/echo.ts";
import { crossEntropyLoss, KL_ESTIMATORS, klPenalty, ppoClip, type TokenColumns } from "../../rl/losses.ts";
import { append, emptyStream, type Trajectory } from "../../rl/stream.ts";
import { everyExecutor, reference } from "../support/rlExecutors.ts";
import { trajectoryOf } from "../support/rlToy.ts";

type Matrix = number[][];
interface LossAndGrad {
  readonly loss: number;
  readonly grad: Matrix;
}
interface Golden {
  readonly fixture: Record<"mask" | "old" | "new" | "ref", Matrix> & { readonly adv_per_seq: number[] };
  readonly verl: {
    readonly agg_loss: Record<string, number>;
    readonly vanilla_dual_clip: LossAndGrad;
    readonly adv_inputs: { readonly token_level_rewards: Matrix; readonly group: string[] };
    readonly grpo: { readonly advantages: Matrix };
    readonly grpo_nostd: { readonly advantages: Matrix };
  } & Record<`kl_k${1 | 2 | 3}`, { readonly value_masked: Matrix; readonly grad_of_masked_sum: Matrix }>;
  readonly trl: Record<string, LossAndGrad>;
  readonly prime_rl: {
    readonly default_dppo_kl: LossAndGrad;
    readonly "echo_alpha0.1": LossAndGrad & { readonly obs_mask: Matrix; readonly ce_scale: number };
  };
}

const goldens = ["rl_losses", "rl_losses_wide"].map((name) => ({
  name,
  golden: JSON.parse(readFileSync(new URL(`../fixtures/${name}.json`, import.meta.url), "utf8")) as Golden,
}));
const executors = everyExecutor.map((executor) => ({
  ...executor,
  tolerance: executor.name === reference.name ? 1e-6 : 1e-5,
}));

/** The fixture's rows as episodes: a prompt token, then the completion, in which the masked-in tokens are actions. */
function episodesOf({ fixture, verl }: Golden, observed?: Matrix): Trajectory[] {
  return fixture.mask.map((row, i) => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    row.forEach((m, t) => append(stream, m ? "action" : observed?.[i]![t] ? "observation" : "scaffold", 0, [0]));
    const reward = verl.adv_inputs.token_level_rewards[i]!.reduce((a, b) => a + b, 0);
    return trajectoryOf(stream, { reward, group: "pq".indexOf(verl.adv_inputs.group[i]!) });
  });
}

describe.each(executors)("on $name", ({ open, tolerance }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  describe.each(goldens)("$name", ({ golden }) => {
    const { fixture, verl, trl, prime_rl } = golden;
    const masks = fixture.mask.map((row) => row.map((m) => m === 1));
    const width = masks[0]!.length;
    const flat = (rows: Matrix): Tensor => tensor(rows.flat(), { device });
    const advantages = fixture.adv_per_seq.map((a) => masks[0]!.map(() => a));
    const close = (actual: ArrayLike<number>, expected: readonly number[]): void => {
      expect(actual.length).toBe(expected.length);
      expected.forEach((x, i) => expect(Math.abs(actual[i]! - x), `element ${i}`).toBeLessThanOrEqual(tolerance));
    };

    /** Σ weight·loss and its gradient with respect to the new log-probabilities. */
    async function differentiate(
      weights: Float64Array[],
      token: (columns: TokenColumns) => Tensor,
    ): Promise<{ value: number; gradient: ArrayLike<number> }> {
      const { value, grads } = scope(() =>
        valueAndGrad((logProbs: Tensor) => {
          const columns = { logProbs, oldLogProbs: flat(fixture.old), advantages: flat(advantages), mask: flat(fixture.mask) }; // prettier-ignore
          return sum(mul(flat(weights.map((row) => [...row])), token(columns)));
        })(flat(fixture.new)),
      );
      return { value: await value.item(), gradient: await grads.read() };
    }

    it.each(Object.keys(verl.agg_loss))("verl agg_loss, %s", async (mode) => {
      const weights = aggregationWeights(masks, aggregationByName(mode), width);
      const { value } = await differentiate(weights, ({ logProbs, mask }) => mul(crossEntropyLoss(logProbs, mask), -1));
      close([value], [verl.agg_loss[mode]!]);
    });

    it("verl's clipped loss, where its dual clip (c = 3) does not act", async () => {
      const ratio = (i: number, t: number): number => Math.exp(fixture.new[i]![t]! - fixture.old[i]![t]!);
      const dual = masks.map((row, i) => row.map((m, t) => m && fixture.adv_per_seq[i]! < 0 && ratio(i, t) > 3));
      const weights = aggregationWeights(masks, "token-mean").map((row, i) => row.map((w, t) => (dual[i]![t] ? 0 : w)));
      const { value, gradient } = await differentiate(weights, ppoClip({ epsilon: 0.2, epsilonHigh: 0.28 }).tokenLoss);
      close(gradient, verl.vanilla_dual_clip.grad.flat());
      const clipped = dual.flatMap((row, i) => row.flatMap((d) => (d ? [-3 * fixture.adv_per_seq[i]!] : [])));
      const missing = clipped.reduce((a, b) => a + b, 0) / masks.flat().filter(Boolean).length;
      close([value + missing], [verl.vanilla_dual_clip.loss]);
    });

    it.each(["grpo", "bnpo", "dapo", "dr_grpo"])("TRL loss_type %s", async (lossType) => {
      const weights = aggregationWeights(masks, aggregationByName(lossType), width);
      const { value, gradient } = await differentiate(weights, ppoClip({ epsilon: 0.2, epsilonHigh: 0.28 }).tokenLoss);
      close([value], [trl[lossType]!.loss]);
      close(gradient, trl[lossType]!.grad.flat());
    });

    it("TRL grpo with a KL penalty, beta 0.04", async () => {
      const weights = aggregationWeights(masks, "seq-mean-token-mean");
      const { value, gradient } = await differentiate(weights, (columns) =>
        add(
          ppoClip({ epsilon: 0.2, epsilonHigh: 0.28 }).tokenLoss(columns),
          mul(klPenalty("k3", columns.logProbs, flat(fixture.ref), columns.mask), 0.04),
        ),
      );
      close([value], [trl["grpo_beta0.04"]!.loss]);
      close(gradient, trl["grpo_beta0.04"]!.grad.flat());
    });

    it.each(KL_ESTIMATORS)("verl KL %s", async (estimator) => {
      const { value_masked, grad_of_masked_sum } = verl[`kl_${estimator}`];
      const { value, grads, aux } = valueAndGrad((logProbs: Tensor) => {
        const penalty = klPenalty(estimator, logProbs, flat(fixture.ref), flat(fixture.mask));
        return [sum(penalty), penalty];
      })(flat(fixture.new));
      close(await aux.read(), value_masked.flat());
      close(await grads.read(), grad_of_masked_sum.flat());
      expect(Number.isFinite(await value.item())).toBe(true);
    });

    it("prime-rl ECHO: the world part, alpha 0.1 over all targets of the batch", async () => {
      const { obs_mask, loss, grad } = prime_rl["echo_alpha0.1"];
      const weights = echo({ lambda: 0.1, normalization: "token-mean" }).weights(episodesOf(golden, obs_mask), 0);
      const { value, gradient } = await differentiate(
        weights.map((row) => row.slice(1)),
        ({ logProbs }) => crossEntropyLoss(logProbs, flat(obs_mask)),
      );
      close([value], [loss - prime_rl.default_dppo_kl.loss]);
      close(gradient, grad.flat().map((g, k) => (obs_mask.flat()[k] ? g : 0))); // prettier-ignore
    });
  });
});

describe.each(goldens)("advantages, $name", ({ golden }) => {
  it.each([
    ["grpo", grpo({ ddof: 1, eps: 1e-6 })],
    ["grpo_nostd", centred()],
  ] as const)("verl %s", (name, estimator) => {
    const { perToken, fracRewardZeroStd } = estimator.estimate(episodesOf(golden));
    golden.verl[name].advantages.forEach((row, i) =>
      row.forEach((a, t) => expect(Math.abs(perToken[i]![t + 1]! - a)).toBeLessThanOrEqual(1e-6)),
    );
    expect(fracRewardZeroStd).toBe(0);
  });
});
