/**
 * The world model's gradient against the policy's: cosine and ratio by hand, what counts as which, when they are
 * measured, and that training does not notice.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { Rng } from "../../engine/random.ts";
import { tokenLogProbs } from "../../engine/ops/logProbs.ts";
import { tensor } from "../../engine/ops/create.ts";
import { add, exp, mul, sub } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/checkpoint.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { TransformerParams } from "../../nn/parameters.ts";
import { forward, type Model, outputMatrix, pickHidden } from "../../nn/transformer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import { gae } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { echo } from "../../rl/objective/echo.ts";
import { comparison, GRADIENT_PROBE, gradientProbe, type GradientProbeOptions } from "../../methods/gradients.ts";
import type { StepOptions } from "../../rl/train/step.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { paw } from "../../methods/paw.ts";
import { isAgentToken, type Trajectory } from "../../rl/episode/stream.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { randomBatch, trainOn } from "../support/rlBatches.ts";
import { everyExecutor, readAll } from "../support/rlExecutors.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, randomEpisode, toyModel, toySpec, toyTemplate } from "../support/rlToy.ts";

const EVERY = GRADIENT_PROBE.fields.every.default;
const [COSINE, RATIO] = ["grad_cosine/world_policy", "grad_ratio/world_policy"] as const;

let exact: Device;
let fast: Device;
beforeAll(async () => {
  [exact, fast] = [await makeDevice("reference"), await makeDevice("wasm")];
});
afterAll(() => [exact, fast].forEach((d) => d.dispose()));

const tiny = (device: Device): Model => toyModel(device, 1, { layers: 1, hiddenSize: 8 });
const plain: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };

/** One step of a fresh model on these episodes. */
async function measured(
  objective: Objective,
  trajectories: readonly Trajectory[],
  {
    device = exact,
    step = 0,
    probe,
    ...more
  }: Partial<StepOptions> & { device?: Device; step?: number; probe?: GradientProbeOptions } = {},
): Promise<{ metrics: Metrics; rows: readonly TokenRow[] }> {
  const model = tiny(device);
  const optimizer = new AdamW(model.params);
  const probes = [gradientProbe(probe)];
  const options = { model, template: toyTemplate, optimizer, lr: () => 0.01, objective, probes, ...more };
  return trainOn(options, trajectories, step);
}

/** −lp of every token but the first, from a forward pass of the whole episode by itself: [T − 1]. */
function losses(params: TransformerParams, { config }: Model, { stream }: Trajectory): Tensor {
  const { device } = params.embedding;
  const T = stream.ids.length;
  const hidden = pickHidden(
    forward(params, config, tensor(Int32Array.from(stream.ids), { device, shape: [1, T] })),
    Int32Array.from({ length: T - 1 }, (_, t) => t),
  );
  const targets = tensor(Int32Array.from(stream.ids.slice(1)), { device });
  return mul(tokenLogProbs(hidden, outputMatrix(params), targets, {}).logProbs, -1);
}

/** ∇ Σ of the terms that `of` makes of an episode's losses and weights, as one long list of numbers. */
async function gradientByHand(
  model: Model,
  rows: readonly TokenRow[],
  weights: (i: number) => Float64Array,
  of: (losses: Tensor) => Tensor = (x) => x,
): Promise<number[]> {
  const total = (params: TransformerParams): Tensor =>
    rows
      .map(({ trajectory }, i) => {
        const w = tensor(weights(i).slice(1), { device: exact, dtype: exact.float });
        return sum(mul(w, of(losses(params, model, trajectory))));
      })
      .reduce((a, b) => add(a, b));
  return (await readAll(treeLeaves(grad(total)(model.params)))).flat();
}

const product = (a: readonly number[], b: readonly number[]): number => a.reduce((total, x, k) => total + x * b[k]!, 0);
const norm = (a: readonly number[]): number => Math.sqrt(product(a, a));

