/**
 * Time and memory of a whole RL step with an adapter (LoRA of rank 16 on all linear layers) on a model from a folder,
 * on one thread of WebAssembly: playing, rewards, scores, gradient, update. The task is "grpo" of `npm run bench`:
 * prompts of random tokens, a reward that is a function of the completion. Seconds are processor time.
 *
 *     npx tsx bench/pretrainedRl.ts models/smollm bf16 2 4 64 32 [STEPS]
 *
 * The numbers are groups, episodes of a group, tokens of a prompt, tokens of a completion. `further` has the seconds of
 * STEPS more steps. bench/peers/trl_lora_bench.py measures TRL with PEFT on this task.
 */
import process from "node:process";
import { device, Rng } from "../engine/index.ts";
import { addLora, WEIGHT_STORAGES } from "../pretrained/index.ts";
import { oneOf, wholeNumber } from "../run/usage.ts";
import { openModelFolder } from "../run/node/modelFolder.ts";
import { processMemory } from "../run/node/modelMemory.ts";
import { promptSteps, rlStepMemory } from "../run/fit/promptSteps.ts";

const MIB = 2 ** 20;
const [path = "", form = "bf16", ...sizes] = process.argv.slice(2);
const storage = oneOf("storage", form, WEIGHT_STORAGES);
const names = ["groups", "groupSize", "prompt", "completion"] as const;
const [groups, groupSize, prompt, completion] = names.map((name, i) =>
  wholeNumber(name, sizes[i] ?? ["2", "4", "64", "32"][i]!, 1),
) as [number, number, number, number];

/** Processor seconds since the last call. */
let last = process.cpuUsage();
const seconds = (): number => {
  const { user, system } = process.cpuUsage(last);
  last = process.cpuUsage();
  return Number(((user + system) / 1e6).toFixed(1));
};
const resident = (): number => Math.round(process.resourceUsage().maxRSS / 1024);

const on = await device("wasm", { threads: 1 });
const model = await (await openModelFolder(path)).load(on, storage);
const adapted = addLora(model, { r: 16, targetModules: "all-linear" }, new Rng(0));
const task = { groups, groupSize, prompt, completion } as const;
const loading = { seconds: seconds(), MiB: resident() };
const loop = promptSteps(adapted, task);
const { value } = await loop.next();
const { step_tokens: tokens, reward, grad_norm: norm } = value!.metrics;
const { peakBytes } = on.backend.stats();
const step = { seconds: seconds(), tensors: Math.round(peakBytes / MIB), MiB: resident(), tokens, reward, norm };
const further: number[] = [];
for (let count = sizes[4] === undefined ? 0 : wholeNumber("steps", sizes[4], 0); count > 0; count--) {
  await loop.next();
  further.push(seconds());
}
const counted = (await rlStepMemory(model.config, { ...task, trains: { rank: 16 }, storage }))!;
const said = {
  tensors: Math.round(counted.peak / MIB),
  MiB: Math.round(processMemory(model.config, counted).total / MIB),
  outside: Math.round(counted.outside / MIB),
};
console.log(JSON.stringify({ model: path, storage, ...task, loading, step, further, said }));
on.dispose();
process.exit();
