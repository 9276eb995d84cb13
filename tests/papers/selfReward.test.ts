/**
 * Iterative self-rewarding DPO: judges and ensembles, the loop with a truthful judge and with a corrupt one, restarts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/checkpoint.ts";
import { optimizerToFiles, restoreOptimizer } from "../../nn/optimizerFiles.ts";
import { AdamW } from "../../nn/optimizer.ts";
import {
  agreement,
  approvalJudge,
  type EpisodeJudge,
  judgeEpisodes,
  judgeMetrics,
  verifierJudge,
  votingJudge,
  worldModelJudge,
} from "../../papers/preferences/judges.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { dpo } from "../../methods/losses/index.ts";
import { tally } from "../../papers/rewards/judge.ts";
import { rollout } from "../../rl/play/rollout.ts";
import {
  judgedPairs,
  type SelfRewardOptions,
  type SelfRewardReport,
  trainSelfRewarding,
} from "../../papers/preferences/selfReward.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { trainSft } from "../../methods/sft.ts";
import { score } from "../../rl/train/score.ts";
import { paramsOf, reportsOf } from "../support/rlRuns.ts";
import { endingModel, episode, letters, toySpec, toyTemplate as template, toyTokenizer } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** Episodes of an action each, with the given rewards; two groups of three, unless said. */
const episodes = (rewards: readonly number[], group = (i: number): number => Math.floor(i / 3)): Trajectory[] =>
  rewards.map((reward, i) =>
    episode(
      [
        ["prompt", [1]],
        ["action", [i % 11, template.endId]],
      ],
      { reward, group: group(i) },
    ),
  );
const says = (name: string, scores: readonly number[]): EpisodeJudge => ({ name, score: async () => scores });
const context = (): { model: ReturnType<typeof endingModel>; template: typeof template } => ({
  model: endingModel(device),
  template,
});

describe("an ensemble", () => {
  const rows = episodes([0, 0, 0, 0, 0, 0]);

  it("majority: each two episodes of a group are put to the vote, whatever the scales", async () => {
    const judges = [says("x", [1, 2, 3, 0, 0, 0]), says("y", [10, 30, 20, 0, 0, 9]), says("z", [-3, -2, -1, 0, 5, 1])];
    const { scores, failed } = await judgeEpisodes(judges, rows, context());
    expect(scores.slice(0, 3)).toEqual([-1, 0, 1]); // the third beats the second by 2 : 1
    expect(scores.slice(3)).toEqual([-0.5, 0, 0.5]); // the last beats the first by 2 : 0; nothing else is decided
    expect(failed).toBe(0);
    const alone = await judgeEpisodes([judges[0]!], rows, context());
    expect(alone.scores).toEqual([-1, 0, 1, 0, 0, 0]);
  });

  it("mean: of those with an opinion, if enough; a judge that throws or says too little has none", async () => {
    const judges: EpisodeJudge[] = [
      says("x", [1, 2, NaN, 4, 5, 6]),
      says("y", [3, 2, NaN, NaN, 5, 0]),
      says("short", [1]),
      { name: "throws", score: () => Promise.reject(new Error("no")) },
    ];
    const both = await judgeEpisodes(judges, rows, context(), { ensemble: "mean", quorum: 2 });
    expect(both.scores).toEqual([2, 2, NaN, NaN, 5, 3]);
    expect(both.failed).toBe(2);
    expect((await judgeEpisodes(judges, rows, context(), { ensemble: "mean", quorum: 1 })).scores).toEqual([
      2,
      2,
      NaN,
      4,
      5,
      3,
    ]);
    // More than half of four judges do not speak here.
    expect((await judgeEpisodes(judges, rows, context(), { ensemble: "mean" })).scores).toEqual(Array(6).fill(NaN));
    expect((await judgeEpisodes(judges, rows, context())).scores).toEqual(Array(6).fill(NaN));
    const masked = rows.map((row, i) => (i === 0 ? { ...row, masked: true } : row));
    expect(
      (await judgeEpisodes([says("x", [1, 2, 3, 4, 5, 6])], masked, context(), { ensemble: "mean" })).scores,
    ).toEqual([NaN, 2, 3, 4, 5, 6]);
  });

  it("the rubric's vector: judgements 4 5 4, 2 2 3 and 4 4 4 of three answers: the first over the second", async () => {
    const answers = episodes([0, 0, 0]);
    const judges = [says("once", [4, 2, 4]), says("twice", [5, 2, 4]), says("thrice", [4, 3, 4])];
    const { scores } = await judgeEpisodes(judges, answers, context(), { ensemble: "mean" });
    expect(scores).toEqual([13 / 3, 7 / 3, 4]);
    const pairs = judgedPairs(answers, scores);
    expect(pairs.map(({ chosen, rejected }) => [answers.indexOf(chosen), answers.indexOf(rejected)])).toEqual([[0, 1]]);
  });

  it("ends with the signal's reason, and only with it", async () => {
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(judgeEpisodes([says("x", [1, 2, 3, 4, 5, 6])], rows, { ...context(), signal })).rejects.toThrow(
      "enough",
    );
  });

  it("agreement is counted over pairs on which both have an opinion", async () => {
    expect(agreement(rows, [1, 2, 3, 0, 0, 0], [1, 2, 3, 0, 0, 0])).toBe(1);
    expect(agreement(rows, [1, 2, 3, 0, 0, 0], [3, 2, 1, 0, 0, 0])).toBe(0);
    expect(agreement(rows, [1, 2, NaN, 0, 0, 1], [1, 2, 3, 1, 0, 2])).toBe(1); // 1–2, 4–6, 5–6
    expect(agreement(rows, [1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6])).toBeUndefined();
    const judges = [says("up", [1, 2, 3, 1, 2, 3]), says("down", [3, 2, 1, 1, 2, 3])];
    const judgement = await judgeEpisodes(judges, rows, context());
    const metrics = judgeMetrics(judges, rows, judgement, [1, 2, 3, NaN, NaN, NaN]);
    expect(metrics).toMatchObject({ "judges/agreement": 0.5, "judges/up/accuracy": 1, "judges/down/accuracy": 0 });
    expect(metrics["judges/accuracy"]).toBeUndefined(); // they are at odds exactly where the truth is known
  });

  it("a vote needs its quorum and no tie", () => {
    expect(tally([true, true, false])).toEqual({ verdict: true, yes: 2, no: 1, abstained: 0 });
    expect(tally([true, undefined, undefined]).verdict).toBeUndefined();
    expect(tally([true, false], 1).verdict).toBeUndefined();
  });
});

