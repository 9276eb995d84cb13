/** Tasks of the model on worldgrad: training step, forward pass, one block, sampling. `nn/` does the work. */
import { blockParameters, type GptShape, gptParameters, type Task, type TaskOf } from "../cases/task.ts";
import { noise, parameterValues, trainingBatch } from "../data.ts";
import {
  crossEntropy,
  type Device,
  mul,
  noGrad,
  Rng,
  scope,
  sum,
  type Tensor,
  tensor,
  valueAndGrad,
} from "../../engine/index.ts";
import {
  AdamW,
  forward,
  generate,
  logits,
  modelConfig,
  type Model,
  type LayerParams,
  type TransformerParams,
} from "../../nn/index.ts";
import { buildParams } from "../../nn/parameters.ts";
import { type BlockContext, transformerBlock } from "../../nn/transformer.ts";
import type { Prepared } from "./engine.ts";
import { profileTask } from "./worldgradProfile.ts";
import { finished, prepared } from "./worldgradPrepared.ts";

export async function prepareModelTask(on: Device, task: Task): Promise<Prepared | string> {
  switch (task.op) {
    case "step":
      return stepTask(on, task);
    case "forward":
      return forwardTask(on, task);
    case "block":
      return blockTask(on, task);
    case "decode":
      return decodeTask(on, task);
    case "profile":
      return profileTask(on, stepTask(on, task));
    case "grpo":
      return (await import("./worldgradGrpo.ts")).grpoTask(on, task);
    case "rl":
      return (await import("./worldgradRl.ts")).rlTask(on, task);
    default:
      return `worldgrad has no task "${task.op}"`;
  }
}

/** The model of `cases/task.ts` with its initial weights. */
function model(on: Device, shape: GptShape, positions = shape.T): Model {
  const config = modelConfig({
    family: "gpt2",
    vocabSize: shape.V,
    hiddenSize: shape.C,
    layers: shape.L,
    heads: shape.H,
    maxPositions: positions,
  });
  const list = gptParameters({ ...shape, T: positions });
  const params = buildParams(config, (dims, _, path) => {
    const place = list.findIndex(({ name }) => name === path);
    return tensor(parameterValues(place, dims, list[place]!.kind), { device: on, shape: dims, dtype: on.float });
  });
  return { config, params };
}

function lossOf({ config }: Model, params: TransformerParams, step: number, { B, T, V }: GptShape): Tensor {
  const { device } = params.embedding;
  const { ids, targets } = batches(B, T, V)[step % 4]!;
  const hidden = forward(params, config, tensor(ids, { device, shape: [B, T] }));
  return crossEntropy(logits(params, hidden), tensor(targets, { device, shape: [B, T] }));
}

const made = new Map<string, ReturnType<typeof trainingBatch>[]>();
/** The four batches, cached so that making them is no part of a step. */
function batches(B: number, T: number, V: number): ReturnType<typeof trainingBatch>[] {
  const key = `${B} ${T} ${V}`;
  const found = made.get(key) ?? [0, 1, 2, 3].map((step) => trainingBatch(step, B, T, V));
  made.set(key, found);
  return found;
}

function stepTask(on: Device, shape: GptShape): Prepared {
  const start = model(on, shape);
  const optimizer = new AdamW(start.params, { lr: 1e-3, weightDecay: 0.1 });
  let count = 0;
  const step = (): Tensor =>
    scope(() => {
      const batch = count++;
      const both = valueAndGrad((params: TransformerParams) => lossOf(start, params, batch, shape));
      const { value, grads } = both(start.params);
      optimizer.step(grads);
      return value;
    }, "step");
  return {
    async check() {
      const losses: number[] = [];
      for (let i = 0; i < 4; i++) {
        const loss = step();
        losses.push(await loss.item());
        loss.dispose();
      }
      return losses;
    },
    run: () => step().dispose(),
    finish: () => finished(on),
    dispose: () => undefined, // the process ends with the case
  };
}

function forwardTask(on: Device, shape: GptShape): Prepared {
  const start = model(on, shape);
  let count = 0;
  const lossOfNext = (): Tensor => scope(() => noGrad(() => lossOf(start, start.params, count++, shape)), "forward");
  return {
    async check() {
      const losses: number[] = [];
      for (let i = 0; i < 4; i++) losses.push(await lossOfNext().item());
      return losses;
    },
    run: () => lossOfNext().dispose(),
    finish: () => finished(on),
    dispose: () => undefined,
  };
}

function blockTask(on: Device, { B, T, C, H }: { B: number; T: number; C: number; H: number }): Prepared {
  const config = modelConfig({ family: "gpt2", vocabSize: 1, hiddenSize: C, layers: 1, heads: H, maxPositions: T });
  const names = blockParameters(C, "layers.0.");
  const { layers } = buildParams(config, (dims, _, path) => {
    const place = names.findIndex(({ name }) => name === path);
    const kind = names[place]?.kind ?? "zero"; // embeddings and the last norm are not used here
    return tensor(parameterValues(place, dims, kind), { device: on, shape: dims, dtype: on.float });
  });
  const of = (seed: number): Tensor =>
    tensor(noise(seed, B * T * C), { device: on, shape: [B, T, C], dtype: on.float });
  const [x, g] = [of(1), of(2)];
  const context: BlockContext = {
    config,
    positions_BT: tensor(new Int32Array(B * T), { device: on }),
    rotation: undefined,
  };
  const backward = valueAndGrad(({ x, layer }: { x: Tensor; layer: LayerParams<Tensor> }) =>
    sum(mul(transformerBlock(x, layer, context, 0), g)),
  );
  const work = (): readonly Tensor[] => {
    const { grads } = backward({ x, layer: layers[0]! });
    return [grads.x, grads.layer.attention.qkv!.weight];
  };
  return prepared(on, work, []);
}

/** Sampling with a cache. Row r has its own random stream, so row 0 draws the same tokens in a batch of any size. */
function decodeTask(on: Device, task: TaskOf<"decode">): Prepared {
  const { B, V, prompt, tokens } = task;
  const start = model(on, task, prompt + tokens);
  const { ids } = trainingBatch(0, 1, prompt, V);
  const prompts = Array.from({ length: B }, () => [...ids]);
  const round = async (): Promise<number[]> => {
    const rows = await generate(start, prompts, { maxNewTokens: tokens, temperature: 1, rng: new Rng(0) });
    return rows[0]!.tokens.map(({ id }) => id);
  };
  return { check: round, run: async () => void (await round()), dispose: () => undefined };
}
