/**
 * Estimators where goldens and random batches do not look: defaults, empty and single groups, rollouts without a token,
 * anchors, milestones. Each of these was found by `npm run mutate`: before it was here, an edit of that place went
 * unnoticed.
 */
import {
  moments,
  fracWithoutSpread,
  isWithoutSpread,
  membersWithSpread,
  rowsWithoutSpread,
} from "../../rl/episode/groups.ts";
import { describe, expect, it } from "vitest";
import {
  ADVANTAGES,
  gae,
  gdpo,
  gigpo,
  gpg,
  maxRl,
  milestone,
  opo,
  optimalTokenBaseline,
  rae,
  reinforcePlusPlusBaseline,
  remax,
  rloo,
  vapo,
  vtrace,
} from "../../methods/advantages/index.ts";
import { type AdvantageEstimator, whitening } from "../../rl/objective/estimator.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { anchorOf } from "../../methods/advantages/steps.ts";
import { informativeGroups } from "../../data/dynamic.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import { append, emptyStream, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { madeUpSignals, randomBatch } from "../support/rlBatches.ts";
import { episode, trajectoryOf } from "../support/rlToy.ts";

const near = (actual: ArrayLike<number>, expected: readonly number[], digits = 12): void => {
  expect(actual.length).toBe(expected.length);
  expected.forEach((x, i) => expect(actual[i]!, `element ${i}`).toBeCloseTo(x, digits));
};
/** One action of `tokens` tokens. */
const actor = (reward: number, group = 0, tokens = 1): Trajectory =>
  episode(
    [
      ["prompt", [1]],
      ["action", Array.from({ length: tokens }, () => 2)],
    ],
    { reward, group, stepRewards: [reward] },
  );
const first = (estimator: AdvantageEstimator, batch: readonly Trajectory[], signals?: TokenStatistics): number[] =>
  estimator.estimate(batch, signals).perToken.map((row) => row[1] ?? 0);

describe("defaults are those that the options say", () => {
  // Two rollouts at a place each, with rewards so close that what is added to a deviation shows.
  const close = [1, 1 + 3e-6].map((reward) => actor(reward));
  it.each<[name: string, options: Readonly<Record<string, number | boolean>>, fixed?: object, batch?: Trajectory[]]>([
    ["grpo", { ddof: 1, eps: 1e-4 }],
    ["pass_at_k", { ddof: 1, eps: 1e-4, std: true }],
    ["reinforce++", { gamma: 1 }],
    ["gae", { gamma: 1, lambda: 0.95, whiten: true }, { lambdaValue: 0.5 }],
    ["vapo", { alpha: 0.05, gamma: 1, whiten: true }, {}, [actor(1, 0, 40), actor(0, 0, 30)]],
    ["bi_level_gae", { gammaTurn: 0.95, gamma: 1, lambda: 1, whiten: true }],
    ["vtrace", { gamma: 1, lambda: 1, rhoBar: 1, cBar: 1 }],
    ["gigpo", { omega: 1, gamma: 0.95, std: false }, { anchor: () => "everywhere" }],
    ["gigpo", { eps: 1e-6 }, { std: true }, close],
    ["milestone", { lambda: 1, gamma: 0.95, std: false }],
    ["milestone", { eps: 1e-6 }, { std: true }, close],
  ])("%s: %o", (name, options, fixed = {}, batch = randomBatch(4)) => {
    const of = (given: object): unknown => ADVANTAGES[name]!.make(given).estimate(batch, madeUpSignals(batch));
    const plain = of(fixed);
    expect(of({ ...fixed, ...options })).toEqual(plain);
    for (const [key, value] of Object.entries(options)) {
      const other = typeof value === "boolean" ? !value : key === "ddof" ? 0 : key.endsWith("Bar") ? 1.7 : 0.7 * value;
      expect(of({ ...fixed, ...options, [key]: other }), key).not.toEqual(plain); // the default is seen here
    }
  });

  it("GAE's critic has the policy's λ, unless it has its own", () => {
    const batch = randomBatch(4);
    const of = (options: object): unknown => gae(options).estimate(batch, madeUpSignals(batch));
    expect(of({ lambda: 0.6 })).toEqual(of({ lambda: 0.6, lambdaValue: 0.6 }));
  });
});

