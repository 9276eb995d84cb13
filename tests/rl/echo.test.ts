/**
 * ECHO (arXiv 2605.24517): the test vectors, what counts as an observation, the gradient through a real forward, λ
 * schedules.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { scope } from "../../engine/scope.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { forward, pickHidden } from "../../nn/transformer.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { centred } from "../../rl/objective/grpo.ts";
import {
  constantLambda,
  echo,
  ECHO_NORMALIZATIONS,
  type EchoOptions,
  linearLambda,
  observationTokens,
  stepLambda,
} from "../../rl/objective/echo.ts";
import { score } from "../../rl/train/score.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { rowGradient, weighStep } from "../support/rlBatches.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { episode, toyModel, toyTemplate, V } from "../support/rlToy.ts";

/** Three targets and a warning: |O| = 4; one target and a warning: |O| = 2. Tags count nowhere. */
const first = episode([
  ["prompt", [1]],
  ["scaffold", [12]],
  ["action", [2, 3]],
  ["scaffold", [13]],
  ["observation", [4, 5]],
  ["observation", [6], false],
  ["scaffold", [14]],
  ["action", [2]],
  ["observation", [7]],
]);
const second = episode([
  ["prompt", [1, 1]],
  ["action", [3]],
  ["observation", [8]],
  ["observation", [9], false],
  ["scaffold", [14]],
]);
const logProbs = new Map([
  [first, [-0.5, -1, -0.25]],
  [second, [-2]],
]);
const both = [first, second];

/** Σ −w·lp with the log-probabilities above on the targets, in order. */
function lossOf(trajectories: readonly Trajectory[], options: EchoOptions, step = 0): number {
  let total = 0;
  echo(options)
    .weights(trajectories, step)
    .forEach((row, i) => {
      const { targets } = observationTokens(trajectories[i]!);
      let next = 0;
      row.forEach((w, t) => {
        if (targets[t]) total -= w * logProbs.get(trajectories[i]!)![next++]!;
        else expect(w).toBe(0);
      });
    });
  return total;
}

describe("weights", () => {
  it.each([
    ["full-observation", 0.0359375],
    ["selected", 0.05 * 0.5 * (1.75 / 3 + 2)],
    ["token-mean", 0.046875],
  ] as const)("test vector, %s", (normalization, expected) => {
    expect(lossOf(both, { lambda: 0.05, normalization })).toBeCloseTo(expected, 15);
  });

  it("λ is 0.05 and the normalisation the paper's unless given", () => {
    expect(lossOf(both, {})).toBeCloseTo(0.0359375, 15);
  });

  it("the initial prompt, tags and warnings are no targets; warnings count in |O|, tags do not", () => {
    const early = episode([
      ["observation", [1, 2]], // before the first action: part of the prompt, whatever its role
      ["action", [3]],
      ["scaffold", [13]],
      ["observation", [4]],
      ["observation", [5], false],
    ]);
    expect(observationTokens(early)).toEqual({ all: 2, targets: [false, false, false, false, true, false] });
    expect([...echo({ lambda: 1 }).weights([early], 0)[0]!]).toEqual([0, 0, 0, 0, 0.5, 0]);
  });

  it("S counts episodes with an observation; masked ones and those that answered nothing do not count", () => {
    const silent = episode([
      ["prompt", [1]],
      ["action", [2]],
      ["scaffold", [13, 14]],
    ]);
    const masked = { ...first, masked: true };
    for (const normalization of ECHO_NORMALIZATIONS) {
      const alone = echo({ normalization }).weights(both, 0);
      const among = echo({ normalization }).weights([silent, ...both, masked], 0);
      expect(among.slice(1, 3)).toEqual(alone);
      expect(among[0]!.every((w) => w === 0) && among[3]!.every((w) => w === 0)).toBe(true);
    }
  });

  it("an episode with warnings only counts in S and has no target", () => {
    const warned = episode([
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [3], false],
    ]);
    for (const normalization of ECHO_NORMALIZATIONS) {
      const weights = echo({ normalization, lambda: 1 }).weights([warned, second], 0);
      expect([...weights[0]!]).toEqual([0, 0, 0]);
      expect(weights.flatMap((row) => [...row]).every(Number.isFinite)).toBe(true);
      const S = normalization === "token-mean" ? 1 : 2;
      const size = normalization === "full-observation" ? 2 : 1;
      expect(weights[1]![3]).toBe(1 / (S * size));
    }
  });

  it("nothing observed at all: every weight is 0, none is NaN", () => {
    const silent = episode([
      ["prompt", [1]],
      ["action", [2]],
    ]);
    for (const normalization of ECHO_NORMALIZATIONS) {
      expect(
        echo({ normalization })
          .weights([silent], 0)
          .map((row) => [...row]),
      ).toEqual([[0, 0]]);
    }
  });

  it("a filter takes targets away; |O| stays", () => {
    const filter = (trajectory: Trajectory, t: number): boolean => trajectory.stream.ids[t] === 5;
    const [row] = echo({ lambda: 1, filter }).weights([first], 0);
    expect([...row!].filter((w) => w !== 0)).toEqual([1 / 4]);
    const all = echo({ lambda: 1, filter: () => true }).weights([first], 0);
    expect(all).toEqual(echo({ lambda: 1 }).weights([first], 0));
    const [selected] = echo({ lambda: 1, filter, normalization: "selected" }).weights([first], 0);
    expect([...selected!].filter((w) => w !== 0)).toEqual([1]);
  });

  it("failed episodes and groups without spread are trained on", () => {
    const objective: Objective = {
      advantage: centred(),
      policyLoss: ppoClip(),
      aggregation: "token-mean",
      world: echo({ lambda: 1 }),
    };
    const rows = weighStep(objective, both, 0); // reward 0 twice: no spread
    expect(advantagesOf(objective, both, 0).fracRewardZeroStd).toBe(1);
    expect(rows.map((e) => e.wWorld.filter((w) => w !== 0).length)).toEqual([3, 1]);
    expect(rows.flatMap((e) => [...e.advantages]).every((a) => a === 0)).toBe(true);
  });
});