/** Of the policy: at ρ = 1 the gradient of every clipped loss is −A·∇lp. */
const policyByHand = (model: Model, rows: readonly TokenRow[]): Promise<number[]> =>
  gradientByHand(model, rows, (i) => rows[i]!.wPolicy.map((w, t) => w * rows[i]!.advantages[t]!));

function expectOf(metrics: Metrics, world: readonly number[], policy: readonly number[]): void {
  const expected = [product(world, policy) / norm(world) / norm(policy), norm(world) / norm(policy)];
  expect(Math.abs(expected[0]!)).toBeGreaterThan(1e-3); // there is something to see
  expect(Math.abs(metrics[COSINE]! - expected[0]!)).toBeLessThan(1e-12);
  expect(Math.abs(metrics[RATIO]! / expected[1]! - 1)).toBeLessThan(1e-12);
}

describe("by hand", () => {
  const batch = randomBatch(3);

  it("GRPO + ECHO: two gradients taken apart, λ included, however the step is split", async () => {
    for (const maxBatchTokens of [10_000, 1]) {
      const { metrics, rows } = await measured({ ...plain, world: echo({ lambda: 0.3 }) }, batch, { maxBatchTokens });
      const world = await gradientByHand(tiny(exact), rows, (i) => rows[i]!.wWorld);
      expectOf(metrics, world, await policyByHand(tiny(exact), rows));
    }
  });

  it("GRPO + ECHO + PaW: both world losses are the world's", async () => {
    const objective: Objective = {
      ...plain,
      world: [echo({ lambda: 0.3 }), paw({ rewardMax: 4, rho: 0.06, coefficient: 2 })],
    };
    const { metrics, rows } = await measured(objective, batch);
    const exactly = await gradientByHand(tiny(exact), rows, (i) => rows[i]!.wWorld);
    // 1[p ≤ ρ]·(1 − p): where p is above ρ the weight is 0.
    const nll = await Promise.all(batch.map((t) => losses(tiny(exact).params, tiny(exact), t).read()));
    const clipped = await gradientByHand(
      tiny(exact),
      rows,
      (i) => rows[i]!.weights["paw"]!.map((w, t) => (t > 0 && Math.exp(-nll[i]![t - 1]!) <= 0.06 ? w : 0)),
      (x) => sub(1, exp(mul(x, -1))),
    );
    expect(norm(clipped)).toBeGreaterThan(0);
    expectOf(
      metrics,
      exactly.map((x, k) => x + clipped[k]!),
      await policyByHand(tiny(exact), rows),
    );
  });

  it("KL, entropy bonus, imitation and masked episodes are neither", async () => {
    const model = tiny(exact);
    const world = echo({ lambda: 0.3 });
    const bare = await measured({ ...plain, world }, batch);
    const full: Objective = { ...plain, world, kl: { beta: 1, estimator: "k2" }, entropy: 0.5, imitation: 2 };
    const successes = batch.map((t, i) => ({ ...t, info: { success: i % 2 === 0 } }));
    const { metrics, rows } = await measured(full, successes, {
      reference: toyModel(exact, 2, { layers: 1, hiddenSize: 8 }),
    });
    const imitated = rows.some(({ trajectory, wWorld }) =>
      wWorld.some((w, t) => w !== 0 && isAgentToken(trajectory.stream.roles[t]!)),
    );
    expect(imitated).toBe(true);
    expect([metrics[COSINE], metrics[RATIO]]).toEqual([bare.metrics[COSINE], bare.metrics[RATIO]]);

    const masked = await measured(
      { ...plain, world },
      batch.map((t, i) => ({ ...t, masked: i === 1 })),
    );
    const own = masked.rows;
    expectOf(masked.metrics, await gradientByHand(model, own, (i) => own[i]!.wWorld), await policyByHand(model, own));
    expect(masked.metrics[COSINE]).not.toBe(bare.metrics[COSINE]);
  });

  it("a critic's loss is no part of it, though it trains the trunk", async () => {
    const head = initValueHead(tiny(exact).config, exact);
    const heads = { value: { head, optimizer: new AdamW(head) } };
    const objective: Objective = { ...plain, advantage: gae(), critic: { coefficient: 5 }, world: echo() };
    const { metrics, rows } = await measured(objective, batch, { heads });
    expect(metrics["value_loss"]).toBeGreaterThan(0);
    const model = tiny(exact);
    expectOf(metrics, await gradientByHand(model, rows, (i) => rows[i]!.wWorld), await policyByHand(model, rows));
  });

  it("several passes: the first one is measured", async () => {
    const objective = { ...plain, world: echo() };
    const [once, twice] = [await measured(objective, batch), await measured(objective, batch, { iterations: 2 })];
    expect(twice.metrics[COSINE]).toBeCloseTo(once.metrics[COSINE]!, 12);
    expect(twice.metrics[RATIO]).toBeCloseTo(once.metrics[RATIO]!, 12);
  });

  it("episodes of an older policy: ratios to what was recorded are part of the policy's gradient", async () => {
    const { metrics, rows } = await measured({ ...plain, world: echo() }, batch, { offPolicy: true });
    const model = tiny(exact);
    const old = batch.map(({ stream }) => Float64Array.from(stream.oldLogProbs));
    const lps = await Promise.all(batch.map((t) => losses(model.params, model, t).read()));
    // The clipped ratio has no gradient beyond the bound on the side that A pulls to.
    const weights = (i: number): Float64Array =>
      rows[i]!.wPolicy.map((w, t) => {
        if (w === 0) return 0;
        const [A, rho] = [rows[i]!.advantages[t]!, Math.exp(-lps[i]![t - 1]! - old[i]![t]!)];
        return (A > 0 && rho > 1.2) || (A < 0 && rho < 0.8) ? 0 : w * A * rho;
      });
    expectOf(
      metrics,
      await gradientByHand(model, rows, (i) => rows[i]!.wWorld),
      await gradientByHand(model, rows, weights),
    );
  });

  it("world: what ECHO would be to plain GRPO is what it is to GRPO + ECHO; the ratio goes with λ", async () => {
    const own = (await measured({ ...plain, world: echo({ lambda: 0.25 }) }, batch)).metrics;
    const probe = (await measured(plain, batch, { probe: { world: echo({ lambda: 1 }) } })).metrics;
    expect(probe[COSINE]).toBeCloseTo(own[COSINE]!, 12);
    expect(probe[RATIO]).toBeCloseTo(4 * own[RATIO]!, 10);
    const other = (
      await measured({ ...plain, world: echo({ lambda: 0.25 }) }, batch, {
        probe: { world: paw({ rewardMax: 4, rho: 0.06, entropy: "sampled" }) },
      })
    ).metrics;
    const trained = (await measured({ ...plain, world: paw({ rewardMax: 4, rho: 0.06, entropy: "sampled" }) }, batch))
      .metrics;
    expect([other[COSINE], other[RATIO]]).toEqual([trained[COSINE], trained[RATIO]]);
    expect(other[COSINE]).not.toBeCloseTo(own[COSINE]!, 3);
    // A signal that nobody collects would cost a pass; it is asked for by name.
    await expect(measured(plain, batch, { probe: { world: paw() } })).rejects.toThrow(
      'paw: needs the token statistic "entropy"',
    );
  });
});

