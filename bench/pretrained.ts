/**
 * Time and memory of a model from a folder on one thread of WebAssembly, beside the figures of `npm run fit`: loading,
 * drawing tokens, and one step of AdamW on an adapter (LoRA on all linear layers). Seconds are processor time, which a
 * busy machine stretches less than the clock.
 *
 *     npx tsx scripts/randomModel.ts Qwen3-0.6B models/qwen
 *     npx tsx bench/pretrained.ts models/qwen bf16 1 128
 */
import process from "node:process";
import { device, Rng, scope, sum, type Tensor, tensor, tokenLogProbs, treeLeaves } from "../engine/index.ts";
import { valueAndGrad } from "../engine/index.ts";
import { AdamW, forward, generate, outputMatrix, pickHidden } from "../nn/index.ts";
import { addLora, type LoraParams, WEIGHT_STORAGES } from "../pretrained/index.ts";
import { drawMemory, type StepMemory, stepMemory } from "../pretrained/fit.ts";
import { processMemory } from "../run/node/modelMemory.ts";
import { openModelFolder } from "../run/node/modelFolder.ts";
import { oneOf, wholeNumber } from "../run/usage.ts";

const MIB = 2 ** 20;
const RANK = 16;

const [path = "", form = "f32", ...sizes] = process.argv.slice(2);
const storage = oneOf("storage", form, WEIGHT_STORAGES);
const [rows, tokens] = [0, 1].map((i) => wholeNumber(["rows", "tokens"][i]!, sizes[i] ?? ["1", "128"][i]!, 1)) as [
  number,
  number,
];
const gradientCheckpointing = sizes[2] === "checkpointing";

/** Processor seconds since the last call. */
let last = process.cpuUsage();
const seconds = (): number => {
  const { user, system } = process.cpuUsage(last);
  last = process.cpuUsage();
  return Number(((user + system) / 1e6).toFixed(2));
};
const resident = (): number => Math.round(process.resourceUsage().maxRSS / 1024);

const on = await device("wasm", { threads: 1 });
const base = resident();
const folder = await openModelFolder(path);
seconds();
const model = await folder.load(on, storage);
const loading = { seconds: seconds(), MiB: resident() };

const drawn = 16;
const prompt = Array.from({ length: 16 }, (_, i) => i);
await generate(model, [prompt], { maxNewTokens: 1, temperature: 0, stopIds: [] });
seconds();
await generate(model, [prompt], { maxNewTokens: drawn, temperature: 0, stopIds: [] });
const drawing = { tokensPerSecond: Number((drawn / seconds()).toFixed(2)), MiB: resident() };

const N = rows * tokens;
const adapted = addLora(model, { r: RANK, targetModules: "all-linear" }, new Rng(0));
const { params } = adapted.trainable;
const optimizer = new AdamW(params);
const lossOf = (leaves: LoraParams): Tensor => {
  const { params: whole } = adapted.trainable.modelOf(leaves);
  const ids = tensor(
    Int32Array.from({ length: N }, (_, i) => i % 250),
    { device: on, shape: [rows, tokens] },
  );
  const hidden = pickHidden(
    forward(whole, model.config, ids, { gradientCheckpointing }),
    Int32Array.from({ length: N }, (_, i) => i),
  );
  const targets = tensor(new Int32Array(N), { device: on });
  const temperature = tensor(new Float32Array(N).fill(1), { device: on });
  return sum(tokenLogProbs(hidden, outputMatrix(whole), targets, { temperature }).logProbs);
};
seconds();
const norm = scope(() => optimizer.step(valueAndGrad(lossOf)(params).grads, 1e-4));
await treeLeaves(params)[0]!.read();
const { peakBytes } = on.backend.stats();
const step = { seconds: seconds(), tensors: Math.round(peakBytes / MIB), MiB: resident() };
void norm;
const ofStep = stepMemory(model.config, { rows, tokens, trains: { rank: RANK }, storage, gradientCheckpointing })!;
const ofDrawing = (await drawMemory(model.config, { rows: 1, prompt: 16, capacity: 16 + drawn, storage }))!;
const processOf = (counted: StepMemory): number => Math.round(processMemory(model.config, counted).total / MIB);
const said = {
  drawing: { MiB: processOf(ofDrawing) },
  step: { tensors: Math.round(ofStep.peak / MIB), outside: Math.round(ofStep.outside / MIB), MiB: processOf(ofStep) },
};
console.log(
  JSON.stringify({
    model: path,
    storage,
    rows,
    tokens,
    gradientCheckpointing,
    empty: base,
    loading,
    drawing,
    step,
    said,
  }),
);
on.dispose();
process.exit();
