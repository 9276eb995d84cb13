// The page: it imports the 2 KB that talk to the worker; the library is loaded by agent.js.
import { AgentWorker } from "../../../dist/agentWorker.min.js";

const byId = (id) => document.getElementById(id);
const worker = new Worker(new URL("agent.js", import.meta.url), { type: "module" });
const agent = new AgentWorker(worker);
const rewards = [];
let isTraining = false;

async function train() {
  isTraining = true;
  byId("toggle").textContent = "Pause";
  for await (const { step, metrics } of agent.train()) {
    rewards.push(metrics.reward);
    const last = rewards.slice(-10);
    const mean = last.reduce((sum, reward) => sum + reward, 0) / last.length;
    byId("status").textContent = `step ${step + 1}: mean reward of the last ten steps ${mean.toFixed(2)}`;
    if (!isTraining) break; // leaving the loop pauses the worker
  }
  byId("toggle").textContent = "Train";
}

async function watch() {
  const [{ task, turns, success }] = await agent.play({ seeds: [Math.floor(performance.now())] });
  const lines = [
    task,
    ...turns.map(({ action, observation }) => `${action}: ${observation}`),
    success ? "won" : "lost",
  ];
  byId("game").replaceChildren(
    ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
  );
}

/** What goes wrong is said in the page. */
const saying = (act) => () => act().catch((error) => (byId("status").textContent = error.message));

byId("toggle").addEventListener("click", () => (isTraining ? (isTraining = false) : saying(train)()));
byId("play").addEventListener("click", saying(watch));
await saying(async () => {
  await agent.create({ seed: Number(new URLSearchParams(location.search).get("seed") ?? 1) });
  byId("status").textContent = "The agent has seen twelve games of an expert.";
  byId("toggle").disabled = byId("play").disabled = false;
})();
