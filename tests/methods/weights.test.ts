/** The rows of a step, by hand: weights, rewards per token, and what is packed together. */
import { describe, expect, it } from "vitest";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { weigh } from "../../rl/train/weights.ts";
import { treeLeaves } from "../../engine/tree.ts";
import type { TokenRow } from "../../rl/objective/columns.ts";
import { echo } from "../../rl/objective/echo.ts";
import { gae, gigpo, milestone, vtrace } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { pack } from "../../rl/train/pack.ts";
import { ratiosOf } from "../../rl/train/score.ts";
import { type EpisodeReward, rewarded } from "../../rl/tasks/scoring.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { actFocus, topEntropy } from "../../methods/tokenWeights.ts";
import { klEstimate } from "../../rl/objective/kl.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { StepView } from "../../rl/objective/policyLoss.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { paw } from "../../methods/paw.ts";
import { composite } from "../../papers/rewards/composite.ts";
import {
  append,
  emptyStream,
  rewardsOfTokens,
  rewardsOfTurns,
  rolloutsOf,
  type Trajectory,
} from "../../rl/episode/stream.ts";
import {
  forked,
  madeUpSignals,
  randomBatch,
  rowGradient,
  scoredStep,
  toyStep,
  weighStep,
} from "../support/rlBatches.ts";
import { readAll, reference } from "../support/rlExecutors.ts";
import { endingModel, episode, type Part, trajectoryOf } from "../support/rlToy.ts";

const base: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
const sumOf = (rows: readonly Float64Array[]): number => rows.reduce((s, row) => s + row.reduce((a, b) => a + b, 0), 0);

describe("weights", () => {
  const batch = randomBatch(3);
  const signals = madeUpSignals(batch);
  const planned = (objective: Objective): Float64Array[] =>
    weighStep(objective, batch, 0, signals).map((e) => e.wPolicy);
  const plain = planned(base);

  it("sum to 1 with ActFocus as without it: Σw stands below; a mere selection leaves the denominators", () => {
    const weighted = planned({ ...base, tokenWeights: actFocus() });
    expect(sumOf(plain)).toBeCloseTo(1, 12);
    expect(sumOf(weighted)).toBeCloseTo(1, 12);
    expect(weighted).not.toEqual(plain);
    const importance = actFocus().weights(batch, signals);
    const total = sumOf(importance.map((row, i) => row.map((w, t) => (plain[i]![t]! > 0 ? w : 0))));
    weighted.forEach((row, i) =>
      row.forEach((w, t) => expect(w).toBeCloseTo(plain[i]![t]! > 0 ? importance[i]![t]! / total : 0, 12)),
    );
    const selected = planned({ ...base, tokenWeights: topEntropy({ share: 0.5 }) });
    selected.forEach((row, i) => row.forEach((w, t) => expect([0, plain[i]![t]]).toContain(w)));
    expect(sumOf(selected)).toBeLessThan(0.6);
  });

  it("KL and entropy terms are not weighted by a focus", () => {
    const kl = { beta: 0.3, estimator: "k3" } as const;
    const rows = weighStep({ ...base, tokenWeights: actFocus(), kl, entropy: 0.2 }, batch, 0, signals);
    rows.forEach(({ wKl, wEntropy }, i) => {
      wKl.forEach((w, t) => expect(w).toBeCloseTo(0.3 * plain[i]![t]!, 15));
      wEntropy.forEach((w, t) => expect(w).toBeCloseTo(0.2 * plain[i]![t]!, 15));
    });
  });
});