describe("is left out", () => {
  const both = async (
    objective: Objective,
    trajectories: readonly Trajectory[],
    more: Partial<StepOptions> & { device?: Device } = {},
  ): Promise<unknown[]> => {
    const { metrics } = await measured(objective, trajectories, more);
    expect(
      Object.keys(metrics).filter((name) => name.startsWith("grad_") && !name.startsWith("grad_norm")).length % 2,
    ).toBe(0);
    return [metrics[COSINE], metrics[RATIO]];
  };
  const none = [undefined, undefined];
  const batch = randomBatch(3);
  const objective: Objective = { ...plain, world: echo() };

  it("where a norm is 0: no world model, λ = 0, nothing answered, only groups without spread", async () => {
    expect(await both(plain, batch)).toEqual(none);
    expect(await both({ ...plain, world: echo({ lambda: 0 }) }, batch)).toEqual(none);
    const silent = batch.map((t) => ({ ...t, stream: { ...t.stream, targets: t.stream.targets.map(() => false) } }));
    expect(await both(objective, silent)).toEqual(none);
    expect(await both({ ...plain, world: paw({ rewardMax: 4, rho: 1e-9 }) }, batch)).toEqual(none);
    expect(
      await both(
        objective,
        batch.map((t) => ({ ...t, reward: 1 })),
      ),
    ).toEqual(none);
    expect(
      await both(
        { ...objective, dropConstantGroups: true },
        batch.map((t) => ({ ...t, reward: 1 })),
      ),
    ).toEqual(none);
    expect(
      await both(
        objective,
        batch.map((t) => ({ ...t, masked: true })),
      ),
    ).toEqual(none);
  });

  it("where something is not finite; the gradient's norm says so as well", async () => {
    const device = fast;
    const huge: Objective = { ...plain, world: echo({ lambda: 1e38 }) };
    expect((await measured(huge, batch, { device })).metrics["grad_norm"]).not.toSatisfy(Number.isFinite);
    expect(await both(huge, batch, { device })).toEqual(none);
    expect(await both(objective, batch, { device })).not.toEqual(none);
  });

  it("in steps that the interval does not divide", async () => {
    const has = async (every: number | undefined, step: number): Promise<boolean> => {
      const { metrics } = await measured(objective, batch, { step, probe: { every } });
      return COSINE in metrics;
    };
    const steps = [0, 1, 2, 3, 4, EVERY - 1, EVERY, 2 * EVERY];
    const at = async (every?: number): Promise<number[]> => {
      const found: number[] = [];
      for (const step of steps) if (await has(every, step)) found.push(step);
      return found;
    };
    expect(await at()).toEqual([0, EVERY, 2 * EVERY]);
    expect(await at(2)).toEqual(steps.filter((step) => step % 2 === 0));
    expect(await at(0)).toEqual([]);
  });
});