describe("statistics", () => {
  it("of one value: deviation 0", () => expect(moments([5], 1)).toEqual({ mean: 5, std: 0 }));

  it("no spread: none, one, or equal values; what cannot be scored does not count", () => {
    expect([[], [3], [3, 3], [3, 4]].map(isWithoutSpread)).toEqual([true, true, true, false]);
    expect(fracWithoutSpread([])).toBe(0);
    const batch = [actor(1), actor(NaN), { ...actor(7), masked: true }, actor(1), actor(1, 1), actor(2, 1)];
    expect(fracWithoutSpread(rolloutsOf(batch))).toBe(0.5);
    expect(rowsWithoutSpread(batch)).toEqual(new Set([0, 1, 2, 3]));
  });

  /** TRL: torch.isclose(std, 0), with ddof 1: equal up to 1e-8. A return is a sum, and sums depend on their order. */
  it("equal but for rounding is without spread, and teaches exactly nothing", () => {
    const orders = [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1, 0.2 + 0.3 + 0.1, 0.3 + 0.1 + 0.2];
    expect(new Set(orders).size).toBeGreaterThan(1);
    expect([orders, [0, 1e-8], [0, 2e-8], [1e6, 1e6 + 1e-9], [1e6, 1e6 + 1], [-0, 0]].map(isWithoutSpread)).toEqual([
      true,
      true,
      false,
      true,
      false,
      true,
    ]);
    const batch = [...orders.map((reward) => actor(reward)), ...[0, 1, 0, 1].map((reward) => actor(reward, 1))];
    expect(fracWithoutSpread(rolloutsOf(batch))).toBe(0.5);
    expect(rowsWithoutSpread(batch)).toEqual(new Set([0, 1, 2, 3]));
    expect(informativeGroups(batch)).toBe(1);
    for (const estimator of [
      grpo({ eps: 0 }),
      grpo({ eps: 0, scale: "batch" }),
      rloo(),
      gigpo({ std: true, eps: 0 }),
    ]) {
      expect(first(estimator, batch).slice(0, 4)).toEqual([0, 0, 0, 0]);
      expect(first(estimator, batch)[5]).toBeGreaterThan(0);
    }
  });

  it("equal values are whitened to exactly 0, though their mean is rounded", () => {
    expect([0.1, 0.1, 0.1].map(whitening([0.1, 0.1, 0.1]))).toEqual([0, 0, 0]);
    expect(whitening([])(3)).toBe(0);
  });

  it("whitened baselines: groups without spread do not count", () => {
    near(
      first(reinforcePlusPlusBaseline(), [actor(0), actor(2), actor(1, 1), actor(1, 1)]),
      [-Math.SQRT1_2, Math.SQRT1_2, 0, 0],
      7,
    );
  });

  it("a batch's deviation: of what can be scored, eps added; nothing to score gives 0", () => {
    const batch = [actor(0), actor(2), actor(NaN), actor(3, 1), actor(3, 1)];
    const { std } = moments([0, 2, 3, 3], 1);
    near(first(grpo({ scale: "batch", eps: 0.5 }), batch), [-1 / (std + 0.5), 1 / (std + 0.5), 0, 0, 0]);
    for (const eps of [0, 1e-4]) {
      const none = grpo({ scale: "batch", eps });
      for (const batch of [
        [NaN, NaN],
        [3, NaN],
        [3, 3],
      ])
        expect(
          first(
            none,
            batch.map((r) => actor(r)),
          ),
        ).toEqual([0, 0]);
    }
  });

  it("critics: returns are there although one rollout has none", () => {
    const batch = [actor(1), actor(NaN)];
    const { returns } = gae().estimate(batch, { values: [Float64Array.of(NaN, 0.5), Float64Array.of(NaN, 0.5)] });
    expect(returns!.map((row) => row[1])).toEqual([1, NaN]);
  });
});