describe("what ratios and values refer to", () => {
  it("ratios: to the policy itself, before several passes to the policy before them, else to the sampler", () => {
    const corrected: Objective = { ...base, importanceCorrection: importanceCorrection() };
    const offPolicy: Objective = { ...base, advantage: vtrace(), critic: {} };
    expect(ratiosOf(base, {})).toBe("exact");
    expect(ratiosOf(base, { iterations: 2 })).toBe("before");
    expect(ratiosOf(base, { offPolicy: true })).toBe("recorded");
    expect(ratiosOf(base, { offPolicy: true, iterations: 2 })).toBe("recorded");
    // These correct for the older policy by themselves.
    for (const objective of [corrected, offPolicy]) {
      expect(ratiosOf(objective, { offPolicy: true })).toBe("exact");
      expect(ratiosOf(objective, { offPolicy: true, iterations: 2 })).toBe("before");
    }
  });

  it("a clipped value loss is told the critic's values from before the step", () => {
    const batch = randomBatch(2);
    const values = batch.map(({ stream }) => Float64Array.from(stream.ids, (_, t) => t / 4));
    const objective: Objective = { ...base, advantage: gae(), critic: { clip: 0.2 } };
    const rows = weighStep(objective, batch, 0, { values });
    expect(rows.map(({ oldValues }) => oldValues)).toEqual(values);
    const without = weighStep(base, batch, 0);
    for (const { oldValues } of without) expect(new Set(oldValues)).toEqual(new Set([0]));
  });
});

