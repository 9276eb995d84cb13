/** What a search teaches a model: candidates drawn in one decode, DPO on sibling actions, Agent Q's loop. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/checkpoint.ts";
import { optimizerToFiles, restoreOptimizer } from "../../nn/optimizerFiles.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { forward } from "../../nn/transformer.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { rowOf, type TokenRow, withColumns } from "../../rl/objective/columns.ts";
import { rowGradient } from "../support/rlBatches.ts";
import { score } from "../../rl/train/score.ts";
import { dpo } from "../../methods/losses/index.ts";
import { frozenCopy } from "../../papers/preferences/loop.ts";
import { preferenceRows, trainPreference } from "../../methods/preference.ts";
import { sftRows } from "../../methods/sft.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { modelActor } from "../../papers/preferences/search/actor.ts";
import { type AgentQOptions, type AgentQReport, trainAgentQ } from "../../papers/preferences/search/agentQ.ts";
import { headLeafValue } from "../../papers/preferences/search/critic.ts";
import { treeSearch } from "../../papers/preferences/search/mcts.ts";
import { searchPairs } from "../../papers/preferences/search/pairs.ts";
import { startEpisode } from "../../papers/preferences/search/position.ts";
import { isAgentToken, type Trajectory } from "../../rl/episode/stream.ts";
import { paramsOf, reportsOf } from "../support/rlRuns.ts";
import { readAll, relativeError } from "../support/rlExecutors.ts";
import { endingModel, episode, toyTemplate as template } from "../support/rlToy.ts";
import { PathGame, type PathGameOptions, pathSpec } from "../support/searchGames.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** Actions of any length; those with an a, b or c in them earn 1, others 0, in each of two turns. */
const game: PathGameOptions = { letters: "ab", turns: Infinity, reward: () => 0 };
class Wants extends PathGame {
  #turn = 0;
  protected override async act(
    action: string,
  ): Promise<{ observation: string; reward: number; done: boolean; info: { success: boolean } }> {
    const success = /[abc]/.test(action);
    return { observation: "b", reward: Number(success), done: ++this.#turn === 2, info: { success } };
  }
  override clone(): Wants {
    const copy = new Wants(this.options);
    copy.resumeFrom(this);
    copy.#turn = this.#turn;
    return copy;
  }
}
const spec = { ...pathSpec(game), make: () => new Wants(game) };

const sumOfAction = async (model: ReturnType<typeof endingModel>, rows: readonly Trajectory[]): Promise<number[]> => {
  const { logProbs } = await score(
    model,
    rows.map((t) => rowOf(t)),
    { padId: template.padId, scored: ({ trajectory }, t) => isAgentToken(trajectory.stream.roles[t]!) },
  );
  return logProbs.map((row) => row.reduce((sum, x) => sum + (Number.isNaN(x) ? 0 : x), 0));
};

describe("a model as actor", () => {
  it("draws for a stream what a rollout would, alone or in company, and records its log-probabilities", async () => {
    const model = endingModel(device);
    const rng = new Rng(7);
    const request = { spec, options: {}, seed: 0, group: 0, rng };
    const [episode] = await rollout(model, template, [request], { maxActionTokens: 6, maxTurns: 1 });
    const { stream } = await startEpisode(spec, {}, 0, template);
    const actor = modelActor(model, template, { maxActionTokens: 6, maxRows: 2 });
    const rngs = [rng.split(1), rng, rng.split(2)];
    const [several, single] = await actor.act([
      { ids: stream.ids, rngs },
      { ids: stream.ids.slice(0, 3), rngs: [rng] },
    ]);
    const [other, same, alone] = [several![0]!, several![1]!, single![0]!];
    const sampled = episode!.stream.ids.filter((_, t) => isAgentToken(episode!.stream.roles[t]!));
    expect(same.ids).toEqual(sampled);
    expect(other).not.toEqual(same);
    expect(alone.ids.length).toBeGreaterThan(0);
    same.logProbs.forEach((lp, k) => expect(lp).toBeCloseTo(episode!.stream.oldLogProbs[stream.ids.length + k]!, 4));
  });

  it("a value head may judge leaves", async () => {
    const model = endingModel(device);
    const rng = new Rng(9);
    const w = Array.from({ length: model.config.hiddenSize }, () => rng.normal());
    const head = { weight: tensor([w], { device }), bias: tensor([0.25], { device }) };
    const start = await startEpisode(spec, {}, 0, template);
    // Its value is read where the next action's first token is predicted.
    const { ids } = start.stream;
    const hidden = [...(await forward(model.params, model.config, tensor([ids], { device, dtype: "i32" })).read())];
    const last = hidden.slice(-w.length);
    const leaf = { env: start.env, stream: start.stream, turns: 0, stepRewards: [], info: {}, stop: undefined };
    const [value] = await headLeafValue(model, head, template)([leaf], [start]);
    expect(value).toBeCloseTo(
      last.reduce((sum, h, c) => sum + h * w[c]!, 0.25),
      4,
    );
    const options = {
      template,
      actor: modelActor(model, template, { maxActionTokens: 5 }),
      iterations: 12,
      rng: new Rng(1),
    };
    const { root } = await treeSearch(start, { ...options, leafValue: headLeafValue(model, head, template) });
    expect(root.visits).toBe(12);
    expect(Number.isFinite(root.total)).toBe(true);
  });
});

describe("DPO on sibling actions", () => {
  it("raises the better action's probability against the worse one's, by real steps", async () => {
    const model = endingModel(device);
    const start = await startEpisode(spec, {}, 0, template);
    const result = await treeSearch(start, {
      template,
      actor: modelActor(model, template, { maxActionTokens: 5 }),
      candidates: 8,
      iterations: 40,
      rng: new Rng(2),
    });
    const pairs = searchPairs(result, { threshold: 0.3 });
    expect(pairs.length).toBeGreaterThan(3);
    const margins = async (): Promise<number[]> => {
      const [chosen, rejected] = [
        await sumOfAction(
          model,
          pairs.map((p) => p.chosen),
        ),
        await sumOfAction(
          model,
          pairs.map((p) => p.rejected),
        ),
      ];
      return chosen.map((x, i) => x - rejected[i]!);
    };
    const before = await margins();
    const reference = frozenCopy(model);
    const unmoved = await paramsOf(reference);
    await reportsOf(
      trainPreference({
        model,
        template,
        optimizer: new AdamW(model.params),
        lr: () => 0.004,
        pairs,
        policyLoss: dpo({ beta: 0.5 }),
        reference,
        batchSize: 8,
        steps: 15,
        rng: new Rng(1),
      }),
    );
    const after = await margins();
    const raised = after.filter((x, i) => x > before[i]!).length;
    expect(raised / pairs.length).toBeGreaterThan(0.9);
    expect(await paramsOf(reference)).toEqual(unmoved); // a copy: training leaves it alone
    expect(await paramsOf(model)).not.toEqual(unmoved);
  });
});

it("imitation is the gradient of −lp of the chosen action beside that of the preference", async () => {
  const exact = await makeDevice("reference");
  try {
    const model = endingModel(exact);
    const row = (ids: number[]): Trajectory =>
      episode([
        ["prompt", [1]],
        ["action", ids],
      ]);
    const pairs = [
      { chosen: row([2, 3]), rejected: row([4]) },
      { chosen: row([5]), rejected: row([6, 7]) },
    ];
    const refLogProbs = [2, 1, 1, 2].map((n) => new Float64Array(n + 1).fill(-2));
    const of = async (rows: readonly TokenRow[]): Promise<number[][]> =>
      readAll(treeLeaves(rowGradient(model, withColumns(rows, { refLogProbs }), { policyLoss: dpo() }, { padId: 0 })));
    const [plain, both] = [await of(preferenceRows(pairs)), await of(preferenceRows(pairs, { imitation: 0.7 }))];
    // A mean over the pairs of means over tokens: for each pair by itself what SFT does.
    const sft = await Promise.all(
      pairs.map(async ({ chosen }) =>
        readAll(treeLeaves(rowGradient(model, sftRows([chosen]), { policyLoss: dpo() }, { padId: 0 }))),
      ),
    );
    both.forEach((leaf, l) => {
      const expected = leaf.map((_, k) => plain[l]![k]! + 0.35 * (sft[0]![l]![k]! + sft[1]![l]![k]!));
      expect(relativeError(leaf, expected)).toBeLessThan(1e-9);
    });
    expect(() => preferenceRows(pairs, { imitation: -1 })).toThrow("imitation must be ≥ 0, got -1");
  } finally {
    exact.dispose();
  }
});

describe("Agent Q's loop", () => {
  const optionsFor = (
    model: ReturnType<typeof endingModel>,
    overrides: Partial<AgentQOptions> = {},
  ): AgentQOptions => ({
    model,
    template,
    optimizer: new AdamW(model.params, { clipNorm: 1 }),
    lr: () => 0.004,
    iterations: 3,
    steps: 8,
    batchSize: 8,
    policyLoss: dpo({ beta: 0.3 }),
    imitation: 0,
    env: spec,
    envOptions: {},
    tasks: 3,
    search: { iterations: 16, candidates: 6, parallel: 2 },
    actor: { maxActionTokens: 5 },
    rng: new Rng(3),
    ...overrides,
  });
  const all = async (options: AgentQOptions): Promise<AgentQReport[]> => {
    const reports: AgentQReport[] = [];
    for await (const report of trainAgentQ(options)) reports.push(report);
    return reports;
  };

  it("improves what the simulations earn, and continues bitwise at an iteration", async () => {
    const model = endingModel(device);
    const reports = await all(optionsFor(model));
    const value = reports.map(({ metrics }) => metrics["search/value"]!);
    expect(value.at(-1)!).toBeGreaterThan(value[0]! + 0.8);
    for (const { metrics, pairs, episodes } of reports) {
      expect(metrics["pairs"]).toBe(pairs.length);
      expect(metrics["rewards/accuracies"]).toBeGreaterThan(0.5);
      expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
      expect(episodes.every(({ stopReason, masked }) => !masked && stopReason !== "aborted")).toBe(true);
      expect(new Set(episodes.map(({ group }) => group)).size).toBe(3);
    }
    const first = optionsFor(endingModel(device), { iterations: 1 });
    await all(first);
    const [files, states] = [
      await modelToFiles(first.model),
      await optimizerToFiles(first.model.config, first.optimizer),
    ];
    const resumed = modelFromFiles(files["config.json"] as string, files["model.safetensors"] as Uint8Array, device);
    const rest = optionsFor(resumed, { startIteration: 1 });
    restoreOptimizer(resumed.config, rest.optimizer, states["optimizer.safetensors"] as Uint8Array);
    const again = await all(rest);
    expect(again.map(({ iteration }) => iteration)).toEqual([1, 2]);
    expect(again.map(({ metrics }) => metrics)).toEqual(reports.slice(1).map(({ metrics }) => metrics));
    expect(await paramsOf(resumed)).toEqual(await paramsOf(model));
  });

  it("learns by IPO with imitation by default; a task that cannot begin is left out, unless all are", async () => {
    const run = async (options: Partial<AgentQOptions>): Promise<AgentQReport> => {
      let made = 0;
      // The third episode never begins.
      const make = (): Wants =>
        ++made === 3
          ? Object.assign(new Wants(game), { reset: () => Promise.reject(new Error("no")) })
          : new Wants(game);
      const {
        policyLoss: _,
        imitation: __,
        ...rest
      } = optionsFor(endingModel(device), { env: { ...spec, make }, iterations: 1 });
      return (await all({ ...rest, ...options }))[0]!;
    };
    const report = await run({});
    expect(report.metrics["search/failed_starts"]).toBe(1);
    expect(new Set(report.episodes.map(({ group }) => group))).toEqual(new Set([0, 1]));
    expect(report.pairs.length).toBeGreaterThan(0);
    expect(report.metrics).toEqual(
      (await run({ policyLoss: dpo({ loss: "ipo", beta: 0.25 }), imitation: 0.5 })).metrics,
    );
    expect(report.metrics["loss"]).not.toBe((await run({ policyLoss: dpo(), imitation: 0 })).metrics["loss"]);
    const broken = {
      ...spec,
      make: () => Object.assign(new Wants(game), { reset: () => Promise.reject(new Error("no")) }),
    };
    await expect(all(optionsFor(endingModel(device), { env: broken }))).rejects.toThrow("(tool_error): no");
  });

  it("goes on without pairs, stops when told to, and refuses what makes no sense", async () => {
    const model = endingModel(device);
    const before = await paramsOf(model);
    const none = await all(optionsFor(model, { pairs: { threshold: 100 }, iterations: 2 }));
    expect(none.map(({ metrics }) => metrics["pairs"])).toEqual([0, 0]);
    expect(await paramsOf(model)).toEqual(before);
    expect(await all(optionsFor(model, { search: { signal: AbortSignal.abort() } }))).toEqual([]);
    await expect(all(optionsFor(model, { tasks: 0 }))).rejects.toThrow(
      "trainAgentQ: tasks must be an integer ≥ 1, got 0",
    );
    await expect(all(optionsFor(model, { steps: 0 }))).rejects.toThrow(
      "trainAgentQ: steps must be an integer ≥ 1, got 0",
    );
  });
});
