/** Tasks of the model on jax-js: training step, forward pass, one block, each a function under `jit`. */
import { blockParameters, type BlockTask, type GptShape, gptParameters, type Task } from "../cases/task.ts";
import { noise, parameterValues, trainingBatch } from "../data.ts";
import type { Prepared } from "./engine.ts";
import { type Arr, floats, integers, type Jax, layerNorm, preparedJax } from "./jaxShared.ts";

export function prepareModel(jax: Jax, task: Task): Prepared | string {
  switch (task.op) {
    case "step":
      return stepTask(jax, task);
    case "forward":
      return forwardTask(jax, task);
    case "block":
      return blockTask(jax, task);
    default:
      return `not written for jax-js: ${task.op}`;
  }
}

/** The parameters of a block by the names of `cases/task.ts`, without the path. */
type Block = Record<string, Arr>;

function block(jax: Jax, x: Arr, p: Block, H: number): Arr {
  const { numpy: np, nn } = jax;
  const [B, T, C] = x.shape as [number, number, number];
  const linear = (x: Arr, name: string): Arr => np.matmul(x, p[`${name}.weight`]!).add(p[`${name}.bias`]!);
  const h = layerNorm(jax, x.ref, p["inputNorm.weight"]!, p["inputNorm.bias"]!);
  const [q, k, v] = np.split(linear(h, "attention.qkv"), 3, -1).map((part) => part.reshape([B, T, H, C / H]));
  const mixed = nn.dotProductAttention(q!, k!, v!, { isCausal: true }).reshape([B, T, C]);
  const y = x.add(linear(mixed, "attention.o"));
  const inner = nn.gelu(linear(layerNorm(jax, y.ref, p["postNorm.weight"]!, p["postNorm.bias"]!), "mlp.up"));
  return y.add(linear(inner, "mlp.down"));
}

/** Loss of the model. It consumes `params`, in the order of `gptParameters`, and the batch. */
function lossOf(jax: Jax, shape: GptShape, params: Arr[], ids_BT: Arr, targets_BT: Arr): Arr {
  const { numpy: np, nn } = jax;
  const { B, T, H, L, V, C } = shape;
  const [embedding, positions] = params as [Arr, Arr];
  let x = np
    .matmul(nn.oneHot(ids_BT.reshape([B * T]), V), embedding.ref)
    .reshape([B, T, C])
    .add(positions);
  const names = blockParameters(C, "").map(({ name }) => name);
  for (let n = 0; n < L; n++) {
    const at = 2 + n * names.length;
    x = block(jax, x, Object.fromEntries(names.map((name, i) => [name, params[at + i]!])), H);
  }
  const hidden = layerNorm(jax, x, params.at(-2)!, params.at(-1)!).reshape([B * T, C]);
  const lp = nn.logSoftmax(np.matmul(hidden, np.matrixTranspose(embedding)), -1);
  const picked = np.sum(lp.mul(nn.oneHot(targets_BT.reshape([B * T]), V)));
  return picked.div(-B * T);
}

const [BETA1, BETA2, EPS, LR, DECAY] = [0.9, 0.999, 1e-8, 1e-3, 0.1];

