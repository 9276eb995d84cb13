/**
 * The token stream, the chat template that writes it, and what is read off it: turns, rollouts of several rows, rewards
 * of tokens, metrics.
 */
import { describe, expect, it } from "vitest";
import { byteTokenizer } from "../../nn/tokenizer.ts";
import { echo, observationTokens } from "../../rl/objective/echo.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import {
  append,
  emptyStream,
  outcomeOf,
  policyMask,
  rewardsOfTokens,
  rolloutsOf,
  type StopReason,
  type Trajectory,
  turnCount,
} from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { relabelled } from "../../data/inverse.ts";
import { turnsOf } from "../../rl/episode/turns.ts";
import { episode, type Part, toyTemplate, toyTokenizer, trajectoryOf } from "../support/rlToy.ts";

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

describe("streams", () => {
  const task: Part = ["prompt", [1]];

  it("what was not recorded is 0, the temperature 1, the version −1", () => {
    const stream = emptyStream();
    append(stream, "action", 0, [5, 6]);
    append(stream, "action", 0, [7, 8], { versions: [3, 4], oldLogProbs: [-1, -2], temperature: 0.5 });
    expect(stream.oldLogProbs).toEqual([0, 0, -1, -2]);
    expect(stream.temperatures).toEqual([1, 1, 0.5, 0.5]);
    expect(stream.versions).toEqual([-1, -1, 3, 4]);
  });

  it("an outcome is the return, unless it is known apart from what shapes the return", () => {
    expect([outcomeOf({ reward: 0.3 }), outcomeOf({ reward: 0.3, outcome: 0 })]).toEqual([0.3, 0]);
  });

  it("turns are counted by what the agent wrote", () => {
    const answer: Part = ["observation", [3]];
    expect(turnCount(episode([task, ["action", [2]], answer, ["thought", [2]], answer]))).toBe(2);
    const stream = emptyStream();
    append(stream, "action", 0, [1]);
    append(stream, "observation", 1, [1]);
    expect(turnCount(trajectoryOf(stream))).toBe(1);
  });

  it("a rollout with one masked row is masked; rows without a rollout's number are rollouts of their own", () => {
    const row = (more: Partial<Trajectory> = {}): Trajectory => episode([task, ["action", [2]]], more);
    const masked = rolloutsOf([row({ rollout: 1 }), row({ rollout: 1, masked: true })]);
    expect(masked.map(({ scorable }) => scorable)).toEqual([false]);
    const rollouts = rolloutsOf([row(), row(), row({ rollout: 0 }), row()]);
    expect(rollouts.map(({ rows }) => rows)).toEqual([[0], [1], [2], [3]]);
  });

  it("rewards of tokens: all rows must say them; a turn without a step's reward has 0; rounding is no reward", () => {
    const rewardsOf = (rows: readonly Trajectory[]): number[] => rewardsOfTokens(rolloutsOf(rows)[0]!, rows);
    /** Rows of one rollout, each with an action of two tokens. */
    const rowsWith = (...options: Partial<Trajectory>[]): Trajectory[] =>
      options.map((own) => episode([task, ["action", [2, 3]]], { rollout: 1, ...own }));
    expect(rewardsOf(rowsWith({ tokenRewards: [0, 1, 2] }, { tokenRewards: [0, 4, 8] }))).toEqual([1, 2, 4, 8]);
    const half = rowsWith({ tokenRewards: [0, 1, 2], reward: 3, stepRewards: [3] }, {});
    expect(rewardsOf(half)).toEqual([0, 0, 0, 3]);
    expect(rewardsOf(rowsWith({ reward: -2 }))).toEqual([0, -2]);
    expect(rewardsOf([episode([task, ["action", [2, 2]], ["observation", [3]], ["action", [2]]])])).toEqual([0, 0, 0]);
    expect(rewardsOf([episode([task, ["action", [2]]], { reward: 5 })])).toEqual([5]);
    const withStep = (reward: number, step: number): number[] => rewardsOf(rowsWith({ reward, stepRewards: [step] }));
    expect(withStep(0.3, 0.1 + 0.2)).toEqual([0, 0.1 + 0.2]);
    for (const scale of [1, -1]) {
      expect(withStep(1e9 * scale, (1e9 + 1e-6) * scale)).toEqual([0, (1e9 + 1e-6) * scale]);
      expect(withStep(scale, (1 + 1.5e-12) * scale)[1]).toBe(scale);
      expect(withStep(0, 5e-13 * scale)[1]).toBe(5e-13 * scale);
    }
    expect(rewardsOf([episode([task], { reward: 1 })])).toEqual([]);
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

  it("reads no more of a long text than what may be left of it", () => {
    let read = 0;
    const { encodeParts: _, ...plain } = toyTokenizer;
    const encode = (text: string): number[] => ((read = Math.max(read, text.length)), toyTokenizer.encode(text));
    const counting = new Template({ ...plain, encode });
    const whole = counting.encodeObservation("b".repeat(2_000) + "c".repeat(2_000), 100);
    read = 0;
    const cut = counting.encodeObservation("b".repeat(5_000_000) + "c".repeat(5_000_000), 100);
    expect(cut).toEqual(whole);
    expect(read).toBeGreaterThan(1_000);
    expect(read).toBeLessThan(20_000);
    expect(counting.encodeObservation("b".repeat(10_000_000), 3).ids).toHaveLength(3);
  });

  it("cuts in the middle, to the token", () => {
    const cut = (n: number, max: number): string =>
      toyTokenizer.decode(toyTemplate.encodeObservation("a".repeat(n), max).ids);
    expect([cut(5, 5), cut(6, 5), cut(9, 8), cut(9, 4), cut(9, 2)]).toEqual([
      "aaaaa",
      "a … a",
      "aaa … aa",
      "a … ",
      " …",
    ]);
  });
});

describe("the marker of a cut answer", () => {
  const cut = (text: string, max: number): string => {
    const { ids, targets } = toyTemplate.encodeObservation(text, max);
    expect(targets).toHaveLength(ids.length);
    return ids.map((id, t) => (targets[t] ? toyTokenizer.decode([id]) : "_")).join("");
  };

  it("is no target, nor is the token behind the gap, which nobody can predict (huggingface/OpenEnv#819)", () => {
    expect(cut("abcdef", 6)).toBe("abcdef");
    expect(cut("abcdefabcdef", 9)).toBe("abc____ef"); // "abc … def"
    expect(["abcdef", "abcdef", "abcdef", "abcdef"].map((text, i) => cut(text, 5 - i))).toEqual([
      "a____",
      "a___",
      "___",
      "__",
    ]);
  });

  it("counts in |O| as a warning does: the weights of the other tokens stay, λ/(S·|O_i|) of arXiv 2605.24517", () => {
    const stream = emptyStream();
    toyTemplate.appendTask(stream, "ab");
    toyTemplate.appendAction(stream, 0, "c");
    toyTemplate.appendObservation(stream, 0, toyTemplate.encodeObservation("abcdefabcdef", 9), "", true);
    const trajectory = trajectoryOf(stream);
    const { all, targets } = observationTokens(trajectory);
    expect([all, targets.filter(Boolean).length]).toEqual([9, 5]);
    const [weights] = echo({ lambda: 1 }).weights([trajectory], 0);
    const ofAnswer = [...weights!].filter((_, t) => stream.roles[t] === "observation");
    expect(ofAnswer).toEqual([1, 1, 1, 0, 0, 0, 0, 1, 1].map((w) => w / 9));
    // A reward that reads the answer reads what the agent read.
    expect(turnsOf(trajectory, toyTemplate)[0]!.observation).toBe("abc … def");
    // Labels of other actions (VPT) keep what is a target.
    const again = relabelled(trajectory, ["d"], toyTemplate).stream;
    const observed = again.targets.filter((_, t) => again.roles[t] === "observation");
    expect(observed).toEqual(stream.targets.filter((_, t) => stream.roles[t] === "observation"));
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
      "completions/clipped_ratio": 0,
      "num_turns/clipped_ratio": 0,
      "context/clipped_ratio": 0,
      "rewards/toy/mean": 0.5,
      "tools/call_frequency": 2,
      "tools/failure_frequency": 0.25,
      "num_turns/mean": 1,
      masked: 1,
      unscored: 0,
      step_tokens: 5 + 3 + 11,
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
      step_tokens: 5 + 5 + 3,
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
    expect(rolloutMetrics([{ ...unscored, masked: true }])).toEqual({ masked: 1, unscored: 0, step_tokens: 2 });
  });

  it("the reward and the success rate are of the same episodes: those with a score", () => {
    const unscored = { ...played(NaN, 0, "completed", 1), info: { success: true } };
    const metrics = rolloutMetrics([unscored, played(1, 0, "completed", 1), played(0, 0, "completed", 1)]);
    expect(metrics).toMatchObject({ reward: 0.5, success: 0.5, unscored: 1, masked: 0 });
  });

  /**
   * TRL: `is_truncated = last token of the completion not in {eos, pad}` (grpo_trainer.py). Of an episode whose last
   * action the environment has answered, the last token that the model wrote is the end of an action.
   */
  it("an action without an end is cut off; an episode without a turn, or without room for an answer, is not", () => {
    const ended = (stopReason: StopReason, answered: number): Trajectory => {
      const stream = played(0, 0, "completed", 0).stream; // one action, in turn 0
      return trajectoryOf(stream, { stopReason, stepRewards: Array<number>(answered).fill(0) });
    };
    const ratios = (stopReason: StopReason, answered: number): (number | undefined)[] => {
      const metrics = rolloutMetrics([ended(stopReason, answered)]);
      return [metrics["completions/clipped_ratio"], metrics["num_turns/clipped_ratio"]];
    };
    expect(ratios("completed", 1)).toEqual([0, 0]);
    expect(ratios("max_turns", 1)).toEqual([0, 1]);
    expect(ratios("max_tokens", 0)).toEqual([1, 0]);
    expect(ratios("context_overflow", 0)).toEqual([1, 0]); // in the middle of an action
    expect(ratios("context_overflow", 1)).toEqual([0, 0]); // the answer has no room
    expect(ratios("parse_error", 0)).toEqual([0, 0]);
  });
});
