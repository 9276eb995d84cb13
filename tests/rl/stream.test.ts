/** The token stream, the chat template that writes it, and the metrics that are read off it. */
import { describe, expect, it } from "vitest";
import { byteTokenizer } from "../../nn/tokenizer.ts";
import { observationTokens } from "../../rl/methods/world/echo.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { append, emptyStream, policyMask, type Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { episode, toyTemplate, toyTokenizer, trajectoryOf } from "../support/rlToy.ts";

describe("stream", () => {
  it("the first position is never trained: nothing predicts it", () => {
    expect(policyMask(episode([["action", [1, 2]]]))).toEqual([false, true]);
  });

  it("every column is as long as the ids; log-probabilities have to fit", () => {
    const stream = emptyStream();
    append(stream, "action", 0, [1, 2], { oldLogProbs: [-1, -2], temperature: 0.5 });
    append(stream, "observation", 0, []);
    expect(stream).toEqual({
      ids: [1, 2],
      roles: ["action", "action"],
      turns: [0, 0],
      oldLogProbs: [-1, -2],
      temperatures: [0.5, 0.5],
      versions: [-1, -1],
      targets: [false, false],
    });
    expect(() => append(stream, "action", 0, [1, 2], { oldLogProbs: [-1] })).toThrow(
      "expected a log-probability for each of 2 tokens, got 1",
    );
    expect(stream.ids.length).toBe(2);
  });
});

describe("template", () => {
  it("a warning of the harness is an observation, but no target; tags are neither", () => {
    const stream = emptyStream();
    toyTemplate.appendTask(stream, "ab");
    toyTemplate.appendAction(stream, 0, "c");
    toyTemplate.appendObservation(stream, 0, toyTokenizer.encode("de"), "f!");
    const text = stream.ids.map((id, t) => `${toyTokenizer.decode([id]) || "·"}${stream.roles[t]![0]}`).join(" ");
    expect(text).toBe("·p ap bp ·p ·s ca ·a ·s do eo fo !o ·s ·s");
    expect(observationTokens(trajectoryOf(stream))).toEqual({
      all: 4,
      targets: stream.ids.map((_, t) => t === 8 || t === 9),
    });
  });

  it("a text that looks like a tag is text", () => {
    const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
    const stream = emptyStream();
    template.appendTask(stream, "<|end|>");
    expect(stream.ids.filter((id) => id === template.endId).length).toBe(1);
    expect(template.actionText([104, 105, template.endId])).toBe("hi");
    expect(template.actionText([104, 105])).toBe("hi");
    expect(() => new Template(byteTokenizer({ specials: ["<|task|>"] }))).toThrow("no special token <|act|>");
  });

  it("cuts in the middle, to the token", () => {
    const cut = (n: number, max: number): string =>
      toyTokenizer.decode(toyTemplate.encodeObservation("a".repeat(n), max));
    expect([cut(5, 5), cut(6, 5), cut(9, 8), cut(9, 4), cut(9, 2)]).toEqual([
      "aaaaa",
      "a … a",
      "aaa … aa",
      "a … ",
      " …",
    ]);
  });
});

describe("rollout metrics", () => {
  const played = (
    reward: number,
    toolErrors: number,
    stopReason: "completed" | "max_tokens",
    steps: number,
  ): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", Array<number>(steps + 1).fill(2)],
      ],
      { reward, stopReason, stepRewards: Array<number>(steps).fill(0), info: { toolErrors, success: reward > 0 } },
    );

  it("by hand", () => {
    const failed = { ...played(9, 0, "completed", 9), masked: true };
    expect(rolloutMetrics([played(1, 1, "completed", 3), played(0, 0, "max_tokens", 1), failed])).toEqual({
      reward: 0.5,
      reward_std: Math.SQRT1_2,
      success: 0.5,
      "completions/mean_length": 3,
      "completions/min_length": 2,
      "completions/max_length": 4,
      "completions/clipped_ratio": 0.5,
      "rewards/toy/mean": 0.5,
      "tools/call_frequency": 2,
      "tools/failure_frequency": 0.25,
      "num_turns/mean": 1,
      masked: 1,
      num_tokens: 5 + 3 + 11,
    });
  });

  it("two rows of a rollout are one episode", () => {
    const whole = played(1, 1, "completed", 3);
    const rows = [0, 1].map(() => ({ ...whole, rollout: 7 }));
    expect(rolloutMetrics([...rows, played(0, 0, "max_tokens", 1)])).toMatchObject({
      reward: 0.5,
      "tools/call_frequency": 2,
      "completions/max_length": 8, // both rows' own tokens
      masked: 0,
      num_tokens: 5 + 5 + 3,
    });
  });

  it("what does not exist is left out", () => {
    const unscored = trajectoryOf(
      episode([
        ["prompt", [1]],
        ["action", [2]],
      ]).stream,
      { reward: NaN, stepRewards: [0] },
    );
    const metrics = rolloutMetrics([unscored]);
    for (const name of ["reward", "reward_std", "rewards/toy/mean", "tools/failure_frequency"])
      expect(metrics).not.toHaveProperty(name);
    expect(rolloutMetrics([{ ...unscored, masked: true }])).toEqual({ masked: 1, num_tokens: 2 });
  });
});