describe("rewards of tokens", () => {
  it("a step's reward is on the last token of its action, what is left of the return on the last of all", () => {
    const t = episode(
      [
        ["prompt", [1]],
        ["action", [2, 3]],
        ["observation", [4]],
        ["action", [5]],
        ["observation", [6]],
        ["action", [7, 8]],
      ],
      { stepRewards: [0.5, -1], reward: 2 },
    );
    const [rollout] = rolloutsOf([t]);
    expect(rewardsOfTokens(rollout!, [t])).toEqual([0, 0.5, -1, 0, 2.5]);
    // Truncated: the return is 0 whatever was earned.
    const cut = { ...t, reward: 0 };
    expect(rewardsOfTokens(rolloutsOf([cut])[0]!, [cut])).toEqual([0, 0.5, -1, 0, 0.5]);
    // 0.1 + 0.2 is the return 0.3, and no reward is left over.
    const rounded = { ...t, stepRewards: [0.1, 0.2], reward: 0.3 };
    expect(rewardsOfTokens(rolloutsOf([rounded])[0]!, [rounded])).toEqual([0, 0.1, 0.2, 0, 0]);
    const rows = forked(t, 4);
    expect(rewardsOfTokens(rolloutsOf(rows)[0]!, rows)).toEqual([0, 0.5, -1, 0, 2.5]);
  });

  it("a turn's reward is where it was earned: returns of turns before count it, of those after do not", () => {
    /** Turns by who wrote them. */
    const played = (
      turns: string,
      stepRewards: number[],
      reward = stepRewards.reduce((a, b) => a + b, 0),
    ): Trajectory => {
      const stream = emptyStream();
      append(stream, "prompt", 0, [1]);
      [...turns].forEach((who, turn) => {
        append(stream, who === "p" ? "action" : "prompt", turn, [2, 3]);
        append(stream, "observation", turn, [4]);
      });
      return trajectoryOf(stream, { stepRewards, reward });
    };
    const perToken = (t: Trajectory): number[] => rewardsOfTokens(rolloutsOf([t])[0]!, [t]);
    const perTurn = (t: Trajectory): number[] => rewardsOfTurns(rolloutsOf([t])[0]!, [t]);
    expect(perToken(played("pgp", [0.25, 1, 0.5]))).toEqual([0, 1.25, 0, 0.5]);
    expect(perToken(played("pggp", [0, 1, 2, 0]))).toEqual([0, 3, 0, 0]);
    expect(perToken(played("pg", [0, 1]))).toEqual([0, 1]);
    // What a given prefix earned before the policy began is nobody's; what shapes the return is the last turn's.
    expect(perToken(played("gp", [1, 0.5]))).toEqual([0, 0.5]);
    expect(perToken(played("gp", [1, 0.5], 1.75))).toEqual([0, 0.75]);
    expect(perTurn(played("gp", [1, 0.5], 1.75))).toEqual([1, 0.75]);
    expect(perTurn(played("g", [1], 0))).toEqual([1]);
    expect(perTurn(played("pg", [0, 1], 0))).toEqual([-1, 1]); // truncated after a given turn
    const shaped = { ...played("pgp", [9, 9, 9]), tokenRewards: [0, 1, 2, 0, 0, 0, 0, 4, 8, 0] };
    expect(perTurn(shaped)).toEqual([3, 0, 12]);

    // GiGPO's step returns: the first turn sees the given one after one step, and the last turn after two.
    const group = [played("pgp", [0, 1, 0]), played("pgp", [0, 0, 0.5])];
    const [first, second] = gigpo({ gamma: 0.5, omega: 1 }).estimate(group).perToken;
    expect(first![1]! - second![1]!).toBeCloseTo(0.5 + (0.5 - 0.125), 12);
    expect([first![7], second![7]]).toEqual([0.25 - 0.25, -0.25 + 0.25]);
  });

  it("what a composite return adds is on the policy's last tokens, those of a cut-off action, too", async () => {
    const parts: Part[] = [
      ["prompt", [1]],
      ["action", [2, 3]],
      ["observation", [4]],
      ["action", [5, 6]],
      ["observation", [7]],
      ["action", [8, 8, 8]],
    ];
    const reward = composite<Trajectory>([
      { name: "outcome", weight: 1, kind: "outcome", score: (t) => t.reward },
      { name: "overlong", weight: 0.25, kind: "shaping", score: () => -1 },
    ]);
    const perToken = async (t: Trajectory): Promise<number[]> => {
      const [paid] = await rewarded({ reward }, [t]);
      expect(paid).toMatchObject({ reward: -0.25, rewardParts: { outcome: 0, overlong: -1 } });
      return rewardsOfTokens(rolloutsOf([paid!])[0]!, [paid!]);
    };
    expect(await perToken(episode(parts, { stepRewards: [0, 0], stopReason: "max_tokens" }))).toEqual([
      0, 0, 0, 0, 0, 0, -0.25,
    ]);
    // What was earned before is taken back there, as the return says.
    expect(await perToken(episode(parts, { stepRewards: [0.5, 0], stopReason: "max_tokens" }))).toEqual([
      0, 0.5, 0, 0, 0, 0, -0.75,
    ]);
    // The last action was answered.
    expect(await perToken(episode(parts, { stepRewards: [0, 0, 0] }))).toEqual([0, 0, 0, 0, 0, 0, -0.25]);
  });

  it("form is no milestone: a composite return leaves the steps their environment's rewards", async () => {
    const tries = [0, 1].map((format) =>
      episode(
        [
          ["prompt", [1]],
          ["action", [2]],
          ["observation", [3]],
          ["action", [4]],
        ],
        { stepRewards: [0, 0], info: { format } },
      ),
    );
    const reward = (t: Trajectory): EpisodeReward => ({ reward: 0.2 * Number(t.info["format"]), parts: {} });
    const [plain, formed] = await rewarded({ reward }, tries);
    expect(
      milestone()
        .estimate([plain!, formed!])
        .perToken.map((row) => [...row]),
    ).toEqual([
      [0, -0.1, 0, -0.1],
      [0, 0.1, 0, 0.1],
    ]);
  });

  it("with a KL in the reward each token pays for itself: γ 0 leaves r − β·kl − V", () => {
    const batch = randomBatch(4);
    const signals = madeUpSignals(batch);
    const advantage = gae({ gamma: 0, lambda: 0, whiten: false });
    const kl = { beta: 0.4, estimator: "k1", in: "reward" } as const;
    const objective: Objective = { ...base, advantage, critic: {}, kl };
    const rows = weighStep(objective, batch, 0, signals);
    let total = 0;
    const rollouts = rolloutsOf(batch);
    for (const rollout of rollouts) {
      const own = rewardsOfTokens(rollout, batch);
      rollout.tokens.forEach(({ row, t }, k) => {
        const penalty = klEstimate("k1", batch[row]!.stream.oldLogProbs[t]!, signals.refLogProbs![row]![t]!);
        const expected = own[k]! - 0.4 * penalty - signals.values![row]![t]!;
        expect(rows[row]!.advantages[t]!).toBeCloseTo(expected, 12);
        total += penalty;
      });
    }
    expect(advantagesOf(objective, batch, 0, signals).kl!).toBeCloseTo(
      total / rollouts.reduce((n, r) => n + r.tokens.length, 0),
      12,
    );
  });
});