describe("judges", () => {
  it("a vote on each episode; a judge that throws abstains there", async () => {
    const judge = votingJudge("some", async ({ reward }) => {
      if (reward === 2) throw new Error("no");
      return reward === 3 ? undefined : reward > 0;
    });
    expect(await judge.score(episodes([0, 1, 2, 3]), context())).toEqual([0, 1, NaN, NaN]);
    expect(await verifierJudge().score(episodes([0.5, 1]), context())).toEqual([0.5, 1]);
  });

  it("the policy approves what it has learnt to approve", async () => {
    // Taught: after an episode in which the action was "a" comes "a" (yes), after "b" comes "b" (no).
    const model = endingModel(device);
    const word = (c: string): Trajectory =>
      episode([
        ["prompt", [1]],
        ["action", [...toyTokenizer.encode(c), template.endId]],
      ]);
    const taught = ["a", "b"].map((c) =>
      episode([
        ["prompt", [...word(c).stream.ids, ...toyTokenizer.encode("?")]],
        ["action", toyTokenizer.encode(c === "a" ? "d" : "e")],
      ]),
    );
    await reportsOf(
      trainSft({
        model,
        template,
        optimizer: new AdamW(model.params),
        lr: () => 0.01,
        demonstrations: taught,
        batchSize: 4,
        steps: 25,
        rng: new Rng(1),
      }),
    );
    const judge = approvalJudge({ question: "?", approve: "d", reject: "e" });
    const full = episode([
      ["prompt", [1]],
      ["action", Array<number>(63).fill(1)],
    ]);
    const [a, b, tooLong] = (await judge.score([word("a"), word("b"), full], { model, template })) as [
      number,
      number,
      number,
    ];
    expect(a).toBeGreaterThan(0.8);
    expect(b).toBeLessThan(0.2);
    expect(tooLong).toBeNaN();
    const swapped = await approvalJudge({ question: "?", approve: "e", reject: "d" }).score([word("a")], {
      model,
      template,
    });
    expect(swapped[0]).toBeCloseTo(1 - a, 6);
    expect(() => approvalJudge({ approve: "no" })).toThrow("two different texts");
  });

  it("the world model's judge is the mean log-probability of the answers", async () => {
    const model = endingModel(device);
    const requests = [0, 1, 2].map((i) => ({
      spec: toySpec(letters(2)),
      options: {},
      seed: 0,
      group: 0,
      rng: new Rng(i),
    }));
    const played = await rollout(model, template, requests, { maxActionTokens: 5, maxTurns: 2 });
    const scores = await worldModelJudge().score(played, { model, template });
    const rows = played.map((t) => rowOf(t));
    const { logProbs } = await score(model, rows, { padId: template.padId, scored: () => true });
    const means = played.map(({ stream }, i) => {
      const answers = [...logProbs[i]!].filter((_, t) => stream.roles[t] === "observation");
      return answers.reduce((sum, x) => sum + x, 0) / answers.length; // 0 / 0 is NaN
    });
    expect(means.some((x) => x < 0)).toBe(true);
    scores.forEach((x, i) => (Number.isNaN(means[i]) ? expect(x).toBeNaN() : expect(x).toBeCloseTo(means[i]!, 5)));
    expect(await worldModelJudge().score(episodes([0]), { model, template })).toEqual([NaN]); // no answer, no opinion
  });
});

