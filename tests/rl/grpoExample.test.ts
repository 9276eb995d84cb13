/**
 * `examples/grpo.ts` is `trainRl` written out for one method: the same episodes, losses and parameters, bit for bit on
 * the reference executor, when both play the example's world.
 */
import { afterAll, describe, expect, it } from "vitest";
import { device, Rng } from "../../engine/index.ts";
import { step } from "../../examples/grpo.ts";
import { schedule } from "../../nn/index.ts";
import { echo, grpo, ppoClip, Template, trainRl } from "../../rl/index.ts";
import { boxes, parametersOf, tokenizerOf, warmLearners } from "../support/boxes.ts";

const on = await device("reference");
afterAll(() => on.dispose());
const newLearner = await warmLearners(on);

describe("examples/grpo.ts", () => {
  it.each([0, 0.1])("is trainRl, bit for bit, with λ = %d", { timeout: 120_000 }, async (lambda) => {
    const size = { groups: 4, groupSize: 4 };
    const [steps, lr] = [2, 1e-2]; // a second step sees what the first one did to parameters and moments
    const own = newLearner();
    const losses: Awaited<ReturnType<typeof step>>[] = [];
    for (let n = 0; n < steps; n++)
      losses.push(await step(own.model, own.optimizer, new Rng(7).split(n), { ...size, lambda, lr }));

    const { model, optimizer } = newLearner();
    const objective = {
      advantage: grpo(),
      policyLoss: ppoClip(),
      aggregation: "seq-mean-token-mean",
      world: echo({ lambda }),
    } as const;
    const learner = { model, optimizer, template: new Template(tokenizerOf()), lr: schedule({ lr }), objective };
    const expected: object[] = [];
    const play = { env: boxes, envOptions: {}, rollout: { maxTurns: 2, maxActionTokens: 2 } };
    for await (const { metrics } of trainRl({ ...learner, ...play, ...size, steps, rng: new Rng(7) })) {
      const { reward, policy_loss: policyLoss, world_loss_weighted: worldLoss = 0 } = metrics;
      expected.push({ reward, policyLoss, worldLoss });
    }
    expect(losses).toHaveLength(steps);
    expect(losses.some((report) => report.reward > 0)).toBe(true);
    expect(losses.every(({ worldLoss }) => worldLoss > 0 === lambda > 0)).toBe(true);
    expect(losses).toEqual(expected);
    expect(await parametersOf(own.model.params)).toEqual(await parametersOf(model.params));
  });
});
