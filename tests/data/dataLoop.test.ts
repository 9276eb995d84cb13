/**
 * The data options of `trainRl` on a toy world: alone, together, across a restart, and what stays as it is without
 * them.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/checkpoint.ts";
import { optimizerToFiles, restoreOptimizer } from "../../nn/optimizerFiles.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { returnsToGo } from "../../methods/advantages/returns.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { Learnability } from "../../data/curriculum.ts";
import { filterRollouts } from "../../methods/filter.ts";
import { dynamicSampling } from "../../data/dynamic.ts";
import { expertPrefix } from "../../data/expertPrefix.ts";
import { isHelped } from "../../rl/tasks/plugin.ts";
import { FailedTasks } from "../../data/pools.ts";
import { ReplayBuffer } from "../../data/replay.ts";
import { exploration, temperatureSchedule } from "../../data/exploration.ts";
import type { EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { score } from "../../rl/train/score.ts";
import { reinforce } from "../../methods/losses/index.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { weighStep } from "../support/rlBatches.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { rewardsOfTokens, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { trainSft } from "../../methods/sft.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec, toyTemplate } from "../support/rlToy.ts";

const episodesOf = ({ rows }: StepReport): Trajectory[] => rows.map((e) => e.trajectory);
const play = async (overrides: Partial<RlOptions>): Promise<StepReport[]> =>
  reportsOf(trainRl(toyRlOptions(endingModel(device), overrides)));

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** Equal rewards on tasks with an odd seed. */
const halfConstant = (): EnvironmentSpec => {
  const act = letters(1);
  const odd = toySpec((action, turn) => ({ ...(act(action, turn) as Awaited<ReturnType<typeof act>>), reward: 0.5 }));
  const even = toySpec(act);
  const make = (): ReturnType<EnvironmentSpec["make"]> => {
    const both = [even.make(), odd.make()] as const;
    let chosen = both[0];
    return {
      name: "toy",
      reset: (seed) => (chosen = both[seed % 2]!).reset(seed),
      step: (action) => chosen.step(action),
    };
  };
  return { ...even, make };
};

/** Solved by any letter after "acde", which no weak model says by itself; the expert knows it. */
const locked = (): EnvironmentSpec => ({
  ...toySpec(
    (() => {
      return (action, turn) => {
        if (turn === 0)
          return {
            observation: action === "acde" ? "b" : "?",
            reward: 0,
            done: action !== "acde",
            info: { success: false },
          };
        const success = /^[a-f]/.test(action);
        return { observation: "!", reward: Number(success), done: true, info: { success } };
      };
    })(),
  ),
  expert: () => "acde",
});

describe("without data options", () => {
  it("a step plays the requests that it always has", async () => {
    const [report] = await play({ steps: 1 });
    const draw = new Rng(5).split(0);
    const requests = Array.from({ length: 6 }, (_, e) => {
      const group = Math.floor(e / 3);
      const seed = draw
        .split("task")
        .split(group)
        .int(2 ** 31);
      return { spec: toySpec(letters(2)), options: {}, seed, group, rng: draw.split("episode").split(e) };
    });
    const byHand = await rollout(endingModel(device), toyTemplate, requests, { maxActionTokens: 5, maxTurns: 3 });
    expect(episodesOf(report!)).toEqual(byHand);
    expect(
      Object.keys(report!.metrics).filter((name) =>
        /dynamic|expert_prefix|replay|curriculum|exploration|^temperature/.test(name),
      ),
    ).toEqual([]);
  });
});