describe("pairs of a group", () => {
  const rows = episodes([1, 2, 3, 4, 5, 6]);
  const rewardsOf = (scores: number[], options = {}): number[][] =>
    judgedPairs(rows, scores, options).map(({ chosen, rejected }) => [chosen.reward, rejected.reward]);

  it("are the best and the worst, if they differ by more than the margin and were scored", () => {
    expect(rewardsOf([0, 5, 2, 1, 1, 1])).toEqual([[2, 1]]); // the second group is undecided
    expect(rewardsOf([0, 5, 2, 1, 1, NaN])).toEqual([[2, 1]]);
    expect(rewardsOf([NaN, 5, 2, NaN, NaN, 7])).toEqual([[2, 3]]); // one scored episode is no pair
    expect(rewardsOf([0, 1, 2, 0, 0, 3], { margin: 2 })).toEqual([[6, 5]]);
    expect(rewardsOf([0, 1, 2, 0, 0, 3], { pairing: "all" })).toEqual([
      [3, 2],
      [3, 1],
      [2, 1],
      [6, 4],
      [6, 5],
    ]);
    expect(
      judgedPairs(
        rows.map((row) => ({ ...row, masked: true })),
        [0, 1, 2, 3, 4, 5],
      ),
    ).toEqual([]);
  });

  it("never hold the same tokens twice", () => {
    expect(judgedPairs([rows[0]!, { ...rows[0]!, reward: 9 }], [0, 1])).toEqual([]);
  });
});

const optionsFor = (
  model: ReturnType<typeof endingModel>,
  overrides: Partial<SelfRewardOptions> = {},
): SelfRewardOptions => ({
  model,
  template,
  optimizer: new AdamW(model.params, { clipNorm: 1 }),
  lr: () => 0.006,
  iterations: 3,
  steps: 8,
  batchSize: 8,
  policyLoss: dpo({ beta: 0.3 }),
  imitation: 0,
  env: toySpec(letters(1)),
  envOptions: {},
  groups: 6,
  groupSize: 6,
  rollout: { maxActionTokens: 5, maxTurns: 1 },
  judges: [verifierJudge()],
  comparisons: 12,
  rng: new Rng(3),
  ...overrides,
});
const all = async (options: SelfRewardOptions): Promise<SelfRewardReport[]> => {
  const reports: SelfRewardReport[] = [];
  for await (const report of trainSelfRewarding(options)) reports.push(report);
  return reports;
};
const series = (reports: readonly SelfRewardReport[], name: string): number[] =>
  reports.map(({ metrics }) => metrics[name]!);
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** Likes signs, and what is long. */
const corrupt: EpisodeJudge = {
  name: "corrupt",
  score: async (rows) =>
    rows.map(({ stream }) => stream.ids.filter((id, t) => stream.roles[t] === "action" && id >= 6).length),
};

