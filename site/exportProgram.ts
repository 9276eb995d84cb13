/**
 * The experiment as a TypeScript program, which runs in Node on the npm package and prints the page's metrics, bit for
 * bit. Loaded when a program is asked for.
 */
import type { PageExperiment } from "./experiment.ts";
import { addressOf, armText, showWords } from "./words.ts";

/** The text of the program. */
export function programOf({ words, agents, options }: PageExperiment): string {
  const presets = Object.fromEntries(agents.map(({ arm, preset }) => [arm.label, preset]));
  const device = options.device === "webgpu" ? "webgpu" : "wasm";
  return `/**
 * ${sentenceOf(words)}
 * An experiment of the live page of worldgrad: ?${addressOf(words).toString()}
 *
 * npm install worldgrad, then: node --import tsx experiment.ts (Node 20.19 or later; from 22.18 on without tsx).
 * Each agent goes through the same warm start, which gives all of them the same weights, then through its own RL. What
 * is printed are lines of metrics. On WebAssembly they are the page's to the last bit; times differ.
 */
import { device } from "worldgrad";
import { encodeMetrics, MemoryStore, type Preset, Run } from "worldgrad/run";

/** All settings of each agent. */
const AGENTS: Record<string, Preset> = ${JSON.stringify(presets, null, 2)};

const executor = await device("${device}");
for (const [agent, preset] of Object.entries(AGENTS)) {
  const store = new MemoryStore(agent, { preset });
  let printed = 0;
  const print = (): void => {
    for (const line of store.metrics.slice(printed)) console.log(JSON.stringify(agent), encodeMetrics(line));
    printed = store.metrics.length;
  };
  const observer = { phase: print, update: print, evaluation: print, transcript() {}, note() {} };
  const run = new Run(store, preset, executor, observer, new AbortController().signal);
  await run.run(false);
  print();
  run.dispose();
}
executor.dispose();
`;
}

function sentenceOf({ shared, agents }: PageExperiment["words"]): string {
  const common = showWords(shared);
  const text = `Agents: ${agents.map(armText).join(" and ")}; both: ${common === "" ? "the page's defaults" : common}.`;
  return text.replaceAll("*/", "* /");
}