describe("exploration", () => {
  it("the chooser's actions are prompt and untrained; the model's own stay exactly on-policy", async () => {
    const plugins = [exploration({ epsilon: 0.5, choose: (rng) => "abcdef"[rng.int(6)]! })];
    const [report] = await play({ steps: 1, groups: 6, plugins, env: toySpec(letters(3)) });
    const { metrics, rows } = report!;
    expect(metrics["exploration/forced_share"]).toBeGreaterThan(0.2);
    expect(metrics["exploration/forced_share"]).toBeLessThan(0.8);
    expect(metrics["sampling/sampling_logp_difference/max"]).toBeLessThan(1e-5);
    let [forced, later] = [0, 0];
    for (const { trajectory, wPolicy, wWorld } of rows) {
      const { roles, turns, ids } = trajectory.stream;
      roles.forEach((role, t) => {
        if (role !== "prompt") return;
        expect([wPolicy[t], wWorld[t], trajectory.stream.oldLogProbs[t]]).toEqual([0, 0, 0]);
        // The task is <|task|> text <|end|>; a chosen action is a letter and <|end|>, in front of the answer to it.
        if (t > 2 && ids[t] !== toyTemplate.endId) {
          forced++;
          later += Number(roles.slice(0, t).includes("action")); // the model acted, then the chooser
          const answer = ids.find((_, s) => roles[s] === "observation" && turns[s] === turns[t]);
          expect(answer).toBe(ids[t]);
        }
      });
    }
    expect(forced).toBeGreaterThan(5);
    expect(later).toBeGreaterThan(0);
  });

  it("a return-to-go counts what was earned from its turn on, by whomever", async () => {
    const env = toySpec((action, turn) => ({ ...(letters(4)(action, turn) as StepResult), reward: 2 ** turn }));
    const [report] = await play({
      steps: 1,
      groups: 6,
      plugins: [exploration({ epsilon: 0.5 })],
      env,
      rollout: { maxActionTokens: 5, maxTurns: 4 },
    });
    const trajectories = episodesOf(report!).filter((t) => t.stopReason === "completed");
    expect(trajectories.some(({ stream }) => stream.roles.lastIndexOf("prompt") > stream.roles.indexOf("action"))).toBe(
      true,
    );
    for (const rollout of rolloutsOf(trajectories)) {
      const returns = returnsToGo(rewardsOfTokens(rollout, trajectories), 1);
      expect(returns).toEqual(rollout.tokens.map(({ turn }) => 2 ** 4 - 2 ** turn));
    }
  });

  it("what the environment got is what the stream says, and an episode may end by the chooser's action", async () => {
    const seen: string[] = [];
    const act = letters(2);
    const env = toySpec((action, turn) => (seen.push(action), act(action, turn)));
    const reports = await play({ steps: 1, env, plugins: [exploration({ epsilon: 1, choose: () => "fé" })] });
    expect(new Set(seen)).toEqual(new Set(["f?"])); // the tokenizer has no é
    expect(episodesOf(reports[0]!).every((t) => t.stopReason === "completed" && t.stepRewards.length === 2)).toBe(true);
    expect(reports[0]!.metrics["exploration/forced_share"]).toBe(1);
    expect(seen.length).toBe(12);
  });

  it("a chosen action that has no room ends the episode", async () => {
    const plugins = [exploration({ epsilon: 1, choose: () => "a".repeat(70) })];
    const [report] = await play({ steps: 1, plugins });
    expect(new Set(episodesOf(report!).map((t) => t.stopReason))).toEqual(new Set(["context_overflow"]));
  });
});

describe("dynamic sampling", () => {
  it("refills, drops constant groups from the policy term, and the world model learns from all", async () => {
    const base = { env: halfConstant(), groups: 4, rng: new Rng(2) };
    const reports = await play({ ...base, plugins: [dynamicSampling({ maxRefills: 6 })] });
    for (const { metrics, rows } of reports) {
      expect(metrics["dynamic_sampling/kept_groups"]).toBe(4);
      const drawn = new Set(rows.map((e) => e.trajectory.group)).size;
      expect(metrics["dynamic_sampling/drawn_groups"]).toBe(drawn);
      const policy = new Set(
        rows.flatMap(({ trajectory, wPolicy }) => (wPolicy.some((w) => w !== 0) ? [trajectory.group] : [])),
      );
      const groupsWith = (has: (e: (typeof rows)[number]) => boolean): Set<number> =>
        new Set(rows.filter(has).map((e) => e.trajectory.group));
      const answered = groupsWith(({ trajectory }) => trajectory.stream.roles.includes("observation"));
      expect(groupsWith(({ wWorld }) => wWorld.some((w) => w !== 0))).toEqual(answered);
      expect(policy.size).toBe(4);
      if (drawn > 4) expect([...answered].some((group) => !policy.has(group))).toBe(true);
    }
    expect(reports.some(({ metrics }) => metrics["dynamic_sampling/refills"]! > 0)).toBe(true);
    // The first draw is the one that there would be without.
    const [plain] = await play({ ...base, steps: 1 });
    expect(episodesOf(reports[0]!).slice(0, 12)).toEqual(episodesOf(plain!));
  });
});

