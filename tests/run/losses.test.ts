/**
 * What is left of the world-model loss without the entropy of the answers: of which episodes, and by what it is
 * divided.
 */
import { describe, expect, it } from "vitest";
import { worldLossExcess } from "../../run/losses.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";

const LIMIT = 5;

/** An episode with answers of these lengths. */
function episode(lengths: readonly number[], answerEntropy?: number, more: Partial<Trajectory> = {}): Trajectory {
  const stream = emptyStream();
  append(stream, "prompt", 0, [1, 2]);
  for (const [turn, length] of lengths.entries()) {
    append(stream, "action", turn, [3, 4]);
    append(stream, "observation", turn, new Array<number>(length).fill(5));
  }
  const info: Trajectory["info"] = answerEntropy === undefined ? {} : { answerEntropy };
  return {
    stream,
    group: 0,
    reward: 0,
    stepRewards: [],
    stopReason: "completed",
    masked: false,
    env: "x",
    task: "",
    seed: 0,
    info,
    ...more,
  };
}

describe("the excess of the world loss", () => {
  it("is Σ −lp less Σ H over all episodes, over the tokens of all, not a mean of their means", () => {
    const losses = [
      { nats: 6, tokens: 4 },
      { nats: 1, tokens: 1 },
      { nats: 0, tokens: 0 },
    ];
    expect(worldLossExcess(losses, [episode([1, 3], 4.5), episode([1], 0), episode([0], 0)], LIMIT)).toBeCloseTo(
      2.5 / 5,
      12,
    );
  });

  it("is 0 for who pays each answer's own entropy, and below for who is lucky", () => {
    expect(worldLossExcess([{ nats: 4.5, tokens: 3 }], [episode([3], 4.5)], LIMIT)).toBe(0);
    expect(worldLossExcess([{ nats: 2, tokens: 1 }], [episode([1], 1.5)], LIMIT)).toBe(0.5);
    expect(worldLossExcess([{ nats: 3, tokens: 3 }], [episode([3], 4.5)], LIMIT)).toBeCloseTo(-0.5, 12);
  });

  it("leaves out episodes whose entropy is not that of the tokens that were scored", () => {
    const whole = episode([2], 1);
    const others: [string, Trajectory, number][] = [
      ["nobody told it", episode([2]), 2],
      ["an answer may be cut", episode([1, LIMIT], 1), 1 + LIMIT],
      ["there was no room for an answer", episode([2], 1, { stopReason: "context_overflow" }), 2],
      ["a warning, or an answer before the first action, which is no target", episode([3], 1), 2],
      ["it failed, and nothing of it is scored", episode([2], 1, { masked: true }), 0],
    ];
    for (const [why, other, tokens] of others) {
      const losses = [
        { nats: 3, tokens: 2 },
        { nats: 100, tokens },
      ];
      expect(worldLossExcess(losses, [whole, other], LIMIT), why).toBe(1);
      expect(worldLossExcess(losses.slice(1), [other], LIMIT), why).toBeUndefined();
    }
    expect(worldLossExcess([{ nats: 100, tokens: LIMIT - 1 }], [episode([LIMIT - 1], 0)], LIMIT)).toBe(25);
  });

  it("is not known of episodes without answers", () => {
    expect(worldLossExcess([], [], LIMIT)).toBeUndefined();
    expect(worldLossExcess([{ nats: 0, tokens: 0 }], [episode([0], 0)], LIMIT)).toBeUndefined();
  });
});
