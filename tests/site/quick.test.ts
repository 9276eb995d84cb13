/** The slider and the switch beside the run: what they change of an experiment, and when they may not. */
import { expect, it } from "vitest";
import { experimentOfWords } from "../../site/experiment.ts";
import { isSaidByAgent, lambdaIn, withAnswers, withLambda } from "../../site/quick.ts";
import { wordsOf } from "../../site/words.ts";

const words = (address: string): ReturnType<typeof wordsOf> => wordsOf(new URLSearchParams(address));
const own = words("");

it("λ is the page's own, what the agent says under either name, the table's default, or none", () => {
  expect(lambdaIn(own)).toBe("0.5");
  expect(lambdaIn(words("arms=grpo,grpo%2Becho"))).toBe("0.05");
  expect(lambdaIn(words("arms=grpo,grpo%2Becho[echo.lambda=0.3]"))).toBe("0.3");
  expect(lambdaIn(words("arms=grpo,rft"))).toBeUndefined();
});

it.each(["0", "0.02", "2"])("λ = %s goes to the agents that predict, and the experiment is valid", (lambda) => {
  for (const before of [own, words("arms=grpo,grpo%2Becho[echo.lambda=0.3]")]) {
    const after = withLambda(before, lambda);
    expect(after.agents[0]).toEqual(before.agents[0]);
    expect(lambdaIn(after)).toBe(lambda);
    const { rl } = experimentOfWords(after).agents[1]!.preset;
    expect(rl.options?.["echo"]?.["lambda"]).toBe(Number(lambda));
  }
});

it("answers are those of training alone, one switch at a time, and the truth again is the experiment itself", () => {
  const random = withAnswers(own, "random");
  expect(experimentOfWords(random).agents[1]!.preset.trainTasks).toEqual({ facts: "random" });
  expect(experimentOfWords(withAnswers(random, "none")).agents[0]!.preset.trainTasks).toEqual({ hints: "none" });
  expect(withAnswers(random, "true")).toEqual(own);
  // The warm start is the one that lies beside the page.
  expect(experimentOfWords(random).warm.sft).toEqual(experimentOfWords(own).warm.sft);
});

it("an agent that is told random facts by its own settings leaves no switch for both", () => {
  expect(isSaidByAgent(own)).toBe(false);
  expect(isSaidByAgent(words("arms=grpo%2Becho,told=grpo%2Becho[train.facts=random]"))).toBe(true);
});