describe("temperature", () => {
  it("follows its schedule, is recorded with each token, and the ratio stays 1", async () => {
    const reports = await play({ temperature: temperatureSchedule({ from: 1.5, to: 0.5, steps: 2 }) });
    expect(reports.map(({ metrics }) => metrics["temperature"])).toEqual([1.5, 1, 0.5]);
    for (const report of reports) {
      const recorded = episodesOf(report).flatMap(({ stream }) =>
        stream.temperatures.filter((_, t) => stream.roles[t] === "action"),
      );
      expect(new Set(recorded)).toEqual(new Set([report.metrics["temperature"]]));
      expect(report.metrics["sampling/sampling_logp_difference/max"]).toBeLessThan(1e-5);
    }
  });
});

describe("expert prefix", () => {
  it("groups without a success are played again from the expert's first action on", async () => {
    const [report] = await play({
      env: locked(),
      steps: 1,
      groups: 3,
      groupSize: 6,
      plugins: [expertPrefix({ maxPrefix: 2 })],
    });
    const { metrics } = report!;
    const [own, prefixed] = [false, true].map((g) => episodesOf(report!).filter((t) => isHelped(t) === g));
    const helped = metrics["expert_prefix/helped_groups"]!;
    expect([metrics["expert_prefix/failed_groups"], metrics["expert_prefix/prefix_mean"]]).toEqual([3, 1]);
    expect(helped).toBeGreaterThan(0);
    expect([own!.length, prefixed!.length]).toEqual([18, 6 * helped]);
    expect(prefixed!.some((t) => t.reward === 1)).toBe(true);
    expect(metrics["reward"]).toBe(0); // of what was played without help
    const trained = report!.rows.filter(({ wPolicy, advantages }) => wPolicy.some((w, t) => w * advantages[t]! !== 0));
    expect(trained.length).toBeGreaterThan(0);
    expect(trained.every((e) => isHelped(e.trajectory))).toBe(true);
    const key = toyTemplate.tokenizer.encode("acde");
    for (const { stream } of prefixed!) {
      const prefix = stream.ids.filter((_, t) => stream.roles[t] === "prompt" && t > 2);
      expect(prefix).toEqual([...key, toyTemplate.endId]);
    }
    expect(metrics["sampling/sampling_logp_difference/max"]).toBeLessThan(1e-5);
  });
});

