/** The share of each term in the gradient, against the gradients of the loss's terms, each taken alone. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import type { Model } from "../../nn/transformer.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import { isAgentToken, type Trajectory } from "../../rl/episode/stream.ts";
import { gae } from "../../methods/advantages/index.ts";
import { gradientProbe, type GradientProbeOptions } from "../../methods/gradients.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { type TokenRow, withColumns } from "../../rl/objective/columns.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { echo } from "../../rl/objective/echo.ts";
import { lossOf } from "../../rl/train/loss.ts";
import { pack } from "../../rl/train/pack.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { gradientOf } from "../../rl/train/update.ts";
import { randomBatch, toyStep, trainOn } from "../support/rlBatches.ts";
import { readAll } from "../support/rlExecutors.ts";
import { toyModel, toyTemplate } from "../support/rlToy.ts";

let exact: Device;
beforeAll(async () => void (exact = await makeDevice("reference")));
afterAll(() => exact.dispose());

const plain: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
const batch = randomBatch(3);
const tiny = (): Model => toyModel(exact, 1, { layers: 1, hiddenSize: 8 });

/** A step that measures all shares. */
const stepOf = (
  objective: Objective,
  trajectories: readonly Trajectory[] = batch,
  probe: GradientProbeOptions = {},
): Promise<StepReport> =>
  trainOn(
    { ...toyStep(exact, objective), offPolicy: false, probes: [gradientProbe({ shares: true, ...probe })] },
    trajectories,
    0,
  );
const sharesIn = (metrics: Metrics): Metrics =>
  Object.fromEntries(Object.entries(metrics).filter(([name]) => name.startsWith("grad_share/")));

/** The length of the gradient of one term of the loss, which is taken alone. */
async function lengthOf(objective: Objective, rows: readonly TokenRow[], name: string): Promise<number> {
  const model = tiny(); // the weights that the step began with
  const trained = {
    policy: model.params,
    ...(objective.critic ? { heads: { value: toyStep(exact, objective).head } } : {}),
  };
  const { gradient } = gradientOf(trained, pack(rows, { padId: toyTemplate.padId }), (tree, packed) => {
    const [, { terms }] = lossOf(tree, model, packed, objective);
    return [terms[name]!, terms];
  });
  const numbers = (await readAll(treeLeaves(gradient.policy))).flat();
  return Math.sqrt(numbers.reduce((total, x) => total + x * x, 0));
}

it("are the lengths of the gradients of the loss's own terms, each taken alone", async () => {
  const kl = { beta: 1, estimator: "k2", importance: true } as const;
  const world = echo({ lambda: 0.3 });
  const objective: Objective = { ...plain, advantage: gae(), critic: {}, world, kl, entropy: 0.5 };
  const { metrics, rows } = await stepOf(objective);
  const lengths = {
    policy: await lengthOf(objective, rows, "policy"),
    world: await lengthOf(objective, rows, "world"),
    kl: await lengthOf(objective, rows, "kl"),
    entropy: await lengthOf(objective, rows, "entropy"),
    value: await lengthOf(objective, rows, "value"),
  };
  const total = Object.values(lengths).reduce((a, b) => a + b, 0);
  expect(Object.keys(sharesIn(metrics))).toEqual(Object.keys(lengths).map((name) => `grad_share/${name}`));
  for (const [name, length] of Object.entries(lengths)) {
    expect(length).toBeGreaterThan(0);
    expect(Math.abs(metrics[`grad_share/${name}`]! - length / total), name).toBeLessThan(1e-10);
  }
});

it("what is imitated is a term of its own", async () => {
  const successes = batch.map((t, i) => ({ ...t, info: { success: i % 2 === 0 } }));
  const objective = { ...plain, world: echo({ lambda: 0.3 }), imitation: 2 };
  const { metrics, rows } = await stepOf(objective, successes);
  const shares = sharesIn(metrics);
  expect(Object.keys(shares)).toEqual(["policy", "world", "imitation"].map((name) => `grad_share/${name}`));
  const only = (isOwn: boolean): TokenRow[] =>
    withColumns(rows, {
      wWorld: rows.map(({ trajectory, wWorld }) =>
        wWorld.map((w, t) => (isAgentToken(trajectory.stream.roles[t]!) === isOwn ? w : 0)),
      ),
    });
  const policy = await lengthOf(objective, rows, "policy");
  for (const [name, isOwn] of [
    ["world", false],
    ["imitation", true],
  ] as const) {
    const length = await lengthOf(objective, only(isOwn), "world");
    expect(shares[`grad_share/${name}`]! / shares["grad_share/policy"]!).toBeCloseTo(length / policy, 10);
  }
});

it("one term has all; what is only compared is no term; none without a gradient, or unasked", async () => {
  expect(sharesIn((await stepOf(plain)).metrics)).toEqual({ "grad_share/policy": 1 });
  const probed = (await stepOf(plain, batch, { world: echo({ lambda: 1 }) })).metrics;
  expect(sharesIn(probed)).toEqual({ "grad_share/policy": 1 });
  expect(probed["grad_cosine/world_policy"]).toBeTypeOf("number");
  for (const kl of [
    { beta: 1, in: "reward", estimator: "k1" },
    { beta: 0, estimator: "k2" },
  ] as const)
    expect(sharesIn((await stepOf({ ...plain, kl })).metrics)).toEqual({ "grad_share/policy": 1 });
  const flat = batch.map((t) => ({ ...t, reward: 1 }));
  expect(sharesIn((await stepOf(plain, flat)).metrics)).toEqual({});
  expect(sharesIn((await stepOf({ ...plain, world: echo() }, batch, { shares: false })).metrics)).toEqual({});
  expect(sharesIn((await stepOf({ ...plain, world: echo() }, batch, { every: 0 })).metrics)).toEqual({});
});

it("there are none where a gradient is not finite", async () => {
  const fast = await makeDevice("wasm");
  const of = async (lambda: number): Promise<Metrics> => {
    const learner = toyStep(fast, { ...plain, world: echo({ lambda }) });
    return (await trainOn({ ...learner, offPolicy: false, probes: [gradientProbe({ shares: true })] }, batch, 0))
      .metrics;
  };
  expect(Object.keys(sharesIn(await of(1)))).toHaveLength(2);
  expect(sharesIn(await of(1e38))).toEqual({}); // its square is infinite in 32 bits
  fast.dispose();
});
