/** Tasks of the model on tfjs: training step, forward pass, one block, eager and tidied. */
import { blockParameters, type BlockTask, type GptShape, gptParameters, type Task } from "../cases/task.ts";
import { noise, parameterValues, trainingBatch } from "../data.ts";
import type { Prepared } from "./engine.ts";
import { attention, layerNorm, type Mask, maskFor, preparedTf, product, type Tf, type TfTensor } from "./tfjsShared.ts";

export function prepareModel(tf: Tf, task: Task): Prepared | string {
  switch (task.op) {
    case "step":
      return stepTask(tf, task);
    case "block":
      return blockTask(tf, task);
    default:
      return `not written for tfjs: ${task.op}`;
  }
}

/** GELU with tanh, which tfjs lacks. */
function gelu(tf: Tf, x: TfTensor): TfTensor {
  const inner = x.add(x.mul(x).mul(x).mul(0.044715)).mul(Math.sqrt(2 / Math.PI));
  return x.mul(0.5).mul(tf.tanh(inner).add(tf.scalar(1)));
}

type Block = Record<string, TfTensor>;

function block(tf: Tf, x: TfTensor, p: Block, H: number, mask: Mask): TfTensor {
  const [B, T, C] = x.shape as [number, number, number];
  // A product of rank 2, because tfjs would broadcast the weights over the batch.
  const linear = (x: TfTensor, name: string): TfTensor =>
    tf.fused.matMul({ a: x, b: p[`${name}.weight`]!, bias: p[`${name}.bias`]! });
  const flat = x.reshape([B * T, C]);
  const h = layerNorm(tf, flat, p["inputNorm.weight"]!, p["inputNorm.bias"]!);
  const [q, k, v] = tf.split(linear(h, "attention.qkv"), 3, -1).map((part) => part.reshape([B, T, H, C / H]));
  const mixed = attention(tf, q!, k!, v!, mask).reshape([B * T, C]);
  const y = flat.add(linear(mixed, "attention.o"));
  const inner = gelu(tf, linear(layerNorm(tf, y, p["postNorm.weight"]!, p["postNorm.bias"]!), "mlp.up"));
  return y.add(linear(inner, "mlp.down")).reshape([B, T, C]);
}

function lossOf(
  tf: Tf,
  shape: GptShape,
  params: readonly TfTensor[],
  ids: TfTensor,
  targets: TfTensor,
  mask: Mask,
): TfTensor {
  const { B, T, H, L, C } = shape;
  const [embedding, positions] = params as [TfTensor, TfTensor];
  let x = tf.matMul(ids, embedding).reshape([B, T, C]).add(positions);
  const names = blockParameters(C, "").map(({ name }) => name);
  for (let n = 0; n < L; n++) {
    const at = 2 + n * names.length;
    x = block(tf, x, Object.fromEntries(names.map((name, i) => [name, params[at + i]!])), H, mask);
  }
  const hidden = layerNorm(tf, x.reshape([B * T, C]), params.at(-2)!, params.at(-1)!);
  const lp = tf.logSoftmax(product(tf, hidden, embedding, false, true));
  return tf.sum(lp.mul(targets)).div(-B * T);
}

function stepTask(tf: Tf, shape: GptShape): Prepared {
  const { B, T, V } = shape;
  const list = gptParameters(shape);
  const mask = maskFor(tf, T);
  const batches = [0, 1, 2, 3].map((s) => {
    const { ids, targets } = trainingBatch(s, B, T, V);
    const hot = (ids: Int32Array): TfTensor => tf.tidy(() => tf.oneHot(tf.tensor(ids, [B * T], "int32"), V));
    return { ids: hot(ids), targets: hot(targets) };
  });
  const params = list.map(({ shape, kind }, i) =>
    tf.variable(tf.tensor(parameterValues(i, shape, kind), shape), true, `p${i}`),
  );
  const optimizer = tf.train.adam(1e-3, 0.9, 0.999, 1e-8);
  let count = 0;
  const step = (): TfTensor =>
    tf.tidy(() => {
      const { ids, targets } = batches[count++ % 4]!;
      const { value, grads } = tf.variableGrads(() => lossOf(tf, shape, params, ids, targets, mask), params);
      for (const p of params) if (p.shape.length > 1) p.assign(p.mul(1 - 1e-3 * 0.1));
      optimizer.applyGradients(grads);
      return value;
    });
  return {
    async check() {
      const losses: number[] = [];
      for (let i = 0; i < 4; i++) losses.push((await step().data())[0]!);
      return losses;
    },
    run: () => step().dispose(),
    finish: async () => void (await params[0]!.data()),
    dispose: () => undefined,
  };
}

function blockTask(tf: Tf, { B, T, C, H }: BlockTask): Prepared {
  const list = blockParameters(C, "");
  const mask = maskFor(tf, T);
  const of = (seed: number): TfTensor => tf.tensor(noise(seed, B * T * C), [B, T, C]);
  const [x, g] = [of(1), of(2)];
  const inputs = [x, ...list.map(({ shape, kind }, i) => tf.tensor(parameterValues(i, shape, kind), shape))];
  const gradient = tf.grads((x, ...params) =>
    block(tf, x, Object.fromEntries(list.map(({ name }, i) => [name, params[i]!])), H, mask),
  );
  const qkv = 1 + list.findIndex(({ name }) => name === "attention.qkv.weight");
  return preparedTf(tf, [...inputs, g], () => {
    const all = gradient(inputs, g);
    return [all[0]!, all[qkv]!];
  });
}
