/**
 * Methods by name, TRL's configuration, the passes that signals cost, and every preset through the loop: what a user of the names
 * gets, and what is said when they do not fit together.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { scope } from "../../engine/scope.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { forward, logits, type Model } from "../../nn/transformer.ts";
import { headValues, initValueHead } from "../../nn/valueHead.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { centred, gae, grpo } from "../../rl/methods/advantages/index.ts";
import { importanceCorrection } from "../../rl/methods/importanceCorrection.ts";
import { objectiveFromGrpoConfig } from "../../rl/interop/grpoConfig.ts";
import { AdaptiveKl, klEstimate, ppoClip, reinforce } from "../../rl/methods/losses/index.ts";
import { listMethods, type MethodChoice, METHODS, objectiveOf } from "../../rl/methods/presets.ts";
import { type Objective, statisticsOf, worldsOf } from "../../rl/methods/objective.ts";
import { tokenStatistics } from "../../rl/train/score.ts";
import { TOKEN_STATISTICS, type TokenStatistics } from "../../rl/methods/tokenStatistics.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { lossAndGradient, madeUpSignals, randomBatch, toyStep, trainOn, weighStep } from "../support/rlBatches.ts";
import { readAll, relativeError } from "../support/rlExecutors.ts";
import { reportsOf } from "../support/rlRuns.ts";
import { endingModel, episode, letters, toyModel, toySpec, toyTemplate, V } from "../support/rlToy.ts";

let device: Device;
let exact: Device;
beforeAll(async () => {
  [device, exact] = [await makeDevice("wasm"), await makeDevice("reference")];
});
afterAll(() => [device, exact].forEach((d) => d.dispose()));

function rlOptions(model: Model, objective: Objective, overrides: Partial<RlOptions> = {}): RlOptions {
  const head = initValueHead(model.config, model.params.embedding.device);
  return {
    model,
    template: toyTemplate,
    optimizer: new AdamW(model.params, { clipNorm: 1 }),
    lr: () => 0.01,
    objective,
    env: toySpec(letters(2)),
    envOptions: {},
    groups: 2,
    groupSize: 3,
    rollout: { maxActionTokens: 5, maxTurns: 3 },
    reference: endingModel(model.params.embedding.device),
    critic: { head, optimizer: new AdamW(head) },
    steps: 2,
    rng: new Rng(5),
    ...overrides,
  };
}

describe("by name", () => {
  const all = [...Object.keys(METHODS), "echo", "paw", "actfocus", "top_entropy", "echo+actfocus", "dapo+echo+paw", "reinforce+++echo"]; // prettier-ignore

  it.each(all)("%s trains with finite metrics, one pass and two", async (method) => {
    const objective = objectiveOf({ method, maxLength: 15 });
    for (const iterations of objective.policyLoss.ratio === false ? [1] : [1, 2]) {
      const reports = await reportsOf(trainRl(rlOptions(endingModel(device), objective, { iterations })));
      expect(reports.length).toBe(2);
      for (const { metrics } of reports) {
        expect(Object.entries(metrics).filter(([, x]) => !Number.isFinite(x))).toEqual([]);
        expect("value_loss" in metrics).toBe(objective.critic !== undefined);
        expect("world_loss" in metrics).toBe(worldsOf(objective).length > 0);
      }
    }
  });

  it("a method is its parts", () => {
    const objective = objectiveOf({ method: "dr_grpo+echo+actfocus", maxLength: 10 });
    const { advantage, policyLoss, aggregation, world, tokenWeights } = objective;
    expect([advantage.name, policyLoss.name, aggregation, tokenWeights!.name]).toEqual(["centred", "ppo", "seq-mean-token-sum-norm", "actfocus"]); // prettier-ignore
    expect(worldsOf({ world: world! }).map((w) => w.name)).toEqual(["echo"]);
    const mixed = objectiveOf({ method: "paw", advantage: "rloo", loss: "cispo", aggregation: "dapo", options: { cispo: { cap: "absolute" } } }); // prettier-ignore
    expect([mixed.advantage.name, mixed.policyLoss.name, mixed.aggregation]).toEqual(["rloo", "cispo", "token-mean"]);
    expect(mixed.policyLoss.clip).toEqual({ low: 0, high: 5 });
    expect(objectiveOf({ method: "dapo" }).policyLoss.clip).toEqual({ low: 0.8, high: 1.28 });
    expect(objectiveOf({}).advantage.name).toBe("grpo");
    // An exchanged loss does not get the options of the one that it replaces.
    expect(objectiveOf({ method: "dapo", loss: "sapo" }).policyLoss.name).toBe("sapo");
    expect(objectiveOf({ method: "ppo" }).critic).toEqual({});
  });

  it("is listed with formula and source, one line each", () => {
    const text = listMethods();
    for (const name of [...Object.keys(METHODS), "echo", "paw", "actfocus", "vtrace", "gigpo"]) {
      expect(text).toMatch(new RegExp(`^  ${name.replaceAll("+", "\\+")} +\\S.*\\(.+\\)$`, "m"));
    }
  });

  it.each([
    [{ method: "ecko" }, 'method: unknown name "ecko"; did you mean "echo"?'],
    [{ method: "grpo+dapo" }, 'method: "grpo+dapo" names 2 presets, grpo and dapo; one is possible'],
    [{ method: "echo+echo" }, 'method: "echo" is there twice'],
    [{ method: "actfocus+top_entropy" }, "one token weighting is possible"],
    [{ method: "" }, "method: the name is empty"],
    [{ loss: "pppo" }, 'policy loss: unknown name "pppo"; did you mean "ppo"?'],
    [{ advantage: "rlo" }, 'advantage: unknown name "rlo"; did you mean "rloo"?'],
    [{ aggregation: "mean" }, 'aggregation: unknown name "mean"'],
    [{ method: "dr_grpo" }, "seq-mean-token-sum-norm needs maxLength"],
    [{ loss: "dpo" }, "dpo_sigmoid learns from pairs, not from rewards; use trainPreference"],
    [
      { method: "grpo", options: { echo: { lambda: 1 } } },
      'options for "echo", which is no part of it; its parts are grpo, ppo',
    ],
    [{ method: "echo", options: { echo: { lamda: 1 } } }, "echo: unknown option 'lamda'; did you mean 'lambda'?"],
    [{ metod: "echo" }, "did you mean 'method'?"],
    ...["gdpo", "rft", "none"].map((advantage): [MethodChoice, string] => [
      { advantage, kl: { beta: 0.1, in: "reward", target: 0.05 } },
      `kl: the advantage "${advantage}" does not look at the return, so that a penalty in the reward would change nothing`,
    ]),
    [{ method: "vtrace", importanceCorrection: {} }, '"vtrace" and the correction tis_token both correct for π/μ'],
  ])("%j is one clear error", (choice, message) => {
    expect(() => objectiveOf(choice as MethodChoice)).toThrow(message);
  });

  it("parts that do not fit together are one clear error", async () => {
    const base: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
    const batch = randomBatch(1);
    const { critic: _, ...plain } = base as Objective & { critic?: object };
    expect(() => weighStep({ ...plain, advantage: gae() }, batch, 0)).toThrow('the advantage "gae" needs a critic');
    expect(() => weighStep({ ...base, critic: {} }, batch, 0)).toThrow(
      'a critic, but the advantage "grpo" reads no values',
    );
    expect(() => weighStep({ ...base, entropy: -1 }, batch, 0)).toThrow("entropy must be ≥ 0, got -1");
    const paws = ["paw", "paw"].map((n, i) => objectiveOf({ method: n, options: { paw: { rho: 0.2 + i / 10 } } }));
    const world = paws.flatMap(worldsOf);
    expect(() => weighStep({ ...base, world }, batch, 0)).toThrow("world losses with different clips: 0.2, 0.3");
    const kl = { beta: 0.1, estimator: "k4" } as unknown as NonNullable<Objective["kl"]>;
    expect(() => weighStep({ ...base, kl }, batch, 0)).toThrow('kl: unknown estimator "k4"');
    const {
      critic: _critic,
      reference: _reference,
      ...bare
    } = rlOptions(endingModel(device), objectiveOf({ method: "ppo" }));
    await expect(reportsOf(trainRl(bare))).rejects.toThrow(
      'the advantage "gae" needs a critic: a value head and its optimiser',
    );
    await expect(reportsOf(trainRl({ ...bare, objective: objectiveOf({ method: "actfocus" }) }))).rejects.toThrow("needs a reference model, for refEnergy"); // prettier-ignore
    await expect(reportsOf(trainRl({ ...bare, objective: { ...base, kl: { beta: 1, estimator: "k1" } } }))).rejects.toThrow("needs a reference model"); // prettier-ignore
  });
});

describe("TRL's GRPOConfig", () => {
  const base = { loss_type: "grpo", epsilon: 0.2, epsilon_high: 0.28, num_iterations: 2, num_generations: 8, temperature: 0.8, top_k: 0, min_p: null } as const; // prettier-ignore

  it("gives an objective, and what the loop is to be told", () => {
    const { objective, training } = objectiveFromGrpoConfig({ ...base, beta: 0.04, learning_rate: 1e-6, entropy_coef: 0.01, top_entropy_quantile: 0.2 }); // prettier-ignore
    expect([objective.advantage.name, objective.policyLoss.name, objective.aggregation]).toEqual(["grpo", "ppo", "seq-mean-token-mean"]); // prettier-ignore
    expect(objective.kl).toEqual({ beta: 0.04, estimator: "k3", in: "loss", importance: false });
    expect([objective.entropy, objective.tokenWeights!.name]).toEqual([0.01, "top_entropy"]);
    expect(training).toEqual({ iterations: 2, groupSize: 8, learningRate: 1e-6, rollout: { temperature: 0.8 } });
    expect(objectiveFromGrpoConfig({}).objective.aggregation).toBe("token-mean"); // TRL's default is dapo
  });

  it.each([
    [
      { loss_type: "dr_grpo", max_completion_length: 64, scale_rewards: "none" },
      "centred",
      "ppo",
      "seq-mean-token-sum-norm",
    ],
    [{ loss_type: "cispo", epsilon_high: 5 }, "grpo", "cispo", "token-mean"],
    [{ loss_type: "luspo", importance_sampling_level: "sequence" }, "grpo", "gspo", "seq-mean-token-sum"],
    [{ loss_type: "grpo", importance_sampling_level: "sequence" }, "grpo", "gspo", "seq-mean-token-mean"],
    [{ loss_type: "sapo" }, "grpo", "sapo", "seq-mean-token-mean"],
    [{ loss_type: "vespo", scale_rewards: "batch" }, "grpo", "vespo", "token-mean"],
  ] as const)("%j", (config, advantage, loss, aggregation) => {
    const { objective } = objectiveFromGrpoConfig(config);
    expect([objective.advantage.name, objective.policyLoss.name, objective.aggregation]).toEqual([
      advantage,
      loss,
      aggregation,
    ]);
  });

  it("corrections by TRL's names", () => {
    const of = (config: object): string | undefined =>
      objectiveFromGrpoConfig(config).objective.importanceCorrection?.name;
    expect(of({ vllm_importance_sampling_mode: "token_truncate" })).toBe("tis_token");
    expect(of({ vllm_importance_sampling_correction: true })).toBe("icepop_sequence");
    expect(of({ off_policy_mask_threshold: 0.1 })).toBe("rejection");
    expect(of({ vllm_importance_sampling_correction: false, vllm_importance_sampling_mode: "token_mask" })).toBe(
      undefined,
    );
  });

  it.each([
    [{ num_generation: 8 }, "GRPOConfig: unknown option 'num_generation'; did you mean 'num_generations'?"],
    [{ bf16: true }, "GRPOConfig: unknown option 'bf16'"],
    [{ loss_type: "ppo" }, 'GRPOConfig: unknown loss_type "ppo", expected grpo'],
    [{ loss_type: "cispo" }, 'loss_type "cispo" needs epsilon_high'],
    [{ loss_type: "dr_grpo" }, "needs max_completion_length"],
    [{ loss_type: "luspo" }, 'needs importance_sampling_level "sequence"'],
    [{ loss_type: "sapo", importance_sampling_level: "sequence" }, 'has no importance_sampling_level "sequence"'],
    [{ scale_rewards: "bath" }, 'scale_rewards must be "group", "batch" or "none", got "bath"'],
    [{ vllm_importance_sampling_mode: "truncate" }, 'unknown vllm_importance_sampling_mode "truncate"'],
  ])("%j is one clear error", (config, message) => {
    expect(() => objectiveFromGrpoConfig(config as object)).toThrow(message);
  });
});

describe("signals", () => {
  it("are what a plain forward pass says, token by token", async () => {
    const [model, reference] = [toyModel(exact, 1), toyModel(exact, 2)];
    const head = { weight: tensor([Array.from({ length: 16 }, (_, i) => i / 16)], { device: exact }), bias: tensor([0.5], { device: exact }) }; // prettier-ignore
    const plain = episode([["prompt", [1, 2]], ["action", [3, 4]], ["observation", [5]], ["action", [6]]]); // prettier-ignore
    const t: Trajectory = { ...plain, stream: { ...plain.stream, temperatures: plain.stream.ids.map(() => 0.7) } };
    const signals: TokenStatistics = await tokenStatistics({ model, reference, head }, TOKEN_STATISTICS, [t], {
      padId: 0,
    });
    const hidden = (m: Model) => scope(() => forward(m.params, m.config, tensor([t.stream.ids], { device: exact, dtype: "i32" }))); // prettier-ignore
    const z = (m: Model): Float64Array => scope(() => logits(m.params, hidden(m))).readSync() as Float64Array;
    const [own, ref] = [z(model), z(reference)];
    const values = scope(() => headValues(head, tensor(hidden(model).readSync(), { device: exact, shape: [6, 16] }))).readSync(); // prettier-ignore
    for (const [k, role] of t.stream.roles.entries()) {
      if (role !== "action") {
        for (const name of TOKEN_STATISTICS) expect(signals[name]![0]![k]).toBe(NaN);
        continue;
      }
      const row = (x: Float64Array, T: number): number[] => Array.from(x.subarray((k - 1) * V, k * V), (v) => v / T);
      const lse = (x: number[]): number => Math.log(x.reduce((s, v) => s + Math.exp(v), 0));
      const p = (x: number[]): number[] => x.map((v) => Math.exp(v - lse(x)));
      const entropy = (x: number[]): number => -p(x).reduce((s, q) => s + q * Math.log(q), 0);
      const id = t.stream.ids[k]!;
      const [mine, theirs, plainly] = [row(own, 0.7), row(ref, 0.7), row(ref, 1)];
      const expected: Record<(typeof TOKEN_STATISTICS)[number], number> = {
        logProbs: mine[id]! - lse(mine),
        entropy: entropy(mine),
        collision: p(mine).reduce((s, q) => s + q * q, 0),
        values: values[k - 1]!,
        refLogProbs: theirs[id]! - lse(theirs),
        refEntropy: entropy(plainly),
        refNll: lse(plainly) - plainly[id]!,
        refEnergy: -lse(plainly),
      };
      for (const name of TOKEN_STATISTICS) expect(signals[name]![0]![k], name).toBeCloseTo(expected[name], 10);
    }
  });

  it("nobody asks, nobody pays: GRPO with ECHO needs none; each part names its own", () => {
    expect(statisticsOf(objectiveOf({ method: "echo" }))).toEqual([]);
    expect(statisticsOf(objectiveOf({ method: "dapo" }))).toEqual([]);
    expect(statisticsOf(objectiveOf({ method: "paw" }))).toEqual(["entropy"]);
    expect(statisticsOf(objectiveOf({ method: "vtrace+actfocus" }))).toEqual(["logProbs", "values", "refEnergy"]);
    expect(statisticsOf(objectiveOf({ method: "kl_cov" }))).toEqual(["logProbs"]);
  });
});

describe("penalties, bonuses, critics", () => {
  const base: Objective = { advantage: centred(), policyLoss: reinforce(), aggregation: "token-mean" };

  it("a KL in the reward: R − β Σ kl, from the recorded log-probabilities", () => {
    const batch = randomBatch(3);
    const signals = madeUpSignals(batch);
    const kl = { beta: 0.3, estimator: "k1", in: "reward" } as const;
    const rows = weighStep({ ...base, kl }, batch, 0, signals);
    const penalties = batch.map(
      ({ stream }, i) =>
      stream.roles.reduce((s, role, t) => s + (role === "action" || role === "thought" ? klEstimate("k1", stream.oldLogProbs[t]!, signals.refLogProbs![i]![t]!) : 0), 0), // prettier-ignore
    );
    const shaped = batch.map((t, i) => ({ ...t, reward: t.reward - 0.3 * penalties[i]! }));
    const expected = centred().estimate(shaped).perToken;
    rows.forEach(({ advantages, wKl }, i) => {
      expect(relativeError(advantages, expected[i]!)).toBeLessThan(1e-12);
      expect(wKl.every((w) => w === 0)).toBe(true);
    });
    // A group without spread in its outcomes is counted as such, although the penalty still pulls.
    const constant = batch.map((t) => ({ ...t, reward: 1, stepRewards: [] }));
    const still = weighStep({ ...base, kl }, constant, 0, signals);
    expect(advantagesOf({ ...base, kl }, constant, 0, signals).fracRewardZeroStd).toBe(1);
    expect(still.some(({ advantages }) => advantages.some((a) => a !== 0))).toBe(true);
  });

  it("an adaptive coefficient moves with the KL", async () => {
    const beta = new AdaptiveKl({ beta: 0.1, target: 1e-9, horizon: 60 });
    const objective: Objective = { ...base, kl: { beta, estimator: "k2" } };
    const reports = await reportsOf(trainRl(rlOptions(endingModel(device), objective, { steps: 3 })));
    expect(beta.beta).toBeGreaterThan(0.1);
    expect(reports.at(-1)!.metrics["kl_beta"]).toBeGreaterThan(0.09);
  });

  it("a step of nothing but groups without spread changes nothing, if they are left out", async () => {
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const options = rlOptions(model, objectiveOf({ method: "dapo" }));
    const before = await readAll([model.params.embedding]);
    const { metrics } = await trainOn(options, randomBatch(1).map((t) => ({ ...t, reward: 1 })), 0); // prettier-ignore
    expect(metrics["frac_reward_zero_std"]).toBe(1);
    expect(await readAll([model.params.embedding])).toEqual(before);
  });

  it("signals, a critic and two world models leave no memory behind", async () => {
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const options = rlOptions(model, objectiveOf({ method: "vapo+echo+paw+actfocus" }), { iterations: 2 });
    const live: number[] = [];
    for (let step = 0; step < 6; step++) {
      await trainOn(options, randomBatch(1), step);
      live.push(device.backend.stats().liveBytes);
    }
    expect(new Set(live.slice(1)).size).toBe(1);
  });

  it("groups without spread can be left out of the denominators; the world model still reads them", () => {
    const batch = randomBatch(4).map((t, i) => (i < 3 ? { ...t, reward: 1, stepRewards: [] } : t));
    const objective = objectiveOf({ method: "dapo+echo" });
    const rows = weighStep(objective, batch, 0);
    const kept = weighStep(objective, batch.slice(3), 0);
    rows.slice(0, 3).forEach((e) => expect(e.wPolicy.every((w) => w === 0)).toBe(true));
    rows.slice(3).forEach((e, i) => expect(e.wPolicy).toEqual(kept[i]!.wPolicy));
    expect(rows[0]!.wWorld.some((w) => w > 0)).toBe(true);
  });

  it("an entropy bonus raises the entropy that a plain gradient does not", async () => {
    const learner = toyStep(exact, { ...base, entropy: 1 });
    const batch = randomBatch(5).map((t) => ({ ...t, reward: 1 })); // no advantage: the bonus alone
    const entropyOf = async (): Promise<number> => (await lossAndGradient(learner, batch, 10_000)).value;
    const before = await entropyOf();
    expect(before).toBeLessThan(0); // −H
    await trainOn(
      { ...learner, optimizer: new AdamW(learner.model.params, { weightDecay: 0 }), lr: () => 0.02 },
      batch,
      0,
    );
    expect(await entropyOf()).toBeLessThan(before);
  });

  it("a critic learns returns; with its trunk frozen the transformer feels nothing of it", async () => {
    const advantage = gae({ gamma: 1, lambda: 1 });
    const objective: Objective = { ...base, advantage, critic: { coefficient: 1, clip: 10 } };
    const model = toyModel(device, 1, { layers: 1, hiddenSize: 8 });
    const head = initValueHead(model.config, device);
    expect(await readAll([head.weight, head.bias])).toEqual([new Array(8).fill(0), [0]]);
    const options = { ...rlOptions(model, objective), critic: { head, optimizer: new AdamW(head, { weightDecay: 0 }) }, lr: () => 0.05 }; // prettier-ignore
    const batch = randomBatch(2);
    const losses: number[] = [];
    for (let step = 0; step < 30; step++) losses.push((await trainOn(options, batch, step)).metrics["value_loss"]!);
    expect(losses.at(-1)!).toBeLessThan(0.3 * losses[0]!);

    const values = { ...base, advantage: { ...advantage, estimate: advantage.estimate } };
    const silent = batch.map((t) => ({ ...t }));
    const gradient = async (trunk: boolean): Promise<number[][]> => {
      const learner = toyStep(exact, { ...values, policyLoss: { ...reinforce(), tokenLoss: ({ mask }) => mask }, critic: { trunk } }); // prettier-ignore
      return (await lossAndGradient(learner, silent, 10_000)).leaves;
    };
    const [frozen, shared] = [await gradient(false), await gradient(true)];
    const ofModel = (leaves: number[][]): number[] => leaves.slice(0, -2).flat();
    expect(ofModel(frozen).every((g) => g === 0)).toBe(true);
    expect(ofModel(shared).some((g) => g !== 0)).toBe(true);
    expect(frozen.slice(-2).flat().some((g) => g !== 0)).toBe(true); // prettier-ignore
  });

  it("episodes of an older policy: ratios to what was recorded, or weights instead", async () => {
    const batch = randomBatch(9);
    const of = async (objective: Objective, offPolicy: boolean): Promise<StepReport> => {
      const learner = toyStep(exact, objective);
      return trainOn({ ...learner, offPolicy, lr: () => 0 }, batch, 0);
    };
    /** Σ w·loss(A, ρ) over the trained tokens, with the policy's own log-probabilities before the step. */
    const byHand = ({ rows, scores }: StepReport, loss: (A: number, rho: number) => number): number =>
      rows.reduce(
        (s, { mask, advantages, trajectory, wPolicy }, i) =>
          s + mask.reduce((sum, own, t) => sum + (own ? wPolicy[t]! * loss(advantages[t]!, Math.exp(scores.logProbs[i]![t]! - trajectory.stream.oldLogProbs[t]!)) : 0), 0), // prettier-ignore
        0,
      );
    const clipped: Objective = { ...base, policyLoss: ppoClip() };
    const ppo = (A: number, rho: number): number => Math.max(-rho * A, -Math.min(1.2, Math.max(0.8, rho)) * A);
    const [stale, fresh] = [await of(clipped, true), await of(clipped, false)];
    expect(stale.metrics["policy_loss"]).toBeCloseTo(byHand(stale, ppo), 12);
    expect(fresh.metrics["policy_loss"]).toBeCloseTo(byHand(fresh, (A) => -A), 12); // prettier-ignore
    expect(stale.metrics["clip_ratio/region_mean"]).toBeGreaterThan(0);
    expect(fresh.metrics["clip_ratio/region_mean"]).toBe(0);

    const corrected = await of({ ...clipped, importanceCorrection: importanceCorrection({ max: 1.5 }) }, true);
    expect(corrected.metrics["clip_ratio/region_mean"]).toBe(0);
    const uncorrected = fresh.rows.flatMap(({ wPolicy }) => [...wPolicy]);
    const ratios = corrected.rows.flatMap(({ trajectory, mask }, i) =>
      [...mask].map((own, t) =>
        own ? Math.exp(corrected.scores.logProbs[i]![t]! - trajectory.stream.oldLogProbs[t]!) : 0,
      ),
    );
    corrected.rows
      .flatMap(({ wPolicy }) => [...wPolicy])
      .forEach((w, k) => expect(w).toBeCloseTo(uncorrected[k]! * Math.min(1.5, ratios[k]!), 12));
    expect(corrected.metrics["rollout_corr/kl"]).toSatisfy(Number.isFinite);
  });

  it("ReMax plays each task once more, greedily", async () => {
    const [report] = await reportsOf(
      trainRl(rlOptions(endingModel(device), objectiveOf({ method: "remax" }), { steps: 1 })),
    );
    const baselines = report!.rows.map((e) => e.trajectory.greedyReward!);
    expect(baselines.every(Number.isFinite)).toBe(true);
    for (let g = 0; g < 2; g++) expect(new Set(baselines.slice(3 * g, 3 * g + 3)).size).toBe(1);
  });
});