it("an interval that is none, or what measures nothing, is one clear error, before anything is played", async () => {
  for (const every of [-1, 1.5, NaN])
    expect(() => gradientProbe({ every })).toThrow(`gradientProbe: every must be an integer ≥ 0, got ${every}`);
  let played = 0;
  const env = toySpec((action, turn) => (played++, letters(2)(action, turn)));
  for (const probes of [gradientProbe(), [gradientProbe], [{ name: "none" }]]) {
    const run = reportsOf(trainRl(toyRlOptions(endingModel(fast), { env, probes: probes as never })));
    await expect(run).rejects.toThrow("trainRl: probes must be");
  }
  expect(played).toBe(0);
});

it("a cosine that rounding has put beyond 1 is 1, on both sides", () => {
  expect(comparison(4, 1, 2 + 1e-6)).toEqual({ [COSINE]: 1, [RATIO]: 2 });
  expect(comparison(1, 4, -2 - 1e-6)).toEqual({ [COSINE]: -1, [RATIO]: 0.5 });
  for (const [ww, pp, wp] of [
    [0, 1, 0],
    [1, 0, 0],
    [1, Infinity, 1],
    [1, 1, NaN],
  ])
    expect(comparison(ww!, pp!, wp!)).toEqual({});
});

describe("training does not notice", () => {
  const withoutThem = (metrics: Metrics): Metrics =>
    Object.fromEntries(
      Object.entries(metrics).filter(([name]) => name !== COSINE && name !== RATIO && !name.startsWith("grad_share/")),
    );
  /** Reports and parameters of a run, and what is live on the device after each step. */
  const runOf = async (
    device: Device,
    make: (model: Model) => Partial<RlOptions>,
  ): Promise<{ metrics: Metrics[]; rows: (readonly TokenRow[])[]; params: number[][]; live: number[] }> => {
    const files = await modelToFiles(endingModel(fast));
    const model = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, device);
    const options = toyRlOptions(model, make(model));
    const before = device.backend.stats().liveBytes;
    const live: number[] = [];
    const [metrics, rows]: [Metrics[], (readonly TokenRow[])[]] = [[], []];
    for await (const report of trainRl(options)) {
      metrics.push(report.metrics);
      rows.push(report.rows);
      live.push(device.backend.stats().liveBytes - before);
    }
    return { metrics, rows, params: await paramsOf(model), live };
  };
  const same = async (
    device: Device,
    make: (model: Model) => Partial<RlOptions>,
    world?: GradientProbeOptions["world"],
  ): Promise<void> => {
    const off = await runOf(device, (model) => ({ ...make(model), probes: [] }));
    const probes = [gradientProbe({ every: 1, shares: true, world })];
    const on = await runOf(device, (model) => ({ ...make(model), probes }));
    expect(on.metrics.map(withoutThem)).toEqual(off.metrics);
    expect(on.metrics.some((metrics) => COSINE in metrics)).toBe(true);
    expect(on.rows).toEqual(off.rows);
    expect(on.params).toEqual(off.params);
    expect(on.live).toEqual(off.live); // no memory is left behind
  };

  it.each(everyExecutor)("on $name, bitwise", { timeout: 120_000 }, async ({ open }) => {
    const device = await open();
    // The second step begins with what the first one left; a software adapter takes seconds for each.
    await same(device, () => ({ steps: device.kind === "webgpu" ? 2 : 3 }));
    device.dispose();
  });

  const kinds: Readonly<Record<string, (model: Model) => Partial<RlOptions>>> = {
    "two passes": () => ({ iterations: 2 }),
    "PaW, a KL penalty and an entropy bonus": () => ({
      reference: endingModel(fast),
      objective: { ...toyObjective, world: paw(), kl: { beta: 0.1, estimator: "k3" }, entropy: 0.01 },
    }),
    "a critic": (model) => {
      const head = initValueHead(model.config, fast);
      return {
        heads: { value: { head, optimizer: new AdamW(head) } },
        objective: { ...toyObjective, advantage: gae(), critic: {} },
      };
    },
  };
  it.each(Object.keys(kinds))("%s, bitwise", async (name) => same(fast, kinds[name]!));
  it("plain GRPO, compared with ECHO, bitwise", async () =>
    same(fast, () => ({ objective: plain }), echo({ lambda: 1 })));

  it("a resumed run measures in the same steps, as does an asynchronous one", async () => {
    const at = (reports: readonly { readonly step: number; readonly metrics: Metrics }[]): number[] =>
      reports.filter(({ metrics }) => COSINE in metrics).map(({ step }) => step);
    const options = (startStep: number, steps: number): RlOptions =>
      toyRlOptions(endingModel(fast), { startStep, steps, probes: [gradientProbe({ every: 2 })] });
    expect(at(await reportsOf(trainRl(options(0, 6))))).toEqual([0, 2, 4]);
    expect(at(await reportsOf(trainRl(options(3, 6))))).toEqual([4]);
    const fixed = { ...options(0, 6), workers: 2, maxStaleness: 1, schedule: "fixed" } as const;
    expect(at(await reportsOf(trainRlAsync(fixed)))).toEqual([0, 2, 4]);
  });

  it("GRPO + ECHO on wasm: as on the reference, to its precision", async () => {
    const batch = [1, 2, 3, 4].map((seed) => randomEpisode(new Rng(seed), { reward: seed % 2, group: seed >> 2 }));
    const [a, b] = [await measured(toyObjective, batch), await measured(toyObjective, batch, { device: fast })];
    expect(b.metrics[COSINE]).toBeCloseTo(a.metrics[COSINE]!, 5);
    expect(b.metrics[RATIO]! / a.metrics[RATIO]!).toBeCloseTo(1, 5);
  });
});
