/** One seed of `npm run stories`, as large as it is published: the reward rises, and in the control it does not. */
import { expect, it } from "vitest";
import { runArm, START } from "../../bench/stories/arms.ts";
import { heldOutTexts, startModel } from "../../bench/stories/tell.ts";
import { device } from "../../engine/index.ts";

it("GRPO raises the held-out reward of stories260K above that of shuffled rewards", async () => {
  const on = await device("wasm");
  const start = startModel(on);
  const common = { device: on, start, texts: await heldOutTexts(start) };
  const rewardOf = async (arm: string): Promise<number> => (await runArm(common, arm, 0)).figures["reward"]!;
  const before = await rewardOf(START);
  const trained = await rewardOf("GRPO, all weights");
  const shuffled = await rewardOf("control: rewards shuffled, β = 0");
  expect(trained).toBeGreaterThan(before + 0.1);
  expect(trained).toBeGreaterThan(shuffled + 0.1);
  on.dispose();
}, 900_000);