describe("one group", () => {
  it("OPO weighs by length, also where all tokens are one rollout's single one", () => {
    const silent = episode([["prompt", [1, 1]]], { reward: 4 });
    near(first(opo(), [actor(2), silent]), [0, 0]);
    near(first(opo(), [actor(2, 0, 3), actor(4)]), [2 - 10 / 4, 4 - 10 / 4]);
  });

  it("GRPO with singletons as they are: they keep their reward, groups without spread are still exactly 0", () => {
    const raw = grpo({ singleton: "raw" });
    expect(first(raw, [actor(0.7), actor(0.1, 1), actor(0.1, 1), actor(0.1, 1)])).toEqual([
      first(raw, [actor(0.7)])[0],
      0,
      0,
      0,
    ]);
    expect(first(raw, [actor(0.7)])[0]).not.toBe(0);
    expect(first(grpo(), [actor(0.7)])).toEqual([0]);
  });

  it("MaxRL at a mean of exactly 0 is 0", () => expect(first(maxRl(), [actor(-1), actor(1)])).toEqual([0, 0]));

  it("GDPO: a component of a rollout that cannot be scored is none, and one component with spread is enough", () => {
    const of = (a: number, b: number, more: Partial<Trajectory> = {}): Trajectory => ({
      ...actor(1),
      rewardParts: { a, b },
      ...more,
    });
    const masked = of(9, 9, { masked: true });
    const rollouts = rolloutsOf([of(0, 1), of(2, 1), masked]);
    expect(membersWithSpread(rollouts, "a")).toEqual(rollouts.slice(0, 2));
    expect(membersWithSpread(rollouts, "b")).toEqual([]);
    expect(rowsWithoutSpread([of(0, 1), of(2, 1)], true)).toEqual(new Set());
    expect(rowsWithoutSpread([of(2, 1), of(2, 1)], true)).toEqual(new Set([0, 1]));
    expect(rowsWithoutSpread([of(0, 1), of(2, 1)])).toEqual(new Set([0, 1]));
  });

  it("GPG counts rewards that are not 0, and at least one", () => {
    near(first(gpg(), [actor(0), actor(0), actor(3)]), [-3, -3, 6]);
    near(first(gpg(), [actor(0), actor(0)]), [0, 0]);
  });

  it("GDPO: components that cancel give exactly 0; of no episode at all no share is without spread", () => {
    const batch = [
      [1, 0],
      [0, 1],
    ].map(([a, b]) => ({ ...actor(1), rewardParts: { a: a!, b: b! } }));
    for (const eps of [1e-4, 0]) expect(first(gdpo({ eps }), batch)).toEqual([0, 0]); // and not 0/0
    expect(gdpo().estimate(batch).fracRewardZeroStd).toBe(0);
    expect(gdpo().estimate([]).fracRewardZeroStd).toBe(0);
  });

  it("ReMax: without a baseline 0, whatever the return", () => {
    const [lost, whole] = [
      { ...actor(5), greedyReward: NaN },
      { ...actor(5), greedyReward: 2 },
    ];
    expect(first(remax(), [lost, whole])).toEqual([0, 3]);
  });

  it("rewards per token leave no place for another return: nothing is learnt from a bound", () => {
    const babbled: Trajectory = {
      ...actor(0, 0, 2),
      tokenRewards: [0, 0.5, 0.25],
      rewardIsBound: true,
      greedyReward: -1,
    };
    expect(first(remax(), [babbled])).toEqual([0]);
    expect(first(remax(), [{ ...babbled, rewardIsBound: false }])).toEqual([1.75]); // .5 + .25 − −1
    const values = [Float64Array.of(NaN, -1, -1)];
    expect(first(gae({ lambda: 1, whiten: false }), [babbled], { values })).toEqual([0]);
    expect(first(gae({ lambda: 1, whiten: false }), [{ ...babbled, rewardIsBound: false }], { values })).toEqual([
      1.75,
    ]);
  });

  it("RAE remembers the lowest return of an end: also of one that was cut short, if it was scored there", () => {
    const memory = rae({ decay: 0.5 });
    const lowestAfter = (reward: number, more: Partial<Trajectory>): number => {
      memory.observe!([{ ...actor(reward), ...more }]);
      return (memory.state!() as Record<string, { lowest: number }>)["toy"]!.lowest;
    };
    expect(lowestAfter(-5, { stopReason: "max_tokens" })).toBe(0);
    expect(lowestAfter(-1, {})).toBe(-1);
    expect(lowestAfter(-5, { stopReason: "max_tokens", scoredAtEnd: false })).toBe(-1);
    expect(lowestAfter(-3, { stopReason: "max_tokens", scoredAtEnd: true })).toBe(-3);
    expect(lowestAfter(-2, {})).toBe(-3);
  });

  it("RAE takes back numbers only", () => {
    const toy = { mean: 1, lowest: 0 };
    for (const other of ["2", 2, null, { mean: 1 }, { mean: 1, lowest: "0" }])
      expect(() => rae().restore!({ toy, other })).toThrow(
        "rae.restore: expected { mean, lowest } for each environment",
      );
  });

  it("the optimal token baseline with hardly any energy: 1e-8 is added to its sum", () => {
    const batch = [actor(1), actor(3)];
    // 1 − 2π + Σπ² = 5e-9 each: b = 5e-9·(1 + 3)/(1e-8 + 1e-8)
    const column = (x: number): Float64Array[] => batch.map(() => Float64Array.of(NaN, x));
    near(first(optimalTokenBaseline(), batch, { logProbs: column(0), collision: column(1 + 5e-9) }), [0, 2], 6);
  });

  it("VAPO's λ goes to 1 with the length, and V-trace's c carries λ and the ratio", () => {
    const tokens = (rewards: number[]): Trajectory => ({
      ...actor(0, 0, rewards.length),
      tokenRewards: [0, ...rewards],
    });
    const values = [Float64Array.of(NaN, 0, 0, 0)];
    const monteCarlo = gae({ lambda: 1, whiten: false }).estimate([tokens([1, 2, 4])], { values });
    near(
      vapo({ alpha: 1e6, whiten: false }).estimate([tokens([1, 2, 4])], { values }).perToken[0]!,
      [...monteCarlo.perToken[0]!],
      4,
    );
    // Ratios ½ and λ .8: c = .4, δ = ½r, v_2 = 2, v_1 = 1 + .4·2, v_0 = ½ + .4·1.8
    const logProbs = [Float64Array.of(NaN, ...[-1, -1, -1].map((lp) => lp + Math.log(0.5)))];
    const { returns } = vtrace({ lambda: 0.8 }).estimate([tokens([1, 2, 4])], { values, logProbs });
    near(returns![0]!.slice(1), [0.5 + 0.4 * 1.8, 1.8, 2]);
  });
});