it("PaW: a token at position 0, which nothing predicts, is no part of an action", () => {
  const t = episode([
    ["action", [2, 3]],
    ["observation", [4]],
  ]);
  const entropy = [Float64Array.of(NaN, 1, NaN)];
  expect([...paw().weights([t], 0, { entropy })[0]!]).toEqual([0, 0, 1]);
});

it("what a loss prepares from: the policy as it is, and the old one of the ratios", async () => {
  const device = await reference.open();
  const batch = randomBatch(6);
  const seen: StepView[] = [];
  const prepare = (view: StepView): Float64Array[] => {
    seen.push(view);
    return view.masks.map((mask) => Float64Array.from(mask, Number));
  };
  const learner = toyStep(device, { ...base, policyLoss: { ...ppoClip(), prepare } });
  for (const offPolicy of [true, false]) {
    const { rows, statistics } = await scoredStep({ ...learner, offPolicy }, batch, 4);
    const view = seen.pop()!;
    expect(view.step).toBe(4);
    expect(view.logProbs).toEqual(statistics.logProbs);
    const recorded = batch.map((t) => Float64Array.from(t.stream.oldLogProbs));
    expect(view.oldLogProbs).toEqual(offPolicy ? recorded : statistics.logProbs);
    expect(rows.map((row) => row.prepared)).toEqual(view.masks.map((mask) => Float64Array.from(mask, Number)));
  }
  device.dispose();
});

describe("packing", () => {
  const batch = randomBatch(5);
  const lengthOf = (rows: readonly number[]): number => Math.max(...rows.map((i) => batch[i]!.stream.ids.length));

  it.each([1, 30, 60, 90, 10_000])("at most %d padded tokens, unless one sequence alone has more", (maxTokens) => {
    const rows = weighStep(base, batch, 0);
    const batches = [...pack(rows, { padId: 0, maxTokens })];
    const packed = batches.flatMap((b) => [...new Set(b.episode)]);
    expect([packed.length, new Set(packed).size]).toEqual([6, 6]);
    for (const b of batches) {
      expect(b.length).toBe(lengthOf([...new Set(b.episode)]));
      expect(b.rows === 1 || b.rows * b.length <= maxTokens).toBe(true);
      expect(b.segments).toBe(b.rows);
    }
    // And no more micro-batches than that needs: the next row would not have fitted.
    batches.slice(0, -1).forEach((b) => expect((b.rows + 1) * b.length).toBeGreaterThan(maxTokens));
  });

  it.each([1, 60, 100])("rows of a rollout stay together, with %d tokens at most", (maxTokens) => {
    const rows = batch.flatMap((t, i) => forked(t, i));
    const batches = [...pack(weighStep(base, rows, 0), { padId: 0, maxTokens })];
    for (const b of batches) {
      const own = new Set([...b.episode].map((i) => rows[i]!.rollout));
      expect(own.size).toBe(b.segments);
      for (const other of batches) {
        if (other !== b) for (const i of other.episode) expect(own.has(rows[i]!.rollout)).toBe(false);
      }
      // One number per rollout, the same for its rows.
      const bySegment = new Map([...b.segment].map((s, n) => [s, rows[b.episode[n]!]!.rollout]));
      b.segment.forEach((s, n) => expect(rows[b.episode[n]!]!.rollout).toBe(bySegment.get(s)));
      expect(b.segments === 1 || b.rows * b.length <= maxTokens).toBe(true);
    }
  });
});