function stepTask(jax: Jax, shape: GptShape): Prepared {
  const { B, T, V } = shape;
  const { numpy: np } = jax;
  const list = gptParameters(shape);
  const batches = [0, 1, 2, 3].map((s) => {
    const { ids, targets } = trainingBatch(s, B, T, V);
    return { ids: integers(jax, ids, [B, T]), targets: integers(jax, targets, [B, T]) };
  });
  let params = list.map(({ shape, kind }, i) => floats(jax, parameterValues(i, shape, kind), shape));
  const empty = (): Arr[] =>
    list.map(({ shape }) => floats(jax, new Float32Array(shape.reduce((a, b) => a * b, 1)), shape));
  let [m, v] = [empty(), empty()];

  const both = jax.valueAndGrad((params: Arr[], ids: Arr, targets: Arr) => lossOf(jax, shape, params, ids, targets));
  // `corrections` = [1 − β₁ᵗ, 1 − β₂ᵗ] is an input: as constants they would compile every step anew.
  const step = jax.jit(
    (params: Arr[], m: Arr[], v: Arr[], ids: Arr, targets: Arr, correction1: Arr, correction2: Arr) => {
      const [loss, grads] = both(
        params.map((p) => p.ref),
        ids,
        targets,
      );
      const nextM = m.map((m, i) => m.mul(BETA1).add(grads[i]!.ref.mul(1 - BETA1)));
      const nextV = v.map((v, i) => v.mul(BETA2).add(grads[i]!.ref.mul(grads[i]!).mul(1 - BETA2)));
      const nextP = params.map((p, i) => {
        const update = nextM[i]!.ref.div(correction1.ref).div(np.sqrt(nextV[i]!.ref.div(correction2.ref)).add(EPS));
        return p.mul(1 - LR * (list[i]!.shape.length > 1 ? DECAY : 0)).sub(update.mul(LR));
      });
      correction1.dispose();
      correction2.dispose();
      return [nextP, nextM, nextV, loss] as const;
    },
  );
  let count = 0;
  const run = (): Arr => {
    const { ids, targets } = batches[count % 4]!;
    count++;
    const scalar = (x: number): Arr => floats(jax, Float32Array.of(x), []);
    const [nextP, nextM, nextV, loss] = step(
      params,
      m,
      v,
      ids.ref,
      targets.ref,
      scalar(1 - BETA1 ** count),
      scalar(1 - BETA2 ** count),
    );
    [params, m, v] = [nextP, nextM, nextV];
    return loss;
  };
  return {
    async check() {
      const losses: number[] = [];
      for (let i = 0; i < 4; i++) losses.push((await run().data())[0]!);
      return losses;
    },
    // Each step is awaited, as the documentation of jax-js advises: work piles up until it is awaited.
    run: async () => {
      run().dispose();
      await jax.blockUntilReady(params);
    },
    dispose: () => undefined,
  };
}

function forwardTask(jax: Jax, shape: GptShape): Prepared {
  const { B, T, V } = shape;
  const params = gptParameters(shape).map(({ shape, kind }, i) => floats(jax, parameterValues(i, shape, kind), shape));
  const batches = [0, 1, 2, 3].map((s) => {
    const { ids, targets } = trainingBatch(s, B, T, V);
    return { ids: integers(jax, ids, [B, T]), targets: integers(jax, targets, [B, T]) };
  });
  const loss = jax.jit((params: Arr[], ids: Arr, targets: Arr) => lossOf(jax, shape, params, ids, targets));
  let count = 0;
  const call = (): Arr => {
    const { ids, targets } = batches[count++ % 4]!;
    return loss(
      params.map((p) => p.ref),
      ids.ref,
      targets.ref,
    );
  };
  return {
    async check() {
      const losses: number[] = [];
      for (let i = 0; i < 4; i++) losses.push((await call().data())[0]!);
      return losses;
    },
    run: async () => void (await call().data()),
    dispose: () => undefined,
  };
}

function blockTask(jax: Jax, { B, T, C, H }: BlockTask): Prepared {
  const { numpy: np } = jax;
  const list = blockParameters(C, "");
  const params = list.map(({ shape, kind }, i) => floats(jax, parameterValues(i, shape, kind), shape));
  const of = (seed: number): Arr => floats(jax, noise(seed, B * T * C), [B, T, C]);
  const loss = (inputs: Arr[], g: Arr): Arr => {
    const p = Object.fromEntries(list.map(({ name }, i) => [name, inputs[i + 1]!]));
    return np.sum(block(jax, inputs[0]!, p, H).mul(g));
  };
  const qkv = 1 + list.findIndex(({ name }) => name === "attention.qkv.weight");
  // All gradients are computed and returned; two of them are compared.
  return preparedJax(
    jax,
    [of(1), ...params, of(2)],
    (...x) => jax.grad(loss)(x.slice(0, -1), x.at(-1)!),
    (all) => [all[0]!, all[qkv]!],
  );
}