describe("schedules", () => {
  it("constant, linear, step", () => {
    expect([0, 7].map(constantLambda(0.3))).toEqual([0.3, 0.3]);
    expect([0, 5, 10, 20].map(linearLambda(0.1, 0.3, 10))).toEqual([0.1, 0.2, 0.3, 0.3]);
    const steps = stepLambda([
      [0, 0.05],
      [100, 0.02],
      [200, 0],
    ]);
    expect([0, 99, 100, 199, 200, 999].map(steps)).toEqual([0.05, 0.05, 0.02, 0.02, 0, 0]);
  });

  it("act at the step of the plan", () => {
    expect(lossOf(both, { lambda: linearLambda(0, 0.1, 10) }, 5)).toBeCloseTo(0.0359375, 15);
    expect(lossOf(both, { lambda: linearLambda(0, 0.1, 10) }, 0)).toBeCloseTo(0, 15);
  });

  it("reject what makes no sense, by name", () => {
    expect(() => linearLambda(0, 1, 0)).toThrow("linearLambda: steps must be > 0, got 0");
    expect(() => stepLambda([[1, 0.1]])).toThrow("start at step 0");
    expect(() =>
      stepLambda([
        [0, 1],
        [0, 2],
      ]),
    ).toThrow("ascending");
    expect(() => stepLambda([])).toThrow("stepLambda");
    expect(() => echo({ lambda: -1 }).weights(both, 3)).toThrow(
      "echo: lambda must be ≥ 0, or a function of the step, got -1",
    );
    expect(() => echo({ normalization: "mean" as "selected" })).toThrow(
      'echo: normalization must be "full-observation", "selected" or "token-mean", got "mean"',
    );
    expect(() => echo({ lamda: 0.1 } as EchoOptions)).toThrow("did you mean 'lambda'?");
  });
});

describe("gradient", () => {
  let device: Device;
  beforeAll(async () => {
    device = await makeDevice("reference");
  });
  afterAll(() => device.dispose());

  it("on a target's logit is λ(p − 1)/(S·|O_i|), on every other λp/(S·|O_i|), through a real forward", async () => {
    const model = toyModel(device);
    const lambda = 0.3;
    const at = 6; // the token 5 in `first`
    const objective: Objective = {
      advantage: centred(),
      policyLoss: ppoClip(),
      aggregation: "token-mean",
      world: echo({ lambda, filter: (trajectory, t) => trajectory === first && t === at }),
    };
    expect(first.stream.ids[at]).toBe(5);
    const rows = weighStep(objective, both, 0);
    const grads = rowGradient(model, rows, objective, { padId: toyTemplate.padId });
    // One target only, so the output matrix's gradient is the outer product of the logits' gradient and its hidden
    // state.
    const hidden = scope(() =>
      pickHidden(
        forward(model.params, model.config, tensor([first.stream.ids], { device, dtype: "i32" })),
        Int32Array.of(at - 1),
      ),
    ).readSync();
    const dHead = treeLeaves(grads.head!)[0]!.readSync();
    const C = model.config.hiddenSize;
    for (let v = 0; v < V; v++) {
      const changed: Trajectory = {
        ...first,
        stream: { ...first.stream, ids: first.stream.ids.map((id, t) => (t === at ? v : id)) },
      };
      const plans = weighStep({ ...objective, world: echo({ filter: (_, t) => t === at }) }, [changed], 0);
      const { logProbs } = await score(model, plans, { padId: toyTemplate.padId });
      const { signal } = new AbortController();
      expect((await score(model, plans, { padId: toyTemplate.padId, signal })).logProbs).toEqual(logProbs);
      const p = Math.exp(logProbs[0]![at]!);
      const dLogit = (lambda * (p - Number(v === 5))) / (2 * 4);
      for (let c = 0; c < C; c++) expect(Math.abs(dHead[v * C + c]! - dLogit * hidden[c]!)).toBeLessThan(1e-14);
    }
  });
});
