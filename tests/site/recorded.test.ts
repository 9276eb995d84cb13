/** The recorded run behind the live curves: it is the page's own experiment, and it stands behind no other world. */
import { describe, expect, test } from "vitest";
import { experimentOf } from "../../site/experiment.ts";
import { recordedFor, TEN_RUNS } from "../../site/recorded.ts";
import { RECORDED_RUN } from "../../site/recordedRun.ts";

/** With something changed. */
const CHANGED = "arms=plain=grpo_token,predictor=grpo_token%2Becho[lambda=1]";
const recorded = (address = CHANGED) => recordedFor(experimentOf(new URLSearchParams(address)));

describe("the page's own experiment", () => {
  test("has a line for each agent, from the warm start to the last of its steps, at each of its tests", () => {
    const { agents } = experimentOf(new URLSearchParams());
    const { success } = recorded()!;
    expect(success).toHaveLength(agents.length);
    for (const [i, { preset }] of agents.entries()) {
      const steps = success[i]!.map(([step]) => step);
      expect(steps).toEqual(Array.from(steps, (_, k) => k * preset.evaluation.every));
      expect(steps.at(-1)).toBe(preset.rl.steps);
    }
    // All begin with the same weights.
    expect(success[0]![0]).toEqual(success[1]![0]);
  });

  test("is told in words, with where it ended", () => {
    const [a, b] = RECORDED_RUN.map(({ success }) => `${(100 * success.at(-1)![1]).toFixed(1)} %`);
    expect(recorded()!.about).toBe(`Dotted: with nothing changed: plain ${a!}, predictor ${b!}.`);
  });

  test("is not drawn under itself: a line below the live one would only tell the end", () => {
    expect(recorded("")).toEqual({ success: [], about: TEN_RUNS });
  });
});

test.each([
  "device=webgpu",
  "set=train.facts=random",
  "set=train.hints=none",
  "arms=grpo=grpo_token,other=grpo_token%2Becho[lambda=2]",
])("%s: it stays, to be compared with", (address) => expect(recorded(address)!.success).toEqual(recorded()!.success));

test.each(["env=castle&arms=grpo_token,dapo", "seed=1", "set=rl.groups=4", "steps=20", "arms=grpo_token,dapo"])(
  "%s is another experiment, and has none",
  (address) => expect(recorded(address)).toBeUndefined(),
);