describe("the loop", () => {
  it("learns the task from a truthful judge, and says so", async () => {
    const reports = await all(optionsFor(endingModel(device)));
    const reward = series(reports, "reward");
    expect(reward.at(-1)!).toBeGreaterThan(reward[0]! + 0.15);
    expect(mean(series(reports, "win_rate/truth"))).toBeGreaterThan(0.55);
    for (const { metrics, pairs } of reports) {
      expect(metrics["pairs"]).toBe(pairs.length);
      expect(metrics["pairs/accuracy"]).toBe(1);
      expect(metrics["judges/verifier/accuracy"]).toBe(1);
      expect(metrics["hacking/gap"]).toBe(0);
      expect(metrics["rewards/accuracies"]).toBeGreaterThan(0.5);
    }
  });

  it("with a corrupt judge the new policy wins before the judge and not in truth: the gap shows", async () => {
    const reports = await all(optionsFor(endingModel(device), { judges: [corrupt] }));
    expect(mean(series(reports, "win_rate/judges"))).toBeGreaterThan(0.6);
    expect(mean(series(reports, "win_rate/truth"))).toBeLessThan(0.5);
    expect(mean(series(reports, "hacking/gap"))).toBeGreaterThan(0.15);
    expect(mean(series(reports, "judges/corrupt/accuracy"))).toBeLessThan(0.5);
    expect(series(reports, "pairs/accuracy")[0]).toBeLessThanOrEqual(0.5);
    // What the task is about is forgotten.
    expect(series(reports, "reward").at(-1)!).toBeLessThan(0.5 * series(reports, "reward")[0]!);
  });

  it("two honest judges outvote a corrupt one; a failing one changes nothing", async () => {
    const honest = votingJudge("honest", async ({ reward }) => reward > 0.5);
    const broken: EpisodeJudge = { name: "broken", score: () => Promise.reject(new Error("no")) };
    const judges = [verifierJudge(), honest, corrupt, broken];
    const [report] = await all(optionsFor(endingModel(device), { judges, quorum: 2, iterations: 1 }));
    expect(report!.metrics["judges/failed"]).toBe(1);
    expect(report!.metrics["judges/broken/accuracy"]).toBeUndefined();
    expect(report!.metrics["judges/agreement"]).toBeLessThan(1);
    expect(report!.metrics["pairs/accuracy"]).toBeGreaterThan(0.8);
  });

  it("without an opinion nothing is learnt; without a known truth nothing is claimed", async () => {
    const model = endingModel(device);
    const before = await paramsOf(model);
    const silent = says("silent", []);
    const reports = await all(optionsFor(model, { judges: [silent], iterations: 2, truth: () => NaN }));
    expect(series(reports, "pairs")).toEqual([0, 0]);
    expect(await paramsOf(model)).toEqual(before);
    for (const name of ["win_rate/truth", "hacking/gap", "judges/accuracy", "pairs/accuracy", "loss"])
      expect(reports[0]!.metrics[name]).toBeUndefined();
  });

  it("continues bitwise at an iteration, with the policy itself among the judges", async () => {
    const judges = [verifierJudge(), worldModelJudge(), approvalJudge({ question: "?", approve: "a", reject: "b" })];
    const whole = optionsFor(endingModel(device), { judges });
    const reports = await all(whole);
    const half = optionsFor(endingModel(device), { judges, iterations: 1 });
    await all(half);
    const files = {
      ...(await modelToFiles(half.model)),
      ...(await optimizerToFiles(half.model.config, half.optimizer)),
    };
    const model = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, device);
    const rest = optionsFor(model, { judges, startIteration: 1 });
    restoreOptimizer(model.config, rest.optimizer, files["optimizer.safetensors"] as Uint8Array);
    expect((await all(rest)).map(({ metrics }) => metrics)).toEqual(reports.slice(1).map(({ metrics }) => metrics));
    expect(await paramsOf(model)).toEqual(await paramsOf(whole.model));
  });

  it("stops when told to, and refuses what makes no sense", async () => {
    const model = endingModel(device);
    expect(await all(optionsFor(model, { rollout: { signal: AbortSignal.abort() } }))).toEqual([]);
    for (const [options, message] of [
      [{ judges: [] }, "expected at least one judge"],
      [{ judges: [corrupt, corrupt] }, "judges need different names, got corrupt, corrupt"],
      [{ groupSize: 1 }, "groupSize must be an integer ≥ 2, got 1"],
      [{ quorum: 2 }, "quorum must be an integer in [1, 1]"],
      [{ margin: -1 }, "margin must be ≥ 0, got -1"],
    ] as const) {
      await expect(all(optionsFor(model, options))).rejects.toThrow(`trainSelfRewarding: ${message}`);
    }
  });
});
