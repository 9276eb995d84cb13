/** The page: its doors are the world in which the agent plays. */
import type { StepResult } from "worldgrad";
import { AgentWorker } from "worldgrad/worker";
import type { Settings } from "./agent.ts";
import { DOORS, Doors } from "./game.ts";

const doors = Array.from({ length: DOORS }, (_, i) => {
  const door = document.createElement("button");
  door.textContent = String(i + 1);
  return door;
});
document.getElementById("doors")!.append(...doors);
const say = (text: string): void => void (document.getElementById("status")!.textContent = text);

/** The game, played at the doors of the page. */
class DoorsOfThePage extends Doors {
  protected override act(action: string): StepResult {
    const result = super.act(action);
    const door = doors[Number(action) - 1];
    if (door) door.style.outline = result.info["success"] === true ? "3px solid green" : "1px solid gray";
    return result;
  }
}

const environment = {
  name: "doors",
  description: "find the prize",
  families: [],
  make: () => new DoorsOfThePage(),
  expert: () => "",
  random: () => "",
};

const worker = new Worker(new URL("./agent.ts", import.meta.url), { type: "module" });
using agent = new AgentWorker<Settings>(worker, { environment });
try {
  const query = new URLSearchParams(location.search);
  await agent.create({ seed: Number(query.get("seed") ?? 1) });
  const rewards: number[] = [];
  for await (const { step, metrics } of agent.train(Number(query.get("steps") ?? 120))) {
    rewards.push(metrics["reward"]!);
    say(`step ${step + 1}: mean reward ${metrics["reward"]!.toFixed(2)}`);
  }
  const mean = (of: readonly number[]): string => (of.reduce((sum, x) => sum + x, 0) / of.length).toFixed(2);
  say(
    `Mean reward: ${mean(rewards.slice(0, 10))} in the first ten steps, ${mean(rewards.slice(-10))} in the last ten.`,
  );
} catch (error) {
  say(String(error));
}
