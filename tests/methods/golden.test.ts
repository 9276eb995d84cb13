/**
 * Losses and gradients against what verl, TRL and prime-rl compute (tests/fixtures/rl_losses*.json): two batches with
 * interior observation gaps and wild values at masked positions, one near the policy and one far from it. Gradients are
 * with respect to the new log-probabilities. The fixtures hold nine decimals, some computed in f32: 1e-6 on f64, 1e-5
 * on f32.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { tokenLogProbs } from "../../engine/ops/logProbs.ts";
import { add, exp, mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { AGGREGATIONS, aggregationWeights } from "../../rl/objective/aggregation.ts";
import { aggregationByName } from "../../methods/aggregation.ts";
import { echo } from "../../rl/objective/echo.ts";
import { clippedValueLoss } from "../../rl/objective/value.ts";
import { klPenalty } from "../../rl/objective/kl.ts";
import { type PolicyLoss, type TokenColumns, logRatio } from "../../rl/objective/policyLoss.ts";
import { crossEntropyLoss } from "../../rl/objective/crossEntropy.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import {
  columnsOf,
  entryOf,
  episodesOf,
  GOLDENS,
  KL_CASES,
  LOSS_CASES,
  type LossAndGrad,
  type Matrix,
} from "../support/rlGoldens.ts";
import { everyExecutor, reference } from "../support/rlExecutors.ts";

const executors = everyExecutor.map((executor) => ({
  ...executor,
  tolerance: executor.name === reference.name ? 1e-6 : 1e-5,
}));

describe.each(executors)("on $name", ({ open, tolerance }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  const close = (actual: ArrayLike<number>, expected: readonly number[]): void => {
    expect(actual.length).toBe(expected.length);
    expected.forEach((x, i) => expect(Math.abs(actual[i]! - x), `element ${i}`).toBeLessThanOrEqual(tolerance));
  };

  describe.each(GOLDENS)("$name", ({ golden, isWide }) => {
    const { fixture } = golden;
    const masks = fixture.mask.map((row) => row.map((m) => m === 1));
    const width = masks[0]!.length;
    const flat = (rows: readonly ArrayLike<number>[]): Tensor =>
      tensor(Float64Array.from(rows.flatMap((row) => Array.from(row))), { device, dtype: device.float });
    const advantages = fixture.adv_per_seq.map((a) => masks[0]!.map(() => a));

    /** Σ weight·loss and its gradient with respect to the new log-probabilities. */
    async function differentiate(
      weights: readonly ArrayLike<number>[],
      token: (columns: TokenColumns) => Tensor,
      { behaviour = fixture.old, prepared }: { behaviour?: Matrix; prepared?: Float64Array[] | undefined } = {},
    ): Promise<{ value: number; gradient: ArrayLike<number> }> {
      const { value, grads } = scope(() =>
        valueAndGrad((logProbs: Tensor) => {
          const rows = Int32Array.from(masks.flatMap((row, i) => row.map(() => i)));
          const columns: TokenColumns = {
            logProbs,
            oldLogProbs: flat(behaviour),
            advantages: flat(advantages),
            mask: flat(fixture.mask),
            segments: { ids: tensor(rows, { device }), count: masks.length },
            ...(prepared ? { prepared: flat(prepared) } : {}),
          };
          return sum(mul(flat(weights), token(columns)));
        })(flat(fixture.new)),
      );
      return { value: await value.item(), gradient: await grads.read() };
    }

    const preparedBy = (loss: PolicyLoss, behaviour: Matrix): Float64Array[] | undefined =>
      loss.prepare?.({
        logProbs: fixture.new.map((row) => Float64Array.from(row)),
        oldLogProbs: behaviour.map((row) => Float64Array.from(row)),
        advantages: advantages.map((row) => Float64Array.from(row)),
        masks,
        step: 0,
      });

    it.each(Object.keys(entryOf(golden, "verl.agg_loss") as object))("verl agg_loss, %s", async (mode) => {
      expect(AGGREGATIONS).toContain(mode);
      const weights = aggregationWeights(masks, aggregationByName(mode), width);
      const { value } = await differentiate(weights, ({ logProbs, mask }) => mul(crossEntropyLoss(logProbs, mask), -1));
      close([value], [(entryOf(golden, "verl.agg_loss") as Record<string, number>)[mode]!]);
    });

    it.each(LOSS_CASES)("$entry is $method, $aggregation", async (c) => {
      const loss = c.loss(isWide);
      const behaviour = fixture[c.behaviour ?? "old"];
      const weights = aggregationWeights(masks, c.aggregation, width);
      const token = (columns: TokenColumns): Tensor => {
        const policy = loss.tokenLoss(columns);
        if (!c.kl) return policy;
        const penalty = klPenalty("k3", columns.logProbs, flat(fixture.ref), columns.mask);
        const rho = exp(logRatio(columns.logProbs, columns.oldLogProbs, columns.mask));
        return add(policy, mul(c.kl.importance ? mul(penalty, rho) : penalty, c.kl.beta));
      };
      const expected = entryOf(golden, c.entry) as LossAndGrad;
      const result = await differentiate(weights, token, { behaviour, prepared: preparedBy(loss, behaviour) });
      close([result.value], [expected.loss]);
      close(result.gradient, expected.grad.flat());
    });

    it.each(KL_CASES)("$entry is $method", async ({ method, entry, clamp }) => {
      const expected = entryOf(golden, entry) as { value_masked: Matrix; grad_of_masked_sum: Matrix };
      const { value, grads, aux } = valueAndGrad((logProbs: Tensor) => {
        const penalty = klPenalty(method, logProbs, flat(fixture.ref), flat(fixture.mask), clamp);
        return [sum(penalty), penalty];
      })(flat(fixture.new));
      close(await aux.read(), expected.value_masked.flat());
      close(await grads.read(), expected.grad_of_masked_sum.flat());
      expect(Number.isFinite(await value.item())).toBe(true);
    });

    it("prime-rl ECHO: the world part, alpha 0.1 over all targets of the batch", async () => {
      const { obs_mask, loss, grad } = entryOf(golden, "prime_rl.echo_alpha0.1") as LossAndGrad & { obs_mask: Matrix };
      const weights = echo({ lambda: 0.1, normalization: "token-mean" }).weights(episodesOf(golden, obs_mask), 0);
      const { value, gradient } = await differentiate(
        weights.map((row) => row.slice(1)),
        ({ logProbs }) => crossEntropyLoss(logProbs, flat(obs_mask)),
      );
      close([value], [loss - (entryOf(golden, "prime_rl.default_dppo_kl") as LossAndGrad).loss]);
      close(
        gradient,
        grad.flat().map((g, k) => (obs_mask.flat()[k] ? g : 0)),
      );
    });

    it("trl.dapo_with_seq_is: the clipped loss, weighed by the sequence's ratio to the sampler", async () => {
      const weights = aggregationWeights(masks, "token-mean");
      const factors = importanceCorrection({ level: "sequence", max: 3 }).weights(
        episodesOf(golden),
        { logProbs: columnsOf(fixture.old) },
        columnsOf(advantages),
      );
      const { value, gradient } = await differentiate(
        weights.map((row, i) => row.map((w, t) => w * factors[i]![t + 1]!)),
        LOSS_CASES.find((c) => c.entry === "trl.dapo")!.loss(isWide).tokenLoss,
      );
      const expected = entryOf(golden, "trl.dapo_with_seq_is") as LossAndGrad;
      close([value], [expected.loss]);
      close(gradient, expected.grad.flat());
    });

    it("verl.value_loss_clip0.1", async () => {
      const expected = entryOf(golden, "verl.value_loss_clip0.1") as LossAndGrad & { vpreds: Matrix; returns: Matrix };
      const weights = aggregationWeights(masks, "token-mean");
      const { value, grads } = valueAndGrad((values: Tensor) =>
        sum(
          mul(
            flat(weights),
            clippedValueLoss(
              values,
              flat(golden.verl.adv_inputs.values),
              flat(expected.returns),
              flat(fixture.mask),
              0.1,
            ),
          ),
        ),
      )(flat(expected.vpreds));
      close([await value.item()], [expected.loss]);
      close(await grads.read(), expected.grad.flat());
    });
  });

  describe("log-probabilities of tokens", () => {
    const { golden } = GOLDENS[0]!;

    it("trl.selective_log_softmax", async () => {
      const { logits, index, out, entropy } = entryOf(golden, "trl.selective_log_softmax") as {
        logits: number[][][];
        index: number[][];
        out: number[][];
        entropy: number[][];
      };
      // Hidden states times the unit matrix are the logits.
      const V = logits[0]![0]!.length;
      const unit = tensor(
        Float64Array.from({ length: V * V }, (_, i) => Number(i % (V + 1) === 0)),
        { device, shape: [V, V], dtype: device.float },
      );
      const hidden = tensor(Float64Array.from(logits.flat(2)), {
        device,
        shape: [index[0]!.length, V],
        dtype: device.float,
      });
      const ones = tensor(
        Float64Array.from(index[0]!, () => 1),
        { device, dtype: device.float },
      );
      const result = tokenLogProbs(hidden, unit, tensor(Int32Array.from(index.flat()), { device }), {
        temperature: ones,
      });
      close(await result.logProbs.read(), out.flat());
      close(await result.entropy.read(), entropy.flat());
    });

    it("trl.chunked_lm_head: values, and gradients of log-probabilities and of the entropy", async () => {
      const c = entryOf(golden, "trl.chunked_lm_head") as Record<string, Matrix & number[]> & { temperature: number };
      const of = (rows: Matrix): Tensor =>
        tensor(Float64Array.from(rows.flat()), { device, shape: [rows.length, rows[0]!.length], dtype: device.float });
      const column = (values: readonly number[]): Tensor =>
        tensor(Float64Array.from(values), { device, dtype: device.float });
      const ofBoth = (pick: "logProbs" | "entropy", weights: readonly number[]) =>
        valueAndGrad((tree: { hidden: Tensor; weight: Tensor }) => {
          const temperature = column(weights.map(() => c.temperature));
          const scored = tokenLogProbs(tree.hidden, tree.weight, tensor(Int32Array.from(c["targets"]!), { device }), {
            temperature,
          });
          return [sum(mul(column(weights), scored[pick])), scored[pick]];
        })({ hidden: of(c["hidden"]!), weight: of(c["weight"]!) });
      const lp = ofBoth("logProbs", c["grad_logprobs"]!);
      close(await lp.aux.read(), c["logprobs"]!);
      close(await lp.grads.hidden.read(), c["grad_hidden"]!.flat());
      close(await lp.grads.weight.read(), c["grad_weight"]!.flat());
      const entropy = ofBoth(
        "entropy",
        c["targets"]!.map(() => 1),
      );
      close(await entropy.aux.read(), c["entropy"]!);
      close(await entropy.grads.hidden.read(), c["entropy_sum_grad_hidden"]!.flat());
      close(await entropy.grads.weight.read(), c["entropy_sum_grad_weight"]!.flat());
    });
  });
});
