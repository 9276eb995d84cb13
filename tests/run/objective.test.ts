/** The objective of a run is the same whether its parts are at hand, are loaded, or were all there. */
import { expect, test } from "vitest";
import { objectiveFor } from "../../run/methods.ts";
import { loadObjective } from "../../run/objective.ts";
import { METHODS } from "../../methods/choice.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";

const ADD_ONS = ["echo", "grpo+paw", "echo+dapo", "reinforce+++echo", "reinforce++-baseline+echo+top_entropy"];

test.each([...Object.keys(METHODS), ...ADD_ONS, "sft"])("--method %s", async (method) => {
  const { rl } = presetOfFlags("--method", method);
  expect(JSON.stringify(await loadObjective(rl, 40))).toBe(JSON.stringify(objectiveFor(rl, 40)));
});

test("parts in the place of a preset's are loaded, too, and a wrong name is said", async () => {
  const { rl } = presetOfFlags("--method", "grpo");
  const { advantage, policyLoss } = await loadObjective({ ...rl, advantage: "gae", loss: "gspo" }, 40);
  expect([advantage.name, policyLoss.name]).toEqual(["gae", "gspo"]);
  await expect(loadObjective({ ...rl, method: "grpo+ecko" }, 40)).rejects.toThrow('did you mean "echo"');
});