describe("replay", () => {
  const policyLossByHand = ({ rows, scores }: StepReport): number => {
    let loss = 0;
    rows.forEach(({ trajectory, wPolicy, advantages }, i) =>
      wPolicy.forEach((w, t) => {
        if (w === 0) return;
        const ratio = Math.exp(scores.logProbs[i]![t]! - trajectory.stream.oldLogProbs[t]!);
        const A = advantages[t]!;
        loss -= w * Math.min(ratio * A, Math.min(1.2, Math.max(0.8, ratio)) * A);
      }),
    );
    return loss;
  };

  it("earlier groups come back, with ratios against what was recorded", async () => {
    const replay = new ReplayBuffer({ perStep: 2, maxStaleness: 1 });
    const reports = await play({ steps: 3, groups: 5, plugins: [replay], lr: () => 0.03 });
    expect(reports.map(({ metrics }) => metrics["replay/groups"])).toEqual([0, 2, 2]);
    expect(reports.slice(1).every(({ metrics }) => metrics["replay/staleness_max"] === 1)).toBe(true);
    const [first, second] = reports as [StepReport, StepReport];
    const back = episodesOf(second).slice(15);
    const streams = episodesOf(first).map((t) => JSON.stringify(t.stream));
    expect(back.every((t) => streams.includes(JSON.stringify(t.stream)))).toBe(true);
    expect(back.map((t) => t.group)).toEqual([5, 5, 5, 6, 6, 6]);
    expect(second.metrics["policy_loss"]).toBeCloseTo(policyLossByHand(second), 5);
    expect(Math.abs(second.metrics["sampling/importance_sampling_ratio/max"]! - 1)).toBeGreaterThan(0.01);
    // Outcomes are those of this step's own episodes.
    const rewards = episodesOf(second)
      .slice(0, 15)
      .map((t) => t.reward);
    expect(second.metrics["reward"]).toBeCloseTo(rewards.reduce((a, b) => a + b, 0) / 15, 12);
  });

  it("groups come back only while the policy's probability of their successes is within the bounds", async () => {
    const replayed = async (bounds: object): Promise<number> => {
      const replay = new ReplayBuffer({ perStep: 12, ...bounds });
      return (await play({ steps: 2, groups: 12, plugins: [replay] }))[1]!.metrics["replay/groups"]!;
    };
    expect(await replayed({ minProbability: 1e-9 })).toBeGreaterThan(1);
    expect([await replayed({ minProbability: 0.99 }), await replayed({ maxProbability: 1e-9 })]).toEqual([0, 0]);
  });

  /** That each token's weight is what the objective without a correction gives, times min(π/μ, 2). */
  const expectWeighed = (objective: Objective, { rows, scores }: StepReport): void => {
    const plain = weighStep(
      objective,
      rows.map(({ trajectory }) => trajectory),
      1,
    );
    let moved = 0;
    for (const [i, { trajectory, wPolicy }] of rows.entries()) {
      wPolicy.forEach((w, t) => {
        if (w === 0) return;
        const ratio = Math.exp(scores.logProbs[i]![t]! - trajectory.stream.oldLogProbs[t]!);
        expect(w / plain[i]!.wPolicy[t]!).toBeCloseTo(Math.min(ratio, 2), 4);
        moved = Math.max(moved, Math.abs(ratio - 1));
      });
    }
    expect(moved).toBeGreaterThan(0.01);
  };

  it("a correction weighs them instead", async () => {
    const tis: Objective = { ...toyObjective, importanceCorrection: importanceCorrection({ level: "token", max: 2 }) };
    const reports = await play({ steps: 2, objective: tis, plugins: [new ReplayBuffer()], lr: () => 0.1 });
    expect(reports[1]!.metrics["rollout_corr/k3_kl"]).toBeGreaterThan(1e-4);
    expectWeighed(toyObjective, reports[1]!);
    // The loss's own ratio is 1, so that nothing is clipped.
    const atOne = reports[1]!.rows.flatMap(({ wPolicy, advantages }) =>
      [...wPolicy].map((w, t) => -w * advantages[t]!),
    );
    expect(reports[1]!.metrics["policy_loss"]).toBeCloseTo(
      atOne.reduce((sum, x) => sum + x, 0),
      5,
    );
  });

  it("a loss without a ratio learns from them with a correction, by π/μ, and is refused without", async () => {
    const objective: Objective = { ...toyObjective, policyLoss: reinforce() };
    await expect(play({ objective, plugins: [new ReplayBuffer()] })).rejects.toThrow(
      "reinforce has no ratio, and nothing else makes up for the older policies that wrote what is replayed",
    );
    await expect(play({ objective, offPolicy: true })).rejects.toThrow(
      "reinforce has no ratio, and nothing else makes up for the older policy of offPolicy",
    );
    const tis: Objective = { ...objective, importanceCorrection: importanceCorrection({ level: "token", max: 2 }) };
    const reports = await play({ steps: 2, objective: tis, plugins: [new ReplayBuffer()], lr: () => 0.1 });
    expect(reports[1]!.metrics["replay/groups"]).toBe(1);
    expectWeighed(objective, reports[1]!);
  });
});