describe("answers in the policy mask, a mistake for demonstrations (trainObservations)", () => {
  const mistaken: Objective = { ...base, trainObservations: true };
  const batch = [
    episode(
      [
        ["prompt", [1, 2]],
        ["action", [3, 4]],
        ["scaffold", [5]],
        ["observation", [6, 7, 8]],
        ["observation", [9], false],
        ["action", [3]],
      ],
      { reward: 1 },
    ),
    episode([
      ["prompt", [1, 2]],
      ["action", [4]],
    ]),
  ];
  it("has what follows the prompt but tags, with the advantage of the action before, and weighs all alike", () => {
    const [long, short] = weighStep(mistaken, batch, 0);
    const right = weighStep(base, batch, 0);
    const A = right[0]!.advantages[2]!;
    expect(A).toBeGreaterThan(0.5);
    expect([...long!.mask]).toEqual([0, 0, 1, 1, 0, 1, 1, 1, 1, 1]);
    expect([...right[0]!.mask]).toEqual([0, 0, 1, 1, 0, 0, 0, 0, 0, 1]);
    expect([...long!.advantages].slice(2)).toEqual(Array.from({ length: 8 }, () => A));
    // Eight tokens are trained in place of four, so that each counts an eighth.
    expect([...long!.wPolicy]).toEqual([0, 0, 1, 1, 0, 1, 1, 1, 1, 1].map((on) => on / 8));
    expect([...short!.mask]).toEqual([0, 0, 1]);
    expect([...short!.wPolicy]).toEqual([0, 0, 1 / 8]);
  });

  it("reaches from the second token, the first that is predicted, over an answer to one token", () => {
    const brief = (token: number, reward: number): Trajectory =>
      episode(
        [
          ["prompt", [1]],
          ["action", [token]],
          ["observation", [6, 7]],
        ],
        { reward },
      );
    const [row] = weighStep(mistaken, [brief(3, 1), brief(4, 0)], 0);
    expect([...row!.mask]).toEqual([0, 1, 1, 1]);
    const [first, A, ...answer] = row!.advantages;
    expect(first).toBe(0);
    expect(A).toBeGreaterThan(0.5);
    expect(answer).toEqual([A, A]);
  });

  it("leaves a row's first token out, which nothing predicts, also where it is an answer", () => {
    const begun = (reward: number): Trajectory =>
      episode(
        [
          ["observation", [6]],
          ["action", [3, 4]],
        ],
        { reward },
      );
    const [row] = weighStep(mistaken, [begun(1), begun(0)], 0);
    expect([...row!.mask]).toEqual([0, 1, 1]);
    expect([...row!.wPolicy]).toEqual([0, 1 / 4, 1 / 4]);
  });

  it("trains nothing of an episode that is left out, and leaves the world model's weights as they are", () => {
    const [row] = weighStep(mistaken, [{ ...batch[0]!, masked: true }, batch[1]!], 0);
    expect([sumOf([row!.mask]), sumOf([row!.wPolicy])]).toEqual([0, 0]);
    const world = (objective: Objective): Float64Array[] =>
      weighStep({ ...objective, world: echo() }, batch, 0).map(({ wWorld }) => wWorld);
    expect(world(mistaken)).toEqual(world(base));
    expect(sumOf(world(base))).toBeGreaterThan(0);
  });

  it("is the gradient of answers that the agent is said to have written", async () => {
    const device = await reference.open();
    const model = endingModel(device);
    const renamed = batch.map((trajectory) => ({
      ...trajectory,
      stream: {
        ...trajectory.stream,
        roles: trajectory.stream.roles.map((role) => (role === "observation" ? "action" : role)),
      },
    }));
    const of = (rows: readonly TokenRow[]): Promise<number[][]> =>
      readAll(treeLeaves(rowGradient(model, rows, base, { padId: 0 })));
    // Nobody sampled the answers: what a ratio refers to are the log-probabilities of the policy as it is.
    const logProbs = batch.map(({ stream }) => Float64Array.from(stream.ids, () => -1));
    const scored = (objective: Objective, played: readonly Trajectory[]): TokenRow[] =>
      weigh(objective, played, advantagesOf(base, played, 0), 0, { logProbs }, "before");
    const gradient = await of(scored(mistaken, batch));
    expect(gradient).toEqual(await of(scored(base, renamed)));
    expect(gradient).not.toEqual(await of(scored(base, batch)));
    device.dispose();
  });
});