describe("steps", () => {
  it("GiGPO: what was seen before a turn: the prompt, then the answer to the turn before", () => {
    const t = episode([
      ["prompt", [1, 9]],
      ["scaffold", [8]],
      ["thought", [3]],
      ["action", [2]],
      ["observation", [4, 5]],
      ["action", [2]],
      ["observation", [6]],
      ["action", [2]],
    ]);
    expect([0, 1, 2].map((turn) => anchorOf(t, turn))).toEqual(["1 9", "4 5", "6"]);
    // A row that goes on from turn 1 begins with what was seen until then.
    const later = emptyStream();
    append(later, "prompt", 0, [1, 4, 5]);
    append(later, "thought", 1, [3]);
    append(later, "action", 1, [2]);
    append(later, "observation", 1, [6]);
    append(later, "action", 2, [2]);
    expect([1, 2].map((turn) => anchorOf(trajectoryOf(later), turn))).toEqual(["1 4 5", "6"]);
    const acts = emptyStream();
    append(acts, "prompt", 0, [1]);
    append(acts, "action", 1, [2]);
    append(acts, "thought", 2, [3]);
    expect([1, 2].map((turn) => anchorOf(trajectoryOf(acts), turn))).toEqual(["1", ""]);
    const thinks = emptyStream();
    append(thinks, "prompt", 0, [1]);
    append(thinks, "thought", 1, [2]);
    append(thinks, "action", 2, [3]);
    expect([1, 2].map((turn) => anchorOf(trajectoryOf(thinks), turn))).toEqual(["1", ""]);
    const unasked = emptyStream();
    append(unasked, "prompt", 0, [1]);
    append(unasked, "observation", 0, [4]);
    expect(anchorOf(trajectoryOf(unasked), 1)).toBe("4");
  });

  it("GiGPO: given actions are no part of a state that came before them, and hide none that came after", () => {
    /** Who acts in each turn, the policy or the chooser; the environment answers alike. */
    const played = (...who: ("action" | "prompt")[]): Trajectory => {
      const stream = emptyStream();
      append(stream, "prompt", 0, [1, 9]);
      who.forEach((role, turn) => {
        append(stream, role, turn, [2, 3]);
        append(stream, "observation", turn, [4, turn]);
      });
      return trajectoryOf(stream);
    };
    const [alone, helped] = [played("action", "action", "action"), played("action", "prompt", "action")];
    expect([0, 2].map((turn) => anchorOf(helped, turn))).toEqual(["1 9", "4 1"]);
    expect(anchorOf(played(), 0)).toBe("1 9");
    for (const turn of [0, 2]) expect(anchorOf(helped, turn)).toBe(anchorOf(alone, turn));
    // Begun with a prefix of the expert's.
    const prefixed = played("prompt", "action", "prompt", "action");
    expect([1, 3].map((turn) => anchorOf(prefixed, turn))).toEqual(["4 0", "4 2"]);
    expect(anchorOf(prefixed, 1)).toBe(anchorOf(alone, 1));
    // In an estimate: the first steps are compared, ½ of the episodes and ½ of the steps.
    const batch = [
      { ...alone, reward: 1, stepRewards: [0, 0, 1] },
      { ...helped, stepRewards: [0, 0, 0] },
    ];
    near(
      gigpo({ gamma: 1 })
        .estimate(batch)
        .perToken.map((row) => row[2]!),
      [1, -1],
    );
  });

  it("GiGPO: a turn's reward is that of its tokens alone, whatever the number of turns and tokens", () => {
    const of = (stepRewards: number[], tokens: number): Trajectory =>
      episode(
        [
          ["prompt", [1]],
          ...stepRewards.flatMap(
            (_, turn) =>
              [
                ["action", Array<number>(tokens).fill(2)],
                ["observation", [turn, stepRewards.length]],
              ] as const,
          ),
        ],
        { stepRewards, reward: stepRewards.reduce((a, b) => a + b, 0) },
      );
    // From the common prompt: ½·1 and 2. Episodes 1 and 2.
    near(first(gigpo({ gamma: 0.5 }), [of([0, 1], 1), of([2], 3)]), [-0.5 - 0.75, 0.5 + 0.75]);
  });

  it("rollouts of which nothing is trained do not count among the episodes; those of one token do", () => {
    const silent = episode([["prompt", [1, 1]]], { reward: 10, stepRewards: [10] });
    const far = gigpo({ anchor: (t) => String(t.reward) }); // no two steps in the same state
    near(first(far, [actor(0), actor(1), silent, { ...actor(10), masked: true }]), [-0.5, 0.5, 0, 0]);
  });

  it("milestones in any order; the reward of one is its step's if positive, else 1", () => {
    const of = (stepRewards: number[]): Trajectory =>
      episode(
        [
          ["prompt", [1]],
          ...stepRewards.flatMap(
            (_, turn) =>
              [
                ["action", [2]],
                ["observation", [turn]],
              ] as const,
          ),
        ],
        { stepRewards, reward: 0 },
      );
    const estimate = (rewards: number[], milestones?: () => number[]): number[] => {
      const batch = [of(rewards), of([0, 0, 0])];
      const options = {
        gamma: 0.5,
        ...(milestones ? { milestones: (t: Trajectory) => (t === batch[0] ? milestones() : []) } : {}),
      };
      return [...milestone(options).estimate(batch).perToken[0]!].filter(
        (_, t) => batch[0]!.stream.roles[t] === "action",
      );
    };
    // Reward .25 at turn 1: .125 and .25 in the first segment, where the other has three zeros; the last step is 0 in
    // the second.
    const mean = (0.125 + 0.25) / 5;
    near(estimate([0, 0.25, 0]), [0.125 - mean, 0.25 - mean, 0]);
    // Turns 2 and 0, without rewards: 1 | ½ 1; the other's zeros are all in the first segment.
    near(
      estimate([0, 0, 0], () => [2, 0]),
      [1 - 1 / 4, 0.5 - 0.75, 1 - 0.75],
    );
    near(
      estimate([0, -3, 0], () => [1]),
      [0.5 - 1.5 / 5, 1 - 1.5 / 5, 0],
    );
    // A turn that had no answer, and so no reward: ½ and 1 in the first segment.
    near(
      estimate([0, 0], () => [2]),
      [0.25 - 0.75 / 5, 0.5 - 0.75 / 5],
    );
  });
});