describe("all of it", () => {
  const together = () => {
    const curriculum = new FailedTasks({
      base: new Learnability({ arms: [{ name: "one" }, { name: "two" }] }),
      share: 0.5,
    });
    const replay = new ReplayBuffer({ order: "priority" });
    const plugins = [
      exploration({ epsilon: (step) => 0.3 / (1 + step) }),
      curriculum,
      dynamicSampling({ maxRefills: 1 }),
      expertPrefix({ maxPrefix: 1 }),
      replay,
    ];
    const temperature = temperatureSchedule({ from: 1.2, to: 0.8, steps: 4 });
    return { options: { env: halfConstant(), temperature, plugins }, curriculum, replay };
  };

  it("resumes bitwise from files and JSON", async () => {
    const whole = endingModel(device);
    const wholeReports = await reportsOf(trainRl(toyRlOptions(whole, { ...together().options, steps: 4 })));

    const first = together();
    const half = toyRlOptions(endingModel(device), { ...first.options, steps: 2 });
    await reportsOf(trainRl(half));
    const files = {
      ...(await modelToFiles(half.model)),
      ...(await optimizerToFiles(half.model.config, half.optimizer)),
    };
    const state = JSON.stringify([first.curriculum.state(), first.replay.state()]);

    const model = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, device);
    const second = together();
    const [curriculum, replay] = JSON.parse(state) as [unknown, unknown];
    second.curriculum.restore(curriculum);
    second.replay.restore(replay);
    const resumed = toyRlOptions(model, { ...second.options, steps: 4, startStep: 2 });
    restoreOptimizer(model.config, resumed.optimizer, files["optimizer.safetensors"] as Uint8Array);
    const reports = await reportsOf(trainRl(resumed));
    expect(reports.map(({ metrics }) => metrics)).toEqual(wholeReports.slice(2).map(({ metrics }) => metrics));
    expect(await paramsOf(model)).toEqual(await paramsOf(whole));
    for (const { metrics } of wholeReports) expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
  });

  it("a stopped step is neither learnt from nor remembered", async () => {
    const stop = new AbortController();
    let actions = 0;
    const env = toySpec((action, turn) => (++actions === 5 && stop.abort(), letters(2)(action, turn)));
    const { curriculum, replay } = together();
    const before = JSON.stringify(curriculum.state());
    // One group after another: the first has ended when the signal comes.
    const rolloutOptions = { maxActionTokens: 5, maxConcurrent: 3, signal: stop.signal };
    const plugins = [curriculum, dynamicSampling({ maxRefills: 1 }), replay];
    const options = { env, plugins, groups: 4, rollout: rolloutOptions };
    expect(await play(options)).toEqual([]);
    expect([JSON.stringify(curriculum.state()), replay.groups.length]).toEqual([before, 0]);
  });

  it("filtered rollouts are demonstrations: the next policy finds them more likely", async () => {
    const model = endingModel(device);
    const [report] = await play({ steps: 1, groups: 6, env: toySpec(letters(1)) });
    const kept = filterRollouts(episodesOf(report!), { keep: (t) => t.reward > 0.4, perTask: 2 });
    expect(kept.length).toBeGreaterThan(2);
    const logProb = async (): Promise<number> => {
      const rows = kept.map((trajectory) => rowOf(trajectory));
      const { logProbs } = await score(model, rows, {
        padId: toyTemplate.padId,
        scored: ({ trajectory }, t) => trajectory.stream.roles[t] === "action",
      });
      return logProbs.reduce((sum, row) => sum + row.reduce((a, b) => a + (Number.isNaN(b) ? 0 : b), 0), 0);
    };
    const before = await logProb();
    const { template, optimizer, lr, rng } = toyRlOptions(model);
    await reportsOf(trainSft({ model, template, optimizer, lr, rng, demonstrations: kept, batchSize: 4, steps: 10 }));
    expect(await logProb()).toBeGreaterThan(before);
  });
});

describe("what goes wrong", () => {
  it("is said in one clear error", async () => {
    await expect(play({ plugins: [dynamicSampling()], groupSize: 1 })).rejects.toThrow(
      "dynamicSampling needs groups of at least 2, got groupSize 1",
    );
    expect(() => dynamicSampling({ maxRefills: 0.5 })).toThrow("maxRefills must be an integer ≥ 0");
    expect(() => expertPrefix({ maxPrefix: 0 })).toThrow("maxPrefix must be an integer ≥ 1");
    await expect(play({ temperature: () => 1, rollout: { temperature: 1 } })).rejects.toThrow("give one of them");
    await expect(play({ plugin: new ReplayBuffer() } as object)).rejects.toThrow("did you mean 'plugins'?");
  });
});
